"""What a program with an event loop receives from a store."""

import asyncio
import contextlib
import sys
import time
from collections.abc import AsyncIterator
from types import TracebackType
from typing import Any, Self

from shoal._core import Message
from shoal.bus.arguments import check_count, check_seconds
from shoal.bus.consumer import CLOSE_S, Ack, ConsumerBase
from shoal.bus.readers import tasks_done
from shoal.bus.store_channel import StoreChannel
from shoal.bus.store_session import Body
from shoal.bus.store_waits import ask_in_loop
from shoal.errors import ClosedError, StoreError


class Consumer(ConsumerBase):
    """Messages from a queue: `async for`, or `await receive()`. For the tasks of one event loop.

    As `shoal.bus.consumer.Consumer`; a message is acknowledged automatically when the task that received it
    takes the next. Whoever is cancelled while waiting has taken nothing.
    """

    def __init__(
        self, owner: object, channel: StoreChannel, what: str, *, ack: Ack = "auto", prefetch: int
    ) -> None:
        super().__init__(owner, channel, what, ack, prefetch)
        self._loop = asyncio.get_running_loop()
        self._arrived = asyncio.Event()

    async def _open(self, begin: Body, timeout_s: float | None) -> Self:
        try:
            await ask_in_loop(lambda done: self._begin(begin, done), timeout_s, self._what)
        except BaseException:
            # Whoever does not wait any more does not want it.
            self._channel.close_inbox(self._inbox, lambda answer, error: None)
            raise
        with self._channel.locked():
            self._inbox.on_change.append(self._ring)
        return self

    def _ring(self) -> None:
        # Nobody waits where the loop is closed.
        with contextlib.suppress(RuntimeError):
            self._loop.call_soon_threadsafe(self._arrived.set)

    async def receive(self, timeout_s: float | None = None) -> Message | None:
        """The next message, or `None` if none came in time. Raises what `shoal.Bus`'s consumers raise."""
        check_seconds("timeout_s", timeout_s, none="no end")
        self._check_here()
        deadline = None if timeout_s is None else time.monotonic() + timeout_s
        reader = asyncio.current_task()
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
        with self._channel.lock:
            return self._take(asyncio.current_task(), min(count_max, sys.maxsize))

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

    async def __anext__(self) -> Message:
        # A loop over messages that are all here leaves other tasks their turn. Whoever is cancelled there has
        # taken nothing.
        await asyncio.sleep(0)
        while True:
            try:
                message = await self.receive()
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
    """A durable or shared subscription, made by `Bus.subscribe`: as `Consumer`, for topics."""

    def __init__(self, *arguments: Any, pattern: str, name: str, **options: Any) -> None:
        super().__init__(*arguments, **options)
        #: What it subscribes to.
        self.pattern = pattern
        #: What it is called.
        self.name = name
