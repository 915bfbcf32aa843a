"""The friendly API for asyncio: the same as `shoal.bus.sync`, awaited.

Messages wake the event loop once per batch. Calls that may have to wait for the network run in a thread.
"""

import asyncio
import functools
import itertools
import logging
import warnings
import weakref
from collections import deque
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from types import TracebackType
from typing import Any, Literal, Self

from shoal import _core
from shoal._core import Message
from shoal.bus import events
from shoal.bus.core import Node, check_flushed, filters
from shoal.config import ConnectionConfig, parse_url
from shoal.errors import ClosedError, FullError, NoReplyError
from shoal.selector import CorrelationFilter, Selector

log = logging.getLogger("shoal.bus")


def connect(url: str | None = None, **options: Any) -> "Bus":
    """Join a domain; use it as `async with shoal.aio.connect() as bus`. Arguments as in `shoal.connect`."""
    return Bus(parse_url(url, **options))


class Subscription:
    """Messages that match a pattern: `async for`, or `await receive()`. For one task of one event loop."""

    def __init__(self, subscription: _core.Subscription) -> None:
        self._subscription = subscription
        self._here: deque[Message] = deque()
        self._arrived = asyncio.Event()
        loop = asyncio.get_running_loop()
        loop.add_reader(subscription.fileno(), self._arrived.set)
        self._stop = weakref.finalize(self, _unwatch, loop, subscription)
        self._stop.atexit = False

    @property
    def pattern(self) -> str:
        """What it subscribes to."""
        return self._subscription.pattern

    @property
    def dropped(self) -> int:
        """Messages dropped because the reader fell behind and the subscription does not wait."""
        return self._subscription.dropped

    async def receive(self, timeout_s: float | None = None) -> Message | None:
        """The next message; none if none came in time or the subscription is closed."""
        try:
            async with asyncio.timeout(timeout_s):
                return await self._next()
        except TimeoutError:
            return None

    async def _next(self) -> Message | None:
        while not self._here:
            self._arrived.clear()
            batch = self._subscription.receive_nowait()
            if batch is None:
                self._stop()
                return None
            self._here.extend(batch)
            if not batch:
                await self._arrived.wait()
        return self._here.popleft()

    def __aiter__(self) -> AsyncIterator[Message]:
        return self

    async def __anext__(self) -> Message:
        message = await self._next()
        if message is None:
            raise StopAsyncIteration
        return message

    def close(self) -> None:
        """End the subscription; what has arrived can still be received."""
        self._subscription.close()
        self._arrived.set()

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()
        self._stop()


def _unwatch(loop: asyncio.AbstractEventLoop, subscription: _core.Subscription) -> None:
    """Take a subscription's descriptor out of its loop, before it is closed with the subscription."""
    if loop.is_closed():
        return
    try:
        is_here = asyncio.get_running_loop() is loop
    except RuntimeError:
        is_here = not loop.is_running()
    if is_here:
        loop.remove_reader(subscription.fileno())
    else:
        # Dropped on another thread: the subscription lives until its loop comes to it.
        loop.call_soon_threadsafe(_unwatch, loop, subscription)


class Bus:
    """A connection for one event loop: publishes, subscribes, asks and answers.

    One that nobody refers to any more, nor to one of its subscriptions, is closed without lingering; its
    callbacks end, with a `ResourceWarning`. A callback that refers to its own connection keeps it open.
    """

    def __init__(self, config: ConnectionConfig) -> None:
        self._node = Node(config)
        self._closed = False
        self._subscriptions: list[Subscription] = []
        self._listeners: dict[asyncio.Task[None], Subscription] = {}
        self._waiting: dict[str, asyncio.Future[Message]] = {}
        self._numbers = itertools.count(1)
        self._reply_topic: str | None = None
        self._finalizer = weakref.finalize(self, _abandon, self._listeners, repr(self))
        # Whoever is open at exit is closed there, and that is no reason to warn.
        self._finalizer.atexit = False

    @property
    def node(self) -> int:
        """Our node id."""
        return self._node.node

    @property
    def members(self) -> list[int]:
        """Everybody else in the domain."""
        return self._node.members

    @property
    def rate_bytes_per_s(self) -> float | None:
        """Bytes per second that may be sent now; none is without limit, or without a network."""
        return self._node.rate_bytes_per_s

    def stats(self) -> dict[str, int]:
        """What the link did so far."""
        return self._node.stats()

    async def publish(
        self,
        topic: str,
        body: Any = None,
        *,
        properties: Mapping[str, Any] | None = None,
        priority: int = 4,
        ttl_s: float | None = None,
        correlation_id: str | bytes | None = None,
        reply_to: str | None = None,
        type: str | None = None,
    ) -> bool:
        """Publish a message, waiting only while members take no more. False if it was dropped instead."""
        options: dict[str, Any] = {
            "properties": dict(properties) if properties else None,
            "priority": priority,
            "ttl_s": ttl_s,
            "correlation_id": correlation_id,
            "reply_to": reply_to,
            "type": type,
        }
        try:
            return self._node.publish(topic, body, timeout_s=0.0, **options)
        except FullError:
            if self._node.config.when_full == "error":
                raise
        return await asyncio.to_thread(self._node.publish, topic, body, **options)

    def subscribe(
        self,
        pattern: str,
        callback: Callable[[Message], Awaitable[object]] | None = None,
        *,
        selector: str | Selector | None = None,
        correlation: str | CorrelationFilter | None = None,
        no_local: bool = False,
        queue_bytes_max: int = 4 << 20,
        when_full: Literal["block", "drop_new", "drop_old"] = "block",
    ) -> Subscription:
        """Receive what matches `pattern` from now on; with a `callback`, awaited in a task of its own.

        The other arguments are those of `shoal.Bus.subscribe`.
        """
        subscription = Subscription(
            self._node.open_subscription(
                pattern,
                no_local=no_local,
                queue_bytes_max=queue_bytes_max,
                when_full=when_full,
                **filters(selector, correlation),
            )
        )
        self._subscriptions.append(subscription)
        if callback is not None:
            listener = asyncio.create_task(_listen(subscription, callback), name=f"shoal-{pattern}")
            self._listeners[listener] = subscription
            listener.add_done_callback(functools.partial(_listened, self._listeners))
        return subscription

    async def request(
        self,
        topic: str,
        body: Any = None,
        *,
        timeout_s: float = 5.0,
        properties: Mapping[str, Any] | None = None,
        priority: int = 4,
    ) -> Message:
        """Publish a question and return the first answer; `NoReplyError` if none comes in time."""
        if self._closed:
            raise ClosedError("the connection is closed")
        if self._reply_topic is None:
            self._reply_topic = f"_reply/{self.node:08x}"
            self.subscribe(self._reply_topic, functools.partial(_replied, self._waiting))
        number = str(next(self._numbers))
        reply: asyncio.Future[Message] = asyncio.get_running_loop().create_future()
        self._waiting[number] = reply
        try:
            async with asyncio.timeout(timeout_s):
                await self.publish(
                    topic,
                    body,
                    properties=properties,
                    priority=priority,
                    correlation_id=number,
                    reply_to=self._reply_topic,
                )
                return await reply
        except TimeoutError:
            raise NoReplyError(f"nobody answered on {topic!r} within {timeout_s} s") from None
        finally:
            del self._waiting[number]

    async def reply(
        self, request: Message, body: Any = None, *, properties: Mapping[str, Any] | None = None
    ) -> None:
        """Answer a message that was sent with `request`."""
        if request.reply_to is None:
            raise ValueError(f"{request!r} was not sent as a request: it names no topic to reply to")
        await self.publish(
            request.reply_to,
            body,
            properties=properties,
            correlation_id=request.correlation_id,
            priority=request.priority,
        )

    async def wait_for_subscribers(self, topic: str, count: int = 1, timeout_s: float | None = None) -> bool:
        """Wait until so many other members subscribe to a topic; false if the time was over first."""
        return await asyncio.to_thread(self._node.wait_for_subscribers, topic, count, timeout_s)

    async def flush(self, timeout_s: float | None = 10.0) -> None:
        """Return when every member has everything published before; `FlushError` names who has not."""
        check_flushed(await asyncio.to_thread(self._node.flush_nodes, timeout_s), timeout_s)

    async def events(self, timeout_s: float | None = None) -> AsyncIterator[events.Event]:
        """What happens in the domain; ends after `timeout_s` of quiet, or with the connection."""
        while not self._closed:
            taken = await asyncio.to_thread(self._node.take_events, 0.5 if timeout_s is None else timeout_s)
            if taken is None or (not taken and timeout_s is not None):
                return
            for event in taken:
                yield events.from_core(*event)

    async def close(self, linger_s: float = 1.0) -> bool:
        """Leave the domain, after waiting up to `linger_s` until every member has everything."""
        if self._closed:
            return True
        self._closed = True
        self._finalizer.detach()
        done = await asyncio.to_thread(self._node.shut_down, linger_s)
        for subscription in self._subscriptions:
            subscription.close()
        current = asyncio.current_task()
        listeners = [listener for listener in self._listeners if listener is not current]
        if listeners:
            await asyncio.wait(listeners, timeout=max(linger_s, 1.0))
        for subscription in self._subscriptions:
            subscription._stop()
        return done

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self.close()


async def _listen(subscription: Subscription, callback: Callable[[Message], Awaitable[object]]) -> None:
    """Await the callback with every message. No method: the loop has it, and it would keep the connection."""
    async for message in subscription:
        try:
            await callback(message)
        except Exception as error:
            log.error("a callback failed on %s", message.topic, exc_info=error)


def _listened(listeners: dict[asyncio.Task[None], Subscription], listener: asyncio.Task[None]) -> None:
    """A listener ended. One that was cancelled did so with its loop, and nobody closed the connection."""
    if not listener.cancelled():
        del listeners[listener]


async def _replied(waiting: dict[str, asyncio.Future[Message]], message: Message) -> None:
    reply = waiting.get(str(message.correlation_id))
    if reply is not None and not reply.done():
        reply.set_result(message)


def _abandon(listeners: dict[asyncio.Task[None], Subscription], name: str) -> None:
    """Nobody has the connection any more: end its callbacks, whose tasks would keep it open."""
    if not listeners:
        return
    for subscription in list(listeners.values()):
        # This may be another thread than the loop's, which the closed descriptor wakes.
        subscription._subscription.close()
    warnings.warn(f"unclosed {name} with callbacks: close it", ResourceWarning, stacklevel=2)
