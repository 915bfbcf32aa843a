"""How a session sends: at once, later, with a commit, or by the thread that completes sends."""

import contextlib
import functools
import itertools
import time
from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, Any

from shoal._core import Message as BusMessage
from shoal._core import RowsBuilder
from shoal.bus.inside import node_of
from shoal.bus.persistent import check_queue_name
from shoal.bus.store_waits import Pause, Waits
from shoal.bus.transactions import Transaction
from shoal.errors import (
    ClosedError,
    FullError,
    LeaseError,
    MessageFormatError,
    ResourceAllocationError,
    ShoalError,
    StoreUnavailableError,
    TransactionRolledBackError,
)
from shoal.jms.completion import COMPLETIONS_MAX, CompletionListener, Completions
from shoal.jms.destination import Destination
from shoal.jms.failures import translated, translating
from shoal.jms.message import NOT_ASKED, DeliveryMode, Message
from shoal.jms.outgoing import Outgoing, given_of, group_of

if TYPE_CHECKING:
    from shoal.jms.shared import SharedNode

#: How long closing a session waits for a send or a commit that is under way.
CLOSE_S = 2.0
#: Messages that one transaction may hold until its commit; more are refused.
TRANSACTION_MAX = 100_000
#: How long a commit waits for members without room before it looks whether its bus was closed.
COMMIT_TURN_S = 0.5

_NON_PERSISTENT = DeliveryMode.NON_PERSISTENT

_own_ids = itertools.count(1)


class Sender:
    """The sending half of a session. For the thread that has the session."""

    def __init__(self, node: "SharedNode", connection: int, transacted: bool, marks: dict[str, str]) -> None:
        self.completions = Completions()
        #: What its thread waits for at a store: the node may have other users, and outlive the session.
        self.waits = Waits()
        self._node = node
        self._bus = node.bus
        # The extension's own: one call less for each message.
        self._publish = node_of(node.bus).publish
        self._connection = connection
        #: What every message says beside its own properties.
        self._marks = marks
        #: Whether what is sent waits for `commit`.
        self.is_transacted = transacted
        #: What is published with the commit, where no store has to know of it.
        self._pending: list[Outgoing] = []
        #: The store's transaction, once something needs one.
        self._transaction: Transaction | None = None

    def send(
        self,
        message: Message,
        destination: Destination,
        delivery_mode: DeliveryMode,
        priority: int,
        ttl_s: float,
        delay_s: float,
        without_timestamp: bool,
        listener: CompletionListener | None,
        timeout_s: float | None = None,
    ) -> None:
        """Send a message, and set what sending sets of its header fields.

        `timeout_s` is how long to wait while members of a topic take nothing more.
        """
        completions = self.completions
        if completions._unsent:
            completions.wait_sent()
        now = int(time.time() * 1000)
        if without_timestamp and not (ttl_s or delay_s):
            now = 0
        is_queue = destination.is_queue
        if delivery_mode is _NON_PERSISTENT and not (is_queue or delay_s or self.is_transacted):
            self.publish(message, destination, priority, ttl_s, now, timeout_s)
        else:
            needs_store = is_queue or delivery_mode is not _NON_PERSISTENT
            if needs_store or self.is_transacted:
                self._node.check_reliable("queues" if is_queue else "persistent and transacted messages")
            given = given_of(message, priority, ttl_s, now, self._connection)
            if self._marks:
                given["properties"] = {**(given["properties"] or {}), **self._marks}
            if needs_store:
                given["persistent"] = delivery_mode is not _NON_PERSISTENT
                given["delivery_delay_s"] = delay_s or None
                if listener is not None and not self.is_transacted:
                    _set_headers(message, destination, delivery_mode, priority, now, ttl_s, delay_s)
                    given["properties"] = dict(given["properties"] or {})
                    with translating(), _fitting():
                        stored = self._send_ahead(message, destination, given)
                    if stored is not None:
                        completions.add(message, stored, listener, is_ahead=True)
                        return
                    body = message._frozen_body()
                    send = functools.partial(self._send_stored, message, destination, body, given)
                    completions.add(message, send, listener)
                    return
            try:
                if not needs_store and self.is_transacted:
                    given["properties"] = dict(given["properties"] or {})
                    outgoing = Outgoing(destination, message._frozen_body(), given, delay_s)
                    message._message_id = self._send_later(outgoing)
                elif not needs_store:
                    # Whoever receives it holds it back.
                    given["delivery_delay_s"] = delay_s
                    name, body = destination._bus_name, message._wire_body()
                    number = self._publish(name, body, **given, timeout_s=timeout_s)
                    message._message_id = self._bus.message_id(number, priority, topic=name)
                elif self.is_transacted:
                    message._message_id = self._add_to_transaction(destination, message._wire_body(), given)
                else:
                    with self.waits.here():
                        self._send_stored(message, destination, message._wire_body(), given)
            except ShoalError as error:
                known = translated(error)
                if known is error:
                    raise
                raise known from error
            except ValueError as error:
                raise _unfit(error) from error
            _set_headers(message, destination, delivery_mode, priority, now, ttl_s, delay_s)
        if listener is not None:
            completions.add(message, None, listener)

    def publish(
        self,
        message: Message,
        topic: Destination,
        priority: int,
        ttl_s: float,
        now: int,
        timeout_s: float | None = None,
    ) -> None:
        """Send to a topic, not persistent, at once: the way of most messages."""
        name = topic._bus_name
        if message._core is None:
            reply_to, type, correlation_id = message._reply_to, message._type, message._correlation_id
            if reply_to is NOT_ASKED:
                reply_to = None
            if type is NOT_ASKED:
                type = None
            if correlation_id is NOT_ASKED:
                correlation_id = None
        else:
            reply_to, type = message.jms_reply_to, message.jms_type
            correlation_id = message._wire_correlation_id()
        # Where nothing is to be added the properties are as they were set.
        own = message._settable
        properties = own if own and message._is_as_set else message._wire_properties()
        if self._marks:
            properties = {**(properties or {}), **self._marks}
        try:
            number = self._publish(
                name,
                message._wire_body(),
                properties=properties,
                priority=priority,
                ttl_s=ttl_s or None,
                correlation_id=correlation_id,
                reply_to=None if reply_to is None else reply_to._reply_name,
                type=type,
                timestamp=now / 1000,
                connection=self._connection,
                timeout_s=timeout_s,
            )
        except ShoalError as error:
            raise translated(error) from error
        except ValueError as error:
            raise _unfit(error) from error
        message._sent = (self._bus, number, priority, topic, now, ttl_s)

    def _own_id(self) -> str:
        """An identity for a message that has no number yet, in the form of the others."""
        return f"ID:{self._node.publisher:016x}-{self._connection}.{next(_own_ids)}"

    def _send_later(self, outgoing: Outgoing) -> str:
        """Hold a message back until the commit."""
        if len(self._pending) >= TRANSACTION_MAX:
            raise ResourceAllocationError(
                f"the transaction has {TRANSACTION_MAX} messages, and takes no more: commit more often"
            )
        message_id = self._own_id()
        outgoing.hold(message_id)
        # What cannot be published is refused now.
        _check(outgoing)
        self._check_length(outgoing)
        self._pending.append(outgoing)
        return message_id

    def _check_length(self, outgoing: Outgoing) -> None:
        """Refuse now what is too long for a commit to publish."""
        bytes_max = self._bus._connection.config.message_bytes_max
        scratch = RowsBuilder(1, 0)
        scratch.add(outgoing.destination.bus_name, outgoing.body, bytes_max=bytes_max, **outgoing.given)

    def _send_stored(
        self, message: Message, destination: Destination, body: Any, given: dict[str, Any]
    ) -> None:
        """Send to a store, and wait until it has the message."""
        if destination.is_queue:
            queue = self._bus.queue(destination.bus_name)
            message._message_id = queue.send(body, **given, group=group_of(given)).id
        else:
            message._message_id = self._publish(destination.bus_name, body, **given).id

    def _send_ahead(
        self, message: Message, destination: Destination, given: dict[str, Any]
    ) -> Callable[[], None] | None:
        """Send to a store that is there, and do not wait; what does, until the store has the message.

        `None` if there is no store yet, or an outbox, which keeps messages by itself.
        """
        name, is_queue, pause = destination.bus_name, destination.is_queue, Pause()
        topic = check_queue_name(name) if is_queue else name
        persistence = self._bus._connection.persistence(topic)
        if persistence.outbox is not None or not persistence.channel.is_ready(not given["persistent"]):
            return None
        receipt = persistence.publish(
            topic,
            message._wire_body(),
            what=f"sending to {name!r}",
            window=COMPLETIONS_MAX,
            claimed=True,
            group=group_of(given) if is_queue else None,
            **given,
        )
        message._message_id = receipt.id
        persistence.wait(int(receipt.id.rpartition("-")[2]), pause)

        def wait() -> None:
            pause.wait(None)
            pause.outcome()

        return wait

    def _add_to_transaction(self, destination: Destination, body: Any, given: dict[str, Any]) -> str:
        transaction = self._transaction or self.transaction()
        send = transaction.send if destination.is_queue else transaction.publish
        return send(destination._bus_name, body, **given, group=group_of(given))

    def transaction(self) -> Transaction:
        """The store's transaction, begun if there is none."""
        if self._transaction is None:
            with self.waits.here():
                self._transaction = self._bus.transaction()
        return self._transaction

    def commit(self, acknowledged: list[BusMessage]) -> None:
        """Send what the transaction holds, and acknowledge: what the store keeps as one, and first.

        Raises:
            TransactionRolledBackError: the store refused, and nothing happened.
        """
        self._acknowledge(acknowledged)
        transaction, self._transaction = self._transaction, None
        pending, self._pending = self._pending, []
        if transaction is not None:
            try:
                with self.waits.here():
                    transaction.commit()
            except (TransactionRolledBackError, StoreUnavailableError, ClosedError):
                # After the last two the outcome is unknown.
                raise
            except ShoalError as error:
                raise TransactionRolledBackError(f"the commit failed: {error}") from error
        self._publish_pending(pending)

    def _publish_pending(self, pending: list[Outgoing]) -> None:
        """Publish what no store has to know of: an error of one message does not keep the others back."""
        failed: ShoalError | None = None
        # The same for all of them, so that those with the same delay stay in order.
        now = time.monotonic()
        for outgoing in pending:
            try:
                with translating():
                    self._publish_whole(outgoing, now)
            except ShoalError as error:
                failed = failed or error
        if failed is not None:
            raise failed

    def _publish_whole(self, outgoing: Outgoing, now: float) -> None:
        """Publish a message of a commit. Members without room are waited for, so that it is all or none."""
        given = outgoing.held(now)
        while given is not None:
            with contextlib.suppress(FullError):
                self._publish_held(outgoing, given)
                return

    def _publish_held(self, outgoing: Outgoing, given: dict[str, Any]) -> None:
        self._publish(outgoing.destination.bus_name, outgoing.body, **given, timeout_s=COMMIT_TURN_S)

    def _acknowledge(self, acknowledged: list[BusMessage]) -> None:
        """Have the transaction acknowledge what was received; what a lost session delivered undoes it."""
        try:
            for core in acknowledged:
                self.transaction().ack(core)
        except LeaseError as error:
            self.rollback()
            raise TransactionRolledBackError(f"the transaction was rolled back: {error}") from error

    def end_waits(self) -> None:
        """The session is closed: a thread that waits for the store still waits a moment, and not for ever."""
        error = ClosedError(
            "the session was closed while the store was away: the store may or may not have what was sent or "
            "committed"
        )
        self.waits.end(error, CLOSE_S)

    def rollback(self) -> None:
        """Forget what the transaction holds."""
        self._pending = []
        transaction, self._transaction = self._transaction, None
        if transaction is not None:
            try:
                transaction.rollback()
            except ClosedError:
                # Whoever closed the bus has rolled back with it.
                return


def _unfit(error: ValueError) -> MessageFormatError:
    """What the bus cannot take of a message: too many properties, or too long ones."""
    return MessageFormatError(f"the message cannot be sent: {error}")


@contextlib.contextmanager
def _fitting() -> Iterator[None]:
    try:
        yield
    except ShoalError:
        raise
    except ValueError as error:
        raise _unfit(error) from error


def _check(outgoing: Outgoing) -> None:
    """Refuse now what could not be published later."""
    given = {name: value for name, value in outgoing.given.items() if name != "connection"}
    BusMessage(outgoing.destination.bus_name, outgoing.body, **given)


def _set_headers(
    message: Message,
    destination: Destination,
    delivery_mode: DeliveryMode,
    priority: int,
    now: int,
    ttl_s: float,
    delay_s: float,
) -> None:
    message._sent = None
    message._destination = destination
    message._delivery_mode = delivery_mode
    message._priority = priority
    message._timestamp = message._delivery_time = now
    message._expiration = now + round(ttl_s * 1000) if ttl_s else 0
    if delay_s:
        message._delivery_time = now + round(delay_s * 1000)
    if message._redelivered:
        message._redelivered = False
