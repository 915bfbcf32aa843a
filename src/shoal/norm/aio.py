"""NORM sessions for asyncio: the same as `shoal.norm.Session`, awaited.

Every wait is for the session's descriptor, in the event loop itself; cancelling one gives back all it took.
"""

import asyncio
import os
import time
from collections import deque
from collections.abc import AsyncIterator, Callable, Generator
from pathlib import Path
from types import TracebackType
from typing import Self, TypeVar, Unpack

from shoal.bus.doorbell import Doorbell
from shoal.config import NormConfig, NormOptions
from shoal.errors import ClosedError, FlushError, FullError
from shoal.norm.events import Event
from shoal.norm.inbox import BACKLOG_BYTES_MAX, cost
from shoal.norm.session import Acknowledgements, SessionBase, no_room, object_number

T = TypeVar("T")
#: Yields until when to wait for the session to ring.
Operation = Generator[float | None, None, T]

#: How often to look for what rings no bell: room for an object, a stream that took everything, the goodbye.
_LOOK_S = 0.002


class Session(SessionBase):
    """Sends to a group, and receives from every node that sends to it. For the tasks of one event loop.

    ```python
    import asyncio

    import shoal


    async def main() -> None:
        async with shoal.norm.aio.Session(interface="lo", lanes=0) as session:
            await session.send_data(b"content", info=b"name")
            async for event in session.events(timeout_s=0.1):
                print(event)


    asyncio.run(main())
    ```

    One that the program no longer refers to is closed without lingering.
    """

    def __init__(self, config: NormConfig | None = None, **options: Unpack[NormOptions]) -> None:
        """Join the group. Options are fields of `NormConfig`; they replace those of `config`, if given."""
        super().__init__(config, **options)
        self._at_loop: Doorbell | None = None
        self._events: deque[Event] = deque()
        self._bytes = 0
        self._ended = False
        self._flushing = asyncio.Lock()

    @property
    def _doorbell(self) -> Doorbell:
        if self._at_loop is None:
            self._at_loop = Doorbell(self._link.attach_bell)
        self._at_loop.check_loop()
        return self._at_loop

    def _drain(self) -> None:
        """Take note of what arrived."""
        try:
            arrivals = self._link.receive(0.0)
        except ClosedError:
            self._ended = True
            return
        for kind, fields in arrivals:
            event = self._ledger.enter(kind, fields)
            self._events.append(event)
            self._bytes += cost(event)

    async def send(self, body: bytes, lane: int = 0, *, timeout_s: float | None = None) -> None:
        """Send a message on a stream; `FullError` if there is no room for it in time."""
        self._check_lane(lane)
        await self._doorbell.run(self._try_send(body, lane, timeout_s))
        self._lanes_used.add(lane)

    def _try_send(self, body: bytes, lane: int, timeout_s: float | None) -> Operation[None]:
        deadline = _deadline(timeout_s)
        while True:
            try:
                return self._link.send(body, lane, 0.0)
            except FullError:
                if _is_over(deadline):
                    raise
            yield deadline

    async def send_data(self, content: bytes, *, info: bytes = b"", timeout_s: float | None = None) -> int:
        """Send bytes as one object, with NORM_INFO, and return its number. As `Session.send_data`."""
        return await self._send_object(lambda: self._link.send_data(content, info), timeout_s)

    async def send_file(
        self, path: str | os.PathLike[str], *, info: bytes = b"", timeout_s: float | None = None
    ) -> int:
        """Send a file and return its number. As `shoal.norm.Session.send_file`."""
        return await self._send_object(lambda: self._link.send_file(Path(path), info), timeout_s)

    async def _send_object(self, attempt: Callable[[], int | None], timeout_s: float | None) -> int:
        def operation() -> Operation[int]:
            deadline = _deadline(timeout_s)
            while (number := self._ledger.keep(attempt)) is None:
                if _is_over(deadline):
                    raise no_room(timeout_s)
                yield _sooner(deadline)
            return number

        return await self._doorbell.run(operation())

    async def request_watermark(self, object: int = 0) -> None:
        """Ask the ackers for an object, or everything sent on a stream; `WatermarkDone` tells the outcome."""
        object_number(object)
        await self._doorbell.run(self._written(None))
        self._link.request_watermark(object)

    def _written(self, deadline: float | None) -> Operation[bool]:
        while not self._link.is_written():
            if _is_over(deadline):
                return False
            yield _sooner(deadline)
        return True

    async def flush(self, object: int | None = None, *, timeout_s: float | None = 10.0) -> Acknowledgements:
        """Wait until every acker has everything that was sent, or one object and all before it.

        As `shoal.norm.Session.flush`.
        """
        self._check_ackers()
        async with self._flushing:
            return await self._doorbell.run(self._flush(object, timeout_s))

    def _flush(self, object: int | None, timeout_s: float | None) -> Operation[Acknowledgements]:
        deadline = _deadline(timeout_s)
        if not (yield from self._written(deadline)):
            raise FlushError(f"the streams took not everything within {timeout_s} s", self._ackers)
        # What is on its way here belongs to earlier requests.
        self._drain()
        objects = self._newest() if object is None else {object_number(object)}
        self._ledger.expect(objects)
        for number in sorted(objects):
            self._link.request_watermark(number)
        while (outcomes := self._ledger.outcomes()) is None:
            if self._ended:
                raise ClosedError("the session is closed")
            if self._bytes > BACKLOG_BYTES_MAX:
                raise FullError(f"{self._bytes} bytes of events wait to be received: receive them in a task")
            if _is_over(deadline):
                raise FlushError(f"not every acker answered within {timeout_s} s", self._ackers)
            yield deadline
            self._drain()
        return self._acknowledged(outcomes)

    async def receive(self, timeout_s: float | None = None) -> Event | None:
        """The next message or event; `None` if none came in time. `ClosedError` once closed and empty."""
        return await self._doorbell.run(self._next(timeout_s))

    def _next(self, timeout_s: float | None) -> Operation[Event | None]:
        deadline = _deadline(timeout_s)
        while True:
            if not self._events:
                self._drain()
            if self._events:
                event = self._events.popleft()
                self._bytes -= cost(event)
                return event
            if self._ended:
                raise ClosedError("the session is closed")
            if _is_over(deadline):
                self._say_unheard()
                return None
            yield deadline

    async def events(self, timeout_s: float | None = None) -> AsyncIterator[Event]:
        """Messages and events as they come; ends after `timeout_s` of quiet, or with the session."""
        try:
            while (event := await self.receive(timeout_s)) is not None:
                yield event
        except ClosedError:
            return

    async def close(self, linger_s: float = 1.0) -> bool:
        """Send what waits, within `linger_s`, and leave the group. As `shoal.norm.Session.close`.

        If it is cancelled the session is closed at once.
        """
        self._closed = True
        try:
            self._link.begin_close(linger_s)
            while not self._link.has_left():
                await asyncio.sleep(_LOOK_S)
        finally:
            # Little is left to wait for, unless this was cancelled: then the goodbye.
            done = self._link.close(0.0)
            if self._at_loop is not None:
                self._at_loop.close()
        return done

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self.close()

    def __repr__(self) -> str:
        return self._describe("shoal.norm.aio.Session")


def _deadline(timeout_s: float | None) -> float | None:
    return None if timeout_s is None else time.monotonic() + timeout_s


def _is_over(deadline: float | None) -> bool:
    return deadline is not None and time.monotonic() >= deadline


def _sooner(deadline: float | None) -> float:
    soon = time.monotonic() + _LOOK_S
    return soon if deadline is None else min(soon, deadline)
