"""Last values: a new subscriber gets the last retained message of each topic before the live ones.

A publisher keeps the last message that it published with `retain` on each topic, while its connection is
open. A subscriber with `retained` opens its live subscription first, and then publishes a fetch. On a fetch a
publisher

1. answers at once that values will follow;
2. waits until the subscriber's interest has reached it, so that everything it publishes from then on is sent;
3. answers with its values, each with the number it was published under.

So a message is among the values or comes live, or both. A live message of the same publisher, chain and topic
whose number is not higher than that of the value is a duplicate, or older than the last value, and is
discarded. Live messages are held back, in the subscription's bounded queue, until the values are here.

A persistent message with `retain` has the property `_retain`. A store keeps the last one of each topic, also
after its publisher is gone, and answers fetches like a publisher. A publisher's own answer comes before the
store's.
"""

import contextlib
import itertools
import math
import threading
import time
import weakref
from collections import deque
from collections.abc import Callable, Iterator, Mapping
from typing import Any, NamedTuple

from shoal import _core
from shoal._core import Message, RowsBuilder, match_topics, read_rows
from shoal.bus import operations
from shoal.bus.arguments import correlation_of, properties_of, selector_of
from shoal.bus.connection import Connection
from shoal.bus.dispatch import OwnThread
from shoal.bus.operations import Operation
from shoal.bus.receiver import Receiver
from shoal.bus.replies import MORE, kind_of, reply_properties
from shoal.bus.store_protocol import RETAIN
from shoal.bus.waiting import run
from shoal.errors import FullError, ShoalError
from shoal.selector import CorrelationFilter, Selector

#: Where fetches go: every publisher that keeps values subscribes to it, and a store that does.
FETCH = "_retained/fetch"
#: The property of a store's answers.
_STORED = "_stored"
#: What one connection keeps: topics, and bytes of their messages.
TOPICS_MAX, BYTES_MAX = 100_000, 64 << 20
#: Bytes of the values of one answer.
ANSWER_BYTES = 1 << 20
#: How long a publisher waits for room to answer, and a subscriber for all answers.
ANSWER_S, FETCH_S = 5.0, 5.0
#: Where publishers may be missing that are not known yet, a fetch ends when no answer came for this long.
QUIET_S = 0.5
#: After this a node has heard all others, and their interest.
MEMBERS_S = 2.0
#: How often a fetch looks for answers.
_CHECK_S = 0.005


class _Value(NamedTuple):
    """The last message of a topic."""

    chain: int
    number: int
    row: bytes
    #: By `time.monotonic`.
    expires: float


class Retained:
    """The values that one connection keeps. May be shared between threads."""

    def __init__(self, connection: Connection) -> None:
        self._connection = weakref.ref(connection)
        self._values: dict[str, _Value] = {}
        #: Bytes of the values, and of those that are being published.
        self._bytes = 0
        self._done = threading.Condition()
        self._tokens = itertools.count()
        #: Messages that are being published: a fetch waits for those that began before it.
        self._publishing: set[int] = set()
        fetches = connection.node.open_subscription(FETCH)
        this = weakref.ref(self)
        self._thread = OwnThread(fetches, lambda message: _answer(this, message), lambda message, error: None)
        self._end = weakref.finalize(connection, self._thread.close)
        self._end.atexit = False

    @contextlib.contextmanager
    def keeping(
        self, topic: str, body: Any, headers: dict[str, Any]
    ) -> Iterator[Callable[[str | None], None]]:
        """Keep the message that is published meanwhile: call what this gives with its identity.

        An empty body deletes the value. `None` as identity keeps nothing: the message was dropped.

        Raises:
            FullError: the connection keeps as much as it may.
        """
        size = 0 if is_empty(body) else len(_row(topic, body, headers, 0, 0, 1))
        with self._done:
            self._check_room(topic, size)
            self._bytes += size
            token = next(self._tokens)
            self._publishing.add(token)

        def keep(identity: str | None) -> None:
            if identity is not None:
                with self._done:
                    self._keep(topic, body, headers, identity, size)

        try:
            yield keep
        finally:
            with self._done:
                self._bytes -= size
                self._publishing.discard(token)
                self._done.notify_all()

    def _check_room(self, topic: str, size: int) -> None:
        old = self._values.get(topic)
        after = self._bytes + size - (0 if old is None else len(old.row))
        delete = "delete some with publish(topic, retain=True)"
        if size and old is None and len(self._values) >= TOPICS_MAX:
            raise FullError(f"this connection retains {TOPICS_MAX} topics, and takes no more: {delete}")
        if size and after > BYTES_MAX:
            raise FullError(
                f"this connection retains at most {BYTES_MAX} bytes, and {topic!r} would make it {after}: "
                f"{delete}"
            )

    def _keep(self, topic: str, body: Any, headers: dict[str, Any], identity: str, size: int) -> None:
        publisher, chain, number = identity.removeprefix("ID:").split("-")
        old = self._values.get(topic)
        if old is not None:
            if old.chain == int(chain) and old.number > int(number):
                return
            del self._values[topic]
            self._bytes -= len(old.row)
        if size:
            row = _row(topic, body, headers, int(publisher, 16), int(chain), int(number))
            ttl_s = headers.get("ttl_s")
            expires = math.inf if ttl_s is None else time.monotonic() + ttl_s
            self._values[topic] = _Value(int(chain), int(number), row, expires)
            self._bytes += len(row)

    def _matching(self, pattern: str) -> list[bytes]:
        """The values of a pattern, with all that were being published when this was asked."""
        with self._done:
            before = set(self._publishing)
            self._done.wait_for(lambda: before.isdisjoint(self._publishing), ANSWER_S)
            now = time.monotonic()
            for topic in [topic for topic, value in self._values.items() if value.expires <= now]:
                self._bytes -= len(self._values.pop(topic).row)
            return [self._values[topic].row for topic in match_topics([pattern], list(self._values))]

    def _answer(self, fetch: Message) -> None:
        connection = self._connection()
        if connection is not None:
            answer(connection, fetch, self._matching)

    def close(self) -> None:
        """Answer no more, and forget the values."""
        self._end()
        self._values.clear()


def answer(
    connection: Connection, fetch: Message, matching: Callable[[str], list[bytes]], *, stored: bool = False
) -> None:
    """Answer a fetch with the rows that match its pattern, unless the fetcher left or stopped reading."""
    pattern = fetch.body.get("pattern") if isinstance(fetch.body, dict) else None
    if fetch.reply_to is None or not isinstance(pattern, str):
        return
    with contextlib.suppress(ShoalError):
        _say(connection.node, fetch, [], more=True, stored=stored)
        if fetch.sender != connection.node.node:
            run(connection, operations.heard(connection, pattern, fetch.sender))
        part: list[bytes] = []
        for row in matching(pattern):
            if part and sum(map(len, part)) + len(row) > ANSWER_BYTES:
                _say(connection.node, fetch, part, more=True, stored=stored)
                part = []
            part.append(row)
        _say(connection.node, fetch, part, more=False, stored=stored)


def _say(node: _core.Node, fetch: Message, rows: list[bytes], *, more: bool, stored: bool) -> None:
    """One answer to a fetch."""
    node.publish(
        str(fetch.reply_to),
        b"".join(len(row).to_bytes(4, "little") + row for row in rows),
        properties={**(reply_properties(None, more) or {}), **({_STORED: True} if stored else {})} or None,
        timeout_s=ANSWER_S,
    )


def marked(properties: Mapping[str, Any] | None) -> dict[str, Any]:
    """The properties of a message that a store is to keep as a last value."""
    return {**(properties_of(properties) or {}), RETAIN: True}


def _answer(target: "weakref.ref[Retained]", fetch: Message) -> None:
    """Answer a fetch. No method: the thread has it, and would keep the connection."""
    retained = target()
    if retained is not None:
        retained._answer(fetch)


def is_empty(body: Any) -> bool:
    """Whether a body deletes a value."""
    return body is None or (isinstance(body, bytes | bytearray | str) and len(body) == 0)


def _row(topic: str, body: Any, headers: dict[str, Any], publisher: int, chain: int, number: int) -> bytes:
    """A message as it is kept: with its identity."""
    builder = RowsBuilder(publisher, chain, number)
    builder.add(topic, body, **headers)
    taken = builder.take()
    assert taken is not None
    return taken[0]


def _split(answer: bytes) -> Iterator[bytes]:
    """The values of one answer."""
    at = 0
    while at + 4 <= len(answer):
        end = at + 4 + int.from_bytes(answer[at : at + 4], "little")
        yield answer[at + 4 : end]
        at = end


def fetch(
    connection: Connection,
    pattern: str,
    receiver: Receiver,
    selector: str | Selector | None,
    correlation: str | CorrelationFilter | None,
    no_local: bool,
) -> Operation[list[Message]]:
    """Ask every publisher for its values that match a pattern; the live subscription is open already."""
    node = connection.node
    if node.routers:
        yield from operations.sync(connection, FETCH_S)
    answers = node.open_subscription(f"{connection.replies.topic}/retained/{connection.next_temporary()}")
    values: dict[tuple[int, str], Message] = {}
    from_stores: dict[tuple[int, str], Message] = {}
    try:
        began = last = time.monotonic()
        asked: set[int] | None = None
        unfinished: set[int] = set()
        answered: set[int] = set()
        while True:
            now, present = time.monotonic(), set(node.subscribers(FETCH))
            # A link carries only what its other end is known to want: a new subscriber is asked then.
            if asked is None or not present <= asked:
                node.publish(FETCH, {"pattern": pattern}, reply_to=answers.pattern, timeout_s=FETCH_S)
                asked, last = present | (asked or set()), now
            for answer in answers.receive_nowait() or ():
                last = now
                answered.add(answer.sender)
                unfinished.add(answer.publisher)
                if kind_of(answer) != MORE:
                    unfinished.discard(answer.publisher)
                is_stored = answer.properties.get(_STORED) is True
                for row in _split(answer.body if isinstance(answer.body, bytes) else b""):
                    for message in read_rows(row, receiver=receiver):
                        kept = from_stores if is_stored else values
                        kept[message.publisher, message.topic] = message
            complete = not unfinished and present - set(node.routers) <= answered
            if complete and (_are_known(connection, now) or now >= last + QUIET_S):
                break
            if connection.closed or now >= began + FETCH_S:
                break
            yield now + _CHECK_S
    finally:
        answers.close()
    own, wanted, related = node.publisher, selector_of(selector), correlation_of(correlation)
    return [
        message
        for message in {**from_stores, **values}.values()
        if (wanted is None or wanted.matches(message))
        and (related is None or related.matches(str(message.correlation_id)))
        and not (no_local and message.publisher == own)
    ]


def _are_known(connection: Connection, now: float) -> bool:
    """Whether every publisher of last values is known here, so that none is missing once all have answered.

    Members of a multicast group, and the other ends of links, are known two seconds after the last link came
    up. Nodes behind a router are known to the router alone.
    """
    if connection.node.routers:
        return False
    if any(link.role == "connect" and link.state != "up" for link in connection.link_states()):
        return False
    return connection.config.scheme == "inproc" or now >= connection.linked_at + MEMBERS_S


class LastValues:
    """A subscription with last values first, as the extension's own is used. May be shared between threads.

    Until the values are here nothing can be received: live messages wait in the queue.
    """

    def __init__(self, core: _core.Subscription) -> None:
        self.core = core
        self._values: deque[Message] = deque()
        self._here = threading.Event()
        self._bells: list[tuple[_core.Bell, int]] = []
        #: The numbers of the values, by publisher, chain and topic: live messages up to them are discarded.
        self._past: dict[tuple[str, str], int] = {}
        #: The highest of them by publisher and chain.
        self._highest: dict[str, int] = {}
        self._stopped = False

    def begin(self, values: list[Message]) -> None:
        """The values are here."""
        for message in values:
            chain, number = _identity(message)
            self._past[chain, message.topic] = number
            self._highest[chain] = max(number, self._highest.get(chain, 0))
        self._values.extend(values)
        self._here.set()
        for bell, source in self._bells:
            bell.ring(source)

    @property
    def pattern(self) -> str:
        """What it subscribes to."""
        return self.core.pattern

    @property
    def pending(self) -> int:
        """Messages that have arrived and were not read yet."""
        return len(self._values) + self.core.pending

    @property
    def dropped(self) -> int:
        """Messages that were dropped because the reader fell behind."""
        return self.core.dropped

    @property
    def closed(self) -> bool:
        """Whether nothing more will arrive."""
        return self.core.closed

    def receive(self, timeout_s: float | None = None) -> Message | None:
        """The next message, or `None` if none came in time."""
        deadline = None if timeout_s is None else time.monotonic() + timeout_s
        while True:
            value = self._next_value()
            if value is not None:
                return value
            left_s = None if deadline is None else max(deadline - time.monotonic(), 0.0)
            message = self.core.receive(left_s)
            if message is None or self._is_new(message):
                return message

    def receive_nowait(self, count_max: int = 1000) -> list[Message] | None:
        """Messages that are here already; `None` once closed and empty."""
        if not self._here.is_set() and not self.core.closed:
            return []
        found: list[Message] = []
        while len(found) < count_max and (value := self._next_value()) is not None:
            found.append(value)
        if found:
            return found
        messages = self.core.receive_nowait(count_max)
        return messages if not messages or not self._past else [one for one in messages if self._is_new(one)]

    def __iter__(self) -> Iterator[Message]:
        while not self._stopped and (value := self._next_value()) is not None:
            yield value
        for message in self.core:
            if not self._past or self._is_new(message):
                yield message

    def __next__(self) -> Message:
        value = self._next_value()
        while value is None:
            message = next(self.core)
            value = message if self._is_new(message) else None
        return value

    def _next_value(self) -> Message | None:
        try:
            return self._values.popleft()
        except IndexError:
            return None

    def _is_new(self, message: Message) -> bool:
        """Whether a live message is none of the values, nor older than them."""
        if not self._past:
            return True
        chain, number = _identity(message)
        value = self._past.get((chain, message.topic))
        if value is not None and number <= value:
            return False
        # A chain is in order: what comes behind all of its values is new, and so is the rest.
        if number > self._highest.get(chain, number):
            del self._highest[chain]
            self._past = {key: past for key, past in self._past.items() if key[0] != chain}
        return True

    def mark_callback_thread(self) -> None:
        """Say that this thread runs the callback of this subscription."""
        self.core.mark_callback_thread()

    def attach_bell(self, bell: _core.Bell, source: int) -> None:
        """Ring `bell` as `source` when there is something to receive, or never will be."""
        self._bells.append((bell, source))
        self.core.attach_bell(bell, source)
        if self._here.is_set():
            bell.ring(source)

    def stop(self) -> None:
        """End an iteration, whatever has arrived."""
        self._stopped = True
        self._values.clear()
        self.core.stop()

    def close(self) -> None:
        """End it; what has arrived can still be received."""
        self.core.close()


def _identity(message: Message) -> tuple[str, int]:
    """Publisher and chain of a message, and its number."""
    chain, _, number = (message.message_id or "--0").rpartition("-")
    return chain, int(number)


#: What a subscription reads from: the extension's own, or one with last values first.
Source = _core.Subscription | LastValues
