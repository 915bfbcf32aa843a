"""Consumers of the simplified API, which receive bodies too."""

from collections.abc import Iterator
from types import TracebackType
from typing import Never, Self, TypeVar

from shoal.errors import MessageFormatError
from shoal.jms.arguments import refuse_milliseconds, until_of
from shoal.jms.consumer import MessageConsumer, MessageListener, body_of
from shoal.jms.java_names import JavaNames
from shoal.jms.message import Message

T = TypeVar("T")


class JMSConsumer(JavaNames):
    """Receives messages, or their bodies. Made by a context; for the thread that has the context."""

    def __init__(self, consumer: MessageConsumer) -> None:
        self._consumer = consumer

    @property
    def message_selector(self) -> str | None:
        """The selector; `None` if there is none."""
        return self._consumer.message_selector

    @property
    def message_listener(self) -> MessageListener | None:
        """What is called with every message: a function, or an object with `on_message`; `None` ends that."""
        return self._consumer.message_listener

    @message_listener.setter
    def message_listener(self, listener: MessageListener | None) -> None:
        self._consumer.message_listener = listener

    def receive(self, *time_ms: Never, timeout_s: float | None = None) -> Message | None:
        """The next message; `None` if none came in time, or the consumer was closed meanwhile."""
        if time_ms:
            refuse_milliseconds("receive", time_ms)
        return self._consumer.receive(timeout_s=timeout_s)

    def receive_no_wait(self) -> Message | None:
        """The next message if it is here already."""
        return self._consumer.receive_no_wait()

    def receive_body(self, kind: type[T], *time_ms: Never, timeout_s: float | None = None) -> T | None:
        """The body of the next message; `None` if none came in time.

        Args:
            kind: what the body must be: `str`, `bytes`, `dict`, `object`, or a class of your own.
            time_ms: refused: Java's milliseconds are `timeout_s` here.
            timeout_s: how long to wait; `None` waits for ever, 0 not at all.

        Raises:
            MessageFormatError: the next message has no such body. Where the session acknowledges by itself,
                the message stays the next one; else it counts as received.
        """
        if time_ms:
            refuse_milliseconds("receive_body", time_ms)
        delivering = self._consumer._session._delivering
        delivering.begin_receive(self._consumer)
        try:
            until = until_of(timeout_s)
            while (entry := delivering.take(self._consumer, until)) is not None:
                try:
                    body = body_of(self._consumer._made(entry), kind)
                except (MessageFormatError, TypeError):
                    if not delivering._keeps:
                        delivering.put_back(self._consumer, entry)
                    raise
                if delivering.delivered(self._consumer, entry, until) is not None:
                    return body
            return None
        finally:
            delivering.end_receive()

    def receive_body_no_wait(self, kind: type[T]) -> T | None:
        """The body of the next message if it is here already."""
        return self.receive_body(kind, timeout_s=0.0)

    def close(self) -> None:
        """End it. Closing again does nothing."""
        self._consumer.close()

    def __iter__(self) -> Iterator[Message]:
        return iter(self._consumer)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()
