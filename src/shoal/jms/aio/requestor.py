"""Asking and waiting for the answer in an event loop, on a temporary destination."""

from types import TracebackType
from typing import Self

from shoal.jms.aio.consumer import MessageConsumer
from shoal.jms.aio.session import Session
from shoal.jms.destination import Destination, Queue, TemporaryQueue, TemporaryTopic, Topic
from shoal.jms.java_names import JavaNames
from shoal.jms.message import Message
from shoal.jms.requestor import check_question


class _Requestor(JavaNames):
    """What both kinds do."""

    _wanted: type[Destination]

    def __init__(self, session: Session, destination: Destination) -> None:
        check_question(session.acknowledge_mode, destination, self._wanted)
        self._session = session
        self._producer = session.create_producer(destination)
        self._answers_to: TemporaryTopic | TemporaryQueue | None = None
        self._consumer: MessageConsumer | None = None

    async def _answers(self) -> MessageConsumer:
        if self._consumer is None:
            if self._wanted is Topic:
                self._answers_to = self._session.create_temporary_topic()
            else:
                self._answers_to = await self._session.create_temporary_queue()
            self._consumer = await self._session.create_consumer(self._answers_to)
        return self._consumer

    async def request(self, message: Message, *, timeout_s: float | None = None) -> Message | None:
        """Send a question and wait for its first answer; `None` if none came in time.

        One at a time. The connection must be started.
        """
        answers = await self._answers()
        message.jms_reply_to = self._answers_to
        await self._producer.send(message)
        return await answers.receive(timeout_s=timeout_s)

    async def close(self) -> None:
        """End it, and its session, as Java's does."""
        if self._session._session._closed:
            return
        await self._producer.close()
        if self._consumer is not None and self._answers_to is not None:
            await self._consumer.close()
            await self._session.delete(self._answers_to)
        await self._session.close()

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self.close()


class TopicRequestor(_Requestor):
    """Asks on a topic, one question at a time. Closes its session, too."""

    _wanted = Topic


class QueueRequestor(_Requestor):
    """Asks by a queue, one question at a time. Closes its session, too."""

    _wanted = Queue
