"""Queues: a message goes to exactly one receiver."""

from collections.abc import Iterator, Mapping
from functools import partial
from types import TracebackType
from typing import TYPE_CHECKING, Any, Self, Unpack, overload

from shoal._core import Message, read_rows
from shoal.bus.arguments import check_choice, check_count, check_flag, check_seconds, selector_of
from shoal.bus.consumer import Consumer
from shoal.bus.elsewhere import hint
from shoal.bus.options import Ack, OnFull, QueueOptions
from shoal.bus.persistent import check_queue_name, deadline_of, left
from shoal.bus.receipt import Receipt
from shoal.bus.store_protocol import BATCH_BYTES_MAX
from shoal.bus.store_session import Body
from shoal.bus.store_waits import ask, away
from shoal.errors import NoStoreError, StoreUnavailableError
from shoal.selector import Selector
from shoal.types import QueueName

if TYPE_CHECKING:
    from shoal.bus.sync import Bus

#: How long `receive_nowait` waits for the store when it is the first to receive.
OPEN_S = 1.0
#: Messages of one answer to a browser.
BROWSE_MESSAGES, BROWSE_BYTES = 1000, BATCH_BYTES_MAX


def declaration(
    *,
    expires_after_s: float | None = None,
    backlog_max_bytes: int | None = None,
    on_full: OnFull | None = None,
    deliveries_max: int | None = None,
    backoff_s: float | None = None,
    backoff_max_s: float | None = None,
    dead_letter: str | None = None,
    dead_letter_expired: bool | None = None,
) -> Body:
    """The options of a queue, as a store takes them; what is not given stays as it is."""
    for name, seconds in (
        ("expires_after_s", expires_after_s),
        ("backoff_s", backoff_s),
        ("backoff_max_s", backoff_max_s),
    ):
        check_seconds(name, seconds, none="as it is")
    if backlog_max_bytes is not None:
        check_count("backlog_max_bytes", backlog_max_bytes)
    if deliveries_max is not None:
        check_count("deliveries_max", deliveries_max)
    if on_full is not None:
        check_choice("on_full", on_full, OnFull)
    if dead_letter is not None:
        check_queue_name(dead_letter)
    if dead_letter_expired is not None:
        check_flag("dead_letter_expired", dead_letter_expired)
    given = {
        "expires_after_s": expires_after_s,
        "backlog_max_bytes": backlog_max_bytes,
        "on_full": on_full,
        "deliveries_max": deliveries_max,
        "backoff_s": backoff_s,
        "backoff_max_s": backoff_max_s,
        "dead_letter": dead_letter,
        "dead_letter_expired": dead_letter_expired,
    }
    return {name: value for name, value in given.items() if value is not None}


class QueueBase:
    """What queues of threads and of asyncio have in common. Waits for nothing."""

    def __init__(self, name: str, options: Body | None = None) -> None:
        self._topic = check_queue_name(name)
        self._name = QueueName(name)
        #: Its options, as a store takes them. A consumer gives them to each store that it finds.
        self._options = options or {}

    @property
    def name(self) -> QueueName:
        """What it is called. As `reply_to` of a message it has answers sent here."""
        return self._name

    def _consuming(self, selector: str | Selector | None) -> Body:
        wanted = selector_of(selector)
        begin: Body = {"op": "consume", "queue": str(self._name), **self._options}
        return begin if wanted is None else begin | {"selector": str(wanted)}

    def _browsing(self, selector: str | Selector | None, start: int | None) -> Body:
        wanted = selector_of(selector)
        body: Body = {
            "op": "browse",
            "queue": str(self._name),
            "messages": BROWSE_MESSAGES,
            "bytes": BROWSE_BYTES,
        }
        if wanted is not None:
            body["selector"] = str(wanted)
        if start is not None:
            body["start"] = start
        return body

    def _say(self, op: str, **fields: Any) -> Body:
        return {"op": op, "queue": str(self._name), **{k: v for k, v in fields.items() if v is not None}}


hint(
    QueueBase,
    {
        **dict.fromkeys(
            ("put", "put_nowait", "publish", "enqueue", "add"), "send(body) puts a message into the queue"
        ),
        **dict.fromkeys(
            ("get", "recv", "poll", "fetch", "pop"),
            "receive(timeout_s) takes one message, a `for` loop over the queue takes all",
        ),
        "get_nowait": "receive_nowait() takes what is there",
        "subscribe": "consume(…) begins to receive, with options of its own",
        **dict.fromkeys(
            ("ack", "nack", "task_done"), "message.ack() and message.release() belong to a message"
        ),
        **dict.fromkeys(
            ("qsize", "depth", "size", "count"), "`shoal queue list` shows how many messages wait"
        ),
    },
)


def browsed(answer: Body) -> tuple[list[Message], int | None]:
    """The messages of one answer to a browser, and where it goes on."""
    rows = answer.get("rows")
    return (read_rows(rows, answer["first"]) if rows else []), answer.get("next")


class Queue(QueueBase):
    """A queue: send into it, receive from it. May be shared between threads.

    Made by `Bus.queue`. Receiving here uses one consumer, the same however often the bus is asked for the
    queue. The first `receive` opens it, and it acknowledges by itself; `consume` opens more, with options of
    their own.
    """

    def __init__(self, bus: "Bus", name: str, options: Body | None = None) -> None:
        super().__init__(name, options)
        self._bus = bus

    def send(
        self,
        body: Any = None,
        *,
        properties: Mapping[str, Any] | None = None,
        priority: int = 4,
        ttl_s: float | None = None,
        correlation_id: str | bytes | None = None,
        reply_to: str | None = None,
        type: str | None = None,
        persistent: bool = True,
        delivery_delay_s: float | None = None,
        timestamp: float | None = None,
        group: str | None = None,
        connection: int | None = None,
        window: int | None = None,
        timeout_s: float | None = None,
    ) -> Receipt:
        """Send a message, and wait until the store has it.

        Args:
            body: as for `Bus.publish`; so are the headers.
            persistent: the message survives a crash of the store. If false, and the domain has no store, a
                program of the domain keeps the message in memory.
            delivery_delay_s: receivers get the message after this many seconds at the earliest.
            group: messages of one group go to one receiver at a time, in order (JMSXGroupID).
            window: return while at most this many messages are unconfirmed. `Bus.flush` waits for them, and
                the next call raises their errors.
            timeout_s: how long to wait; `None` waits without limit.

        Returns:
            The message's identity, and whether a store has it.

        Raises:
            NoStoreError: there is no store; the error says how to start one.
            StoreFullError: the store, or this queue, takes no more.
            StoreUnavailableError: the store did not answer in time; the message may be kept all the same.
        """
        check_flag("persistent", persistent)
        persistence = self._bus._connection.persistence(self._topic)
        return persistence.publish(
            self._topic,
            body,
            what=f"sending into the queue {str(self._name)!r}",
            properties=properties,
            priority=priority,
            ttl_s=ttl_s,
            correlation_id=correlation_id,
            reply_to=reply_to,
            type=type,
            persistent=persistent,
            delivery_delay_s=delivery_delay_s,
            timestamp=timestamp,
            group=group,
            connection=connection,
            window=window,
            timeout_s=timeout_s,
        )

    def consume(
        self,
        *,
        selector: str | Selector | None = None,
        prefetch: int | None = None,
        ack: Ack = "auto",
        timeout_s: float | None = None,
    ) -> Consumer:
        """Begin to receive, beside others.

        Args:
            selector: only messages that match; the others are for others.
            prefetch: messages buffered locally, unavailable to other workers; by default as many as this
                consumer takes in 0.1 s, and none beside the one in hand if that takes longer.
            ack: `auto` acknowledges a message when the program takes the next one; `manual` leaves it to
                `Consumer.ack`.
            timeout_s: how long to wait for the store.
        """
        begin = self._consuming(selector)
        deadline = deadline_of(timeout_s)
        channel = self._bus._connection.ready_channel(
            f"the queue {str(self._name)!r}", timeout_s, memory=True, destination=self._topic
        )
        return Consumer(
            self._bus,
            channel,
            f"queue {str(self._name)!r}",
            begin,
            ack=ack,
            prefetch=prefetch,
            timeout_s=left(deadline),
        )

    def _consumer(self, timeout_s: float | None = None) -> Consumer:
        """The bus's own consumer. The first thread that receives opens it, and others wait for that."""
        own = self._bus._receivers.get(self._name)
        if own is not None and not own.closed:
            return own
        deadline = deadline_of(timeout_s)
        with self._bus._opening(self._name, timeout_s) as is_mine:
            if not is_mine:
                raise away(f"the queue {str(self._name)!r}", timeout_s)
            own = self._bus._receivers.get(self._name)
            if own is None or own.closed:
                own = self._bus._receivers[self._name] = self.consume(timeout_s=left(deadline))
            return own

    @overload
    def receive(self, timeout_s: None = None) -> Message: ...

    @overload
    def receive(self, timeout_s: float | None) -> Message | None: ...

    def receive(self, timeout_s: float | None = None) -> Message | None:
        """The next message, or `None` if none came in time; acknowledged when this thread takes the next."""
        check_seconds("timeout_s", timeout_s, none="no end")
        deadline = deadline_of(timeout_s)
        try:
            consumer = self._consumer(timeout_s)
        except NoStoreError:
            raise
        except StoreUnavailableError:
            if timeout_s is None:
                raise
            return None
        return consumer.receive(left(deadline))

    def receive_nowait(self, count_max: int = 1000) -> list[Message]:
        """Messages that are here already. The first call begins to receive, for which it waits a second."""
        try:
            return self._consumer(OPEN_S).receive_nowait(count_max)
        except NoStoreError:
            raise
        except StoreUnavailableError:
            return []

    def __iter__(self) -> Iterator[Message]:
        return iter(self._consumer())

    def browse(
        self, *, selector: str | Selector | None = None, timeout_s: float | None = None
    ) -> Iterator[Message]:
        """The messages that wait in the queue, in order, without taking them."""
        channel = self._bus._connection.ready_channel(
            f"the queue {str(self._name)!r}", timeout_s, memory=True, destination=self._topic
        )
        return self._browse(channel, self._browsing(selector, None), timeout_s)

    def _browse(self, channel: Any, body: Body, timeout_s: float | None) -> Iterator[Message]:
        while True:
            messages, start = browsed(ask(partial(channel.request, body), timeout_s, "browse"))
            yield from messages
            if start is None:
                return
            body = body | {"start": start}

    def declare(self, *, timeout_s: float | None = None, **options: Unpack[QueueOptions]) -> None:
        """Change what the queue was told: see `Bus.queue`."""
        body = self._say("declare", **declaration(**options))
        self._bus._connection.ask_store(
            body, f"the queue {str(self._name)!r}", timeout_s, memory=True, destination=self._topic
        )

    def purge(self, *, selector: str | Selector | None = None, timeout_s: float | None = None) -> int:
        """Drop what waits in the queue: how many messages that were."""
        wanted = selector_of(selector)
        body = self._say("purge", selector=None if wanted is None else str(wanted))
        what, total = f"the queue {str(self._name)!r}", 0
        # A store drops some at a time.
        while count := int(
            self._bus._connection.ask_store(body, what, timeout_s, memory=True, destination=self._topic)[
                "messages"
            ]
        ):
            total += count
        return total

    def delete(self, *, if_empty: bool = False, timeout_s: float | None = None) -> int:
        """Forget the queue and what is in it: how many messages that were.

        Raises:
            InUseError: a program consumes, or `if_empty` and it is not.
        """
        check_flag("if_empty", if_empty)
        body = self._say("delete", if_empty=if_empty)
        return int(
            self._bus._connection.ask_store(
                body, f"the queue {str(self._name)!r}", timeout_s, memory=True, destination=self._topic
            )["messages"]
        )

    def close(self) -> None:
        """End the bus's consumer, if it has one; the last message it gave is acknowledged."""
        self._end(True)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._end(kind is None)

    def _end(self, succeeded: bool) -> None:
        own = self._bus._receivers.pop(self._name, None)
        if own is not None:
            own._end(succeeded)

    def __repr__(self) -> str:
        return f"<Queue {str(self._name)!r}>"
