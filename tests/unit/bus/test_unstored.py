"""What a connection that closes, or flushes, says of messages that no store has taken."""

import asyncio
import threading
import warnings
from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import pytest
from plain_store import PlainStore

import shoal
from shoal import aio
from shoal.bus import connection, operations
from shoal.errors import FlushError, StoreRefusedError

PATIENCE_S = 10.0


@pytest.fixture(autouse=True)
def short_stall(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(connection, "STORE_STALL_S", 0.05)


@pytest.fixture
def sender(domain: str, store: PlainStore) -> Iterator[shoal.Bus]:
    """A connection that has five messages which its store never takes."""
    bus = shoal.connect(domain)
    bus.queue("orders").send(0)
    store.deaf = {"send"}
    for number in range(5):
        bus.queue("orders").send(number, window=100)
    yield bus
    bus.close(0.0)


@pytest.mark.parametrize("linger_s", [None, 0.05, 0.0])
def test_closing_tells_that_the_store_lacks_messages(
    sender: shoal.Bus, linger_s: float | None, caplog: pytest.LogCaptureFixture
) -> None:
    assert not sender.close(linger_s, stall_s=0.05)
    assert "the store lacks 5 messages: " in caplog.text


def test_leaving_a_block_logs_once_that_the_store_lacks_messages(
    sender: shoal.Bus, caplog: pytest.LogCaptureFixture
) -> None:
    with warnings.catch_warnings(), sender:
        warnings.simplefilter("error")
    (line,) = [one for one in caplog.messages if "closed" in one]
    assert line.startswith("SHOAL-2118 ")
    assert "the store lacks 5 messages: it took nothing for 1 s" in line
    assert "connect(outbox=DIR)" in line


def test_closing_waits_for_a_store_that_comes_back_in_time(sender: shoal.Bus, store: PlainStore) -> None:
    closed: list[bool] = []
    closing = threading.Thread(target=lambda: closed.append(sender.close(PATIENCE_S)))
    closing.start()
    store.stop()
    store.deaf = set()
    store.start()
    closing.join(PATIENCE_S)
    assert closed == [True]
    assert len(store.rows) == 6


def test_closing_tells_of_messages_that_the_store_refused(bus: shoal.Bus, store: PlainStore) -> None:
    store.full = {"_queue/orders", "orders"}
    with shoal.connect(bus.config.where()) as sender:
        for number in range(3):
            sender.queue("orders").send(number, window=100)
        assert not sender.close()


def test_an_event_loop_is_told_as_well(domain: str, store: PlainStore) -> None:
    async def main() -> None:
        async with aio.connect(domain) as bus:
            await bus.queue("orders").send(0)
            store.deaf = {"send"}
            for number in range(3):
                await bus.queue("orders").send(number, window=100)
            assert not await bus.close(0.05)
            assert await bus.close()

    asyncio.run(main())


def test_a_connection_whose_messages_are_all_stored_closes_well(domain: str, store: PlainStore) -> None:
    bus = shoal.connect(domain)
    for number in range(300):
        bus.queue("orders").send(number, window=1000)
    assert bus.close()
    assert len(store.rows) == 300


def test_a_flush_says_how_many_messages_the_store_lacks(sender: shoal.Bus) -> None:
    with pytest.raises(FlushError, match="5 persistent messages are not stored") as raised:
        sender.flush(0.05)
    assert (raised.value.unstored, raised.value.silent) == (5, ())


@pytest.mark.parametrize("silent", [[7], None])
def test_a_flush_that_members_do_not_acknowledge_says_that_the_store_has_everything(
    domain: str, store: PlainStore, silent: list[int] | None
) -> None:
    with shoal.connect(domain) as bus:
        bus.queue("orders").send(0, window=10)
        bus.flush()
        silenced = SimpleNamespace(
            begin_flush=lambda: 1,
            poll_flush=lambda number: silent,
            end_flush=lambda number: None,
            backlog=lambda: (0, [(7, 59)]),
            flush_awaited=lambda number: [],
            flush_behind=lambda number: [],
            flush_is_unsettled=lambda number: False,
            flush_losers=lambda number: [],
        )
        node, bus._connection.node = bus._connection.node, cast(Any, silenced)
        try:
            with pytest.raises(FlushError, match=r"; the store has everything persistent$") as raised:
                list(operations.flush(bus._connection, 0.0, 0.0))
        finally:
            bus._connection.node = node
    assert (raised.value.silent, raised.value.unstored) == ((7,), 0)


@pytest.mark.parametrize("with_outbox", [False, True])
def test_batches_fit_a_connection_that_takes_only_short_messages(
    domain: str, store: PlainStore, tmp_path: Path, with_outbox: bool
) -> None:
    more: dict[str, Any] = {"outbox": tmp_path} if with_outbox else {}
    with shoal.connect(domain, message_bytes_max=20_000, **more) as bus:
        for _ in range(200):
            bus.queue("orders").send(bytes(1000), window=None if with_outbox else 200, timeout_s=PATIENCE_S)
        bus.flush(PATIENCE_S)


def test_an_outbox_gives_up_what_its_connection_no_longer_takes(
    domain: str, store: PlainStore, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    store.deaf = {"send"}
    with shoal.connect(domain, outbox=tmp_path) as bus:
        for size in (10, 50_000, 20):
            bus.queue("orders").send(bytes(size))
        bus.close(0.0)
    store.stop()
    store.deaf = set()
    store.start()
    with shoal.connect(domain, outbox=tmp_path, message_bytes_max=20_000) as bus:
        with pytest.raises(StoreRefusedError):
            bus.flush(PATIENCE_S)
        bus.flush(PATIENCE_S)
