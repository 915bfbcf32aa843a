"""The simplified API for programs with an event loop: a connection and a session in one."""

from types import TracebackType
from typing import ClassVar, Self

from shoal.jms.acknowledge_mode import AcknowledgeMode
from shoal.jms.aio.connection import Connection
from shoal.jms.aio.consumer import JMSConsumer, MessageConsumer, QueueBrowser
from shoal.jms.aio.producer import JMSProducer
from shoal.jms.arguments import check_flag
from shoal.jms.connection import ConnectionMetaData, ExceptionListener
from shoal.jms.destination import Destination, Queue, TemporaryQueue, TemporaryTopic, Topic
from shoal.jms.making import Making
from shoal.selector import CorrelationFilter


class JMSContext(Making):
    """A connection and a session in one. For the tasks of one event loop.

    Made by `ConnectionFactory.create_context`. Making the first consumer starts it, unless `auto_start` is
    false. Leaving its `async with` block closes it.
    """

    AUTO_ACKNOWLEDGE: ClassVar = AcknowledgeMode.AUTO_ACKNOWLEDGE
    CLIENT_ACKNOWLEDGE: ClassVar = AcknowledgeMode.CLIENT_ACKNOWLEDGE
    DUPS_OK_ACKNOWLEDGE: ClassVar = AcknowledgeMode.DUPS_OK_ACKNOWLEDGE
    SESSION_TRANSACTED: ClassVar = AcknowledgeMode.SESSION_TRANSACTED

    def __init__(self, connection: Connection, users: "set[JMSContext]", session_mode: int) -> None:
        self._connection = connection
        #: The contexts of the connection; the last of them closes it.
        self._users = users
        # The client id may be set until something is done, and making this is not the program's doing.
        used = connection._connection._used
        # Not a bool, which would be Java's other way of saying it.
        self._session = connection.create_session(int(session_mode))
        connection._connection._used = used
        self._auto_start = True
        users.add(self)

    def create_context(self, session_mode: int = AcknowledgeMode.AUTO_ACKNOWLEDGE) -> "JMSContext":
        """Another session on the same connection."""
        self._begun()
        return JMSContext(self._connection, self._users, session_mode)

    def _check(self) -> None:
        self._session._check()

    def _begun(self) -> None:
        self._check()
        self._connection._connection._used = True

    def _made(self, consumer: MessageConsumer) -> JMSConsumer:
        if self._auto_start:
            self._connection.start()
        return JMSConsumer(consumer._consumer, consumer._delivering)

    @property
    def auto_start(self) -> bool:
        """Whether making a consumer starts the connection."""
        return self._auto_start

    @auto_start.setter
    def auto_start(self, auto_start: bool) -> None:
        self._check()
        check_flag("auto_start", auto_start)
        self._auto_start = auto_start

    @property
    def client_id(self) -> str | None:
        """What names the program to a store."""
        self._check()
        return self._connection.client_id

    async def set_client_id(self, client_id: str) -> None:
        """Name the program to a store: once, before anything else."""
        self._check()
        await self._connection.set_client_id(client_id)

    @property
    def metadata(self) -> ConnectionMetaData:
        """What provider this is."""
        self._check()
        return self._connection.metadata

    @property
    def exception_listener(self) -> ExceptionListener | None:
        """Gets problems that belong to no call."""
        self._check()
        return self._connection.exception_listener

    @exception_listener.setter
    def exception_listener(self, listener: ExceptionListener | None) -> None:
        self._check()
        self._connection.exception_listener = listener

    @property
    def session_mode(self) -> AcknowledgeMode:
        """Who acknowledges messages."""
        return self._session.acknowledge_mode

    @property
    def transacted(self) -> bool:
        """Whether `commit` ends what it does."""
        return self._session.transacted

    def start(self) -> None:
        """Deliver messages from now on."""
        self._begun()
        self._connection.start()

    async def stop(self) -> None:
        """Deliver nothing until `start`."""
        self._begun()
        await self._connection.stop()

    def create_producer(self) -> JMSProducer:
        """What sends."""
        self._begun()
        return JMSProducer(self._session.create_producer())

    async def create_consumer(
        self,
        destination: Destination,
        selector: str | None = None,
        no_local: bool = False,
        *,
        correlation: str | CorrelationFilter | None = None,
    ) -> JMSConsumer:
        """What receives from a destination from now on: see `shoal.jms.Session.create_consumer`."""
        self._begun()
        session = self._session
        return self._made(
            await session.create_consumer(destination, selector, no_local, correlation=correlation)
        )

    async def create_shared_consumer(
        self,
        topic: Topic,
        name: str,
        selector: str | None = None,
        *,
        correlation: str | CorrelationFilter | None = None,
    ) -> JMSConsumer:
        """One of several consumers of a subscription: each message goes to one of them."""
        self._begun()
        return self._made(
            await self._session.create_shared_consumer(topic, name, selector, correlation=correlation)
        )

    async def create_durable_consumer(
        self,
        topic: Topic,
        name: str,
        selector: str | None = None,
        no_local: bool = False,
        *,
        correlation: str | CorrelationFilter | None = None,
    ) -> JMSConsumer:
        """The consumer of a subscription that a store keeps while it has no consumer."""
        self._begun()
        return self._made(
            await self._session.create_durable_consumer(
                topic, name, selector, no_local, correlation=correlation
            )
        )

    async def create_shared_durable_consumer(
        self,
        topic: Topic,
        name: str,
        selector: str | None = None,
        *,
        correlation: str | CorrelationFilter | None = None,
    ) -> JMSConsumer:
        """One of several consumers of a subscription that a store remembers."""
        self._begun()
        return self._made(
            await self._session.create_shared_durable_consumer(topic, name, selector, correlation=correlation)
        )

    async def create_browser(self, queue: Queue, selector: str | None = None) -> QueueBrowser:
        """What looks at the messages of a queue and takes none."""
        self._begun()
        if self._auto_start:
            self._connection.start()
        return await self._session.create_browser(queue, selector)

    async def unsubscribe(self, name: str) -> None:
        """Forget a durable subscription of this connection."""
        self._begun()
        await self._session.unsubscribe(name)

    def create_temporary_topic(self) -> TemporaryTopic:
        """A topic of this connection alone."""
        self._begun()
        return self._session.create_temporary_topic()

    async def create_temporary_queue(self) -> TemporaryQueue:
        """A queue of this connection alone."""
        self._begun()
        return await self._session.create_temporary_queue()

    async def delete(self, destination: TemporaryTopic | TemporaryQueue) -> None:
        """End a temporary destination."""
        await self._session.delete(destination)

    async def acknowledge(self) -> None:
        """Acknowledge all that this context has delivered (CLIENT_ACKNOWLEDGE); nothing in other modes."""
        await self._session.acknowledge()

    async def recover(self) -> None:
        """Deliver again, in order, everything that is not acknowledged."""
        await self._session.recover()

    async def commit(self) -> None:
        """Send and acknowledge everything since the last time."""
        await self._session.commit()

    async def rollback(self) -> None:
        """Forget and deliver again everything since the last time."""
        await self._session.rollback()

    async def close(self) -> None:
        """End it, and with the last context of a connection that, too. Closing again does nothing."""
        if self not in self._users:
            return
        self._session._session._check_closeable()
        self._users.remove(self)
        await (self._session.close() if self._users else self._connection.close())

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self.close()

    def __repr__(self) -> str:
        return f"<aio JMSContext {self._session!r}>"
