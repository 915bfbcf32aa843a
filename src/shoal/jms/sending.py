"""How a session sends: at once, later, with a commit, or by the thread that completes sends."""

import functools
import itertools
import time
from typing import TYPE_CHECKING

from shoal._core import Message as BusMessage
from shoal.bus.transactions import Transaction
from shoal.errors import (
    ClosedError,
    ResourceAllocationError,
    ShoalError,
    StoreAwayError,
    TransactionRolledBackError,
)
from shoal.jms.completion import CompletionListener, Completions
from shoal.jms.destination import Destination
from shoal.jms.failures import translated, translating
from shoal.jms.message import DeliveryMode, Message
from shoal.jms.outgoing import Outgoing, outgoing_of

if TYPE_CHECKING:
    from shoal.jms.shared import SharedNode

#: Messages that one transaction may hold until its commit; more are refused.
TRANSACTION_MAX = 100_000

_NON_PERSISTENT = DeliveryMode.NON_PERSISTENT

_own_ids = itertools.count(1)


class Sender:
    """The sending half of a session. For the thread that has the session."""

    def __init__(self, node: "SharedNode", connection: int, transacted: bool) -> None:
        self.completions = Completions()
        self._node = node
        self._bus = node.bus
        self._publish = node.bus.publish
        self._connection = connection
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
            outgoing = outgoing_of(
                message, destination, delivery_mode, priority, ttl_s, delay_s, now, self._connection
            )
            needs_store = is_queue or outgoing.persistent
            if needs_store or self.is_transacted:
                self._node.check_reliable("queues" if is_queue else "persistent and transacted messages")
            if listener is not None and needs_store and not self.is_transacted:
                _set_headers(message, destination, delivery_mode, priority, now, ttl_s, delay_s)
                completions.add(message, functools.partial(self._send_stored, message, outgoing), listener)
                return
            with translating():
                if self.is_transacted:
                    message._message_id = self._add_to_transaction(outgoing, needs_store)
                elif needs_store:
                    self._send_stored(message, outgoing)
                else:
                    message._message_id = self._send_later(outgoing)
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
        else:
            reply_to, type = message.jms_reply_to, message.jms_type
            correlation_id = message._wire_correlation_id()
        # Where nothing is to be added the properties are as they were set.
        own = message._settable
        try:
            number = self._publish(
                name,
                message._wire_body(),
                properties=own if own and message._is_as_set else message._wire_properties(),
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
        message._sent = (self._bus, number, priority, topic, now, ttl_s)

    def _own_id(self) -> str:
        """An identity for a message that has no number yet, in the form of the others."""
        return f"ID:{self._node.publisher:016x}-{self._connection}.{next(_own_ids)}"

    def _send_later(self, outgoing: Outgoing) -> str:
        """Hold a message back until its delivery time."""
        message_id = self._own_id()
        outgoing.hold(message_id)
        # What cannot be published is refused now.
        _check(outgoing)
        self._node.delays.add(outgoing.delay_s, functools.partial(self._publish_held, outgoing))
        return message_id

    def _publish_held(self, outgoing: Outgoing) -> None:
        given = outgoing.held()
        if given is not None:
            self._publish(outgoing.destination.bus_name, outgoing.body, **given)

    def _send_stored(self, message: Message, outgoing: Outgoing) -> None:
        """Send to a store, and wait until it has the message."""
        given = outgoing.given() | {"delivery_delay_s": outgoing.delay_s or None}
        name = outgoing.destination.bus_name
        if outgoing.is_queue:
            queue = self._bus.queue(name)
            message._message_id = queue.send(
                outgoing.body, **given, persistent=outgoing.persistent, group=outgoing.group
            )
        else:
            number = self._publish(name, outgoing.body, **given, persistent=True)
            message._message_id = self._bus.message_id(number, persistent=True)

    def _add_to_transaction(self, outgoing: Outgoing, needs_store: bool) -> str:
        if len(self._pending) >= TRANSACTION_MAX:
            raise ResourceAllocationError(
                f"the transaction has {TRANSACTION_MAX} messages, and takes no more: commit more often"
            )
        if not needs_store:
            message_id = self._own_id()
            outgoing.hold(message_id)
            _check(outgoing)
            self._pending.append(outgoing)
            return message_id
        transaction = self.transaction()
        given = outgoing.given() | {"delivery_delay_s": outgoing.delay_s or None}
        given |= {"persistent": outgoing.persistent, "group": outgoing.group}
        name = outgoing.destination.bus_name
        send = transaction.send if outgoing.is_queue else transaction.publish
        return send(name, outgoing.body, **given)

    def transaction(self) -> Transaction:
        """The store's transaction, begun if there is none."""
        if self._transaction is None:
            self._transaction = self._bus.transaction()
        return self._transaction

    def commit(self, acknowledged: list[BusMessage]) -> None:
        """Send what the transaction holds, and acknowledge: what the store keeps as one, and first.

        Raises:
            TransactionRolledBackError: the store refused, and nothing happened.
        """
        if acknowledged:
            for core in acknowledged:
                self.transaction().ack(core)
        transaction, self._transaction = self._transaction, None
        pending, self._pending = self._pending, []
        if transaction is not None:
            try:
                transaction.commit()
            except (TransactionRolledBackError, StoreAwayError, ClosedError):
                # Of the last two nobody knows whether it was committed.
                raise
            except ShoalError as error:
                raise TransactionRolledBackError(f"the commit failed: {error}") from error
        for outgoing in pending:
            left_s = outgoing.delay_s - (time.monotonic() - outgoing.began) if outgoing.delay_s else 0.0
            if left_s > 0:
                self._node.delays.add(left_s, functools.partial(self._publish_held, outgoing))
                continue
            with translating():
                self._publish_held(outgoing)

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


def _check(outgoing: Outgoing) -> None:
    """Refuse now what could not be published later."""
    given = outgoing.given()
    del given["connection"]
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
