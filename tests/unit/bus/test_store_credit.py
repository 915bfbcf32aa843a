"""Persistent messages are live at once within the store's credit, and otherwise when they are stored."""

import asyncio
import itertools
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from plain_store import PlainStore

import shoal
from shoal import aio
from shoal._core import RowsBuilder
from shoal.bus.store_chain import Chain
from shoal.bus.store_credit import NO_CREDIT, Credit
from shoal.errors import (
    BacklogError,
    FullError,
    ResourceAllocationError,
    StoreFullError,
    StoreUnavailableError,
)
from shoal.jms import ConnectionFactory, DeliveryMode

PATIENCE_S = 10.0
_names = itertools.count()


def bodies(live: shoal.Subscription, count: int) -> list[object]:
    """The next bodies, and no more than expected: what follows is a marker."""
    found = [live.receive(PATIENCE_S) for _ in range(count)]
    return [message and message.body for message in found]


def sent_until(error: type[Exception], send: Callable[[int], object]) -> int:
    """How many messages are sent before an error."""
    for number in range(1000):
        try:
            send(number)
        except error:
            return number
    raise AssertionError("nothing was refused")


# --- what a store says ---


def test_credit_covers_topics_that_no_limit_holds_while_bytes_are_left() -> None:
    credit = Credit.of({"credit": 100, "limited": ["a/>", "b"]}, [">"])
    assert [credit.covers(topic, 99) for topic in ("a/x", "b", "b/c", "c")] == [False, False, True, True]
    assert not credit.covers("c", 100)


def test_credit_covers_what_the_store_keeps() -> None:
    credit = Credit.of({"credit": 100, "limited": []}, ["a/>"])
    assert [credit.covers(topic, 0) for topic in ("a/x", "b/x")] == [True, False]
    assert Credit.of({"credit": 100, "limited": []}, ["a//"]) is NO_CREDIT


@pytest.mark.parametrize(
    "body",
    [
        {},
        {"credit": 5},
        {"credit": "5", "limited": []},
        {"credit": 5, "limited": [7]},
        {"credit": 5, "limited": ["/"]},
    ],
)
def test_what_makes_no_sense_is_no_credit(body: dict[str, object]) -> None:
    assert Credit.of(body, [">"]) is NO_CREDIT


# --- a chain ---


def test_rows_are_live_when_they_are_stored_and_callers_wait_for_both() -> None:
    builder, room = RowsBuilder(7, 5), [0]
    live: list[bytes] = []
    told: list[object] = []

    def publish(rows: bytes, at: float, redelivered: bool) -> None:
        if not room[0]:
            raise FullError("no room")
        room[0] -= 1
        live.append(rows)

    chain = Chain(7, 5, builder.take, lambda: builder.waiting_bytes, publish=publish)
    for number in range(3):
        builder.add("t", number)
    request = chain.poll_send()
    assert request is not None
    assert "live" not in request
    chain.wait(2, told.append)
    room[0] = 1
    chain.on_stored(3)
    assert (len(live), chain.stored, told) == (1, 1, [])
    room[0] = 1
    chain.handle_timeout(1.0)
    assert (len(live), chain.stored, told) == (2, 2, [None])
    assert chain.is_busy
    room[0] = 5
    chain.handle_timeout(chain.poll_timeout() or 0.0)
    assert (len(live), chain.stored, chain.is_busy, chain.waiting_bytes) == (3, 3, False, 0)


def test_rows_that_were_live_before_are_not_published_again() -> None:
    builder = RowsBuilder(7, 5)
    live: list[bytes] = []
    chain = Chain(
        7, 5, builder.take, lambda: builder.waiting_bytes, publish=lambda rows, *_: live.append(rows)
    )
    for number in range(3):
        builder.add("t", number)
    chain.live = 2
    request = chain.poll_send()
    assert request is not None
    assert "live" not in request
    chain.on_stored(3)
    assert len(live) == 1
    builder.add("t", 3)
    chain.live = 4
    request = chain.poll_send()
    assert request is not None
    assert request["live"] is True
    chain.on_stored(4)
    assert len(live) == 1


def test_rows_that_a_lost_session_sent_are_marked_because_the_store_may_have_published_them() -> None:
    builder = RowsBuilder(7, 5)
    marked: list[bool] = []
    chain = Chain(
        7,
        5,
        builder.take,
        lambda: builder.waiting_bytes,
        publish=lambda rows, at, again: marked.append(again),
    )
    builder.add("t", 0)
    chain.poll_send()
    builder.add("t", 1)
    chain.restart()
    for number in (1, 2):
        chain.poll_send()
        chain.on_stored(number)
    assert marked == [True, False]


def test_rows_that_were_stored_in_a_lost_session_and_wait_for_room_are_marked() -> None:
    builder, room = RowsBuilder(7, 5), [1]
    marked: list[bool] = []

    def publish(rows: bytes, at: float, redelivered: bool) -> None:
        if not room[0]:
            raise FullError("no room")
        room[0] -= 1
        marked.append(redelivered)

    chain = Chain(7, 5, builder.take, lambda: builder.waiting_bytes, publish=publish)
    for number in range(3):
        builder.add("t", number)
    chain.poll_send()
    chain.on_stored(3)
    assert marked == [False]
    chain.restart()
    room[0] = 5
    chain.handle_timeout(1.0)
    assert marked == [False, True, True]


# --- a connection ---


@pytest.fixture
def credited(store: PlainStore) -> PlainStore:
    store.credit = 1000
    return store


def test_within_credit_a_message_is_live_before_it_is_stored(
    bus: shoal.Bus, other: shoal.Bus, credited: PlainStore
) -> None:
    with other.subscribe("t") as live:
        bus.publish("t", 0, persistent=True)
        credited.deaf.add("send")
        with pytest.raises(StoreUnavailableError):
            bus.publish("t", 1, persistent=True, timeout_s=0.05)
        assert bodies(live, 2) == [0, 1]
        credited.stop()
        credited.deaf.clear()
        credited.start()
        bus.flush(PATIENCE_S)
        bus.publish("t", "marker")
        assert bodies(live, 1) == ["marker"]


@pytest.mark.parametrize("case", ["limited", "unknown", "used up", "no session"])
def test_without_credit_a_message_is_live_when_it_is_stored(
    bus: shoal.Bus, other: shoal.Bus, store: PlainStore, case: str
) -> None:
    store.credit = {"unknown": None, "used up": 10}.get(case, 1000)
    topic = "limited/t" if case == "limited" else "t"
    with other.subscribe(">") as live:
        bus.publish(topic, 0, persistent=True)
        store.deaf.add("send")
        if case == "used up":
            bus.publish(topic, "first", persistent=True, window=10)
        elif case == "no session":
            store.stop()
            (channel,) = bus._connection.channels
            with channel.locked():
                channel._session.end()
        with pytest.raises(StoreUnavailableError):
            bus.publish(topic, "waits", persistent=True, timeout_s=0.05)
        # The chain's order is kept: what follows waits as well.
        bus.publish("t", "follows", persistent=True, window=10)
        other.publish("t", "marker")
        expected = [0, "first", "marker"] if case == "used up" else [0, "marker"]
        assert bodies(live, len(expected)) == expected
        store.stop()
        store.deaf.clear()
        store.start()
        bus.flush(PATIENCE_S)
        assert bodies(live, 2) == ["waits", "follows"]
        stored = [row.message.body for row in store.rows]
        assert stored == ([0, "first"] if case == "used up" else [0]) + ["waits", "follows"]


def test_an_outbox_that_is_full_publishes_nothing(domain: str, other: shoal.Bus, tmp_path: Path) -> None:
    with (
        other.subscribe("t") as live,
        shoal.connect(domain, outbox=tmp_path / "out", outbox_bytes_max=1 << 20) as bus,
    ):
        bus.wait_for_subscribers("t")
        sent = sent_until(FullError, lambda number: bus.publish("t", bytes(50_000), persistent=True))
        other.publish("t", "marker")
        assert bodies(live, sent + 1)[-1] == "marker"


# --- with a store that has no room ---


@contextmanager
def full_store(tmp_path: Path) -> Iterator[tuple[shoal.Bus, str]]:
    """A store, with a durable subscription to `t` that has no room, and without space for anything else."""
    url = f"inproc://credit-{next(_names)}"
    with shoal.connect(url, store=tmp_path / "data", client_id="owner") as keeper:
        keeper.store.wait_open(PATIENCE_S)
        keeper.subscribe("t", durable="small", backlog_max_bytes=1000).close()
        keeper.publish("t", bytes(900), persistent=True)
        yield keeper, url


def make_room(keeper: shoal.Bus) -> None:
    """Read what the subscription has."""
    with keeper.subscribe("t", durable="small", backlog_max_bytes=1000) as reader:
        reader.receive(PATIENCE_S)
        reader.receive(0.0)


def test_live_subscribers_never_see_what_a_full_backlog_refuses(tmp_path: Path) -> None:
    with full_store(tmp_path) as (keeper, url), shoal.connect(url) as bus, keeper.subscribe(">") as live:
        bus.wait_for_subscribers("t")
        for body in (b"refused" * 100, b"again" * 100):
            with pytest.raises(BacklogError):
                bus.publish("t", body, persistent=True)
        bus.publish("t", b"window" * 100, persistent=True, window=10)
        with pytest.raises(BacklogError):
            bus.flush(PATIENCE_S)
        with pytest.raises(BacklogError), bus.transaction() as transaction:
            transaction.publish("t", b"transaction" * 100)
        bus.publish("other", "live", persistent=True)
        make_room(keeper)
        bus.publish("t", b"again" * 100, persistent=True)
        assert bodies(live, 2) == ["live", b"again" * 100]
        bus.publish("t", "marker")
        assert bodies(live, 1) == ["marker"]


def test_live_subscribers_never_see_what_a_full_store_refuses(tmp_path: Path) -> None:
    with full_store(tmp_path) as (keeper, url), shoal.connect(url) as bus, keeper.subscribe(">") as live:
        bus.publish("other", 0, persistent=True)
        keeper.store._serving.set_space("the disk is full", "the disk is full")
        # Within the credit of a moment ago messages are stored, and live.
        sent = sent_until(StoreFullError, lambda number: bus.publish("other", number + 1, persistent=True))
        keeper.store._serving.set_space(None, None)
        bus.publish("other", sent + 1, persistent=True)
        bus.publish("other", "marker")
        assert bodies(live, sent + 3) == [*range(sent + 2), "marker"]


def test_with_an_event_loop_nothing_that_is_refused_is_live(tmp_path: Path) -> None:
    async def main(url: str) -> None:
        async with aio.connect(url) as bus:
            await bus.wait_for_subscribers("t")
            with pytest.raises(BacklogError):
                await bus.publish("t", bytes(500), persistent=True)
            await bus.publish("t", bytes(500), persistent=True, window=5)
            with pytest.raises(BacklogError):
                await bus.flush()
            await bus.publish("other", "live", persistent=True)

    with full_store(tmp_path) as (keeper, url), keeper.subscribe(">") as live:
        asyncio.run(main(url))
        assert bodies(live, 1) == ["live"]


def test_through_jms_nothing_that_is_refused_is_live(tmp_path: Path) -> None:
    with full_store(tmp_path) as (keeper, url), keeper.subscribe(">") as live:
        with ConnectionFactory(url).create_connection() as connection:
            session = connection.create_session()
            producer = session.create_producer(session.create_topic("t"))
            producer.delivery_mode = DeliveryMode.PERSISTENT
            with pytest.raises(ResourceAllocationError):
                producer.send(session.create_bytes_message(bytes(500)))
            other = session.create_producer(session.create_topic("other"))
            other.delivery_mode = DeliveryMode.PERSISTENT
            other.send(session.create_text_message("live"))
        message = live.receive(PATIENCE_S)
        assert message is not None
        assert message.topic == "other"
