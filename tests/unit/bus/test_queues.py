"""Queues, durable subscriptions and transactions, with a plain store at the other end."""

import asyncio
import contextlib
import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from plain_store import PlainStore

import shoal
from shoal import aio
from shoal.bus import store_channel
from shoal.bus.store_channel import StoreChannel
from shoal.errors import (
    ClosedError,
    ConfigError,
    InUseError,
    InvalidDestinationError,
    LeaseError,
    NoStoreError,
    StoreError,
    StoreFullError,
    StoreRefusedError,
    StoreUnavailableError,
    TransactionRolledBackError,
)

PATIENCE_S = 10.0


def until(true: Callable[[], bool]) -> None:
    deadline = time.monotonic() + PATIENCE_S
    while not true():
        assert time.monotonic() < deadline
        time.sleep(0.002)


@pytest.fixture
def short_look(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(store_channel, "LOOK_S", 0.1)
    monkeypatch.setattr(store_channel, "LOOK_AGAIN_S", 0.1)


# --- persistent messages ---


def test_publishing_persistently_returns_when_the_store_has_it(bus: shoal.Bus, store: PlainStore) -> None:
    receipt = bus.publish("prices/ACME", {"bid": 1}, persistent=True, properties={"a": 1})
    (row,) = store.rows
    assert (row.message.topic, row.message.body, row.message.properties) == (
        "prices/ACME",
        {"bid": 1},
        {"a": 1},
    )
    assert row.message.persistent
    assert receipt == shoal.Receipt(row.message.message_id, stored=True)


def test_live_subscribers_get_it_too_under_the_same_identity(
    bus: shoal.Bus, other: shoal.Bus, store: PlainStore
) -> None:
    with other.subscribe("prices/>") as live:
        bus.publish("prices/ACME", b"1", persistent=True)
        message = live.receive(PATIENCE_S)
    assert message is not None
    assert (message.body, message.persistent, message.topic) == (b"1", True, "prices/ACME")
    assert message.message_id == store.rows[0].message.message_id
    assert message.publisher == bus.publisher


@pytest.mark.usefixtures("short_look")
def test_without_a_store_the_error_says_how_to_start_one(bus: shoal.Bus) -> None:
    with pytest.raises(NoStoreError, match=r"connect\(store=DIRECTORY\).* connect\(outbox=DIRECTORY\)"):
        bus.publish("a", persistent=True)
    with pytest.raises(NoStoreError, match="the queue 'q'"):
        bus.queue("q").send(1)


@pytest.mark.usefixtures("short_look")
def test_the_error_says_why_an_address_is_of_no_use(tmp_path: Path) -> None:
    with shoal.connect("inproc://one", store=tmp_path, store_listen="127.0.0.1:0") as keeper:
        keeper.store.wait_open(60)
        with shoal.connect("inproc://another", store=keeper.store.urls[0]) as bus:
            for _ in range(2):
                with pytest.raises(NoStoreError, match='its domain is "one", and ours "another"'):
                    bus.publish("a", persistent=True)


@pytest.mark.usefixtures("short_look")
def test_whoever_has_patience_waits_for_a_store_that_starts_late(bus: shoal.Bus, other: shoal.Bus) -> None:
    late = threading.Timer(0.5, PlainStore, [other])
    late.start()
    bus.publish("a", persistent=True, timeout_s=60)
    late.join()


def test_a_bus_receives_from_a_queue_by_one_consumer_however_often_it_asks(
    bus: shoal.Bus, store: PlainStore
) -> None:
    for number in range(3):
        bus.queue("orders").send(number)
    taken = [bus.queue("orders").receive(PATIENCE_S) for _ in range(3)]
    assert [message and message.body for message in taken] == [0, 1, 2]
    assert len(store.consumers) == 1
    bus.queue("orders").close()
    assert bus.queue("orders").receive(0) is None


def test_a_store_that_is_found_later_is_told_the_options_of_a_queue(
    bus: shoal.Bus, store: PlainStore
) -> None:
    queue = bus.queue("orders", deliveries_max=2, dead_letter="bad")
    queue.consume()
    store.heard.clear()
    store.stop()
    store.start()
    until(lambda: any(body["op"] == "consume" for body in store.heard))
    (said,) = [body for body in store.heard if body["op"] == "consume"]
    assert (said["deliveries_max"], said["dead_letter"]) == (2, "bad")


def test_a_window_does_not_wait_for_each_and_flush_waits_for_all(bus: shoal.Bus, store: PlainStore) -> None:
    for number in range(500):
        bus.publish("a", number, persistent=True, window=50)
        assert number - len(store.rows) <= 50
    bus.flush()
    assert [row.message.body for row in store.rows] == list(range(500))


def test_an_error_of_a_window_is_raised_by_the_next_call(bus: shoal.Bus, store: PlainStore) -> None:
    store.full.add("full")
    bus.publish("full", 1, persistent=True, window=10)
    with pytest.raises(StoreFullError, match="no: FULL"):
        bus.flush()
    bus.publish("a", 2, persistent=True)
    assert [row.message.body for row in store.rows] == [2]


def test_what_is_refused_is_raised_and_what_follows_is_stored(bus: shoal.Bus, store: PlainStore) -> None:
    store.full.add("full")
    for number in range(3):
        with pytest.raises(StoreFullError):
            bus.publish("full", number, persistent=True)
        bus.publish("a", number, persistent=True)
    assert [row.message.body for row in store.rows] == [0, 1, 2]


def test_a_store_that_comes_back_gets_what_it_never_answered(bus: shoal.Bus, store: PlainStore) -> None:
    bus.publish("a", 0, persistent=True)
    store.deaf.add("send")
    with pytest.raises(StoreUnavailableError):
        bus.publish("a", 1, persistent=True, timeout_s=0.1)
    store.stop()
    store.deaf.clear()
    store.start()
    bus.publish("a", 2, persistent=True, timeout_s=PATIENCE_S)
    assert [row.message.body for row in store.rows] == [0, 1, 2]


def test_a_window_of_something_else_is_refused(bus: shoal.Bus, store: PlainStore) -> None:
    with pytest.raises(ConfigError, match="persistent=True"):
        bus.publish("a", window=3)
    with pytest.raises(ConfigError, match="window is 0"):
        bus.publish("a", persistent=True, window=0)


def test_eight_threads_publish_at_once(bus: shoal.Bus, store: PlainStore) -> None:
    def publish(thread: int) -> None:
        for number in range(40):
            bus.publish(f"t/{thread}", number, persistent=True)

    threads = [threading.Thread(target=publish, args=(thread,)) for thread in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(PATIENCE_S)
    for thread in range(8):
        found = [row.message.body for row in store.rows if row.message.topic == f"t/{thread}"]
        assert found == list(range(40))


def test_what_a_store_must_keep_waits_for_it_and_goes_into_nobodys_memory(
    bus: shoal.Bus, other: shoal.Bus, store: PlainStore
) -> None:
    bus.publish("a", 0, persistent=True)
    store.stop()
    memory = PlainStore(other, memory=True)
    store.say_here("failed")
    with pytest.raises(StoreUnavailableError):
        bus.publish("a", 1, persistent=True, timeout_s=0.5)
    bus.transaction()
    assert not memory.heard
    memory.stop()
    store.start()
    bus.flush(PATIENCE_S)
    assert [row.message.body for row in store.rows] == [0, 1]


@pytest.mark.usefixtures("short_look")
def test_a_transaction_of_persistent_messages_needs_a_store_that_keeps(
    bus: shoal.Bus, other: shoal.Bus
) -> None:
    memory = PlainStore(other, memory=True)
    transaction = bus.transaction()
    with pytest.raises(NoStoreError, match="a persistent message of a transaction needs a store"):
        transaction.send("q", 1)
    transaction.send("q", 1, persistent=False)
    transaction.commit()
    assert [row.message.body for row in memory.rows] == [1]


def test_a_transaction_waits_for_a_store_as_long_as_it_was_asked_to(
    bus: shoal.Bus, other: shoal.Bus, monkeypatch: pytest.MonkeyPatch
) -> None:
    memory = PlainStore(other, memory=True)
    transaction = bus.transaction(timeout_s=PATIENCE_S)
    looked: list[float | None] = []
    when_ready = StoreChannel.when_ready

    def start_when_asked(channel: StoreChannel, *arguments: Any, **options: Any) -> None:
        when_ready(channel, *arguments, **options)
        looked.append(options["patience_s"])
        memory.stop()
        PlainStore(other)

    monkeypatch.setattr(StoreChannel, "when_ready", start_when_asked)
    transaction.send("q", 1)
    transaction.commit()
    assert looked == [PATIENCE_S]


@pytest.mark.usefixtures("short_look")
def test_a_transaction_beside_an_outbox_needs_a_store(domain: str, tmp_path: Path) -> None:
    async def begin() -> None:
        async with aio.connect(domain, outbox=tmp_path / "a") as bus:
            await bus.transaction()

    with shoal.connect(domain, outbox=tmp_path / "b") as bus:
        with pytest.raises(NoStoreError, match=r"a transaction needs a store.* within 0\.1 s"):
            bus.transaction()
        with pytest.raises(NoStoreError, match="a transaction needs a store"):
            asyncio.run(begin())


@pytest.mark.usefixtures("short_look")
def test_with_an_event_loop_a_transaction_waits_for_a_store_before_it_begins(
    domain: str, other: shoal.Bus
) -> None:
    async def main() -> None:
        async with aio.connect(domain) as bus:
            transaction = await bus.transaction()
            with pytest.raises(NoStoreError, match="and none was heard of yet"):
                transaction.send("q", 1)
            transaction.rollback()
            memory.stop()
            store = PlainStore(other)
            async with aio.connect(domain) as later, await later.transaction() as transaction:
                transaction.send("q", 1)
            assert len(store.rows) == 1

    memory = PlainStore(other, memory=True)
    asyncio.run(main())


def test_a_transaction_that_is_too_long_is_refused_before_anything_is_sent(
    domain: str, store: PlainStore
) -> None:
    with shoal.connect(domain, message_bytes_max=100_000) as bus:
        transaction = bus.transaction()
        for _ in range(9):
            transaction.send("q", bytes(10_000))
        with pytest.raises(
            StoreRefusedError, match=r"of 90\d+ bytes.* longer than 98976 bytes, which is all"
        ):
            transaction.send("q", bytes(10_000))
        with pytest.raises(StoreRefusedError):
            transaction.publish("t", bytes(10_000))
        assert not [body for body in store.heard if body["op"] == "commit"]
        transaction.send("q", b"small")
        transaction.commit()
        assert len(store.rows) == 10
        with pytest.raises(shoal.MessageTooLongError):
            bus.transaction().send("q", bytes(100_000))


# --- the outbox ---


def test_an_outbox_keeps_messages_until_there_is_a_store_also_after_a_restart(
    domain: str, tmp_path: Path
) -> None:
    with shoal.connect(domain, outbox=tmp_path / "out") as bus:
        receipts = [bus.publish("a", number, persistent=True) for number in range(3)]
        assert not any(receipt.stored for receipt in receipts), "they wait in the outbox"
        ids = [receipt.id for receipt in receipts]
    with shoal.connect(domain) as others, shoal.connect(domain, outbox=tmp_path / "out") as bus:
        store = PlainStore(others)
        assert bus.publish("a", 3, persistent=True).id.endswith("-4"), "numbers go on"
        until(lambda: len(store.rows) == 4)
        assert [row.message.body for row in store.rows] == [0, 1, 2, 3]
        assert [row.message.message_id for row in store.rows[:3]] == ids
        bus.flush()
    with shoal.connect(domain) as others, shoal.connect(domain, outbox=tmp_path / "out") as bus:
        again = PlainStore(others)
        bus.publish("a", 4, persistent=True)
        until(lambda: bool(again.rows))
        assert [row.message.body for row in again.rows] == [4], "what was stored is not sent again"


def test_what_lived_too_long_in_an_outbox_expires_at_the_store(domain: str, tmp_path: Path) -> None:
    with shoal.connect(domain, outbox=tmp_path / "out") as bus:
        queue = bus.queue("q")
        queue.send("old", ttl_s=0.3)
        queue.send("older than it looks", ttl_s=1.5)
        queue.send("new", ttl_s=60.0)
        began = time.monotonic()
    time.sleep(0.8)
    with (
        shoal.connect(domain, store=tmp_path / "store") as others,
        shoal.connect(domain, outbox=tmp_path / "out") as bus,
    ):
        bus.flush(PATIENCE_S)
        browsed = [message.body for message in others.queue("q").browse()]
        # The second has what is left of its time, and no more.
        time.sleep(max(began + 1.6 - time.monotonic(), 0.0))
        assert [message.body for message in others.queue("q").browse()] == ["new"]
        assert browsed in (["older than it looks", "new"], ["new"])


def test_an_outbox_has_one_owner(domain: str, tmp_path: Path) -> None:
    with shoal.connect(domain, outbox=tmp_path / "out") as bus:
        bus.publish("a", persistent=True)
        with pytest.raises(shoal.StoreLockedError):
            shoal.connect(domain, outbox=tmp_path / "out")
        bus.publish("a", persistent=True)


def test_what_an_earlier_life_left_in_an_outbox_is_stored_though_nobody_publishes_now(
    domain: str, tmp_path: Path
) -> None:
    with shoal.connect(domain, outbox=tmp_path / "out") as bus:
        for number in range(3):
            bus.publish("a", number, persistent=True)
    with shoal.connect(domain) as others, shoal.connect(domain, outbox=tmp_path / "out") as bus:
        store = PlainStore(others)
        bus.flush(PATIENCE_S)
        assert [row.message.body for row in store.rows] == [0, 1, 2]


def test_live_subscribers_hear_what_is_in_the_outbox(domain: str, bus: shoal.Bus, tmp_path: Path) -> None:
    with bus.subscribe("a") as live, shoal.connect(domain, outbox=tmp_path / "out") as publisher:
        publisher.wait_for_subscribers("a")
        receipt = publisher.publish("a", b"x", persistent=True)
        message = live.receive(PATIENCE_S)
        assert message is not None
        assert message.message_id == receipt.id


# --- queues ---


def test_a_message_goes_to_one_receiver(bus: shoal.Bus, other: shoal.Bus, store: PlainStore) -> None:
    for number in range(20):
        bus.queue("orders").send(number)
    mine, yours = bus.queue("orders").consume(prefetch=1), other.queue("orders").consume(prefetch=1)
    seen: list[int] = []
    while len(seen) < 20:
        for consumer in (mine, yours):
            message = consumer.receive(0.2)
            if message is not None:
                assert isinstance(message.topic, shoal.types.QueueName)
                seen.append(message.body)
    assert sorted(seen) == list(range(20))


def test_the_identity_is_known_to_the_sender(bus: shoal.Bus, store: PlainStore) -> None:
    sent = bus.queue("orders").send("x", group="g", priority=7)
    message = bus.queue("orders").receive(PATIENCE_S)
    assert message is not None
    assert (message.message_id, message.group, message.priority) == (sent.id, "g", 7)
    assert (message.topic, message.delivery_count) == ("orders", 1)


def test_an_iteration_acknowledges_when_it_goes_on(bus: shoal.Bus, store: PlainStore) -> None:
    queue = bus.queue("orders")
    for number in range(3):
        queue.send(number)
    seen = []
    for message in queue:
        seen.append(message.body)
        if len(seen) == 3:
            break
    queue.close()
    assert seen == [0, 1, 2]
    until(lambda: not store.queues["orders"].ready and not store.consumers)


def test_what_a_block_left_by_an_error_took_comes_again(bus: shoal.Bus, store: PlainStore) -> None:
    queue = bus.queue("orders")
    queue.send("x")

    def fail() -> None:
        with queue.consume() as consumer:
            assert consumer.receive(PATIENCE_S) is not None
            raise LookupError

    with pytest.raises(LookupError):
        fail()
    message = queue.receive(PATIENCE_S)
    assert message is not None
    assert (message.redelivered, message.delivery_count) == (True, 2)


def test_what_was_not_looked_at_goes_back_as_if_it_had_never_been_delivered(
    bus: shoal.Bus, store: PlainStore
) -> None:
    queue = bus.queue("orders")
    queue.send("x")
    with queue.consume() as consumer:
        until(lambda: consumer.pending == 1)
    message = queue.receive(PATIENCE_S)
    assert message is not None
    assert not message.redelivered


def test_acknowledging_by_hand(bus: shoal.Bus, store: PlainStore) -> None:
    queue = bus.queue("orders")
    for number in range(4):
        queue.send(number)
    with queue.consume(ack="manual") as consumer:
        messages = [consumer.receive(PATIENCE_S) for _ in range(4)]
        assert all(message is not None for message in messages)
        consumer.ack(messages[0])  # type: ignore[arg-type]
        consumer.ack_through(messages[2])  # type: ignore[arg-type]
        with pytest.raises(ValueError, match="acknowledged or given back before"):
            consumer.ack(messages[1])  # type: ignore[arg-type]
        with pytest.raises(ValueError, match="was not received here"):
            consumer.ack(shoal.Message("orders"))
    assert [row.message.body for row in store.queues["orders"].ready] == [3]


def test_a_message_given_back_comes_again(bus: shoal.Bus, store: PlainStore) -> None:
    queue = bus.queue("orders")
    queue.send("x")
    with queue.consume(ack="manual") as consumer:
        first = consumer.receive(PATIENCE_S)
        assert first is not None
        consumer.release(first)
        again = consumer.receive(PATIENCE_S)
        assert again is not None
        assert again.delivery_count == 2


def test_a_consumer_nobody_waits_for_any_more_takes_nothing(bus: shoal.Bus, store: PlainStore) -> None:
    bus.queue("orders").send(1)
    store.deaf = {"consume"}
    with pytest.raises(StoreUnavailableError, match=r"within 0\.05 s: queue 'orders'"):
        bus.queue("orders").consume(timeout_s=0.05)
    store.stop()
    store.deaf = set()
    store.start()
    bus.queue("orders").send(2)
    assert "consume" not in [body["op"] for body in store.heard]
    assert len(store.queues["orders"].ready) == 2


def test_those_behind_a_message_of_a_group_that_is_given_back_do_not_overtake_it(
    bus: shoal.Bus, store: PlainStore
) -> None:
    orders = bus.queue("orders")
    for number in range(12):
        orders.send(number, group="even" if number % 2 == 0 else "odd")
    with orders.consume(ack="manual", prefetch=8) as consumer:
        until(lambda: consumer.pending == 8)
        given_back, got = {2, 3, 6}, []
        while len(got) < 12:
            message = consumer.receive(PATIENCE_S)
            assert message is not None
            if message.body in given_back:
                given_back.remove(message.body)
                consumer.release(message, delay_s=0.0)
                continue
            got.append(message.body)
            assert message.delivery_count == 1 + (message.body in (2, 3, 6))
            consumer.ack(message)
    assert [number for number in got if number % 2 == 0] == [0, 2, 4, 6, 8, 10]
    assert [number for number in got if number % 2 == 1] == [1, 3, 5, 7, 9, 11]


def test_a_rollback_does_not_let_those_of_a_group_overtake(bus: shoal.Bus, store: PlainStore) -> None:
    for number in range(4):
        bus.queue("orders").send(number, group="one")
    with bus.queue("orders").consume(ack="manual", prefetch=10) as consumer:
        until(lambda: consumer.pending == 4)
        first = consumer.receive(PATIENCE_S)
        assert first is not None
        with contextlib.suppress(KeyError), bus.transaction() as transaction:
            transaction.ack(first)
            raise KeyError
        messages = [consumer.receive(PATIENCE_S) for _ in range(4)]
        assert [message.body for message in messages if message is not None] == [0, 1, 2, 3]


def test_recovering_delivers_everything_again_in_order(bus: shoal.Bus, store: PlainStore) -> None:
    queue = bus.queue("orders")
    for number in range(5):
        queue.send(number)
    with queue.consume(ack="manual", prefetch=3) as consumer:
        for _ in range(2):
            consumer.receive(PATIENCE_S)
        consumer.recover()
        found = [consumer.receive(PATIENCE_S) for _ in range(5)]
        assert [(message.body, message.redelivered) for message in found if message is not None] == [
            (0, True),
            (1, True),
            (2, False),
            (3, False),
            (4, False),
        ]


def test_a_store_that_starts_again_delivers_again_what_was_not_acknowledged(
    bus: shoal.Bus, store: PlainStore
) -> None:
    queue = bus.queue("orders")
    queue.send("x")
    consumer = queue.consume(ack="manual")
    message = consumer.receive(PATIENCE_S)
    assert message is not None
    store.stop()
    store.start()
    again = consumer.receive(PATIENCE_S)
    assert again is not None
    assert again.redelivered
    with pytest.raises(LeaseError):
        consumer.ack(message)
    consumer.ack(again)
    assert not store.queues["orders"].ready


def test_a_store_that_announces_itself_after_it_was_found_again_keeps_the_session(
    bus: shoal.Bus, store: PlainStore
) -> None:
    # A request of the old session can reach the new run before the client hears its announcement.
    queue = bus.queue("orders")
    queue.send("x")
    consumer = queue.consume(ack="manual")
    assert consumer.receive(PATIENCE_S) is not None
    store.stop()
    store.start(announced=False)
    queue.browse()
    again = consumer.receive(PATIENCE_S)
    assert again is not None
    (channel,) = bus._connection.channels
    place = (store.id, ())
    for _ in range(2):
        # The client's thread takes its decision on the first announcement before it hears the second one.
        before = time.monotonic()
        store.say_here()
        until(lambda since=before: channel._finder._heard[place][0] >= since)  # type: ignore[misc]
    consumer.ack(again)
    assert not store.queues["orders"].ready


def test_a_rollback_gives_back_only_what_is_held_from_its_own_delivery(
    bus: shoal.Bus, store: PlainStore
) -> None:
    bus.queue("orders").send("x")
    with bus.queue("orders").consume(ack="manual") as consumer:
        message = consumer.receive(PATIENCE_S)
        one, two = bus.transaction(), bus.transaction()
        for transaction in (one, two):
            transaction.ack(message)
        consumer.release(message)
        again = consumer.receive(PATIENCE_S)
        store.refused.add("commit")
        for transaction in (one, two):
            with pytest.raises(StoreError):
                transaction.commit()
        store.heard.clear()
        consumer.ack(again)
        assert not [body for body in store.heard if body["op"] == "release"]
    assert not store.queues["orders"].ready


def test_browsing_takes_nothing(bus: shoal.Bus, store: PlainStore) -> None:
    queue = bus.queue("orders")
    for number in range(3):
        queue.send(number)
    assert [message.body for message in queue.browse()] == [0, 1, 2]
    assert [message.body for message in queue.browse()] == [0, 1, 2]
    assert queue.purge() == 3


def test_closing_wakes_whoever_waits(bus: shoal.Bus, store: PlainStore) -> None:
    consumer = bus.queue("orders").consume()
    ended = threading.Event()

    def wait() -> None:
        with pytest.raises(ClosedError):
            consumer.receive()
        ended.set()

    thread = threading.Thread(target=wait)
    thread.start()
    consumer.close()
    assert ended.wait(PATIENCE_S)
    thread.join()


def test_a_bell_rings_for_what_arrives(bus: shoal.Bus, store: PlainStore) -> None:
    bell = shoal._core.Bell()
    consumer = bus.queue("orders").consume()
    consumer.attach_bell(bell, 5)
    bus.queue("orders").send("x")
    until(lambda: 5 in bell.take())
    assert [message.body for message in consumer.receive_nowait()] == ["x"]


@pytest.mark.parametrize("name", ["", None, 3, "q/*", ">", "a//b", "x" * 201])
def test_a_name_that_is_none_is_refused(bus: shoal.Bus, name: object) -> None:
    with pytest.raises(InvalidDestinationError, match="is no name of a queue"):
        bus.queue(name)  # type: ignore[arg-type]


def test_options_are_checked(bus: shoal.Bus, store: PlainStore) -> None:
    with pytest.raises(ConfigError, match="on_full must be refuse or drop_oldest"):
        bus.queue("q", on_full="burst")
    with pytest.raises(ConfigError, match="backoff_s"):
        bus.queue("q", backoff_s=-1.0)
    with pytest.raises(TypeError, match="nonsense"):
        bus.queue("q", nonsense=1)
    with pytest.raises(ConfigError, match="ack must be auto or manual"):
        bus.queue("q").consume(ack="sometimes")  # type: ignore[arg-type]
    with pytest.raises(ConfigError, match="prefetch is 0"):
        bus.queue("q").consume(prefetch=0)


# --- durable and shared subscriptions ---


def test_a_durable_subscription_gets_what_came_while_nobody_read_it(
    domain: str, bus: shoal.Bus, store: PlainStore
) -> None:
    with (
        shoal.connect(domain, client_id="desk") as desk,
        desk.subscribe("prices/>", durable="seven") as subscription,
    ):
        bus.publish("prices/A", 1, persistent=True)
        message = subscription.receive(PATIENCE_S)
        assert message is not None
        assert (message.body, subscription.name, subscription.pattern) == (1, "seven", "prices/>")
    bus.publish("prices/B", 2, persistent=True)
    bus.publish("other", 3, persistent=True)
    with (
        shoal.connect(domain, client_id="desk") as desk,
        desk.subscribe("prices/>", durable="seven") as subscription,
    ):
        message = subscription.receive(PATIENCE_S)
        assert message is not None
        assert (message.body, message.redelivered) == (2, False)
        assert subscription.receive(0.05) is None


def test_two_connections_cannot_have_one_durable_subscription(domain: str, store: PlainStore) -> None:
    with shoal.connect(domain, client_id="desk") as desk, desk.subscribe("a", durable="seven"):
        with pytest.raises(InUseError):
            desk.subscribe("a", durable="seven")
        with pytest.raises(InUseError):
            desk.unsubscribe("seven")
    with shoal.connect(domain, client_id="desk") as desk:
        desk.unsubscribe("seven")
        with pytest.raises(InvalidDestinationError):
            desk.unsubscribe("seven")


def test_a_durable_subscription_needs_a_client_id_and_one_name(bus: shoal.Bus, store: PlainStore) -> None:
    with pytest.raises(ConfigError, match="needs a client id"):
        bus.subscribe("a", durable="seven")
    with pytest.raises(ConfigError, match="one of them, and only one"):
        bus.subscribe("a", durable=True)
    with pytest.raises(ConfigError, match="one of them, and only one"):
        bus.subscribe("a", durable="x", shared="y")


def test_those_who_share_a_subscription_share_its_messages(
    bus: shoal.Bus, other: shoal.Bus, store: PlainStore
) -> None:
    mine = bus.subscribe("work", shared="workers", durable=True, prefetch=1)
    yours = other.subscribe("work", shared="workers", durable=True, prefetch=1)
    for number in range(10):
        bus.publish("work", number, persistent=True)
    seen: list[int] = []
    while len(seen) < 10:
        for subscription in (mine, yours):
            message = subscription.receive(0.2)
            if message is not None:
                seen.append(message.body)
    assert sorted(seen) == list(range(10))


def test_a_callback_that_fails_gets_the_message_again(bus: shoal.Bus, store: PlainStore) -> None:
    counts: list[int] = []
    done = threading.Event()

    def work(message: shoal.Message) -> None:
        counts.append(message.delivery_count)
        if len(counts) == 1:
            raise LookupError("not yet")
        done.set()

    bus.subscribe("work", work, shared="workers", durable=True)
    bus.publish("work", 1, persistent=True)
    assert done.wait(PATIENCE_S)
    assert counts == [1, 2]


# --- transactions ---


def test_a_transaction_does_everything_or_nothing(bus: shoal.Bus, store: PlainStore) -> None:
    bus.queue("in").send("order")
    with bus.queue("in").consume(ack="manual") as consumer:
        message = consumer.receive(PATIENCE_S)
        assert message is not None
        tx = bus.transaction()
        tx.send("out", "done")
        tx.publish("news", "done")
        tx.ack(message)
        tx.__exit__(LookupError, LookupError(), None)
        assert tx.state == "rolled back"
        assert len(store.rows) == 1
        message = consumer.receive(PATIENCE_S)
        assert message is not None
        assert message.redelivered
        with bus.transaction() as tx:
            sent = tx.send("out", "done")
            tx.publish("news", "done")
            tx.ack(message)
            assert len(store.rows) == 1, "nothing is seen before the end"
        assert [str(row.message.topic) for row in store.rows[1:]] == ["out", "news"]
        assert store.rows[1].message.message_id == sent
    assert not store.queues["in"].ready


def test_a_commit_that_the_store_never_answered_is_done_once(bus: shoal.Bus, store: PlainStore) -> None:
    tx = bus.transaction()
    tx.send("out", 1)
    store.deaf.add("commit")
    with pytest.raises(StoreUnavailableError):
        tx.commit(timeout_s=0.1)
    store.stop()
    store.deaf.clear()
    store.start()
    until(lambda: tx.state == "committed")
    with bus.transaction(tx.id) as again:
        again.send("out", 1)
    assert [row.message.body for row in store.rows] == [1]


def test_a_transaction_whose_message_went_to_somebody_else_is_rolled_back(
    bus: shoal.Bus, store: PlainStore
) -> None:
    bus.queue("in").send("order")
    consumer = bus.queue("in").consume(ack="manual")
    message = consumer.receive(PATIENCE_S)
    assert message is not None
    tx = bus.transaction()
    tx.send("out", 1)
    tx.ack(message)
    store.consumers.clear()
    with pytest.raises(TransactionRolledBackError):
        tx.commit()
    assert len(store.rows) == 1
    assert tx.state == "rolled back"


def test_transactions_that_are_open_at_once_do_not_mix(bus: shoal.Bus, store: PlainStore) -> None:
    first, second = bus.transaction(), bus.transaction()
    first.send("out", 1)
    second.send("out", 2)
    second.commit()
    first.commit()
    assert [row.message.body for row in store.rows] == [2, 1]
    with bus.transaction() as third:
        third.send("out", 3)
    assert [row.message.body for row in store.rows] == [2, 1, 3]
    assert len({row.message.message_id for row in store.rows}) == 3


def test_an_ended_transaction_takes_nothing_more(bus: shoal.Bus, store: PlainStore) -> None:
    tx = bus.transaction()
    tx.rollback()
    with pytest.raises(shoal.StoreError, match="rolled back"):
        tx.send("out", 1)


# --- ends ---


def test_temporary_destinations_have_names_of_their_own(
    bus: shoal.Bus, other: shoal.Bus, store: PlainStore
) -> None:
    names = {
        str(bus.temporary_queue().name),
        str(other.temporary_queue().name),
        bus.temporary_topic(),
        bus.temporary_topic(),
    }
    assert len(names) == 4


def test_a_connection_that_closes_says_goodbye_to_the_store(domain: str, store: PlainStore) -> None:
    with shoal.connect(domain) as bus:
        bus.queue("orders").send(1)
        assert len(store.sessions) == 1
    until(lambda: not store.sessions)


def test_a_connection_nobody_refers_to_ends_its_thread(domain: str, store: PlainStore) -> None:
    bus = shoal.connect(domain)
    bus.publish("a", persistent=True)
    (channel,) = bus._connection.channels
    del bus
    until(lambda: not channel._thread.is_alive())


def test_what_a_thread_had_in_hand_that_ended_comes_again(bus: shoal.Bus, store: PlainStore) -> None:
    orders = bus.queue("orders")
    for number in range(3):
        orders.send(number)
    got: list[Any] = []
    consumer = orders.consume(prefetch=10)
    for _ in range(2):
        thread = threading.Thread(target=lambda: got.append(consumer.receive(PATIENCE_S)))
        thread.start()
        thread.join()
    assert [message.body for message in got] == [0, 1]
    third = consumer.receive(PATIENCE_S)
    assert third is not None
    assert third.body == 2
    consumer.close()
    with orders.consume() as again:
        found = [again.receive(PATIENCE_S) for _ in range(2)]
        assert [(each.body, each.redelivered) for each in found if each is not None] == [(0, True), (1, True)]
        assert again.receive(0.1) is None, "the thread that closed had finished its own"


def test_a_second_worker_gets_work_while_the_first_one_is_busy(bus: shoal.Bus, store: PlainStore) -> None:
    jobs = bus.queue("jobs")
    with jobs.consume() as first, jobs.consume() as second:
        for number in range(3):
            jobs.send(number)
        taken = [each.receive(PATIENCE_S) for each in (first, second, second)]
        assert sorted(each.body for each in taken if each is not None) == [0, 1, 2]


def test_a_commit_that_was_not_answered_cannot_be_rolled_back_and_says_how_it_ended(
    bus: shoal.Bus, store: PlainStore
) -> None:
    tx = bus.transaction()
    tx.send("out", 2)
    store.deaf.add("commit")
    with pytest.raises(StoreUnavailableError):
        tx.commit(timeout_s=0.1)
    with pytest.raises(StoreError, match=r"call commit\(\) again"):
        tx.rollback()
    store.deaf.clear()
    store.stop()
    store.start()
    tx.commit(timeout_s=PATIENCE_S)
    assert tx.state == "committed"
    assert [row.message.body for row in store.rows] == [2]
