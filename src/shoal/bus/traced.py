"""Connections whose messages are traced. Others are not a step slower for it."""

import functools
import inspect
from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, Any, ClassVar

from shoal import tracing
from shoal._core import Message
from shoal.bus import aio, sync
from shoal.bus.aio_subscription import Subscription as AioSubscription
from shoal.bus.subscription import Subscription

if TYPE_CHECKING:
    from opentelemetry.trace import Tracer


class _Noting:
    """Makes a span of each message that is received. Each connection has a class of its own."""

    __slots__ = ()

    _tracer: "ClassVar[Tracer]"
    _unrecorded: ClassVar[tracing.Unrecorded]

    @classmethod
    def _noted(cls, message: Any) -> Any:
        if message is not None:
            tracing.note_received(cls._tracer, cls._unrecorded, message)
        return message


class TracedSubscription(_Noting, Subscription):
    """A subscription that makes a span of each message that is received."""

    __slots__ = ()

    def receive(self, timeout_s: float | None = None) -> Any:
        """As `shoal.Subscription.receive`."""
        return self._noted(super().receive(timeout_s))

    def receive_nowait(self, count_max: int = 1000) -> list[Message]:
        """As `shoal.Subscription.receive_nowait`."""
        return [self._noted(message) for message in super().receive_nowait(count_max)]

    def __iter__(self) -> Iterator[Message]:
        return map(self._noted, super().__iter__())

    def __next__(self) -> Any:
        return self._noted(super().__next__())


class AioTracedSubscription(_Noting, AioSubscription):
    """The same for asyncio."""

    __slots__ = ()

    async def receive(self, timeout_s: float | None = None) -> Any:
        """As `shoal.aio.Subscription.receive`."""
        return self._noted(await super().receive(timeout_s))

    async def __anext__(self) -> Any:
        return self._noted(await super().__anext__())


class _Traced:
    """What connections for threads and for asyncio have in common."""

    _plain_publish: Callable[..., Any]
    _noting: ClassVar[type[Any]]

    def __init__(self, *arguments: Any) -> None:
        self._tracer = tracing.tracer()
        self._unrecorded = tracing.Unrecorded(self._tracer)
        own = {"__slots__": (), "_tracer": self._tracer, "_unrecorded": self._unrecorded}
        self._subscription = type("Subscription", (self._noting,), own)
        super().__init__(*arguments)

    def subscribe(self, pattern: str, callback: Any = None, **options: Any) -> Any:
        if callback is not None:
            callback = self._processing(callback)
        made = super().subscribe(pattern, callback, **options)  # type: ignore[misc]
        if type(made) in (Subscription, AioSubscription) and callback is None:
            made.__class__ = self._subscription
        return made

    def _processing(self, callback: Any) -> Any:
        """The same callback in a span of its own."""
        tracer, unrecorded = self._tracer, self._unrecorded
        if inspect.iscoroutinefunction(callback):

            @functools.wraps(callback)
            async def traced_task(message: Message) -> Any:
                with tracing.processing(tracer, unrecorded, message):
                    return await callback(message)

            return traced_task

        @functools.wraps(callback)
        def traced(message: Message) -> Any:
            with tracing.processing(tracer, unrecorded, message):
                return callback(message)

        return traced


class _Threads(_Traced):
    """Added to a connection for threads."""

    _noting = TracedSubscription

    def publish(self, topic: str, *arguments: Any, **options: Any) -> Any:
        context = self._unrecorded.context()
        if context is not None:
            return self._plain_publish(topic, *arguments, trace=context, **options)
        with tracing.sending(self._tracer, topic) as context:
            return self._plain_publish(topic, *arguments, trace=context, **options)


class _Tasks(_Traced):
    """Added to a connection for asyncio."""

    _noting = AioTracedSubscription

    async def publish(self, topic: str, *arguments: Any, **options: Any) -> Any:
        context = self._unrecorded.context()
        if context is not None:
            return await self._plain_publish(topic, *arguments, trace=context, **options)
        with tracing.sending(self._tracer, topic) as context:
            return await self._plain_publish(topic, *arguments, trace=context, **options)


def of_threads(kind: type[sync.Bus]) -> type[sync.Bus]:
    """The class of a traced connection, from that of one that is not."""
    return type("Bus", (_Threads, kind), _own(kind))


def of_tasks(kind: type[aio.Bus]) -> type[aio.Bus]:
    """The same for asyncio."""
    return type("Bus", (_Tasks, kind), _own(kind))


def _own(kind: type[sync.Bus] | type[aio.Bus]) -> dict[str, Any]:
    # `super()` would cost more than all else that a message needs without a recorder.
    return {"__doc__": kind.__doc__, "__module__": kind.__module__, "_plain_publish": kind.publish}
