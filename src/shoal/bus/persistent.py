"""Messages that a store must keep: on their way there, and, under the same identity, to live subscribers.

Without an outbox they are kept in memory until the store has them, and `publish` waits for that. With one
they are kept on the disk of this program, and go to the store when there is one.
"""

import threading
import time
import weakref
from pathlib import Path
from typing import TYPE_CHECKING, Any

from shoal._core import RowsBuilder
from shoal.bus.arguments import check_count, check_seconds
from shoal.bus.outbox import Outbox
from shoal.bus.store_chain import UNSTORED_BYTES_MAX, WORTHWHILE_BYTES, Chain
from shoal.bus.store_channel import StoreChannel
from shoal.bus.store_errors import seconds
from shoal.bus.store_protocol import NAME_BYTES_MAX, is_queue_name, queue_topic
from shoal.bus.store_session import Done
from shoal.bus.store_waits import ask
from shoal.errors import ClosedError, FlushError, InvalidDestinationError, StoreAwayError, StoreError

if TYPE_CHECKING:
    from shoal.bus.connection import Connection

#: The ordered path of persistent messages; the lanes of a link are 1 to 4.
CHAIN = 5
#: What a request to a store has beside its rows, at the most.
REQUEST_BYTES = 1024


#: Topics of queues by their names, of those that were checked; when there are more, all are forgotten.
_QUEUE_TOPICS: dict[object, str] = {}
QUEUE_TOPICS_MAX = 4096


def check_queue_name(name: object) -> str:
    """The topic of a queue."""
    known = _QUEUE_TOPICS.get(name) if type(name) is str else None
    if known is not None:
        return known
    if not isinstance(name, str) or not is_queue_name(name):
        raise InvalidDestinationError(
            f"{name!r:.100} is no name of a queue: it must be a text such as 'orders' or 'orders/tea',"
            f" without '*', '>' and empty levels, of at most {NAME_BYTES_MAX} bytes"
        )
    if len(_QUEUE_TOPICS) >= QUEUE_TOPICS_MAX:
        _QUEUE_TOPICS.clear()
    topic = _QUEUE_TOPICS[str(name)] = queue_topic(name)
    return topic


class Persistence:
    """The persistent messages of one connection. May be shared between threads."""

    def __init__(
        self, connection: "Connection", channel: StoreChannel, outbox: Path | None, outbox_max: int
    ) -> None:
        self._connection = weakref.ref(connection)
        self.channel = channel
        self._bytes_max = connection.config.message_bytes_max - REQUEST_BYTES
        #: One thread at a time gives numbers, and publishes for live subscribers in their order.
        self._order = threading.Lock()
        self.outbox: Outbox | None = None
        if outbox is not None:
            self.outbox = Outbox.open(outbox, outbox_max)
            self._builder = self.outbox.builder
            self.chain = self.outbox.chain(CHAIN)
        else:
            publisher = connection.node.publisher
            self._builder = RowsBuilder(publisher, CHAIN)
            builder = self._builder
            self.chain = Chain(publisher, CHAIN, builder.take, lambda: builder.waiting_bytes)
        channel.add_chain(self.chain)

    @property
    def publisher(self) -> int:
        """Who publishes persistent messages: the connection, or its outbox."""
        return self.chain.publisher

    @property
    def last(self) -> int:
        """The last number that was given."""
        return self._builder.next - 1

    def message_id(self, number: int) -> str:
        """The identity of a message."""
        return f"ID:{self.publisher:016x}-{CHAIN}-{number}"

    # --- for threads ---

    def publish(
        self,
        topic: str,
        body: Any,
        *,
        what: str,
        window: int | None = None,
        timeout_s: float | None = None,
        **headers: Any,
    ) -> int:
        """Publish a message, and wait until it is kept; with a window, until all but so many are."""
        check_window(window)
        check_seconds("timeout_s", timeout_s, none="no end")
        deadline = None if timeout_s is None else time.monotonic() + timeout_s
        if self.outbox is not None:
            return self._put_out(topic, body, deadline, headers)
        memory = not headers.get("persistent", True)
        if not self.channel.is_ready(memory):
            self.channel.want(topic)
            left_s = left(deadline)
            ask(
                lambda done: self.channel.when_ready(what, done, memory=memory, patience_s=left_s),
                left_s,
                what,
            )
        self.raise_failure()
        before = self.room(window)
        if before > self.chain.stored:
            self._wait_here(before, left(deadline), what)
        number = self.add(topic, body, headers, left(deadline))
        if window is None:
            self._wait_here(number, left(deadline), what)
        elif self.is_worth_a_word:
            self.channel.pump()
        return number

    def _wait_here(self, number: int, timeout_s: float | None, what: str) -> None:
        ask(lambda done: self.wait(number, done), timeout_s, what, hear=self.channel.hear)

    def flush(self, timeout_s: float | None) -> None:
        """Wait until everything published before is stored."""
        last = self.last
        if last > self.chain.stored:
            try:
                ask(lambda done: self.wait(last, done), timeout_s, "flush")
            except TimeoutError as error:
                unstored = last - self.chain.stored
                raise FlushError(
                    f"{unstored} persistent messages are not stored within {seconds(timeout_s or 0.0)}",
                    unstored=unstored,
                ) from error
        self.raise_failure()

    def finish(self, deadline: float | None, stall_s: float) -> str:
        """Wait for the store, as long as it gets on: what it lacks then, in words; nothing if it has all.

        Whoever has a deadline waits until then; others as long as the store takes something every so often.
        """
        last, refused, why = self.last, 0, ""
        while (before := self.chain.stored) < last:
            patience_s = stall_s if deadline is None else max(deadline - time.monotonic(), 0.0)
            try:
                ask(lambda done: self.wait(last, done), patience_s, "close")
            except StoreAwayError:
                if deadline is not None or self.chain.stored == before:
                    why = (
                        f"it took nothing for {seconds(patience_s)}" if patience_s else "nobody waited for it"
                    )
                    break
            except StoreError as error:
                refused, why = 1, str(error)
            except ClosedError:
                break
        lacks = last - self.chain.stored + self.chain.failures + refused
        failure = self.chain.take_failure()
        if not lacks:
            return ""
        return f"the store lacks {lacks} message{'s' if lacks > 1 else ''}: {failure or why}"

    # --- for both ---

    def room(self, window: int | None) -> int:
        """The number that must be stored before one more is added; 0 if none."""
        if self.chain.unstored_bytes + self._builder.waiting_bytes > UNSTORED_BYTES_MAX:
            return self.last
        return 0 if window is None else self.last + 1 - window

    def add(self, topic: str, body: Any, headers: dict[str, Any], timeout_s: float | None) -> int:
        """Give a message its number, and publish it for live subscribers."""
        connection = self._connection()
        node = None if connection is None or topic.startswith("_queue/") else connection.node
        with self._order:
            return self._builder.add(
                topic,
                body,
                persistent=headers.pop("persistent", True),
                bytes_max=self._bytes_max,
                node=node,
                timeout_s=timeout_s,
                **headers,
            )

    def wait(self, number: int, done: Done) -> None:
        """Call `done` when a message is stored."""
        self.channel.wait_stored(self.chain, number, done)

    @property
    def is_worth_a_word(self) -> bool:
        """Whether something can be sent now."""
        return self.chain.in_flight == 0 or self._builder.waiting_bytes >= WORTHWHILE_BYTES

    def raise_failure(self) -> None:
        """Raise why messages were refused that nobody waited for."""
        failure: StoreError | None = self.chain.take_failure()
        if failure is not None:
            raise failure

    def put_in_outbox(self, topic: str, body: Any, headers: dict[str, Any]) -> int:
        """Append a message to the outbox; it is durable after `outbox.sync`."""
        assert self.outbox is not None
        self.channel.want(topic)
        return self.outbox.add(topic, body, bytes_max=self._bytes_max, **headers)

    def send_from_outbox(self, topic: str, number: int, timeout_s: float | None) -> None:
        """A message is durable here: publish it for live subscribers, and let it go to the store."""
        assert self.outbox is not None
        connection = self._connection()
        if connection is not None and not topic.startswith("_queue/") and connection.node.may_want(topic):
            self.outbox.pass_on(connection.node, number, timeout_s)
        # While a request is on its way this one goes with the next; without a store it waits for one.
        if self.channel.is_open and self.chain.in_flight == 0:
            self.channel.pump()

    def _put_out(self, topic: str, body: Any, deadline: float | None, headers: dict[str, Any]) -> int:
        assert self.outbox is not None
        number = self.put_in_outbox(topic, body, headers)
        self.outbox.sync()
        self.send_from_outbox(topic, number, left(deadline))
        return number

    def close(self) -> None:
        """Let go of the outbox."""
        if self.outbox is not None:
            self.outbox.close()


def check_window(window: int | None) -> None:
    """Refuse a window that is none."""
    if window is not None:
        check_count("window", window, 1)


def deadline_of(timeout_s: float | None) -> float | None:
    """When so many seconds are over."""
    return None if timeout_s is None else time.monotonic() + timeout_s


def left(deadline: float | None) -> float | None:
    """Seconds until a deadline."""
    return None if deadline is None else max(deadline - time.monotonic(), 0.0)
