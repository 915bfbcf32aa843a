"""Consumers and browsers for programs with an event loop."""

import contextvars
import functools
import itertools
from collections.abc import AsyncIterator, Iterator
from types import TracebackType
from typing import TYPE_CHECKING, Never, Self, TypeVar

from shoal.bus.doorbell import in_own_thread
from shoal.errors import MessageFormatError
from shoal.jms import browser as browsers
from shoal.jms import consumer as threads
from shoal.jms.arguments import refuse_milliseconds, until_of
from shoal.jms.consumer import MessageListener, body_of
from shoal.jms.destination import Queue
from shoal.jms.java_names import JavaNames
from shoal.jms.message import Message

if TYPE_CHECKING:
    from shoal.jms.aio.delivering import LoopDelivering

#: Messages that a browser fetches at once.
BROWSE_MAX = 100

T = TypeVar("T")


class MessageConsumer(JavaNames):
    """Receives messages of one destination: `async for message in consumer`, until it is closed."""

    def __init__(self, consumer: threads.MessageConsumer, delivering: "LoopDelivering") -> None:
        self._consumer = consumer
        self._delivering = delivering

    @property
    def message_selector(self) -> str | None:
        """The selector; `None` if there is none."""
        return self._consumer.message_selector

    @property
    def message_listener(self) -> MessageListener | None:
        """What is called with every message, one at a time in a session: a function, a coroutine function, or
        an object with such an `on_message`.

        Setting it to `None` ends that.
        """
        return self._consumer.message_listener

    @message_listener.setter
    def message_listener(self, listener: MessageListener | None) -> None:
        self._consumer.message_listener = listener

    async def receive(self, *time_ms: Never, timeout_s: float | None = None) -> Message | None:
        """The next message; `None` if none came in time, or the consumer was closed meanwhile.

        Cancelling it loses nothing: the message is the next one then.
        """
        if time_ms:
            refuse_milliseconds("receive", time_ms)
        until = until_of(timeout_s)
        while (entry := await self._delivering.take_next(self._consumer, until)) is not None:
            if (message := self._delivering.delivered(self._consumer, entry)) is not None:
                return message
        return None

    async def receive_no_wait(self) -> Message | None:
        """The next message if it is here already."""
        return await self.receive(timeout_s=0.0)

    async def close(self) -> None:
        """End it, once its listener or a call of `receive` that is under way has ended."""
        delivering = self._delivering
        if not self._consumer._closed and not delivering.ended:
            here = contextvars.copy_context()
            await in_own_thread(lambda: here.run(self._consumer.close))

    def __aiter__(self) -> AsyncIterator[Message]:
        self._consumer._check()
        return self._messages()

    async def _messages(self) -> AsyncIterator[Message]:
        consumer = self._consumer
        while not (consumer._closed or consumer._session._shut):
            message = await self.receive()
            if message is None:
                return
            yield message

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self.close()

    def __repr__(self) -> str:
        return f"<aio {self._consumer!r}>"


class JMSConsumer(MessageConsumer):
    """Receives messages, or their bodies. Made by a context."""

    async def receive_body(self, kind: type[T], *time_ms: Never, timeout_s: float | None = None) -> T | None:
        """The body of the next message; `None` if none came in time: see `shoal.jms.JMSConsumer`."""
        if time_ms:
            refuse_milliseconds("receive_body", time_ms)
        delivering, consumer, until = self._delivering, self._consumer, until_of(timeout_s)
        while (entry := await delivering.take_next(consumer, until)) is not None:
            try:
                body = body_of(consumer._made(entry), kind)
            except (MessageFormatError, TypeError):
                if not delivering._keeps:
                    delivering.put_back(consumer, entry)
                raise
            if delivering.delivered(consumer, entry) is not None:
                return body
        return None

    async def receive_body_no_wait(self, kind: type[T]) -> T | None:
        """The body of the next message if it is here already."""
        return await self.receive_body(kind, timeout_s=0.0)


class QueueBrowser(JavaNames):
    """The messages of a queue, oldest first, as they are when an iteration begins: `async for` over it."""

    def __init__(self, browser: browsers.QueueBrowser, delivering: "LoopDelivering") -> None:
        self._browser = browser
        self._delivering = delivering

    @property
    def queue(self) -> Queue:
        """The queue."""
        return self._browser.queue

    @property
    def message_selector(self) -> str | None:
        """The selector; `None` if there is none."""
        return self._browser.message_selector

    async def __aiter__(self) -> AsyncIterator[Message]:
        messages = iter(self._browser)
        while some := await self._delivering.worker.run(functools.partial(_some, messages)):
            for message in some:
                yield message

    @property
    def enumeration(self) -> AsyncIterator[Message]:
        """An iteration over the messages, as JMS calls it."""
        return aiter(self)

    def close(self) -> None:
        """End it. Closing again does nothing."""
        self._browser.close()

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()


def _some(messages: Iterator[Message]) -> list[Message]:
    return list(itertools.islice(messages, BROWSE_MAX))
