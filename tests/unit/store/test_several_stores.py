"""Several stores in one domain, each of which keeps its own."""

import asyncio
import secrets
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

import shoal
from shoal import aio
from shoal.bus import store_channel
from shoal.bus.store_protocol import session_topic
from shoal.config import ConnectionConfig
from shoal.store import Store, resolve

PATIENCE_S = 30.0


@pytest.fixture
def domain() -> str:
    return secrets.token_hex(6)


@pytest.fixture
def stores(tmp_path: Path, domain: str) -> Iterator[dict[str, Store]]:
    kept = {"orders": ["orders/>", "orders"], "news": ["news/>", "news"]}
    connection = ConnectionConfig(scheme="inproc", domain=domain)
    opened = {
        name: Store(resolve(tmp_path / name, name=name, patterns=patterns, segment_bytes=1 << 20), connection)
        for name, patterns in kept.items()
    }
    try:
        for store in opened.values():
            assert store.wait_open(PATIENCE_S)
        yield opened
    finally:
        for store in opened.values():
            store.close()


def end_of(store: Store, end: int) -> bool:
    deadline = time.monotonic() + PATIENCE_S
    while store.log.durable_end < end and time.monotonic() < deadline:
        time.sleep(0.01)
    return store.log.durable_end == end


@pytest.mark.parametrize("name", ["orders", "news"])
def test_a_connection_speaks_with_the_store_that_keeps_each_destination(
    domain: str, stores: dict[str, Store], name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    other = {"orders": "news", "news": "orders"}[name]
    with shoal.connect(f"inproc://{domain}", client_id="me") as bus:
        for each in (name, other):
            with bus.subscribe(f"{each}/*", durable=f"s-{each}", timeout_s=PATIENCE_S) as subscription:
                receipt = bus.publish(f"{each}/1", each, persistent=True, timeout_s=PATIENCE_S)
                found = subscription.receive(PATIENCE_S)
                assert found is not None
                assert (found.body, found.message_id) == (each, receipt.id)
            for number in range(20):
                bus.queue(each).send(number, timeout_s=PATIENCE_S, window=10)
            bus.flush(PATIENCE_S)
            taken = [bus.queue(each).receive(PATIENCE_S) for _ in range(20)]
            assert [message and message.body for message in taken] == list(range(20))
        bus.unsubscribe(f"s-{other}", timeout_s=PATIENCE_S)
        assert bus.seek(f"s-{name}", "earliest", timeout_s=PATIENCE_S) == 0
        assert len(bus._connection.channels) == 2
        monkeypatch.setattr(store_channel, "LOOK_S", 0.5)
        with pytest.raises(shoal.NoStoreError, match="keep other destinations"):
            bus.publish("nobody/keeps", persistent=True)
    with shoal.connect(f"inproc://{domain}", client_id="me") as bus:
        # A connection that has spoken with neither finds the one that has the subscription.
        bus.unsubscribe(f"s-{name}", timeout_s=PATIENCE_S)
    assert end_of(stores[name], 21)
    assert end_of(stores[other], 21)


def test_with_an_event_loop_too(domain: str, stores: dict[str, Store]) -> None:
    async def main() -> None:
        async with aio.connect(f"inproc://{domain}", client_id="me") as bus:
            for each in ("orders", "news"):
                async with bus.subscribe(f"{each}/*", durable=f"s-{each}") as subscription:
                    await bus.publish(f"{each}/1", each, persistent=True)
                    assert (await subscription.receive(PATIENCE_S)).body == each  # type: ignore[union-attr]
                await bus.queue(each).send(each)
                assert (await bus.queue(each).receive(PATIENCE_S)).body == each  # type: ignore[union-attr]
            await bus.unsubscribe("s-news")
            await bus.unsubscribe("s-orders")
            for each in ("orders", "news"):
                async with await bus.transaction() as transaction:
                    transaction.send(each, "committed")
                assert (await bus.queue(each).receive(PATIENCE_S)).body == "committed"  # type: ignore[union-attr]
            transaction = await bus.transaction()
            transaction.send("orders", 1)
            with pytest.raises(shoal.StoreRefusedError, match="one step of one store"):
                transaction.send("news", 1)
            transaction.rollback()

    asyncio.run(asyncio.wait_for(main(), 120))
    assert end_of(stores["orders"], 3)
    assert end_of(stores["news"], 3)


def test_a_transaction_belongs_to_one_store(domain: str, stores: dict[str, Store]) -> None:
    with shoal.connect(f"inproc://{domain}") as bus:
        for _ in range(2):
            for each in ("orders", "news"):
                with bus.transaction(timeout_s=PATIENCE_S) as transaction:
                    transaction.send(each, "in")
                    transaction.publish(f"{each}/1", "out")
                with bus.transaction(timeout_s=PATIENCE_S) as transaction:
                    assert transaction.receive(each, PATIENCE_S) is not None
        bus.queue("orders").send("kept")
        transaction = bus.transaction(timeout_s=PATIENCE_S)
        transaction.publish("news/1", "not published")
        message = bus.queue("orders").consume(ack="manual").receive(PATIENCE_S)
        with pytest.raises(shoal.StoreRefusedError, match="about 'news/1', and another store keeps 'orders'"):
            transaction.ack(message)
        with pytest.raises(shoal.StoreRefusedError, match="use a transaction for each"):
            transaction.send("orders", "not sent")
        transaction.rollback()
    assert end_of(stores["orders"], 5)
    assert end_of(stores["news"], 4)


def test_a_store_that_starts_again_gets_its_own_while_the_other_goes_on(
    tmp_path: Path, domain: str, stores: dict[str, Store]
) -> None:
    with shoal.connect(f"inproc://{domain}", client_id="me") as bus:
        for each in ("orders", "news"):
            bus.publish(f"{each}/1", 0, persistent=True, timeout_s=PATIENCE_S)
        stores["news"].close()
        with pytest.raises(shoal.StoreUnavailableError):
            bus.publish("news/1", 1, persistent=True, timeout_s=0.2)
        bus.publish("orders/1", 1, persistent=True, timeout_s=PATIENCE_S)
        config = resolve(tmp_path / "news", name="news", patterns=["news/>", "news"], segment_bytes=1 << 20)
        stores["news"] = Store(config, ConnectionConfig(scheme="inproc", domain=domain))
        bus.publish("news/1", 2, persistent=True, timeout_s=PATIENCE_S)
    assert end_of(stores["orders"], 2)
    assert end_of(stores["news"], 3)


def test_two_channels_of_a_connection_may_meet_in_one_store(tmp_path: Path, domain: str) -> None:
    """As when a store takes over what another one kept."""
    connection = ConnectionConfig(scheme="inproc", domain=domain)

    def opened(name: str, *patterns: str) -> Store:
        store = Store(resolve(tmp_path / name, name=name, patterns=patterns), connection)
        assert store.wait_open(PATIENCE_S)
        return store

    one, two = opened("one", "a/>"), opened("two", "b/>")
    with shoal.connect(f"inproc://{domain}", client_id="me") as bus:
        for topic in ("a/1", "b/1"):
            bus.publish(topic, 0, persistent=True, timeout_s=PATIENCE_S)
        one.close()
        two.close()
        one = opened("one", ">")
        for number in range(3):
            for topic in ("a/1", "b/1"):
                bus.publish(topic, number, persistent=True, timeout_s=PATIENCE_S)
        assert one.status()["sessions"][0]["client_id"] == "me"
    one.close()


def test_nothing_is_said_to_a_store_before_its_answers_are_subscribed_to(
    domain: str, stores: dict[str, Store], monkeypatch: pytest.MonkeyPatch
) -> None:
    with shoal.connect(f"inproc://{domain}") as bus:
        channel = bus._connection.channel()
        topics: list[str] = []

        def topic_of(*arguments: Any, **options: Any) -> str:
            # As a thread does that publishes at this moment.
            with channel._lock:
                channel._pump()
                topics.append(channel._topic)
            return session_topic(*arguments, **options)

        monkeypatch.setattr(store_channel, "session_topic", topic_of)
        bus.publish("orders/1", "x", persistent=True, timeout_s=PATIENCE_S)
        assert topics
        assert not any(topics)


def test_an_outbox_brings_each_store_what_it_keeps_in_order(
    tmp_path: Path, domain: str, stores: dict[str, Store]
) -> None:
    with shoal.connect(f"inproc://{domain}", outbox=tmp_path / "out") as bus:
        for number in range(12):
            bus.publish(f"{'news' if number // 3 % 2 else 'orders'}/1", number, persistent=True)
        bus.flush(PATIENCE_S)
    rows = {name: store.log.rows(0, 100) for name, store in stores.items()}
    assert [row[4] for row in rows["orders"]] == [1, 2, 3, 7, 8, 9]
    assert [row[4] for row in rows["news"]] == [4, 5, 6, 10, 11, 12]
