"""`shoal.norm.aio`: sessions in an event loop, beside those with threads."""

import asyncio
import threading
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

import pytest

import shoal
from shoal.norm import DataReceived, FileReceived, MessageReceived

GROUP = "239.192.74.215"
SENDER, RECEIVER = 1, 2


def options(port: int, node: int, **more: Any) -> Any:
    return {"group": GROUP, "port": port, "interface": "lo", "node": node, **more}


async def next_of(session: shoal.norm.aio.Session, kind: type) -> Any:
    async for event in session.events(timeout_s=20):
        if isinstance(event, kind):
            return event
    raise AssertionError(f"no {kind.__name__} came")


def test_messages_objects_and_files_arrive_and_are_acknowledged(port: int, tmp_path: Path) -> None:
    sent = tmp_path / "report"
    sent.write_bytes(bytes(range(256)) * 1000)

    async def main() -> None:
        async with (
            shoal.norm.aio.Session(
                **options(port, RECEIVER, sync="all", files_directory=tmp_path)
            ) as receiver,
            shoal.norm.aio.Session(**options(port, SENDER, ackers=(RECEIVER,))) as sender,
        ):
            await sender.send(b"message")
            await sender.send_data(b"object", info=b"name")
            await sender.send_file(sent)
            came: dict[type, Any] = {}
            async for event in receiver.events(timeout_s=20):
                came[type(event)] = event
                if {MessageReceived, DataReceived, FileReceived} <= came.keys():
                    break
            assert came[MessageReceived].body == b"message"
            assert (came[DataReceived].content, came[DataReceived].info) == (b"object", b"name")
            assert came[FileReceived].path.read_bytes() == sent.read_bytes()
            assert await sender.flush(timeout_s=60)
            assert await sender.close(60) is True
            assert sender.closed
            assert repr(sender).endswith(" closed>")

    asyncio.run(asyncio.wait_for(main(), 60))


WAITS: dict[str, Callable[[shoal.norm.aio.Session], Awaitable[Any]]] = {
    "receive": lambda session: next_of(session, FileReceived),
    "flush": lambda session: session.flush(timeout_s=None),
    "send": lambda session: _endless(lambda: session.send(bytes(100_000))),
    "send_data": lambda session: _endless(lambda: session.send_data(bytes(1_000_000))),
}


async def _endless(step: Callable[[], Awaitable[Any]]) -> None:
    while True:
        await step()


@pytest.mark.parametrize("what", WAITS)
def test_a_wait_takes_no_thread_and_can_be_cancelled(port: int, what: str) -> None:
    async def main() -> None:
        # Nobody acknowledges for as long as this takes.
        session = shoal.norm.aio.Session(
            **options(port, SENDER, ackers=(RECEIVER,), acker_patience_s=1000.0, window_bytes=1 << 20)
        )
        await session.send(b"first")
        threads = threading.active_count()
        task = asyncio.ensure_future(WAITS[what](session))
        await asyncio.sleep(0.2)
        assert not task.done()
        assert threading.active_count() == threads
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
        await session.close(0)

    asyncio.run(asyncio.wait_for(main(), 60))


def test_closing_ends_a_reader_after_what_has_arrived(port: int) -> None:
    async def main() -> None:
        receiver = shoal.norm.aio.Session(**options(port, RECEIVER))
        reading = asyncio.ensure_future(next_of(receiver, FileReceived))
        await asyncio.sleep(0.05)
        await receiver.close(0)
        with pytest.raises(AssertionError, match="no FileReceived came"):
            await reading
        assert [event async for event in receiver.events(timeout_s=5)] == []
        with pytest.raises(shoal.ClosedError):
            await receiver.receive(5)
        with pytest.raises(shoal.ClosedError):
            await receiver.send(b"x")

    asyncio.run(asyncio.wait_for(main(), 60))


def test_it_has_what_the_threaded_session_has() -> None:
    def public(kind: type) -> set[str]:
        return {name for name in dir(kind) if not name.startswith("_")}

    assert public(shoal.norm.aio.Session) == public(shoal.norm.Session)
