"""Sessions: what makes messages, producers and consumers, and knows what is not acknowledged or committed."""

from collections.abc import Callable
from types import TracebackType
from typing import TYPE_CHECKING, Any, ClassVar, Self

from shoal.errors import IllegalStateError, InvalidDestinationError, TransactionRolledBackError
from shoal.jms.acknowledge_mode import AcknowledgeMode
from shoal.jms.arguments import check_flag
from shoal.jms.browser import QueueBrowser
from shoal.jms.completion import Completions
from shoal.jms.consumer import MessageConsumer, MessageListener
from shoal.jms.correlating import selector_of
from shoal.jms.delivering import Delivering
from shoal.jms.destination import (
    Destination,
    Queue,
    TemporaryQueue,
    TemporaryTopic,
    Topic,
    checked_destination,
)
from shoal.jms.failures import check_here, closed_error, translating
from shoal.jms.gate import Gate
from shoal.jms.making import Making
from shoal.jms.message import Message
from shoal.jms.producer import MessageProducer
from shoal.jms.sending import Sender
from shoal.jms.subscribing import Subscribing
from shoal.selector import CorrelationFilter

if TYPE_CHECKING:
    from shoal.jms.connection import Connection


class Session(Making):
    """Sends and receives in order. For one thread at a time; any thread may close it.

    Made by `Connection.create_session`. Leaving its `with` block closes it.
    """

    AUTO_ACKNOWLEDGE: ClassVar = AcknowledgeMode.AUTO_ACKNOWLEDGE
    CLIENT_ACKNOWLEDGE: ClassVar = AcknowledgeMode.CLIENT_ACKNOWLEDGE
    DUPS_OK_ACKNOWLEDGE: ClassVar = AcknowledgeMode.DUPS_OK_ACKNOWLEDGE
    SESSION_TRANSACTED: ClassVar = AcknowledgeMode.SESSION_TRANSACTED

    def __init__(self, connection: "Connection", mode: AcknowledgeMode) -> None:
        self._connection = connection
        self._mode = mode
        self._closed = False
        #: Closing, or closed: then every call has to look closer.
        self._shut = False
        options = connection._options
        self._sender = Sender(
            connection._node,
            connection._number,
            mode is AcknowledgeMode.SESSION_TRANSACTED,
            connection._marks,
        )
        self._delivering = self._make_delivering(
            connection._gate, mode, options.unacknowledged_max, options.redeliveries_max
        )
        self._unacknowledged = self._delivering.unacknowledged
        self._subscribing = Subscribing(connection, self._sender.waits)
        self._receive = self._delivering.receive
        self._close_consumer = self._delivering.close_consumer

    def _make_delivering(
        self, gate: Gate, mode: AcknowledgeMode, unacknowledged_max: int, redeliveries_max: int
    ) -> Delivering:
        return Delivering(gate, mode, unacknowledged_max, redeliveries_max)

    def _check(self) -> None:
        """Refuse to work once it is closed; a listener that is under way may work until it returns."""
        check_here(self._connection._birth)
        if self._closed or (self._shut and not self._delivering.is_here):
            raise closed_error("session")

    def _set_listener(
        self,
        consumer: MessageConsumer,
        listener: MessageListener | None,
        call: Callable[[Message], object] | None,
    ) -> None:
        self._delivering.set_listener(consumer, listener, call)

    @property
    def transacted(self) -> bool:
        """Whether `commit` ends what it does."""
        self._check()
        return self._mode is AcknowledgeMode.SESSION_TRANSACTED

    @property
    def acknowledge_mode(self) -> AcknowledgeMode:
        """Who acknowledges messages."""
        self._check()
        return self._mode

    def create_temporary_topic(self) -> TemporaryTopic:
        """A topic of this connection alone, until it is closed."""
        self._check()
        return self._connection._make_temporary_topic()

    def create_temporary_queue(self) -> TemporaryQueue:
        """A queue of this connection alone, until it is closed."""
        self._check()
        return self._connection._make_temporary_queue(self._sender.waits)

    # Producers and consumers.

    def create_producer(self, destination: Destination | None = None) -> MessageProducer:
        """What sends to a destination; without one, each `send` names it."""
        self._check()
        if destination is not None:
            destination = checked_destination(destination)
        return MessageProducer(self, destination, self._connection._options.default_delivery_mode)

    def create_consumer(
        self,
        destination: Destination,
        selector: str | None = None,
        no_local: bool = False,
        *,
        correlation: str | CorrelationFilter | None = None,
    ) -> MessageConsumer:
        """What receives from a destination from now on.

        Args:
            destination: a topic, perhaps with wildcards, or a queue.
            selector: only messages for which this condition is true; `None` and `""` are all of them.
            no_local: leave out what this connection sends. Topics only.
            correlation: only messages with such a correlation id, `"[#7;#13]"`. Where a store serves the
                consumer, for a queue or a named subscription, ranges are of numbers, without leading zeros,
                and take in 1,024 ids at the most.

        Raises:
            InvalidDestinationError: it is none, or a temporary one of another connection.
            InvalidSelectorError: the selector or the correlation filter is none.
        """
        self._check()
        check_flag("no_local", no_local)
        where = checked_destination(destination)
        feed = self._subscribing.plain(where, selector or None, no_local, correlation)
        return self._added(where, selector, feed)

    def create_shared_consumer(
        self,
        topic: Topic,
        name: str,
        selector: str | None = None,
        *,
        correlation: str | CorrelationFilter | None = None,
    ) -> MessageConsumer:
        """One of several consumers of a subscription: each message goes to one of them."""
        self._check()
        where = checked_topic(topic)
        return self._added(
            where,
            selector,
            self._subscribing.shared(where, name, selector_of(selector or None, correlation), durable=False),
        )

    def create_durable_consumer(
        self,
        topic: Topic,
        name: str,
        selector: str | None = None,
        no_local: bool = False,
        *,
        correlation: str | CorrelationFilter | None = None,
    ) -> MessageConsumer:
        """The consumer of a subscription that a store keeps while it has no consumer.

        Another topic, selector or `no_local` under the same name begins a new subscription.

        Raises:
            IllegalStateError: the connection has no client id, or a consumer of this name is active.
            ResourceAllocationError: there is no store.
        """
        self._check()
        check_flag("no_local", no_local)
        where = checked_topic(topic)
        return self._added(
            where,
            selector,
            self._subscribing.durable(where, name, selector_of(selector or None, correlation), no_local),
        )

    create_durable_subscriber = create_durable_consumer

    def create_shared_durable_consumer(
        self,
        topic: Topic,
        name: str,
        selector: str | None = None,
        *,
        correlation: str | CorrelationFilter | None = None,
    ) -> MessageConsumer:
        """One of several consumers of a subscription that a store remembers."""
        self._check()
        where = checked_topic(topic)
        return self._added(
            where,
            selector,
            self._subscribing.shared(where, name, selector_of(selector or None, correlation), durable=True),
        )

    def _added(self, destination: Destination, selector: str | None, feed: Any) -> MessageConsumer:
        consumer = MessageConsumer(self, destination, selector or None, feed)
        with self._connection._gate.lock:
            if not self._delivering.ended:
                self._delivering.add(consumer)
                return consumer
        feed.close()
        raise closed_error("session")

    def create_browser(self, queue: Queue, selector: str | None = None) -> QueueBrowser:
        """What looks at the messages of a queue and takes none."""
        self._check()
        if not isinstance(queue, Queue):
            raise InvalidDestinationError(
                f"queue is {queue!r}, and must be a Queue: only queues can be browsed"
            )
        return QueueBrowser(self, queue, selector or None)

    def unsubscribe(self, name: str) -> None:
        """Forget a durable subscription of this connection.

        Raises:
            IllegalStateError: a consumer of it is active, or a message of it is not acknowledged.
            InvalidDestinationError: there is none of this name.
        """
        self._check()
        self._subscribing.unsubscribe(name)

    # Acknowledging and transactions.

    def _acknowledge(self, message: Message) -> None:
        self._check()
        if self._mode is AcknowledgeMode.CLIENT_ACKNOWLEDGE:
            self._unacknowledged.acknowledge()

    def recover(self) -> None:
        """Deliver again, in order, everything that is not acknowledged.

        Raises:
            IllegalStateError: the session is transacted: use `rollback`.
        """
        self._check()
        if self._mode is AcknowledgeMode.SESSION_TRANSACTED:
            raise IllegalStateError("a transacted session is not recovered, but rolled back: call rollback")
        self._unacknowledged.recover()

    def _check_transacted(self, what: str) -> None:
        self._check()
        if self._mode is not AcknowledgeMode.SESSION_TRANSACTED:
            raise IllegalStateError(f"{what} is for transacted sessions: make one with SESSION_TRANSACTED")
        if self._sender.completions.is_here:
            raise IllegalStateError(f"a completion listener cannot {what} its own session")

    def commit(self) -> None:
        """Send everything that was sent, and acknowledge everything that was received, since the last time.

        Raises:
            TransactionRolledBackError: it could not be done, and so nothing was.
        """
        self._check_transacted("commit")
        self._sender.completions.wait_done()
        try:
            with translating():
                self._sender.commit(self._unacknowledged.committed())
        except TransactionRolledBackError:
            self._unacknowledged.recover()
            raise
        except BaseException:
            # It is committed, or will be, or the store delivers again: this session has no part in it any
            # more.
            self._unacknowledged.forget()
            raise
        self._unacknowledged.forget()

    def rollback(self) -> None:
        """Forget what was sent, and deliver again what was received, since the last time."""
        self._check_transacted("rollback")
        self._sender.completions.wait_done()
        with translating():
            self._sender.rollback()
        self._unacknowledged.recover()

    # Ends.

    def close(self) -> None:
        """End the session, its producers and its consumers.

        Waits until a listener that runs has returned, calls of `receive` have, and every send is completed.
        A `send` or `commit` that waits for a store raises `IllegalStateError` after two seconds. Rolls back a
        transaction; acknowledges nothing. Closing again does nothing.

        Raises:
            IllegalStateError: a listener of the session, or a completion listener, tries to close it.
        """
        if self._closed:
            return
        self._check_closeable()
        with self._connection._gate.lock:
            self._shut = True
        self._end()
        self._connection._forget(self)

    def _check_closeable(self) -> None:
        if self._delivering.is_here:
            raise IllegalStateError("a message listener cannot close or stop its own session or connection")
        if self._sender.completions.is_here:
            raise IllegalStateError("a completion listener cannot close its own session or connection")

    def _end(self) -> None:
        """What closing the session, or its connection, comes down to."""
        self._delivering.end()
        self._sender.end_waits()
        self._sender.completions.close()
        self._sender.rollback()
        self._closed = True

    def _forked(self) -> None:
        """This process is a forked child, which has none of the session's threads."""
        self._closed = self._shut = True
        self._delivering.forked()
        self._sender.completions = Completions()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def __repr__(self) -> str:
        return f"<Session {self._mode.name}{' closed' if self._closed else ''}>"


def checked_topic(topic: object) -> Topic:
    """A topic that a named subscription can be of."""
    if not isinstance(topic, Topic):
        raise InvalidDestinationError(f"topic is {topic!r}, and must be a Topic")
    if topic._has_owner:
        raise InvalidDestinationError(f"{topic} ends with its connection: it can have no named subscription")
    return topic
