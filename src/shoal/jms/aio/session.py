"""Sessions for programs with an event loop: as `shoal.jms.Session`, awaited where that waits."""

import asyncio
import functools
from collections.abc import Callable
from types import TracebackType
from typing import TYPE_CHECKING, ClassVar, Self, TypeVar

from shoal.bus.doorbell import in_own_thread
from shoal.errors import IllegalStateError, InvalidArgumentError
from shoal.jms import consumer as consumers
from shoal.jms import session as threads
from shoal.jms.acknowledge_mode import AcknowledgeMode
from shoal.jms.aio.consumer import MessageConsumer, QueueBrowser
from shoal.jms.aio.delivering import LoopDelivering
from shoal.jms.aio.producer import MessageProducer
from shoal.jms.destination import (
    Destination,
    Queue,
    TemporaryQueue,
    TemporaryTopic,
    Topic,
    checked_destination,
)
from shoal.jms.gate import Gate
from shoal.jms.making import Making
from shoal.jms.message import Message
from shoal.selector import CorrelationFilter

if TYPE_CHECKING:
    from shoal.jms.aio.connection import Connection

T = TypeVar("T")


class Session(Making):
    """Sends and receives in order. For the tasks of one event loop.

    Made by `Connection.create_session`. Leaving its `async with` block closes it.
    """

    AUTO_ACKNOWLEDGE: ClassVar = AcknowledgeMode.AUTO_ACKNOWLEDGE
    CLIENT_ACKNOWLEDGE: ClassVar = AcknowledgeMode.CLIENT_ACKNOWLEDGE
    DUPS_OK_ACKNOWLEDGE: ClassVar = AcknowledgeMode.DUPS_OK_ACKNOWLEDGE
    SESSION_TRANSACTED: ClassVar = AcknowledgeMode.SESSION_TRANSACTED

    def __init__(self, connection: "Connection", session: "LoopSession") -> None:
        self._connection = connection
        self._session = session
        self._delivering = session._delivering

    def _check(self) -> None:
        self._session._check()

    async def _run(self, work: Callable[[], T], undo: Callable[[T], object] | None = None) -> T:
        """Do what may have to wait for a store, in the order in which the session was asked."""
        self._check()
        self._delivering.doorbell.check_loop()
        return await self._delivering.worker.run(work, undo)

    async def _settle(self, work: Callable[[], None]) -> None:
        """As `_run`, for what says what becomes of messages that were delivered."""
        self._check()
        self._delivering.doorbell.check_loop()
        await self._delivering.run_settling(work)

    @property
    def transacted(self) -> bool:
        """Whether `commit` ends what it does."""
        return self._session.transacted

    @property
    def acknowledge_mode(self) -> AcknowledgeMode:
        """Who acknowledges messages."""
        return self._session.acknowledge_mode

    # Destinations.

    def create_temporary_topic(self) -> TemporaryTopic:
        """A topic of this connection alone, until it is closed."""
        return self._session.create_temporary_topic()

    async def create_temporary_queue(self) -> TemporaryQueue:
        """A queue of this connection alone, until it is closed."""
        return await self._run(self._session.create_temporary_queue)

    async def delete(self, destination: TemporaryTopic | TemporaryQueue) -> None:
        """End a temporary destination, as its own `delete` does for threads."""
        if not isinstance(destination, TemporaryTopic | TemporaryQueue):
            raise InvalidArgumentError(
                f"destination is {destination!r}, and only temporary ones can be deleted"
            )
        await self._run(destination.delete)

    # Producers and consumers.

    def create_producer(self, destination: Destination | None = None) -> MessageProducer:
        """What sends to a destination; without one, each `send` names it."""
        self._check()
        if destination is not None:
            destination = checked_destination(destination)
        mode = self._session._connection._options.default_delivery_mode
        return MessageProducer(self._session, destination, mode, self._delivering)

    async def _made(self, make: Callable[[], consumers.MessageConsumer]) -> MessageConsumer:
        # One that nobody waits for any more must not keep messages from others.
        return MessageConsumer(await self._run(make, consumers.MessageConsumer.close), self._delivering)

    async def create_consumer(
        self,
        destination: Destination,
        selector: str | None = None,
        no_local: bool = False,
        *,
        correlation: str | CorrelationFilter | None = None,
    ) -> MessageConsumer:
        """What receives from a destination from now on: see `shoal.jms.Session.create_consumer`."""
        create = self._session.create_consumer
        return await self._made(
            functools.partial(create, destination, selector, no_local, correlation=correlation)
        )

    async def create_shared_consumer(
        self,
        topic: Topic,
        name: str,
        selector: str | None = None,
        *,
        correlation: str | CorrelationFilter | None = None,
    ) -> MessageConsumer:
        """One of several consumers of a subscription: each message goes to one of them."""
        return await self._made(
            functools.partial(
                self._session.create_shared_consumer, topic, name, selector, correlation=correlation
            )
        )

    async def create_durable_consumer(
        self,
        topic: Topic,
        name: str,
        selector: str | None = None,
        no_local: bool = False,
        *,
        correlation: str | CorrelationFilter | None = None,
    ) -> MessageConsumer:
        """The consumer of a subscription that a store keeps while it has no consumer."""
        create = self._session.create_durable_consumer
        return await self._made(
            functools.partial(create, topic, name, selector, no_local, correlation=correlation)
        )

    create_durable_subscriber = create_durable_consumer

    async def create_shared_durable_consumer(
        self,
        topic: Topic,
        name: str,
        selector: str | None = None,
        *,
        correlation: str | CorrelationFilter | None = None,
    ) -> MessageConsumer:
        """One of several consumers of a subscription that a store remembers."""
        return await self._made(
            functools.partial(
                self._session.create_shared_durable_consumer, topic, name, selector, correlation=correlation
            )
        )

    async def create_browser(self, queue: Queue, selector: str | None = None) -> QueueBrowser:
        """What looks at the messages of a queue and takes none: `async for message in browser`."""
        browser = await self._run(functools.partial(self._session.create_browser, queue, selector))
        return QueueBrowser(browser, self._delivering)

    async def unsubscribe(self, name: str) -> None:
        """Forget a durable subscription of this connection."""
        await self._run(functools.partial(self._session.unsubscribe, name))

    # Acknowledging and transactions.

    async def acknowledge(self) -> None:
        """Acknowledge all that was delivered (CLIENT_ACKNOWLEDGE); nothing in other modes.

        What `message.acknowledge()` does for threads.
        """
        self._check()
        if self._session._mode is AcknowledgeMode.CLIENT_ACKNOWLEDGE:
            await self._settle(self._delivering.unacknowledged.acknowledge)

    async def recover(self) -> None:
        """Deliver again, in order, everything that is not acknowledged."""
        await self._settle(self._session.recover)

    async def commit(self) -> None:
        """Send everything that was sent, and acknowledge everything that was received, since the last time.

        A task that is cancelled while it waits does not know whether it was done.

        Raises:
            TransactionRolledBackError: it could not be done, and so nothing was.
        """
        await self._settle(self._session.commit)

    async def rollback(self) -> None:
        """Forget what was sent, and deliver again what was received, since the last time."""
        await self._settle(self._session.rollback)

    # Ends.

    async def close(self) -> None:
        """End the session, its producers and its consumers, as `shoal.jms.Session.close`."""
        if self._session._closed:
            return
        self._session._check_closeable()
        self._connection._forget(self)
        # Whoever is cancelled does not wait for it, and it goes on.
        await asyncio.shield(asyncio.ensure_future(self._end()))

    async def _end(self) -> None:
        try:
            await in_own_thread(self._session.close)
        finally:
            # Also where the loop ends before: it cancels whatever it has.
            await self._delivering.ended_in_loop()

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self.close()

    def __repr__(self) -> str:
        return f"<aio {self._session!r}>"


class LoopSession(threads.Session):
    """What is behind a session: as for threads, but for who waits."""

    _delivering: LoopDelivering

    def _make_delivering(
        self, gate: Gate, mode: AcknowledgeMode, unacknowledged_max: int, redeliveries_max: int
    ) -> LoopDelivering:
        return LoopDelivering(gate, mode, unacknowledged_max, redeliveries_max)

    def _acknowledge(self, message: Message) -> None:
        self._check()
        if self._mode is AcknowledgeMode.CLIENT_ACKNOWLEDGE:
            raise IllegalStateError("in an event loop the session acknowledges: await session.acknowledge()")
