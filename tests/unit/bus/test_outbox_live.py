"""Messages of an outbox for live subscribers: in the order of their numbers, whoever publishes, each once."""

import asyncio
import contextlib
import secrets
import threading
import time
from pathlib import Path
from typing import Any

import pytest

import shoal
from shoal import aio
from shoal.bus import outbox
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


#: More than a subscriber takes that reads nothing, and the buffers on the way to it.
LONG, MANY = bytes(50_000), 20


def unlive(bus: shoal.Bus | aio.Bus) -> int:
    """Messages of the outbox that live subscribers had no room for."""
    box = bus._connection.persistence().outbox
    assert box is not None
    return box.unlive


def test_a_message_that_is_kept_is_no_error_and_is_live_when_there_is_room(
    tmp_path: Path, domain: str
) -> None:
    url = f"{domain}?when_slow=wait"
    with (
        shoal.connect(url) as reader,
        reader.subscribe("t", queue_bytes_max=200_000) as subscription,
        shoal.connect(url, outbox=tmp_path / "out") as bus,
    ):
        assert bus.wait_for_subscribers("t", timeout_s=10.0)
        for _ in range(MANY):
            bus.publish("t", LONG, persistent=True, timeout_s=0.05)
        assert unlive(bus), "there was no room for all of them"
        messages = [subscription.receive(10.0) for _ in range(MANY)]
        assert [number_of(message) for message in messages if message] == list(range(1, MANY + 1))
        assert subscription.receive_nowait(1) == []


def test_a_task_that_publishes_waits_for_room_no_longer_than_it_says(tmp_path: Path, domain: str) -> None:
    url = f"{domain}?when_slow=wait"

    async def main() -> None:
        async with (
            aio.connect(url) as reader,
            reader.subscribe("t", queue_bytes_max=200_000) as subscription,
            aio.connect(url, outbox=tmp_path / "out") as bus,
        ):
            assert await bus.wait_for_subscribers("t", timeout_s=10.0)
            for _ in range(MANY):
                await bus.publish("t", LONG, persistent=True, timeout_s=0.05)
            assert unlive(bus), "there was no room for all of them"
            patient = asyncio.create_task(bus.publish("t", LONG, persistent=True))
            messages = [await subscription.receive(10.0) for _ in range(MANY + 1)]
            assert [number_of(message) for message in messages if message] == list(range(1, MANY + 2))
            await asyncio.wait_for(patient, 10.0)

    asyncio.run(main())


def test_an_event_loop_leaves_the_disk_to_the_thread_of_its_outbox(
    tmp_path: Path, domain: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(outbox, "NOTE_EVERY_S", 0.0)
    threads: dict[str, set[str]] = {"add": set(), "sync": set(), "_note": set()}
    for name, used in threads.items():
        work = getattr(Outbox, name)

        def noted(box: Outbox, *args: Any, _work: Any = work, _used: set[str] = used, **named: Any) -> Any:
            _used.add(threading.current_thread().name)
            return _work(box, *args, **named)

        monkeypatch.setattr(Outbox, name, noted)

    async def main() -> None:
        async with (
            aio.connect(domain, store=tmp_path / "store"),
            aio.connect(domain, outbox=tmp_path / "out") as bus,
        ):
            box = bus._connection.persistence().outbox
            assert box is not None
            for _ in range(20):
                await bus.publish("t", b"x", persistent=True)
            while box.waiting or not threads["_note"]:
                await asyncio.sleep(0.01)
            assert threads == {name: {"shoal-outbox"} for name in threads}

    asyncio.run(asyncio.wait_for(main(), 60))


def test_what_live_subscribers_lack_stays_on_the_disk_and_counts_as_full(tmp_path: Path, domain: str) -> None:
    url = f"{domain}?when_slow=wait"
    with (
        shoal.connect(url, store=tmp_path / "store"),
        shoal.connect(url) as reader,
        reader.subscribe("t", queue_bytes_max=200_000) as subscription,
        shoal.connect(url, outbox=tmp_path / "out", outbox_bytes_max=1 << 20) as bus,
    ):
        assert bus.wait_for_subscribers("t", timeout_s=10.0)
        box = bus._connection.persistence().outbox
        assert box is not None
        with contextlib.suppress(shoal.FullError):
            for _ in range(100):
                bus.publish("t", LONG, persistent=True, timeout_s=0.0)
        until = time.monotonic() + 20
        while box.waiting and time.monotonic() < until:
            time.sleep(0.01)
        with pytest.raises(shoal.FullError, match="live subscribers have no room for"):
            bus.publish("t", LONG, persistent=True, timeout_s=0.0)
        while box.unlive:
            assert subscription.receive(10.0) is not None
        bus.publish("t", b"small", persistent=True)


def test_closing_waits_for_live_subscribers_that_lack_messages_of_the_outbox(
    tmp_path: Path, domain: str
) -> None:
    url = f"{domain}?when_slow=wait"
    with shoal.connect(url) as reader, reader.subscribe("t", queue_bytes_max=200_000) as subscription:
        bus = shoal.connect(url, outbox=tmp_path / "out")
        assert bus.wait_for_subscribers("t", timeout_s=10.0)
        for _ in range(MANY):
            bus.publish("t", LONG, persistent=True, timeout_s=0.05)
        assert unlive(bus), "there was no room for all of them"
        closing = threading.Thread(target=bus.close)
        closing.start()
        messages = [subscription.receive(10.0) for _ in range(MANY)]
        closing.join()
        assert [number_of(message) for message in messages if message] == list(range(1, MANY + 1))
