"""Looking at a queue without taking anything."""

from collections.abc import Iterator
from types import TracebackType
from typing import TYPE_CHECKING, Self

from shoal.errors import InvalidDestinationError
from shoal.jms.destination import Queue
from shoal.jms.failures import closed_error, translating
from shoal.jms.java_names import JavaNames
from shoal.jms.message import Message
from shoal.jms.received import of_bus

if TYPE_CHECKING:
    from shoal.jms.session import Session


class QueueBrowser(JavaNames):
    """The messages of a queue, oldest first, as they are when an iteration begins. Made by a session."""

    def __init__(self, session: "Session", queue: Queue, selector: str | None) -> None:
        self._session = session
        self._queue = queue
        self._selector = selector
        self._closed = False
        # Refuse now what could not be browsed later.
        session._subscribing.browse(queue, selector)

    def _check(self) -> None:
        if self._closed:
            raise closed_error("browser")
        self._session._check()

    @property
    def queue(self) -> Queue:
        """The queue."""
        self._check()
        return self._queue

    @property
    def message_selector(self) -> str | None:
        """The selector; `None` if there is none."""
        self._check()
        return self._selector

    def __iter__(self) -> Iterator[Message]:
        self._check()
        return self._messages()

    def _messages(self) -> Iterator[Message]:
        with translating():
            try:
                for core in self._session._subscribing.browse(self._queue, self._selector):
                    if self._closed:
                        return
                    yield of_bus(core, self._queue, None, core.delivery_count)
            except InvalidDestinationError:
                # A queue begins with its first message, or its first consumer: until then it is empty.
                if self._queue.is_temporary:
                    raise

    @property
    def enumeration(self) -> Iterator[Message]:
        """An iteration over the messages, as JMS calls it."""
        return iter(self)

    def close(self) -> None:
        """End it. Closing again does nothing."""
        self._closed = True

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()
