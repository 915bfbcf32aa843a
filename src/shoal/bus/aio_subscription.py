"""Subscriptions for asyncio."""

import asyncio
import weakref
from collections import deque
from collections.abc import AsyncIterator, Awaitable, Callable, Generator
from types import TracebackType
from typing import Any, Self, overload

from shoal._core import Message
from shoal.bus.arguments import check_count, check_seconds
from shoal.bus.doorbell import Doorbell
from shoal.bus.retained import Source
from shoal.bus.subscription import SubscriptionBase, everything_received


class Subscription(SubscriptionBase):
    """Messages that match a pattern: `async for`, or `await receive()`. For the tasks of one event loop.

    Made by `Bus.subscribe`. An iteration ends when the subscription is closed, or its connection, and
    everything that had arrived was read. One that the program no longer refers to ends by itself.
    """

    def __init__(
        self,
        subscription: Source,
        doorbell: Doorbell,
        wait: Callable[[], Awaitable[None]] | None = None,
    ) -> None:
        super().__init__(subscription)
        self._doorbell = doorbell
        #: What awaiting it waits for: routers, and last values.
        self._wait = wait
        self._fetching: asyncio.Task[None] | None = None
        self._here: deque[Message] = deque()
        source, self._arrived = doorbell.watch(subscription)
        self._finalizer = weakref.finalize(self, doorbell.forget, source)
        self._finalizer.atexit = False

    @property
    def pending(self) -> int:
        """Messages that have arrived and were not read yet."""
        return len(self._here) + super().pending

    @overload
    async def receive(self, timeout_s: None = None) -> Message: ...

    @overload
    async def receive(self, timeout_s: float | None) -> Message | None: ...

    async def receive(self, timeout_s: float | None = None) -> Message | None:
        """The next message, waited for if need be.

        Args:
            timeout_s: how long to wait; `None` waits for ever.

        Returns:
            The message, or `None` if none came in time.

        Raises:
            ClosedError: the subscription is closed, and everything that had arrived was received.
        """
        check_seconds("timeout_s", timeout_s, none="no end")
        # Before the time runs: there may be none.
        await self._doorbell.take_turn()
        try:
            async with asyncio.timeout(timeout_s):
                message = await self._next()
        except TimeoutError:
            return None
        if message is None:
            raise everything_received()
        return message

    def receive_nowait(self, count_max: int = 1000) -> list[Message]:
        """Messages that are here already, at most `count_max`; an empty list if there are none.

        Raises:
            ClosedError: the subscription is closed, and everything that had arrived was received.
        """
        check_count("count_max", count_max)
        batch: list[Message] | None = []
        while len(self._here) < count_max and (batch := self._refill()):
            self._here.extend(batch)
        if not self._here and batch is None:
            raise everything_received()
        return [self._here.popleft() for _ in range(min(count_max, len(self._here)))]

    def _refill(self) -> list[Message] | None:
        """What has arrived; `None` if nothing has and nothing will."""
        batch = self._subscription.receive_nowait()
        if batch is None:
            self._finalizer()
        return batch

    async def _next(self) -> Message | None:
        """The next message; `None` once closed and empty. A message is taken only when it is returned."""
        while not self._here:
            self._arrived.clear()
            batch = self._refill()
            if batch is None:
                return None
            self._here.extend(batch)
            if not batch:
                await self._arrived.wait()
        return self._here.popleft()

    def _stop(self) -> None:
        """End an iteration, whatever has arrived."""
        self._subscription.stop()
        self._here.clear()
        self._arrived.set()

    def __await__(self) -> Generator[Any, None, Self]:
        """Return the subscription; with `wait`, once every router knows of it."""
        return self._ready().__await__()

    async def _ready(self) -> Self:
        try:
            if self._wait is not None:
                await self._wait()
            if self._fetching is not None:
                await self._fetching
        except BaseException:
            self.close()
            raise
        return self

    def __aiter__(self) -> AsyncIterator[Message]:
        return self

    async def __anext__(self) -> Message:
        await self._doorbell.take_turn()
        message = await self._next()
        if message is None:
            raise StopAsyncIteration
        return message

    def close(self) -> None:
        """End the subscription; what has arrived can still be received. Closing again does nothing."""
        self._subscription.close()
        self._arrived.set()

    async def __aenter__(self) -> Self:
        return await self._ready()

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def __repr__(self) -> str:
        return self._describe("shoal.aio.Subscription")
