"""Messages of an outbox for live subscribers: in the order of their numbers, whoever publishes, each once."""

import asyncio
import secrets
import threading
from pathlib import Path

import pytest

import shoal
from shoal import aio
from shoal.bus.outbox import Outbox

THREADS, EACH = 6, 200


@pytest.fixture
def domain() -> str:
    return f"inproc://{secrets.token_hex(8)}"


def number_of(message: shoal.Message) -> int:
    assert message.message_id is not None
    return int(message.message_id.rpartition("-")[2])


def test_threads_publish_for_live_subscribers_in_the_order_of_the_outbox(tmp_path: Path, domain: str) -> None:
    with shoal.connect(domain) as reader, reader.subscribe("t") as subscription:
        with shoal.connect(domain, outbox=tmp_path / "out") as bus:
            assert bus.wait_for_subscribers("t", timeout_s=10.0)

            def publish() -> None:
                for _ in range(EACH):
                    bus.publish("t", b"x", persistent=True)

            threads = [threading.Thread(target=publish) for _ in range(THREADS)]
            for thread in threads:
                thread.start()
            for thread in threads:
                thread.join()
        numbers = [number_of(message) for message in subscription.receive_nowait(10_000)]
    assert numbers == list(range(1, THREADS * EACH + 1))


def test_a_publish_that_is_cancelled_is_stored_and_live_or_neither(
    tmp_path: Path, domain: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    may_sync, is_syncing = threading.Event(), threading.Event()
    sync = Outbox.sync

    def slow_sync(outbox: Outbox) -> None:
        is_syncing.set()
        assert may_sync.wait(10.0)
        sync(outbox)

    monkeypatch.setattr(Outbox, "sync", slow_sync)

    async def main() -> None:
        async with (
            aio.connect(domain) as reader,
            reader.subscribe("t") as subscription,
            aio.connect(domain, outbox=tmp_path / "out") as bus,
        ):
            assert await bus.wait_for_subscribers("t", timeout_s=10.0)
            publishing = asyncio.create_task(bus.publish("t", b"x", persistent=True))
            await asyncio.to_thread(is_syncing.wait, 10.0)
            publishing.cancel()
            with pytest.raises(asyncio.CancelledError):
                await publishing
            may_sync.set()
            message = await subscription.receive(10.0)
            assert message is not None
            assert number_of(message) == 1

    asyncio.run(main())


def test_an_event_loop_has_one_thread_for_its_outbox_which_ends_with_it(tmp_path: Path, domain: str) -> None:
    started: list[str] = []
    start = threading.Thread.start

    def note(thread: threading.Thread) -> None:
        started.append(thread.name)
        start(thread)

    async def main() -> None:
        async with aio.connect(domain, outbox=tmp_path / "out") as bus:
            await bus.publish("t", b"x", persistent=True)
            started.clear()
            await asyncio.gather(*(bus.publish("t", b"x", persistent=True) for _ in range(100)))
            await bus.publish("t", b"x", persistent=True)
            assert started == []

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(threading.Thread, "start", note)
        asyncio.run(main())
    assert not [thread for thread in threading.enumerate() if thread.name == "shoal-outbox"]
