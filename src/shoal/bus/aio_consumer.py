"""What a program with an event loop receives from a store."""

import asyncio
import contextlib
import sys
import time
from collections.abc import AsyncIterator, Callable, Coroutine, Generator, Hashable
from types import TracebackType
from typing import Any, Self, overload

from shoal._core import Message
from shoal.bus.arguments import check_count, check_seconds
from shoal.bus.connection import closed_error
from shoal.bus.consumer import CLOSE_S, ConsumerBase
from shoal.bus.options import Ack
from shoal.bus.readers import task_here, tasks_done
from shoal.bus.receiver import Answering
from shoal.bus.store_channel import StoreChannel
from shoal.bus.store_session import Body
from shoal.bus.store_waits import ask_in_loop
from shoal.errors import ClosedError, StoreError


class Consumer(ConsumerBase):
    """Messages from a queue: `async for`, or `await receive()`. For the tasks of one event loop.

    As `shoal.bus.consumer.Consumer`. With `ack="auto"` a task has finished a message when it calls `receive`
    again; it may leave the waiting to another task, as `asyncio.wait_for` does. A task that is cancelled
    while it waits has taken nothing.
    """

    def __init__(
        self, owner: Answering, channel: StoreChannel, what: str, *, ack: Ack = "auto", prefetch: int | None
    ) -> None:
        super().__init__(owner, channel, what, ack, prefetch)
        self._loop = asyncio.get_running_loop()
        self._arrived = asyncio.Event()

    async def _open(self, begin: Body, timeout_s: float | None) -> Self:
        try:
            await ask_in_loop(
                lambda done: self._begin(begin, done), timeout_s, self._what, why=self._channel.trouble
            )
        except BaseException:
            # A task that does not wait any more does not want it.
            self._channel.close_inbox(self._inbox, lambda answer, error: None)
            raise
        with self._channel.locked():
            self._inbox.on_change.append(self._ring)
        return self

    def _ring(self) -> None:
        # No task waits where the loop is closed.
        with contextlib.suppress(RuntimeError):
            self._loop.call_soon_threadsafe(self._arrived.set)

    @overload
    def receive(self, timeout_s: None = None) -> Coroutine[Any, Any, Message]: ...

    @overload
    def receive(self, timeout_s: float | None) -> Coroutine[Any, Any, Message | None]: ...

    def receive(self, timeout_s: float | None = None) -> Coroutine[Any, Any, Message | None]:
        """The next message, or `None` if none came in time. Raises what `shoal.Bus`'s consumers raise."""
        check_seconds("timeout_s", timeout_s, none="no end")
        self._check_here()
        return self._receive(self._asking(), timeout_s)

    def _asking(self) -> Hashable:
        """The task that asks for a message, and so has finished what it received; another may wait for it."""
        reader = task_here()
        with self._channel.lock:
            self._finish(reader)
        return reader

    async def _receive(self, reader: Hashable, timeout_s: float | None) -> Message | None:
        deadline = None if timeout_s is None else time.monotonic() + timeout_s
        while True:
            self._arrived.clear()
            with self._channel.lock:
                messages = self._take(reader, 1)
            if messages:
                return messages[0]
            left_s = None if deadline is None else deadline - time.monotonic()
            if left_s is not None and left_s <= 0:
                return None
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(left_s):
                    await self._arrived.wait()

    def receive_nowait(self, count_max: int = 1000) -> list[Message]:
        """Messages that are here already, at most `count_max`; an empty list if there are none."""
        check_count("count_max", count_max)
        self._check_here()
        reader = self._asking()
        with self._channel.lock:
            return self._take(reader, min(count_max, sys.maxsize))

    async def ack(self, message: Message, *, timeout_s: float | None = None) -> None:
        """Acknowledge a message, and wait until that is durable."""
        await ask_in_loop(
            lambda done: self._acknowledge(message, False, done), timeout_s, f"ack on {self._what}"
        )

    async def ack_through(self, message: Message, *, timeout_s: float | None = None) -> None:
        """Acknowledge a message and all that this consumer handed out before it."""
        await ask_in_loop(
            lambda done: self._acknowledge(message, True, done), timeout_s, f"ack on {self._what}"
        )

    async def recover(self, *, timeout_s: float | None = None) -> None:
        """Have everything delivered again that is not acknowledged, in order, marked as redelivered."""
        await ask_in_loop(self._recover, timeout_s, f"recover on {self._what}")

    async def close(self) -> None:
        """End it. What is not acknowledged goes back, and is delivered again. Closing again does nothing."""
        await self._end(True)

    async def _end(self, succeeded: bool) -> None:
        if self._channel.birth.is_elsewhere:
            return
        is_done = tasks_done(succeeded)
        with contextlib.suppress(StoreError, ClosedError):
            await ask_in_loop(lambda done: self._close(is_done, done), CLOSE_S, f"close of {self._what}")

    def __aiter__(self) -> AsyncIterator[Message]:
        return self

    def __anext__(self) -> Coroutine[Any, Any, Message]:
        self._check_here()
        return self._next(self._asking())

    async def _next(self, reader: Hashable) -> Message:
        # A loop over messages that are all here leaves other tasks their turn. A task cancelled there has
        # taken nothing.
        await asyncio.sleep(0)
        while True:
            try:
                message = await self._receive(reader, None)
            except ClosedError:
                raise StopAsyncIteration from None
            if message is not None:
                return message

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self._end(kind is None)

    def __repr__(self) -> str:
        return self._describe("shoal.aio.Consumer")


class StoredSubscription(Consumer):
    """A durable or shared subscription, made by `Bus.subscribe`: as `Consumer`, for topics.

    The store is asked when it is made. Awaiting it returns it once the store has it, or raises why not.
    """

    def __init__(
        self,
        owner: Answering,
        channel: StoreChannel,
        what: str,
        *,
        ack: Ack,
        prefetch: int | None,
        pattern: str,
        name: str,
        begin: Callable[[Self], Coroutine[Any, Any, None]],
    ) -> None:
        super().__init__(owner, channel, what, ack=ack, prefetch=prefetch)
        #: What it subscribes to.
        self.pattern = pattern
        #: What it is called.
        self.name = name
        self._is_open = False
        self._opening = asyncio.create_task(self._begin_once(begin), name=f"shoal-open-{pattern}")

    async def _begin_once(self, begin: Callable[[Self], Coroutine[Any, Any, None]]) -> None:
        await begin(self)
        self._is_open = True

    async def _ready(self) -> Self:
        if not self._is_open:
            try:
                await asyncio.shield(self._opening)
            except asyncio.CancelledError:
                if self._opening.cancelled():
                    raise closed_error(f"{self._what} is closed") from None
                raise
        return self

    def __await__(self) -> Generator[Any, None, Self]:
        return self._awaited().__await__()

    async def _awaited(self) -> Self:
        try:
            return await self._ready()
        except asyncio.CancelledError:
            # A task that does not wait any more does not want it.
            self._opening.cancel()
            raise

    @overload
    async def receive(self, timeout_s: None = None) -> Message: ...

    @overload
    async def receive(self, timeout_s: float | None) -> Message | None: ...

    async def receive(self, timeout_s: float | None = None) -> Message | None:
        """The next message, or `None` if none came in time. Raises what `shoal.Bus`'s consumers raise."""
        if self._is_open:
            return await super().receive(timeout_s)
        check_seconds("timeout_s", timeout_s, none="no end")
        deadline = None if timeout_s is None else time.monotonic() + timeout_s
        await asyncio.wait([self._opening], timeout=timeout_s)
        if not self._opening.done():
            return None
        await self._ready()
        return await super().receive(None if deadline is None else max(deadline - time.monotonic(), 0.0))

    async def close(self) -> None:
        """End it. What is not acknowledged goes back, and is delivered again. Closing again does nothing."""
        if not self._opening.done():
            self._opening.cancel()
            await asyncio.wait([self._opening])
        await super().close()

    async def __aenter__(self) -> Self:
        return await self._awaited()
