"""Transactions: sends and acknowledgements, across topics and queues, all or none."""

import functools
import secrets
import threading
import time
from types import TracebackType
from typing import TYPE_CHECKING, Any, Literal, Self, Unpack, overload

from shoal._core import Message, RowsBuilder
from shoal.bus.elsewhere import hint
from shoal.bus.options import MessageOptions
from shoal.bus.persistent import check_queue_name
from shoal.bus.store_channel import StoreChannel
from shoal.bus.store_consumer import Inbox, offset_of, runs_of
from shoal.bus.store_errors import no_store
from shoal.bus.store_protocol import COMMIT_BYTES_MAX, REQUEST_BYTES, TEMPORARY, queue_name
from shoal.bus.store_session import Body, Done
from shoal.bus.store_waits import ask
from shoal.errors import (
    LeaseError,
    MessageTooLongError,
    StoreError,
    StoreRefusedError,
    TransactionRolledBackError,
)

if TYPE_CHECKING:
    from shoal.bus.connection import Connection
    from shoal.bus.sync import Bus

#: The first of the chains of transactions; those before are the lanes of a link and the way of plain
#: persistent messages.
FIRST_CHAIN = 6
#: What needs a store that keeps.
KEPT = "a persistent message of a transaction"
#: What a row has beside its message, at the most.
ROW_BYTES = 64


class Chains:
    """The chains of transactions: one for each that is open, used again. May be shared between threads."""

    def __init__(self, publisher: int) -> None:
        self._publisher = publisher
        self._lock = threading.Lock()
        #: By the channel whose store knows them.
        self._free: dict[StoreChannel, list[TransactionChain]] = {}
        self._next = FIRST_CHAIN

    def take(self, channel: StoreChannel) -> "TransactionChain":
        """A chain that no other open transaction has, and no other store knows."""
        with self._lock:
            if free := self._free.get(channel):
                return free.pop()
            self._next += 1
            return TransactionChain(self._publisher, self._next - 1)

    def give_back(self, channel: StoreChannel, chain: "TransactionChain") -> None:
        """A transaction is over."""
        with self._lock:
            self._free.setdefault(channel, []).append(chain)


class TransactionChain:
    """One ordered path of transactions, one behind the other."""

    def __init__(self, publisher: int, chain: int) -> None:
        self.publisher, self.chain = publisher, chain
        self.builder = RowsBuilder(publisher, chain, part_bytes=1 << 62)
        #: The last message of it that a store committed.
        self.committed = 0


class TransactionBase:
    """What transactions of threads and of asyncio have in common. Waits for nothing."""

    def __init__(self, connection: "Connection", channel: StoreChannel, id: str | None) -> None:
        if id is not None and (not isinstance(id, str) or not 0 < len(id) <= 255):
            raise ValueError(f"id is {id!r}, and must be a text of 1 to 255 characters, or None")
        #: Repeating a commit with the same id changes nothing.
        self.id = id or secrets.token_hex(16)
        #: The program chose the id, and may repeat it when it was started again.
        self._named = id is not None
        self.state: Literal["open", "committing", "committed", "rolled back"] = "open"
        self._connection, self._channel = connection, channel
        #: Its chain in the store that keeps what it is about: known with the first message.
        self._own_chain: TransactionChain | None = None
        #: What its first message is about.
        self._about: str | None = None
        self._topics = 0
        self._acks: list[tuple[Inbox, int, Message]] = []
        self._bytes_max = connection.config.message_bytes_max
        #: Callers that wait for the commit's outcome, and the outcome once it is known.
        self._waiting: list[Done] = []
        self._outcome: tuple[Body | None, BaseException | None] | None = None
        #: A commit is one request, and one frame of the store's log.
        self._rows_max = min(COMMIT_BYTES_MAX, self._bytes_max - REQUEST_BYTES)

    def publish(self, topic: str, body: Any = None, **headers: Unpack[MessageOptions]) -> str:
        """Publish a message when the transaction is committed. Arguments as in `Bus.publish`.

        Returns:
            The message's identity.
        """
        if topic.startswith("_") and not topic.startswith(TEMPORARY):
            raise ValueError(f"{topic!r} is a reserved topic, which has no part in a transaction")
        identity = self._add(topic, body, dict(headers))
        self._topics += 1
        return identity

    def send(self, queue: str, body: Any = None, **headers: Unpack[MessageOptions]) -> str:
        """Send a message into a queue when the transaction is committed. Arguments as in `Queue.send`.

        Returns:
            The message's identity.
        """
        return self._add(check_queue_name(queue), body, dict(headers))

    @property
    def _chain(self) -> TransactionChain:
        if self._own_chain is None:
            self._own_chain = self._connection.transaction_chains.take(self._channel)
        return self._own_chain

    def _bind(self, channel: StoreChannel, about: str) -> None:
        """A commit is one step of one store: everything must belong to the same."""
        if self._about is None:
            self._channel, self._about = channel, about
        elif channel is not self._channel:
            raise StoreRefusedError(
                f"A transaction is one step of one store. This one is about {_name(self._about)!r}, and "
                f"another store keeps {_name(about)!r}: use a transaction for each."
            )

    def _add(self, topic: str, body: Any, headers: dict[str, Any]) -> str:
        self._check_open()
        self._bind(self._connection.owners().of(topic), topic)
        if headers.setdefault("persistent", True) and not self._channel.is_ready(memory=False):
            self._need_store()
        builder = self._chain.builder
        before = builder.waiting_bytes
        try:
            number = builder.add(topic, body, bytes_max=self._rows_max - before - ROW_BYTES, **headers)
        except MessageTooLongError as error:
            if not before:
                raise
            raise StoreRefusedError(
                f"the transaction has messages of {before} bytes, and with one more it would be longer than "
                f"{self._rows_max} bytes, which is all that one commit may have: commit what it has, and go "
                "on in another one"
            ) from error
        return f"ID:{self._chain.publisher:016x}-{self._chain.chain}-{number}"

    def _need_store(self) -> None:
        """Refuse where there is no store: there may be queues in memory alone."""
        raise no_store(KEPT, at=self._channel.at)

    def ack(self, message: Message) -> None:
        """Acknowledge a message of any consumer of the connection when the transaction is committed."""
        self._check_open()
        delivery = message._delivery
        if delivery is not None:
            self._bind(self._connection.owners().having(delivery[0]), str(message.topic))
        with self._channel.locked():
            inbox = None if delivery is None else self._channel.inbox_of(delivery[0])
            if inbox is None:
                raise ValueError(
                    f"{message!r} was not received from a queue or a durable subscription that is open here"
                )
            inbox.offset_of(message)
            inbox.keep_back(message)
            assert inbox.lease is not None
            self._acks.append((inbox, inbox.lease, message))

    def _check_open(self) -> None:
        if self.state != "open":
            raise StoreError(f"the transaction is {self.state}: begin another one")

    def _commit(self, done: Done) -> None:
        with self._channel.locked():
            if self._outcome is not None:
                done(*self._outcome)
                return
            if self.state == "committing":
                # An earlier call waits no more: this one learns the outcome.
                self._waiting.append(done)
                return
        self._check_open()
        taken = self._chain.builder.take()
        if taken is None and not self._acks:
            self._finish("committed")
            done({}, None)
            return
        self.state = "committing"
        self._waiting.append(done)
        acks: dict[tuple[int, int], list[int]] = {}
        for inbox, lease, message in self._acks:
            acks.setdefault((inbox.number, lease), []).append(offset_of(message))
        body: Body = {
            "op": "commit",
            "id": self.id,
            "publisher": self._chain.publisher,
            "chain": self._chain.chain,
            "topics": self._topics,
            "acks": [[consumer, lease, runs_of(offsets)] for (consumer, lease), offsets in acks.items()],
        }
        if self._named:
            body["named"] = True
        if taken is not None:
            body["rows"], body["since"] = taken[0], time.monotonic()
            body["after"] = self._chain.committed

        def answered(answer: Body | None, error: BaseException | None) -> None:
            if error is None:
                self._chain.committed = self._chain.committed if taken is None else taken[2]
                for inbox, lease, message in self._acks:
                    if inbox.lease == lease and inbox.has_in_hand(message):
                        inbox.give_up([offset_of(message)])
                self._finish("committed")
            elif isinstance(error, StoreError):
                self._undo()
                if isinstance(error, LeaseError):
                    error = TransactionRolledBackError(f"the transaction was rolled back: {error}")
            self._outcome = (answer, error)
            for each in self._waiting:
                each(answer, error)
            self._waiting.clear()

        self._channel.request(body, answered)

    def _roll_back(self) -> None:
        if self.state == "committing":
            raise StoreError(
                f"the outcome of commit {self.id} is not known yet, so it cannot be rolled back: call "
                "commit() again, which waits for the outcome"
            )
        if self.state == "open":
            self._undo()

    def _undo(self) -> None:
        self._chain.builder.take()
        with self._channel.locked():
            for inbox, lease, message in self._acks:
                if inbox.lease == lease and not inbox.closed and inbox.has_in_hand(message):
                    self._channel.release(inbox, message, 0.0)
        self._finish("rolled back")

    def _finish(self, state: Literal["committed", "rolled back"]) -> None:
        self.state = state
        self._acks.clear()
        if self._own_chain is not None:
            self._connection.transaction_chains.give_back(self._channel, self._own_chain)


hint(
    TransactionBase,
    {
        "queue": "send(queue, body) and receive(queue) take the name of the queue",
        "subscribe": "ack(message) acknowledges in the transaction what a subscription received",
        "abort": "rollback() undoes it",
    },
)


def _name(destination: str) -> str:
    return queue_name(destination) or destination


class Transaction(TransactionBase):
    """Sends and acknowledgements that are done together, or not at all. For one thread at a time.

    Made by `Bus.transaction`. Use it in a `with` statement: it commits when the block ends, and rolls back
    when it raises. No program sees any of it before it is durable.
    """

    def __init__(
        self, bus: "Bus", channel: StoreChannel, id: str | None, timeout_s: float | None = None
    ) -> None:
        super().__init__(bus._connection, channel, id)
        self._bus, self._timeout_s = bus, timeout_s

    def _need_store(self) -> None:
        patience_s = self._timeout_s
        channel = self._channel
        when_ready = functools.partial(channel.when_ready, KEPT, patience_s=patience_s)
        ask(when_ready, patience_s, KEPT, why=channel.trouble)

    @overload
    def receive(self, queue: str, timeout_s: None = None) -> Message: ...

    @overload
    def receive(self, queue: str, timeout_s: float | None) -> Message | None: ...

    def receive(self, queue: str, timeout_s: float | None = None) -> Message | None:
        """Receive a message from a queue; the commit acknowledges it, a rollback gives it back.

        Args:
            queue: the queue's name.
            timeout_s: how long to wait; `None` waits without limit.

        Returns:
            The message, or `None` if none came in time.
        """
        self._check_open()
        message = self._bus.queue(queue).receive(timeout_s)
        if message is not None:
            self.ack(message)
        return message

    def commit(self, *, timeout_s: float | None = None) -> None:
        """Do everything, and wait until it is durable.

        Raises:
            TransactionRolledBackError: a message it acknowledges was given to another consumer meanwhile.
            StoreFullError: the store takes no more. It was rolled back.
            StoreUnavailableError: the store did not answer in time; it may still commit, now or later. Call
                `commit` again to learn the outcome; `rollback` is refused until it is known.
        """
        channel = self._channel
        ask(self._commit, timeout_s, f"the commit {self.id}", hear=channel.hear, why=channel.trouble)

    def rollback(self) -> None:
        """Do nothing of it; what it would have acknowledged is delivered again, marked as redelivered.

        Raises:
            StoreError: a commit was asked for, and its outcome is not known yet: call `commit` again.
        """
        self._roll_back()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self.state != "open":
            return
        if kind is None:
            self.commit()
        else:
            self.rollback()

    def __repr__(self) -> str:
        return f"<Transaction {self.id} {self.state}>"
