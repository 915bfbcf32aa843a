"""Messages that a store must keep: on their way there, and, under the same identity, to live subscribers.

Without an outbox they are kept in memory until the store has them, and `publish` waits for that. Live
subscribers get them at once within the store's credit, and otherwise when they are stored. With an outbox
they are kept on the disk of this program, and go to the store when there is one.
"""

import logging
import threading
import time
import weakref
from pathlib import Path
from typing import TYPE_CHECKING, Any

from shoal._core import RowsBuilder, pass_on
from shoal.bus.arguments import check_count, check_seconds
from shoal.bus.outbox import BYTES_TOGETHER, Outbox
from shoal.bus.outbox_thread import OutboxThread
from shoal.bus.receipt import Receipt
from shoal.bus.store_chain import UNSTORED_BYTES_MAX, WORTHWHILE_BYTES, Chain
from shoal.bus.store_channel import StoreChannel
from shoal.bus.store_errors import seconds
from shoal.bus.store_protocol import NAME_BYTES_MAX, REQUEST_BYTES, RETAIN, is_queue_name, queue_topic
from shoal.bus.store_session import Done
from shoal.bus.store_waits import ask
from shoal.errors import (
    ClosedError,
    FlushError,
    FullError,
    InvalidDestinationError,
    ShoalError,
    StoreUnavailableError,
)
from shoal.messages import bus as notices

if TYPE_CHECKING:
    from shoal.bus.connection import Connection

log = logging.getLogger("shoal.bus")

#: The ordered path of persistent messages; the lanes of a link are 1 to 4.
CHAIN = 5
#: The same, of those that go to a second store, and so on: behind those of transactions.
OTHER_CHAINS = 1 << 16


def chain_of(ordinal: int) -> int:
    """The ordered path of persistent messages to one of the stores that a connection speaks with."""
    return CHAIN if ordinal == 0 else OTHER_CHAINS + ordinal


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
        self,
        connection: "Connection",
        channel: StoreChannel,
        outbox: Path | None,
        outbox_max: int,
        *,
        chain: int,
    ) -> None:
        self._connection = weakref.ref(connection)
        self.channel = channel
        self._bytes_max = max(1, connection.config.message_bytes_max - REQUEST_BYTES)
        #: One thread at a time gives numbers, and publishes for live subscribers in their order.
        self._order = threading.Lock()
        self.outbox: Outbox | None = None
        self._outbox_thread: OutboxThread | None = None
        if outbox is not None:
            self.outbox = Outbox.open(outbox, outbox_max, request_bytes=self._bytes_max)
            node_of, pump = weakref.ref(connection), weakref.WeakMethod(self._pump_outbox)
            self._outbox_thread = OutboxThread(
                self.outbox,
                lambda: None if (alive := node_of()) is None else alive.node,
                lambda: None if (call := pump()) is None else call(),
            )
            self.outbox.when_due = self._outbox_thread.look
            self._builder = self.outbox.builder
            self.chain = self.outbox.chain(chain)
        else:
            publisher = connection.node.publisher
            part_bytes = min(BYTES_TOGETHER, self._bytes_max)
            self._builder = RowsBuilder(publisher, chain, part_bytes=part_bytes)
            builder = self._builder
            self.chain = Chain(
                publisher,
                chain,
                builder.take,
                lambda: builder.waiting_bytes,
                publish=self._publish_stored,
                clock=time.monotonic,
            )
        #: The last message that live subscribers get when it is stored.
        self._last_stored_first = 0
        channel.add_chain(self.chain)

    @property
    def publisher(self) -> int:
        """Who publishes persistent messages: the connection, or its outbox."""
        return self.chain.publisher

    @property
    def last(self) -> int:
        """The last number that was given."""
        return self._builder.next - 1

    def receipt(self, number: int, *, stored: bool) -> Receipt:
        """What the program gets for a message."""
        return Receipt(f"ID:{self.publisher:016x}-{self.chain.chain}-{number}", stored)

    # --- for threads ---

    def publish(
        self,
        topic: str,
        body: Any,
        *,
        what: str,
        window: int | None = None,
        timeout_s: float | None = None,
        claimed: bool = False,
        **headers: Any,
    ) -> Receipt:
        """Publish a message, and wait until it is kept; with a window, until all but that many are.

        With a window a refusal comes with the next message to the same destination, or with `flush`; if it is
        `claimed`, with `wait`, which its caller calls.
        """
        check_window(window)
        check_seconds("timeout_s", timeout_s, none="no end")
        deadline = None if timeout_s is None else time.monotonic() + timeout_s
        if self.outbox is not None:
            return self.receipt(self._put_out(topic, body, deadline, headers), stored=False)
        memory = not headers.get("persistent", True)
        if not self.channel.is_ready(memory):
            self.channel.want(topic)
            left_s = left(deadline)
            ask(
                lambda done: self.channel.when_ready(what, done, memory=memory, patience_s=left_s),
                left_s,
                what,
                why=self.channel.trouble,
            )
            if (other := self.instead(topic)) is not None:
                return other.publish(
                    topic,
                    body,
                    what=what,
                    window=window,
                    timeout_s=left(deadline),
                    claimed=claimed,
                    **headers,
                )
        if window is not None and not claimed:
            self.raise_failure(topic)
        before = self.room(window)
        if before > self.chain.stored:
            self._wait_here(before, left(deadline), what, own=False)
        number = self.add(topic, body, headers, left(deadline), claimed=claimed or window is None)
        if window is None:
            self._wait_here(number, left(deadline), what)
        elif self.is_worth_a_word:
            self.channel.pump()
        return self.receipt(number, stored=window is None)

    def instead(self, destination: str) -> "Persistence | None":
        """What sends to the store that keeps a destination, if the store that was found is not the one."""
        connection = self._connection()
        if connection is None or self.channel.keeps(destination):
            return None
        other = connection.persistence(destination)
        return None if other is self else other

    def _wait_here(self, number: int, timeout_s: float | None, what: str, *, own: bool = True) -> None:
        channel = self.channel
        ask(
            lambda done: self.wait(number, done, own=own),
            timeout_s,
            what,
            hear=channel.hear,
            why=channel.trouble,
        )

    def flush(self, timeout_s: float | None) -> None:
        """Wait until everything published before is stored, and published for live subscribers."""
        last, deadline = self.last, deadline_of(timeout_s)
        if last > self.chain.stored:
            try:
                ask(lambda done: self.wait(last, done, own=False), timeout_s, "flush")
            except TimeoutError as error:
                unstored = last - self.chain.stored
                raise FlushError(
                    f"{unstored} persistent messages are not stored within {seconds(timeout_s or 0.0)}",
                    unstored=unstored,
                ) from error
        connection = self._connection()
        box = self.outbox
        if box and connection is not None and not box.pass_on(connection.node, left(deadline)):
            raise FlushError(
                f"{box.unlive} messages of the outbox are not published within {seconds(timeout_s or 0.0)}: "
                "live subscribers have no room for them"
            )
        self.raise_failure()

    def finish(self, deadline: float | None, stall_s: float) -> str:
        """Wait for the store, as long as it gets on: what it lacks then, in words; nothing if it has all.

        A caller with a deadline waits until then; others as long as the store takes something every so often.
        """
        last, why = self.last, ""
        while (before := self.chain.stored) < last:
            patience_s = stall_s if deadline is None else max(deadline - time.monotonic(), 0.0)
            try:
                ask(lambda done: self.wait(last, done, own=False), patience_s, "close")
            except StoreUnavailableError:
                if deadline is not None or self.chain.stored == before:
                    why = (
                        f"it took nothing for {seconds(patience_s)}"
                        if patience_s
                        else "there was no time to wait for it"
                    )
                    break
            except ClosedError:
                break
        lacks = last - self.chain.stored + self.chain.failures
        failure = self.chain.take_failure()
        if not lacks:
            return ""
        return f"the store lacks {lacks} message{'s' if lacks > 1 else ''}: {failure or why}"

    # --- for both ---

    def room(self, window: int | None) -> int:
        """The number that must be stored before one more is added; 0 if none."""
        if self._unstored_bytes > UNSTORED_BYTES_MAX:
            return self.last
        return 0 if window is None else self.last + 1 - window

    def add(
        self, topic: str, body: Any, headers: dict[str, Any], timeout_s: float | None, *, claimed: bool
    ) -> int:
        """Give a message its number, and publish it for live subscribers if the store's credit covers it.

        If its caller waits for it next it is `claimed`: no other caller gets a refusal that comes before.
        """
        connection = self._connection()
        node = None if connection is None or topic.startswith("_queue/") else connection.node
        with self._order:
            number, live = self._builder.next, self.chain.live
            if claimed:
                self.chain.claims.add(number)
            if node is not None and self._is_covered(topic, headers):
                # Before a thread takes it to the store.
                self.chain.live = number
            elif node is not None:
                self._last_stored_first, node = number, None
            try:
                return self._builder.add(
                    topic,
                    body,
                    persistent=headers.pop("persistent", True),
                    bytes_max=self._bytes_max,
                    node=node,
                    timeout_s=timeout_s,
                    **headers,
                )
            except BaseException:
                self.chain.claims.discard(number)
                self.chain.live = live
                raise

    @property
    def _unstored_bytes(self) -> int:
        return self.chain.waiting_bytes + self._builder.waiting_bytes

    def _is_covered(self, topic: str, headers: dict[str, Any]) -> bool:
        """Whether a message may be live before it is stored.

        Behind a message that waits for that it waits too. The store may have no room for a last value.
        """
        is_first = self._last_stored_first <= self.chain.stored
        is_value = RETAIN in (headers.get("properties") or ())
        return is_first and not is_value and self.channel.credit.covers(topic, self._unstored_bytes)

    def _publish_stored(self, rows: bytes, at: float, redelivered: bool) -> None:
        """Publish a message that is stored for live subscribers."""
        connection = self._connection()
        if connection is None:
            return
        try:
            age_s = max(time.monotonic() - at, 0.0)
            pass_on(connection.node, rows, 0.0, redelivered=redelivered, age_s=age_s)
        except FullError:
            raise
        except ClosedError:
            return
        except ShoalError as error:
            notices.STORED_NOT_PUBLISHED(why=error).log(log)

    def wait(self, number: int, done: Done, *, own: bool = True) -> None:
        """Call `done` when a message is stored; with why it is not, if it is the caller's `own`."""
        self.channel.wait_stored(self.chain, number, done, own=own)

    @property
    def is_worth_a_word(self) -> bool:
        """Whether something can be sent now."""
        return self.chain.in_flight == 0 or self._builder.waiting_bytes >= WORTHWHILE_BYTES

    def raise_failure(self, destination: str | None = None) -> None:
        """Raise why messages to a destination, or any, were refused that no caller waits for."""
        with self.channel.lock:
            failure = self.chain.take_failure(destination)
        if failure is not None:
            raise failure

    def put_out(
        self, topic: str, body: Any, headers: dict[str, Any], deadline: float | None, done: Done
    ) -> None:
        """Append a message to the outbox, and call `done` with its number when it is durable and published.

        If live subscribers have no room until the deadline, they get it later, and the caller learns so.
        """
        assert self._outbox_thread is not None
        self._outbox_thread.add(lambda: self._put_in_outbox(topic, body, headers), deadline, done)

    def _put_in_outbox(self, topic: str, body: Any, headers: dict[str, Any]) -> int:
        assert self.outbox is not None
        self.channel.want(topic)
        return self.outbox.add(topic, body, bytes_max=self._bytes_max, **headers)

    def _pump_outbox(self) -> None:
        """Messages are durable here: let them go to the store."""
        # While a request is on its way this one goes with the next; without a store it waits for one.
        if self.channel.is_open and self.chain.in_flight == 0:
            self.channel.pump()

    def _put_out(self, topic: str, body: Any, deadline: float | None, headers: dict[str, Any]) -> int:
        assert self.outbox is not None
        assert self._outbox_thread is not None
        number = self._put_in_outbox(topic, body, headers)
        self.outbox.sync()
        connection = self._connection()
        if connection is not None and not self.outbox.pass_on(connection.node, left(deadline)):
            # It is kept. An error would say that it is not, and a program would send it again.
            self._outbox_thread.look()
        self._pump_outbox()
        return number

    def close(self) -> None:
        """Let go of the outbox."""
        if self._outbox_thread is not None:
            self._outbox_thread.close()
        if self.outbox is not None:
            self.outbox.close()


def check_window(window: int | None) -> None:
    """Refuse a window that is none."""
    if window is not None:
        check_count("window", window, 1)


def deadline_of(timeout_s: float | None) -> float | None:
    """When this number of seconds is over."""
    return None if timeout_s is None else time.monotonic() + timeout_s


def left(deadline: float | None) -> float | None:
    """Seconds until a deadline."""
    return None if deadline is None else max(deadline - time.monotonic(), 0.0)
