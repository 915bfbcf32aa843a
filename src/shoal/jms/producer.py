"""Producers: what a program sends with."""

import time
from types import TracebackType
from typing import TYPE_CHECKING, Never, Self

from shoal.errors import IllegalStateError, InvalidDestinationError, MessageFormatError
from shoal.jms.arguments import check_flag, check_seconds, refuse_positions
from shoal.jms.completion import CompletionListener, check_listener
from shoal.jms.destination import Destination, checked_destination
from shoal.jms.failures import closed_error
from shoal.jms.java_names import JavaNames
from shoal.jms.message import (
    DEFAULT_DELIVERY_DELAY_S,
    DEFAULT_PRIORITY,
    DEFAULT_TIME_TO_LIVE_S,
    DeliveryMode,
    Message,
    checked_delivery_mode,
    checked_priority,
)

if TYPE_CHECKING:
    from shoal.jms.session import Session


class ProducerBase(JavaNames):
    """What producers of threads and of asyncio have in common: how they send, and where."""

    # A name that means nothing here, such as Java's `time_to_live`, is refused and not set in vain.
    __slots__ = (
        "__weakref__",
        "_closed",
        "_delivery_delay_s",
        "_delivery_mode",
        "_destination",
        "_disable_message_id",
        "_disable_message_timestamp",
        "_plain_topic",
        "_priority",
        "_sender",
        "_session",
        "_time_to_live_s",
    )

    def __init__(
        self, session: "Session", destination: Destination | None, delivery_mode: DeliveryMode
    ) -> None:
        self._session = session
        self._sender = session._sender
        self._destination = destination
        self._closed = False
        self._delivery_mode = delivery_mode
        self._priority = DEFAULT_PRIORITY
        self._time_to_live_s = DEFAULT_TIME_TO_LIVE_S
        self._delivery_delay_s = DEFAULT_DELIVERY_DELAY_S
        self._disable_message_id = False
        self._disable_message_timestamp = False
        self._look()

    def _look(self) -> None:
        """See whether it sends as most do: to a topic of its own, not persistent, at once."""
        where = self._destination
        is_plain = (
            where is not None
            and not (where.is_queue or where._has_owner)
            and self._delivery_mode is DeliveryMode.NON_PERSISTENT
            and not (self._delivery_delay_s or self._disable_message_timestamp or self._sender.is_transacted)
        )
        self._plain_topic = where if is_plain else None

    def _check(self) -> None:
        if self._closed:
            raise closed_error("producer")
        self._session._check()

    @property
    def destination(self) -> Destination | None:
        """Where it sends; `None` if each `send` says so."""
        self._check()
        return self._destination

    @property
    def delivery_mode(self) -> DeliveryMode:
        """Whether a store keeps what is sent."""
        self._check()
        return self._delivery_mode

    @delivery_mode.setter
    def delivery_mode(self, delivery_mode: int) -> None:
        self._check()
        self._delivery_mode = checked_delivery_mode(delivery_mode)
        self._look()

    @property
    def priority(self) -> int:
        """0 to 9; a higher one overtakes lower ones."""
        self._check()
        return self._priority

    @priority.setter
    def priority(self, priority: int) -> None:
        self._check()
        self._priority = checked_priority(priority)

    @property
    def time_to_live_s(self) -> float:
        """Seconds after which a message is not delivered any more; 0 is never."""
        self._check()
        return self._time_to_live_s

    @time_to_live_s.setter
    def time_to_live_s(self, time_to_live_s: float) -> None:
        self._check()
        check_seconds("time_to_live_s", time_to_live_s)
        self._time_to_live_s = time_to_live_s

    @property
    def delivery_delay_s(self) -> float:
        """Seconds before which a message is not delivered."""
        self._check()
        return self._delivery_delay_s

    @delivery_delay_s.setter
    def delivery_delay_s(self, delivery_delay_s: float) -> None:
        self._check()
        check_seconds("delivery_delay_s", delivery_delay_s)
        self._delivery_delay_s = delivery_delay_s
        self._look()

    @property
    def disable_message_id(self) -> bool:
        """A hint that the program needs no message ids. They cost nothing here: messages have them anyway."""
        self._check()
        return self._disable_message_id

    @disable_message_id.setter
    def disable_message_id(self, disable: bool) -> None:
        self._check()
        check_flag("disable_message_id", disable)
        self._disable_message_id = disable

    @property
    def disable_message_timestamp(self) -> bool:
        """A hint that the program needs no timestamps: 0 then, unless a message has a life time or delay."""
        self._check()
        return self._disable_message_timestamp

    @disable_message_timestamp.setter
    def disable_message_timestamp(self, disable: bool) -> None:
        self._check()
        check_flag("disable_message_timestamp", disable)
        self._disable_message_timestamp = disable
        self._look()

    def _where(self, message: Message, destination: Destination | None) -> Destination:
        """Where a message goes that is to be sent now, if it can be."""
        if self._closed or self._session._shut:
            self._check()
        if not isinstance(message, Message):
            raise MessageFormatError(f"message is {message!r}, and must be a shoal.jms message")
        where = self._destination
        if where is None:
            where = checked_destination(destination)
        elif destination is not None:
            raise IllegalStateError(
                f"the producer sends to {where}: leave destination out, or make one without"
            )
        if where._has_owner:
            if where.is_deleted:
                raise InvalidDestinationError(f"{where} was deleted")
            if not where.is_queue:
                self._check_alive(where)
        return where

    def _check_alive(self, topic: Destination) -> None:
        """Refuse a temporary topic that ended; a store refuses queues."""
        self._session._connection._node.check_alive(topic)

    def _check_closeable(self) -> None:
        if self._sender.completions.is_here:
            raise IllegalStateError("a completion listener cannot close its own producer")

    def __repr__(self) -> str:
        return f"<{type(self).__name__} {self._destination or ''}{' closed' if self._closed else ''}>"


class MessageProducer(ProducerBase):
    """Sends to one destination, or to one that each `send` names. For the thread that has its session."""

    __slots__ = ()

    def send(
        self,
        message: Message,
        *others: Never,
        destination: Destination | None = None,
        delivery_mode: int | None = None,
        priority: int | None = None,
        time_to_live_s: float | None = None,
        completion_listener: CompletionListener | None = None,
    ) -> None:
        """Send a message. Its header fields say how when this returns.

        Args:
            message: what to send; it can be changed and sent again afterwards.
            others: refused: what Java tells by its position has a name here.
            destination: where, for a producer that was made without.
            delivery_mode: in place of the producer's.
            priority: in place of the producer's.
            time_to_live_s: in place of the producer's; 0 is for ever.
            completion_listener: makes this return at once; the listener is called, on a thread of the
                session's own, when the message is sent or could not be. Leave the message alone until then.

        Raises:
            InvalidDestinationError: there is no destination, or none that can be sent to.
            MessageFormatError: this is no message, or its body cannot be sent.
            IllegalStateError: the producer is closed, or was given a destination twice.
            ResourceAllocationError: there is no store for a persistent message or a queue, or no room.
        """
        if others:
            refuse_positions()
        sender = self._sender
        topic = self._plain_topic
        if (
            topic is not None
            and destination is None
            and delivery_mode is None
            and priority is None
            and time_to_live_s is None
            and completion_listener is None
            and isinstance(message, Message)
            and not (self._closed or self._session._shut or sender.completions._unsent)
        ):
            now = int(time.time() * 1000)
            sender.publish(message, topic, self._priority, self._time_to_live_s, now)
            return
        check_listener(completion_listener)
        sender.send(
            message,
            self._where(message, destination),
            self._delivery_mode if delivery_mode is None else checked_delivery_mode(delivery_mode),
            self._priority if priority is None else checked_priority(priority),
            self._time_to_live_s if time_to_live_s is None else checked_ttl(time_to_live_s),
            self._delivery_delay_s,
            self._disable_message_timestamp,
            completion_listener,
        )

    def close(self) -> None:
        """End it, once every send that is under way is completed. Closing again does nothing."""
        self._check_closeable()
        if not self._closed:
            self._sender.completions.wait_done()
            self._closed = True

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()


def checked_ttl(time_to_live_s: float) -> float:
    """A time to live, in seconds."""
    check_seconds("time_to_live_s", time_to_live_s)
    return time_to_live_s
