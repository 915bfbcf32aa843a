"""Subscriptions as programs read them: those of threads, and what those of asyncio have in common."""

import sys
from collections.abc import Iterator
from types import TracebackType
from typing import TYPE_CHECKING, NoReturn, Self, overload

from shoal import _core
from shoal._core import Message
from shoal.bus.arguments import check_count, check_seconds
from shoal.bus.connection import closed_error

if TYPE_CHECKING:
    from shoal.bus.retained import Source


class SubscriptionBase:
    """What subscriptions of threads and of asyncio have in common. Waits for nothing."""

    __slots__ = ("_subscription",)

    def __init__(self, subscription: "Source") -> None:
        self._subscription = subscription

    @property
    def _core(self) -> _core.Subscription:
        """The subscription as the extension has it."""
        source = self._subscription
        return source if isinstance(source, _core.Subscription) else source.core

    @property
    def pattern(self) -> str:
        """What it subscribes to."""
        return self._subscription.pattern

    @property
    def pending(self) -> int:
        """Messages that have arrived and were not read yet."""
        return self._subscription.pending

    @property
    def dropped(self) -> int:
        """Messages that were dropped because the reader fell behind."""
        return self._subscription.dropped

    @property
    def closed(self) -> bool:
        """Whether nothing more will arrive; what has arrived can still be received."""
        return self._subscription.closed

    def _describe(self, kind: str) -> str:
        try:
            state = f"{self.pending} pending" + (" closed" if self.closed else "")
        except RuntimeError:
            state = "of another process"
        return f"<{kind} {self.pattern!r} {state}>"

    def __reduce__(self) -> NoReturn:
        raise TypeError("a subscription cannot be pickled: subscribe in the process that reads")


def everything_received() -> BaseException:
    """What a subscription raises that is closed and empty."""
    return closed_error("the subscription is closed, and everything that arrived was received")


class Subscription(SubscriptionBase):
    """Messages that match a pattern: iterate over it, or call `receive`. May be shared between threads.

    Made by `Bus.subscribe`. An iteration ends when the subscription is closed, or its connection, and
    everything that had arrived was read. One without a reference ends by itself.
    """

    __slots__ = ("__weakref__",)

    @overload
    def receive(self, timeout_s: None = None) -> Message: ...

    @overload
    def receive(self, timeout_s: float | None) -> Message | None: ...

    def receive(self, timeout_s: float | None = None) -> Message | None:
        """The next message, waited for if need be.

        Args:
            timeout_s: how long to wait; `None` waits for ever.

        Returns:
            The message, or `None` if none came in time.

        Raises:
            ClosedError: the subscription is closed, and everything that had arrived was received.
        """
        check_seconds("timeout_s", timeout_s, none="no end")
        return self._subscription.receive(timeout_s)

    def receive_nowait(self, count_max: int = 1000) -> list[Message]:
        """Messages that are here already, at most `count_max`; an empty list if there are none.

        Raises:
            ClosedError: the subscription is closed, and everything that had arrived was received.
        """
        check_count("count_max", count_max)
        messages = self._subscription.receive_nowait(min(count_max, sys.maxsize))
        if messages is None:
            raise everything_received()
        return messages

    def close(self) -> None:
        """End the subscription; what has arrived can still be received. Closing again does nothing."""
        self._subscription.close()

    def __iter__(self) -> Iterator[Message]:
        # The extension's own iterator: it comes back to Python once per batch, not once per message.
        return iter(self._subscription)

    def __next__(self) -> Message:
        return next(self._subscription)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def __repr__(self) -> str:
        return self._describe("Subscription")
