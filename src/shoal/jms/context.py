"""The simplified API: a connection and a session in one."""

import threading
from types import TracebackType
from typing import ClassVar, Self

from shoal.jms.acknowledge_mode import AcknowledgeMode
from shoal.jms.arguments import check_flag
from shoal.jms.browser import QueueBrowser
from shoal.jms.connection import Connection, ConnectionMetaData, ExceptionListener
from shoal.jms.consumer import MessageConsumer
from shoal.jms.context_consumer import JMSConsumer
from shoal.jms.context_producer import JMSProducer
from shoal.jms.destination import Destination, Queue, TemporaryQueue, TemporaryTopic, Topic
from shoal.jms.making import Making
from shoal.selector import CorrelationFilter


class _Shared:
    """A connection that several contexts use; the last of them closes it."""

    def __init__(self, connection: Connection) -> None:
        self.connection = connection
        self.lock = threading.Lock()
        self.users = 0


class JMSContext(Making):
    """A connection and a session in one. For one thread at a time; any thread may close it.

    Made by `ConnectionFactory.create_context`. Making the first consumer starts it, unless `auto_start` is
    false. Leaving its `with` block closes it.
    """

    AUTO_ACKNOWLEDGE: ClassVar = AcknowledgeMode.AUTO_ACKNOWLEDGE
    CLIENT_ACKNOWLEDGE: ClassVar = AcknowledgeMode.CLIENT_ACKNOWLEDGE
    DUPS_OK_ACKNOWLEDGE: ClassVar = AcknowledgeMode.DUPS_OK_ACKNOWLEDGE
    SESSION_TRANSACTED: ClassVar = AcknowledgeMode.SESSION_TRANSACTED

    def __init__(self, shared: _Shared, session_mode: int) -> None:
        self._shared = shared
        self._connection = shared.connection
        # The client id may be set until something is done, and making this is not the program's doing.
        used = self._connection._used
        self._session = self._connection.create_session(session_mode)
        self._connection._used = used
        self._auto_start = True
        with shared.lock:
            shared.users += 1

    @classmethod
    def _first(cls, connection: Connection, session_mode: int) -> Self:
        try:
            # Not a bool, which would be Java's other way of saying it.
            return cls(_Shared(connection), int(session_mode))
        except BaseException:
            connection.close()
            raise

    def create_context(self, session_mode: int = AcknowledgeMode.AUTO_ACKNOWLEDGE) -> "JMSContext":
        """Another session on the same connection."""
        self._session._check()
        self._connection._used = True
        return JMSContext(self._shared, int(session_mode))

    def _check(self) -> None:
        self._session._check()

    def _begun(self) -> None:
        self._session._check()
        self._connection._used = True

    def _made(self, consumer: MessageConsumer) -> JMSConsumer:
        if self._auto_start:
            self._connection.start()
        return JMSConsumer(consumer)

    @property
    def auto_start(self) -> bool:
        """Whether making a consumer starts the connection."""
        return self._auto_start

    @auto_start.setter
    def auto_start(self, auto_start: bool) -> None:
        self._session._check()
        check_flag("auto_start", auto_start)
        self._auto_start = auto_start

    @property
    def client_id(self) -> str | None:
        """What names the program to a store. Set it before anything else, once."""
        self._session._check()
        return self._connection.client_id

    @client_id.setter
    def client_id(self, client_id: str) -> None:
        self._session._check()
        self._connection.client_id = client_id

    @property
    def metadata(self) -> ConnectionMetaData:
        """What provider this is."""
        self._session._check()
        return self._connection.metadata

    @property
    def exception_listener(self) -> ExceptionListener | None:
        """Gets problems that belong to no call."""
        self._session._check()
        return self._connection.exception_listener

    @exception_listener.setter
    def exception_listener(self, listener: ExceptionListener | None) -> None:
        self._session._check()
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

    def stop(self) -> None:
        """Deliver nothing until `start`."""
        self._begun()
        self._connection.stop()

    def create_producer(self) -> JMSProducer:
        """What sends."""
        self._begun()
        return JMSProducer(self._session.create_producer())

    def create_consumer(
        self,
        destination: Destination,
        selector: str | None = None,
        no_local: bool = False,
        *,
        correlation: str | CorrelationFilter | None = None,
    ) -> JMSConsumer:
        """What receives from a destination from now on: see `Session.create_consumer`."""
        self._begun()
        return self._made(
            self._session.create_consumer(destination, selector, no_local, correlation=correlation)
        )

    def create_shared_consumer(
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
            self._session.create_shared_consumer(topic, name, selector, correlation=correlation)
        )

    def create_durable_consumer(
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
            self._session.create_durable_consumer(topic, name, selector, no_local, correlation=correlation)
        )

    def create_shared_durable_consumer(
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
            self._session.create_shared_durable_consumer(topic, name, selector, correlation=correlation)
        )

    def create_browser(self, queue: Queue, selector: str | None = None) -> QueueBrowser:
        """What looks at the messages of a queue and takes none."""
        self._begun()
        if self._auto_start:
            self._connection.start()
        return self._session.create_browser(queue, selector)

    def unsubscribe(self, name: str) -> None:
        """Forget a durable subscription of this connection."""
        self._begun()
        self._session.unsubscribe(name)

    def create_temporary_topic(self) -> TemporaryTopic:
        """A topic of this connection alone."""
        self._begun()
        return self._session.create_temporary_topic()

    def create_temporary_queue(self) -> TemporaryQueue:
        """A queue of this connection alone."""
        self._begun()
        return self._session.create_temporary_queue()

    def acknowledge(self) -> None:
        """Acknowledge all that this context has delivered (CLIENT_ACKNOWLEDGE); nothing in other modes."""
        self._session._check()
        if self._session._mode is AcknowledgeMode.CLIENT_ACKNOWLEDGE:
            self._session._unacknowledged.acknowledge()

    def recover(self) -> None:
        """Deliver again, in order, everything that is not acknowledged."""
        self._session.recover()

    def commit(self) -> None:
        """Send and acknowledge everything since the last time."""
        self._session.commit()

    def rollback(self) -> None:
        """Forget and deliver again everything since the last time."""
        self._session.rollback()

    def close(self) -> None:
        """End it, and with the last context of a connection that, too. Closing again does nothing."""
        if self._session._closed:
            return
        self._session._check_closeable()
        with self._shared.lock:
            self._shared.users -= 1
            is_last = self._shared.users == 0
        if is_last:
            self._connection.close()
        else:
            self._session.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def __repr__(self) -> str:
        return f"<JMSContext {self._session!r}>"
