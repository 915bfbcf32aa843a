"""Asking and waiting for the answer, on a temporary destination."""

from abc import ABC, abstractmethod
from types import TracebackType
from typing import Self

from shoal.errors import InvalidArgumentError, InvalidDestinationError
from shoal.jms.acknowledge_mode import AcknowledgeMode
from shoal.jms.destination import Destination, Queue, TemporaryQueue, TemporaryTopic, Topic
from shoal.jms.message import Message
from shoal.jms.session import Session


class _Requestor(ABC):
    """What both kinds do."""

    _wanted: type[Destination]

    def __init__(self, session: Session, destination: Destination) -> None:
        check_question(session.acknowledge_mode, destination, self._wanted)
        self._session = session
        self._answers_to: TemporaryTopic | TemporaryQueue = self._make(session)
        self._producer = session.create_producer(destination)
        self._consumer = session.create_consumer(self._answers_to)

    @abstractmethod
    def _make(self, session: Session) -> TemporaryTopic | TemporaryQueue:
        """Where answers come to."""

    def request(self, message: Message, *, timeout_s: float | None = None) -> Message | None:
        """Send a question and wait for its first answer.

        Its `jms_reply_to` is set to the temporary destination that the answerer sends to. The connection
        must be started.

        Returns:
            The answer; `None` if none came in time.
        """
        message.jms_reply_to = self._answers_to
        self._producer.send(message)
        return self._consumer.receive(timeout_s=timeout_s)

    def close(self) -> None:
        """End it, and its session, as Java's does."""
        if self._session._closed:
            return
        self._producer.close()
        self._consumer.close()
        self._answers_to.delete()
        self._session.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()


class TopicRequestor(_Requestor):
    """Asks on a topic, one question at a time. For the thread that has the session; closes it, too."""

    _wanted = Topic

    def _make(self, session: Session) -> TemporaryTopic:
        return session.create_temporary_topic()


class QueueRequestor(_Requestor):
    """Asks by a queue, one question at a time. For the thread that has the session; closes it, too."""

    _wanted = Queue

    def _make(self, session: Session) -> TemporaryQueue:
        return session.create_temporary_queue()


def check_question(mode: AcknowledgeMode, destination: object, wanted: type[Destination]) -> None:
    """Refuse a session and a destination that no requestor can use."""
    if not isinstance(destination, wanted):
        raise InvalidDestinationError(f"destination is {destination!r}, and must be a {wanted.__name__}")
    if mode not in (AcknowledgeMode.AUTO_ACKNOWLEDGE, AcknowledgeMode.DUPS_OK_ACKNOWLEDGE):
        raise InvalidArgumentError("a requestor's session must acknowledge by itself, and not be transacted")
