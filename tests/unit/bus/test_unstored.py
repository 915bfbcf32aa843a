"""What a connection that closes, or flushes, says of messages that no store has taken."""

import asyncio
import threading
from collections.abc import Iterator

import pytest
from plain_store import PlainStore

import shoal
from shoal import aio
from shoal.bus import connection
from shoal.errors import UndeliveredWarning

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


def test_leaving_a_block_warns_that_the_store_lacks_messages(sender: shoal.Bus) -> None:
    with (
        pytest.warns(UndeliveredWarning, match="the store lacks 5 messages: it took nothing for 1 s"),
        sender,
    ):
        pass


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
