"""Consumers: what a program receives from, message by message or by a listener."""

from collections.abc import Callable, Iterator
from types import TracebackType
from typing import TYPE_CHECKING, Any, Never, Protocol, Self, TypeVar

from shoal._core import Message as BusMessage
from shoal.errors import IllegalStateError, InvalidArgumentError, MessageFormatError
from shoal.jms.arguments import refuse_milliseconds
from shoal.jms.destination import Destination, Topic, of_topic
from shoal.jms.failures import check_here, closed_error
from shoal.jms.feeds import Entry, Feed
from shoal.jms.java_names import JavaNames
from shoal.jms.message import Message
from shoal.jms.received import CLASSES, of_bus

if TYPE_CHECKING:
    from shoal.jms.session import Session


_new = object.__new__

T = TypeVar("T")


class _OnMessage(Protocol):
    def on_message(self, message: Message) -> object: ...


#: A function of one message, or an object with `on_message`.
MessageListener = Callable[[Message], object] | _OnMessage


class MessageConsumer(JavaNames):
    """Receives messages of one destination. For the thread that has its session; any thread may close it.

    Made by a session. `for message in consumer` goes on until it is closed.
    """

    def __init__(
        self, session: "Session", destination: Destination, selector: str | None, feed: Feed
    ) -> None:
        self._session = session
        self._destination = destination
        self._selector = selector
        self._feed = feed
        self._closed = False
        self._listener: MessageListener | None = None
        self._call: Callable[[Message], object] | None = None
        #: Its feed rings the session's bell.
        self._is_heard = False
        self._topic: str | None = None
        self._topic_object: Destination = destination
        self._acknowledge = session._acknowledge
        #: Gives the next message, where nobody has to remember that it was delivered.
        self._quick: Callable[[float | None], BusMessage | None] | None = None

    @property
    def message_selector(self) -> str | None:
        """The selector; `None` if there is none."""
        self._check()
        return self._selector

    @property
    def message_listener(self) -> MessageListener | None:
        """What is called with every message, on the session's thread: a function, or an object with
        `on_message`.

        Setting it to `None` ends that.
        """
        self._check()
        return self._listener

    @message_listener.setter
    def message_listener(self, listener: MessageListener | None) -> None:
        self._check()
        call: Any = getattr(listener, "on_message", listener)
        if listener is not None and not callable(call):
            raise InvalidArgumentError(
                f"listener is {listener!r}, and must be a function of one message, or have on_message"
            )
        self._session._set_listener(self, listener, call)

    def receive(self, *time_ms: Never, timeout_s: float | None = None) -> Message | None:
        """The next message, waited for if need be.

        Args:
            time_ms: refused: Java's milliseconds are `timeout_s` here.
            timeout_s: how long to wait; `None` waits for ever, 0 not at all.

        Returns:
            The message; `None` if none came in time, or the consumer was closed meanwhile.

        Raises:
            IllegalStateError: it is closed, or its session has a listener.
        """
        if time_ms:
            refuse_milliseconds("receive", time_ms)
        return self._session._receive(self, timeout_s)

    def receive_no_wait(self) -> Message | None:
        """The next message if it is here already."""
        return self._session._receive(self, 0.0)

    def close(self) -> None:
        """End it, once its listener or a call of `receive` that is under way has ended.

        What was delivered can still be acknowledged, or rolled back. A listener may close its own consumer.
        """
        self._session._close_consumer(self)

    def _check(self) -> None:
        if self._closed:
            check_here(self._session._connection._birth)
            raise closed_error("consumer")
        self._session._check()

    def _made(self, entry: Entry) -> Message:
        """The message of an entry."""
        core = entry.core
        return of_bus(core, self._destination_of(core), self._acknowledge, entry.delivery)

    def _made_first(self, core: BusMessage) -> Message:
        """A message of a topic that is delivered for the first time."""
        # As `of_bus`, for what comes once for each message: a call less is worth a repetition.
        cls = CLASSES[core._body_kind]
        message: Message = _new(cls)
        message._core = core
        message._destination = self._topic_object if core.topic is self._topic else self._destination_of(core)
        message._acknowledge = self._acknowledge
        message._properties_read_only = message._body_read_only = True
        message._delivery_count = 1
        return message

    def _destination_of(self, core: BusMessage) -> Destination:
        if not isinstance(self._destination, Topic):
            return self._destination
        topic = core.topic
        # Messages of one topic in a row share the name as an object.
        if topic is not self._topic:
            self._topic = topic
            is_own = topic == self._destination.bus_name
            self._topic_object = self._destination if is_own else of_topic(topic)
        return self._topic_object

    def __iter__(self) -> Iterator[Message]:
        self._check()
        return self._messages()

    def _messages(self) -> Iterator[Message]:
        receive = self._session._receive
        while not (self._closed or self._session._shut):
            message = receive(self, None)
            if message is None:
                return
            yield message

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def __repr__(self) -> str:
        return f"<{type(self).__name__} {self._destination}{' closed' if self._closed else ''}>"


def body_of(message: Message, kind: type[T]) -> T:
    """The body of a message, as `receive_body` gives it.

    Raises:
        MessageFormatError: it has none, or none of this type.
    """
    if not isinstance(kind, type):
        raise InvalidArgumentError(f"kind is {kind!r}, and must be a class")
    if message.body_type is None:
        raise MessageFormatError(f"{message!r} has no body that could be received as a {kind.__name__}")
    body = message.get_body(kind)
    if body is None:
        raise MessageFormatError(f"the body of {message!r} is null")
    return body


def no_mix_error() -> IllegalStateError:
    """What `receive` raises where a listener has the session."""
    return IllegalStateError(
        "this session has a message listener, and so its messages go there: receive in another session"
    )
