"""The friendly API for threads: `connect` and `Bus`."""

import itertools
import logging
import threading
import time
import warnings
import weakref
from collections.abc import Callable, Iterator, Mapping
from types import TracebackType
from typing import Any, Literal, Self

from shoal._core import Message, Subscription, is_abandoned
from shoal.bus import events
from shoal.bus.core import Node, check_flushed, filters
from shoal.config import ConnectionConfig, parse_url
from shoal.errors import ClosedError, NoReplyError
from shoal.selector import CorrelationFilter, Selector

log = logging.getLogger("shoal.bus")


def connect(url: str | None = None, **options: Any) -> "Bus":
    """Join a domain and return the connection to it.

    With no arguments: reliable multicast on the default domain and interface. `url` is `norm://[group:port]`
    or `inproc://name`, with options as its query; the same options may be given as keywords, and
    `shoal.config.ConnectionConfig` describes them all.
    """
    return Bus(parse_url(url, **options))


class Bus(Node):
    """A connection: publishes, subscribes, asks and answers. May be shared between threads.

    One that nobody refers to any more, nor to one of its subscriptions, is closed without lingering; its
    callbacks end, with a `ResourceWarning`. A callback that refers to its own connection keeps it open.
    """

    _closed: bool
    _listeners: list[tuple[threading.Thread, Subscription]]
    _lock: threading.RLock
    _replies: "_Replies | None"
    _finalizer: "weakref.finalize[[list[tuple[threading.Thread, Subscription]], str], Bus]"

    def __init__(self, config: ConnectionConfig) -> None:
        super().__init__(config)
        self._closed = False
        self._listeners = []
        self._lock = threading.RLock()
        self._replies = None
        self._finalizer = weakref.finalize(self, _abandon, self._listeners, repr(self))
        # Whoever is open at exit is closed there, and that is no reason to warn.
        self._finalizer.atexit = False

    def subscribe(
        self,
        pattern: str,
        callback: Callable[[Message], object] | None = None,
        *,
        selector: str | Selector | None = None,
        correlation: str | CorrelationFilter | None = None,
        no_local: bool = False,
        queue_bytes_max: int = 4 << 20,
        when_full: Literal["block", "drop_new", "drop_old"] = "block",
    ) -> Subscription:
        """Receive what matches `pattern` from now on: `*` stands for one level, `>` for all that follow.

        `selector` is a condition on properties and headers as in JMS (`"region = 'EU' AND JMSPriority > 4"`),
        `correlation` one on correlation ids (`"[#7;#13]"`).
        With a `callback` every message is given to it, on a thread of this subscription's own. What it raises
        is logged, and the next message follows. `no_local` leaves out what this connection publishes itself.
        A reader that falls behind holds publishers back (`block`), within `slow_after_s`, or loses messages.
        """
        subscription = self.open_subscription(
            pattern,
            no_local=no_local,
            queue_bytes_max=queue_bytes_max,
            when_full=when_full,
            **filters(selector, correlation),
        )
        if callback is not None:
            self._listen(subscription, callback)
        return subscription

    def _listen(self, subscription: Subscription, callback: Callable[[Message], object]) -> None:
        name = f"shoal-{subscription.pattern}"
        listener = threading.Thread(target=_dispatch, args=(subscription, callback), name=name, daemon=True)
        with self._lock:
            self._listeners[:] = [other for other in self._listeners if other[0].is_alive()]
            self._listeners.append((listener, subscription))
        listener.start()

    def request(
        self,
        topic: str,
        body: Any = None,
        *,
        timeout_s: float = 5.0,
        properties: Mapping[str, Any] | None = None,
        priority: int = 4,
    ) -> Message:
        """Publish a question and return the first answer; `NoReplyError` if none comes in time."""
        with self._lock:
            if self._closed:
                raise ClosedError("the connection is closed")
            if self._replies is None:
                self._replies = _Replies(self)
            replies = self._replies
        return replies.ask(topic, body, timeout_s, dict(properties) if properties else None, priority)

    def reply(
        self, request: Message, body: Any = None, *, properties: Mapping[str, Any] | None = None
    ) -> None:
        """Answer a message that was sent with `request`."""
        if request.reply_to is None:
            raise ValueError(f"{request!r} was not sent as a request: it names no topic to reply to")
        self.publish(
            request.reply_to,
            body,
            properties=dict(properties) if properties else None,
            correlation_id=request.correlation_id,
            priority=request.priority,
        )

    def flush(self, timeout_s: float | None = 10.0) -> None:
        """Return when every member has everything published before; `FlushError` names who has not."""
        check_flushed(self.flush_nodes(timeout_s), timeout_s)

    def events(self, timeout_s: float | None = None) -> Iterator[events.Event]:
        """What happens in the domain; ends after `timeout_s` of quiet, or with the connection."""
        while not self._closed:
            taken = self.take_events(timeout_s)
            if not taken:
                return
            yield from itertools.starmap(events.from_core, taken)

    def close(self, linger_s: float = 1.0) -> bool:
        """Leave the domain, after waiting up to `linger_s` until every member has everything.

        A callback that is under way is waited for, in the same time, and may still publish; none is called
        any more. Returns whether every member has everything. Closing again does nothing; closing inside a
        callback is allowed.
        """
        with self._lock:
            if self._closed:
                return True
            self._closed = True
            self._finalizer.detach()
            listeners = list(self._listeners)
        deadline = time.monotonic() + linger_s
        for _, subscription in listeners:
            subscription.stop()
        for listener, _ in listeners:
            # Half of the time is left for what they published.
            patience_s = deadline - linger_s / 2 - time.monotonic()
            if listener is not threading.current_thread() and patience_s > 0:
                listener.join(patience_s)
        return self.shut_down(max(deadline - time.monotonic(), 0.0))

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()


def _abandon(listeners: list[tuple[threading.Thread, Subscription]], name: str) -> None:
    """Nobody has the connection any more: end its callbacks, whose threads would keep it open."""
    called = [subscription for listener, subscription in listeners if listener.is_alive()]
    for subscription in called:
        subscription.close()
    if called:
        warnings.warn(f"unclosed {name} with callbacks: close it", ResourceWarning, stacklevel=2)


def _dispatch(subscription: Subscription, callback: Callable[[Message], object]) -> None:
    """Call back with every message; in Python, where a thread may be ended when the interpreter exits."""
    subscription.mark_callback_thread()
    for message in subscription:
        try:
            callback(message)
        except BaseException as error:
            if is_abandoned():
                return
            log.error("a callback failed on %s", message.topic, exc_info=error)


class _Replies:
    """Answers on their way to the threads that wait for them."""

    def __init__(self, bus: Bus) -> None:
        # The listener outlives the bus otherwise: it would be kept by its own callback.
        self._bus = weakref.ref(bus)
        self._topic = f"_reply/{bus.node:08x}"
        self._numbers = itertools.count(1)
        self._waiting: dict[str, tuple[threading.Event, list[Message]]] = {}
        bus.subscribe(self._topic, self._arrived)

    def _arrived(self, reply: Message) -> None:
        waiting = self._waiting.get(str(reply.correlation_id))
        if waiting is not None:
            arrived, replies = waiting
            replies.append(reply)
            arrived.set()

    def ask(
        self, topic: str, body: Any, timeout_s: float, properties: dict[str, Any] | None, priority: int
    ) -> Message:
        bus = self._bus()
        if bus is None:
            raise ClosedError("the connection is closed")
        number = str(next(self._numbers))
        arrived, replies = threading.Event(), list[Message]()
        self._waiting[number] = (arrived, replies)
        try:
            bus.publish(
                topic,
                body,
                properties=properties,
                priority=priority,
                correlation_id=number,
                reply_to=self._topic,
            )
            if not arrived.wait(timeout_s):
                raise NoReplyError(f"nobody answered on {topic!r} within {timeout_s} s")
            return replies[0]
        finally:
            del self._waiting[number]
