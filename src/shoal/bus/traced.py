"""Connections whose messages are traced. Others are not a step slower for it."""

import functools
import inspect
from collections.abc import Iterator
from typing import Any

from shoal import tracing
from shoal._core import Message
from shoal.bus import aio, sync
from shoal.bus.aio_subscription import Subscription as AioSubscription
from shoal.bus.subscription import Subscription


class TracedSubscription(Subscription):
    """A subscription that makes a span of each message that is received."""

    __slots__ = ()

    def receive(self, timeout_s: float | None = None) -> Any:
        """As `shoal.Subscription.receive`."""
        return _noted(super().receive(timeout_s))

    def receive_nowait(self, count_max: int = 1000) -> list[Message]:
        """As `shoal.Subscription.receive_nowait`."""
        return [_noted(message) for message in super().receive_nowait(count_max)]

    def __iter__(self) -> Iterator[Message]:
        return map(_noted, super().__iter__())

    def __next__(self) -> Any:
        return _noted(super().__next__())


class AioTracedSubscription(AioSubscription):
    """The same for asyncio."""

    __slots__ = ()

    async def receive(self, timeout_s: float | None = None) -> Any:
        """As `shoal.aio.Subscription.receive`."""
        return _noted(await super().receive(timeout_s))

    async def __anext__(self) -> Any:
        return _noted(await super().__anext__())


def _noted(message: Any) -> Any:
    if message is not None:
        tracing.note_received(tracing.tracer(), message)
    return message


def processing(callback: Any) -> Any:
    """The same callback in a span of its own."""
    if inspect.iscoroutinefunction(callback):

        @functools.wraps(callback)
        async def traced_task(message: Message) -> Any:
            with tracing.process(message):
                return await callback(message)

        return traced_task

    @functools.wraps(callback)
    def traced(message: Message) -> Any:
        with tracing.process(message):
            return callback(message)

    return traced


class _Threads:
    """Added to a connection for threads."""

    def __init__(self, *arguments: Any) -> None:
        self._tracer = tracing.tracer()
        super().__init__(*arguments)

    def publish(self, topic: str, *arguments: Any, **options: Any) -> Any:
        with tracing.sending(self._tracer, topic) as context:
            return super().publish(topic, *arguments, trace=context, **options)  # type: ignore[misc]

    def subscribe(self, pattern: str, callback: Any = None, **options: Any) -> Any:
        if callback is not None:
            callback = processing(callback)
        made = super().subscribe(pattern, callback, **options)  # type: ignore[misc]
        if type(made) is Subscription and callback is None:
            made.__class__ = TracedSubscription
        return made


class _Tasks:
    """Added to a connection for asyncio."""

    def __init__(self, *arguments: Any) -> None:
        self._tracer = tracing.tracer()
        super().__init__(*arguments)

    async def publish(self, topic: str, *arguments: Any, **options: Any) -> Any:
        with tracing.sending(self._tracer, topic) as context:
            return await super().publish(topic, *arguments, trace=context, **options)  # type: ignore[misc]

    def subscribe(self, pattern: str, callback: Any = None, **options: Any) -> Any:
        if callback is not None:
            callback = processing(callback)
        made = super().subscribe(pattern, callback, **options)  # type: ignore[misc]
        if type(made) is AioSubscription and callback is None:
            made.__class__ = AioTracedSubscription
        return made


def of_threads(kind: type[sync.Bus]) -> type[sync.Bus]:
    """The class of a traced connection, from that of one that is not."""
    return type("Bus", (_Threads, kind), {"__doc__": kind.__doc__, "__module__": kind.__module__})


def of_tasks(kind: type[aio.Bus]) -> type[aio.Bus]:
    """The same for asyncio."""
    return type("Bus", (_Tasks, kind), {"__doc__": kind.__doc__, "__module__": kind.__module__})
