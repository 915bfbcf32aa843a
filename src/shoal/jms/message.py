"""A message: its header fields and properties. What its body is, its subclasses say.

A received message reads from what the bus delivered when it is asked; nothing is decoded before. It knows
nothing of sessions but a function that acknowledges it.
"""

from collections.abc import Callable, Mapping
from enum import IntEnum
from typing import TYPE_CHECKING, Any, ClassVar, TypeVar

from shoal.errors import InvalidArgumentError, MessageFormatError, MessageNotWriteableError
from shoal.jms import values
from shoal.jms.destination import Destination, of_reply_to
from shoal.jms.java_names import JavaNames
from shoal.jms.property_names import (
    CLIENT,
    DELIVERY_COUNT,
    GROUP_ID,
    GROUP_SEQUENCE,
    HELD,
    NULL_TEXT,
    PRIVATE,
    check_name,
)
from shoal.jms.values import BOOLEAN, BYTE, DOUBLE, FLOAT, INT, LONG, LONG_MAX, LONG_MIN, SHORT, STRING
from shoal.types import Int

if TYPE_CHECKING:
    from shoal._core import Message as BusMessage
    from shoal.bus.sync import Bus

T = TypeVar("T")


class DeliveryMode(IntEnum):
    """Whether a message may be lost when a program or machine fails."""

    #: It may be, then; it is never delivered twice.
    NON_PERSISTENT = 1
    #: A store keeps it.
    PERSISTENT = 2


DEFAULT_DELIVERY_MODE = DeliveryMode.PERSISTENT
DEFAULT_PRIORITY = 4
DEFAULT_TIME_TO_LIVE_S = 0.0
DEFAULT_DELIVERY_DELAY_S = 0.0

#: Names of properties that were checked and mean nothing in particular, so that most are not checked again.
_PLAIN_NAMES: set[str] = set()
PLAIN_NAMES_MAX = 4096

#: What may be a property as an object.
_OBJECT_KINDS = frozenset({BOOLEAN, BYTE, SHORT, INT, LONG, FLOAT, DOUBLE, STRING})


class _NotAsked:
    """Stands for a header field that nobody asked for and nobody set yet."""


NOT_ASKED: Any = _NotAsked()
#: The header fields of a message that was made here, before they are set.
_NO_FIELDS = (None, None, None, 0, None, None)


class Message(JavaNames):
    """A message without a body, and what all messages have. For one thread at a time.

    Sessions make messages, and so may you: `TextMessage("hello")`. Times of header fields are milliseconds
    since 1970, as selectors see them. A received message is read-only until `clear_body` or
    `clear_properties`; header fields can be set always, and sending sets those that belong to the provider
    anew.
    """

    #: What the bus delivered; none if it was made here.
    _core: "BusMessage | None" = None
    _properties: dict[str, Any] | None = None
    #: The same, once something was set and more may be.
    _settable: dict[str, Any] | None = None
    _properties_read_only = False
    _body_read_only = False
    #: Whether it had to be kept back on its way.
    _was_delayed = False
    _acknowledge: Callable[["Message"], None] | None = None
    _delivery_count = 0

    #: What it was sent as, as long as nobody asked: node, number, priority, topic, time, life time.
    _sent: "tuple[Bus, int, int, Destination, int, float] | None" = None
    _message_id: Any = NOT_ASKED
    _timestamp: int = NOT_ASKED
    _correlation_id: str | bytes | None = NOT_ASKED
    _reply_to: Destination | None = NOT_ASKED
    _destination: Destination | None = None
    _delivery_mode: DeliveryMode = NOT_ASKED
    _redelivered = False
    _type: str | None = NOT_ASKED
    _expiration = 0
    _delivery_time = 0
    _priority: int = NOT_ASKED
    #: Whether the bus is given the properties that were set and no others.
    _is_as_set: ClassVar[bool] = True
    #: What `get_body` gives it as; none for messages that have no body, or one that is no value.
    body_type: ClassVar[type | None] = None

    # Header fields, section 3.4.

    @property
    def jms_message_id(self) -> str | None:
        """`JMSMessageID`: who published it, and as which. Set by sending."""
        if self._sent is not None:
            self._note_sent()
        found = self._message_id
        if found is NOT_ASKED:
            if self._timestamp is NOT_ASKED:
                self._read_headers()
            held = self._held() if self._was_delayed else None
            core = self._core
            found = self._message_id = held or (None if core is None else core.message_id)
        message_id: str | None = found
        return message_id

    @jms_message_id.setter
    def jms_message_id(self, message_id: str | None) -> None:
        if self._sent is not None:
            self._note_sent()
        self._message_id = _checked("jms_message_id", message_id, str)

    @property
    def jms_timestamp(self) -> int:
        """`JMSTimestamp`: when it was handed to the provider, milliseconds since 1970. Set by sending."""
        if self._sent is not None:
            self._note_sent()
        if self._timestamp is NOT_ASKED:
            self._read_headers()
        return self._timestamp

    @jms_timestamp.setter
    def jms_timestamp(self, timestamp: int) -> None:
        if self._sent is not None:
            self._note_sent()
        self._timestamp = _checked_time("jms_timestamp", self, timestamp)

    @property
    def jms_expiration(self) -> int:
        """`JMSExpiration`: when it ends, milliseconds since 1970; 0 is never. Set by sending."""
        if self._sent is not None:
            self._note_sent()
        if self._timestamp is NOT_ASKED:
            self._read_headers()
        return self._expiration

    @jms_expiration.setter
    def jms_expiration(self, expiration: int) -> None:
        if self._sent is not None:
            self._note_sent()
        self._expiration = _checked_time("jms_expiration", self, expiration)

    @property
    def jms_delivery_time(self) -> int:
        """`JMSDeliveryTime`: before this it is not delivered, milliseconds since 1970. Set by sending."""
        if self._sent is not None:
            self._note_sent()
        if self._timestamp is NOT_ASKED:
            self._read_headers()
        return self._delivery_time

    @jms_delivery_time.setter
    def jms_delivery_time(self, delivery_time: int) -> None:
        if self._sent is not None:
            self._note_sent()
        self._delivery_time = _checked_time("jms_delivery_time", self, delivery_time)

    @property
    def jms_correlation_id(self) -> str | None:
        """`JMSCorrelationID`: what it answers or belongs to. Set by the program."""
        found = self._correlation_id
        if found is NOT_ASKED:
            self._read_headers()
            found = self._correlation_id
        return found.decode(errors="replace") if isinstance(found, bytes) else found

    @jms_correlation_id.setter
    def jms_correlation_id(self, correlation_id: str | None) -> None:
        if correlation_id is not None and not isinstance(correlation_id, str):
            raise _wrong("jms_correlation_id", correlation_id, str)
        self._correlation_id = correlation_id

    @property
    def jms_correlation_id_as_bytes(self) -> bytes | None:
        """`JMSCorrelationID` as bytes; a text is encoded as UTF-8."""
        found = self._wire_correlation_id()
        try:
            return found.encode() if isinstance(found, str) else found
        except UnicodeEncodeError as error:
            raise MessageFormatError(f"jms_correlation_id is {found!r}, which is no text: {error}") from None

    @jms_correlation_id_as_bytes.setter
    def jms_correlation_id_as_bytes(self, correlation_id: bytes | None) -> None:
        self._correlation_id = _checked("jms_correlation_id_as_bytes", correlation_id, bytes)

    @property
    def jms_reply_to(self) -> Destination | None:
        """`JMSReplyTo`: where answers go. Set by the program."""
        if self._reply_to is NOT_ASKED:
            self._read_headers()
        return self._reply_to

    @jms_reply_to.setter
    def jms_reply_to(self, reply_to: Destination | None) -> None:
        if reply_to is not None and not isinstance(reply_to, Destination):
            raise _wrong("jms_reply_to", reply_to, Destination)
        self._reply_to = reply_to

    @property
    def jms_destination(self) -> Destination | None:
        """`JMSDestination`: where it was sent. Set by sending."""
        if self._sent is not None:
            self._note_sent()
        return self._destination

    @jms_destination.setter
    def jms_destination(self, destination: Destination | None) -> None:
        if self._sent is not None:
            self._note_sent()
        self._destination = _checked("jms_destination", destination, Destination)

    @property
    def jms_delivery_mode(self) -> DeliveryMode:
        """`JMSDeliveryMode`. Set by sending, as the producer says."""
        if self._sent is not None:
            self._note_sent()
        if self._delivery_mode is NOT_ASKED:
            is_kept = self._core is None or self._core.persistent
            self._delivery_mode = DeliveryMode.PERSISTENT if is_kept else DeliveryMode.NON_PERSISTENT
        return self._delivery_mode

    @jms_delivery_mode.setter
    def jms_delivery_mode(self, delivery_mode: int) -> None:
        if self._sent is not None:
            self._note_sent()
        self._delivery_mode = checked_delivery_mode(delivery_mode)

    @property
    def jms_redelivered(self) -> bool:
        """`JMSRedelivered`: whether it may have been delivered before. Set when it is delivered."""
        if self._sent is not None:
            self._note_sent()
        return self._redelivered

    @jms_redelivered.setter
    def jms_redelivered(self, redelivered: bool) -> None:
        if self._sent is not None:
            self._note_sent()
        if not isinstance(redelivered, bool):
            raise InvalidArgumentError(f"jms_redelivered is {redelivered!r}, and must be True or False")
        self._redelivered = redelivered

    @property
    def jms_type(self) -> str | None:
        """`JMSType`: the program's name for this kind of message. Set by the program."""
        if self._type is NOT_ASKED:
            self._read_headers()
        return self._type

    @jms_type.setter
    def jms_type(self, type: str | None) -> None:
        if type is not None and not isinstance(type, str):
            raise _wrong("jms_type", type, str)
        self._type = type

    @property
    def jms_priority(self) -> int:
        """`JMSPriority`, 0 to 9. Set by sending, as the producer says."""
        if self._sent is not None:
            self._note_sent()
        if self._priority is NOT_ASKED:
            return DEFAULT_PRIORITY if self._core is None else self._core.priority
        return self._priority

    @jms_priority.setter
    def jms_priority(self, priority: int) -> None:
        if self._sent is not None:
            self._note_sent()
        self._priority = checked_priority(priority)

    def _note_sent(self) -> None:
        """Set what sending sets, now that somebody asks: most programs never do."""
        assert self._sent is not None
        (node, number, priority, topic, now, ttl_s), self._sent = self._sent, None
        self._message_id = node.message_id(number, priority, topic=topic._bus_name)
        self._destination = topic
        self._delivery_mode = DeliveryMode.NON_PERSISTENT
        self._priority = priority
        self._timestamp = self._delivery_time = now
        self._expiration = now + round(ttl_s * 1000) if ttl_s else 0
        self._redelivered = False

    def _of_core(self) -> "BusMessage":
        assert self._core is not None
        return self._core

    def _read_headers(self) -> None:
        """Read header fields of a received message, all but those that were set since."""
        core = self._core
        correlation_id, reply_to, type, sent, ttl, delay = _NO_FIELDS if core is None else core._header_fields
        if self._correlation_id is NOT_ASKED:
            self._correlation_id = correlation_id
        if self._reply_to is NOT_ASKED:
            self._reply_to = None if reply_to is None else of_reply_to(reply_to)
        if self._type is NOT_ASKED:
            self._type = type
        if self._timestamp is NOT_ASKED:
            self._timestamp = self._delivery_time = sent
            if delay is not None:
                self._was_delayed = True
                self._delivery_time = sent + delay
            if ttl:
                self._expiration = sent + ttl

    def _held(self) -> str | None:
        """The identity that a message had before a commit published it, if one did."""
        held = self._of_core().properties.get(HELD)
        return held if isinstance(held, str) else None

    # Properties, section 3.5.

    def _own(self) -> dict[str, Any]:
        """The properties by name, read when they are first asked for."""
        found = self._properties
        if found is None:
            found = self._properties = {}
            if self._core is not None:
                found, group = self._core._properties_and_group
                if CLIENT in found or HELD in found or NULL_TEXT in found:
                    found = {name: each for name, each in found.items() if not name.startswith(PRIVATE)}
                if group is not None:
                    found.setdefault(GROUP_ID, group)
            self._properties = found
        return found

    def _set(self, name: str, value: Any) -> None:
        if self._properties_read_only:
            raise MessageNotWriteableError(
                f"the property {name!r} of a received message cannot be set: call clear_properties first"
            )
        check_name(name)
        if name == GROUP_ID and not isinstance(value, str):
            raise MessageFormatError(f"{GROUP_ID} is {value!r}, and must be a str")
        if name == GROUP_SEQUENCE:
            value = values.accepted(INT, value)
        elif name != GROUP_ID and len(_PLAIN_NAMES) < PLAIN_NAMES_MAX:
            _PLAIN_NAMES.add(name)
        self._settable = self._own()
        self._settable[name] = value

    def _get(self, name: str, wanted: str) -> Any:
        return values.converted(self.get_object_property(name), wanted, f"the property {name!r}")

    @property
    def properties(self) -> Mapping[str, Any]:
        """All properties by name, as `get_object_property` gives them: a copy."""
        found = dict(self._own())
        if self._delivery_count:
            found[DELIVERY_COUNT] = Int(self._delivery_count)
        return found

    @property
    def property_names(self) -> list[str]:
        """The names of all properties."""
        return [*self._own(), *([DELIVERY_COUNT] if self._delivery_count else [])]

    def property_exists(self, name: str) -> bool:
        """Whether there is such a property."""
        return name in self._own() or (name == DELIVERY_COUNT and self._delivery_count > 0)

    def clear_properties(self) -> None:
        """Remove all properties; then they can be set, also those of a received message."""
        self._properties = self._settable = {}
        self._properties_read_only = False
        self._delivery_count = 0

    def get_object_property(self, name: str) -> Any:
        """The property, of a class of `shoal.types` where its type is none of Python's; `None` without it."""
        if name == DELIVERY_COUNT and self._delivery_count:
            return Int(self._delivery_count)
        return self._own().get(name)

    def get_boolean_property(self, name: str) -> bool:
        """The property read as a `boolean`."""
        value = (self._properties or self._own()).get(name)
        return value if value is True or value is False else bool(self._get(name, BOOLEAN))

    def get_byte_property(self, name: str) -> int:
        """The property read as a `byte`."""
        return int(self._get(name, BYTE))

    def get_short_property(self, name: str) -> int:
        """The property read as a `short`."""
        return int(self._get(name, SHORT))

    def get_int_property(self, name: str) -> int:
        """The property read as an `int`."""
        return int(self._get(name, INT))

    def get_long_property(self, name: str) -> int:
        """The property read as a `long`."""
        value = (self._properties or self._own()).get(name)
        return value if type(value) is int else int(self._get(name, LONG))

    def get_float_property(self, name: str) -> float:
        """The property read as a `float`."""
        return float(self._get(name, FLOAT))

    def get_double_property(self, name: str) -> float:
        """The property read as a `double`."""
        value = (self._properties or self._own()).get(name)
        return value if type(value) is float else float(self._get(name, DOUBLE))

    def get_string_property(self, name: str) -> str | None:
        """The property read as a `String`; `None` if there is none."""
        value = (self._properties or self._own()).get(name)
        found: str | None = value if type(value) is str else self._get(name, STRING)
        return found

    def set_object_property(self, name: str, value: bool | int | float | str | None) -> None:
        """Set a property to a value of any type; a plain `int` is a `long`, a plain `float` a `double`."""
        if value is not None and values.kind_of(value) not in _OBJECT_KINDS:
            raise MessageFormatError(
                f"the property {name!r}: {value!r} is a {type(value).__name__}, and a property is bool, "
                "int, float, str, or of a class of shoal.types but Char"
            )
        if values.kind_of(value) == LONG:
            value = values.accepted(LONG, value)
        self._set(name, value)

    def set_boolean_property(self, name: str, value: bool) -> None:
        """Set a property to a `boolean`."""
        own = self._settable
        if own is not None and name in _PLAIN_NAMES and (value is True or value is False):
            own[name] = value
        else:
            self._set(name, values.accepted(BOOLEAN, value))

    def set_byte_property(self, name: str, value: int) -> None:
        """Set a property to a `byte`."""
        self._set(name, values.accepted(BYTE, value))

    def set_short_property(self, name: str, value: int) -> None:
        """Set a property to a `short`."""
        self._set(name, values.accepted(SHORT, value))

    def set_int_property(self, name: str, value: int) -> None:
        """Set a property to an `int`."""
        self._set(name, values.accepted(INT, value))

    def set_long_property(self, name: str, value: int) -> None:
        """Set a property to a `long`."""
        own = self._settable
        fits = type(value) is int and LONG_MIN <= value <= LONG_MAX
        if own is not None and name in _PLAIN_NAMES and fits:
            own[name] = value
        else:
            self._set(name, values.accepted(LONG, value))

    def set_float_property(self, name: str, value: float) -> None:
        """Set a property to a `float`."""
        self._set(name, values.accepted(FLOAT, value))

    def set_double_property(self, name: str, value: float) -> None:
        """Set a property to a `double`."""
        own = self._settable
        if own is not None and name in _PLAIN_NAMES and type(value) is float:
            own[name] = value
        else:
            self._set(name, values.accepted(DOUBLE, value))

    def set_string_property(self, name: str, value: str | None) -> None:
        """Set a property to a `String`."""
        own = self._settable
        if own is not None and name in _PLAIN_NAMES and type(value) is str:
            own[name] = value
        else:
            self._set(name, values.accepted(STRING, value))

    # Bodies, section 3.11.

    def clear_body(self) -> None:
        """Remove the body; then it can be written, also that of a received message."""
        self._body_read_only = False
        self._erase()

    def _erase(self) -> None:
        """What clearing means for this kind of body."""

    def _check_writeable(self) -> None:
        if self._body_read_only:
            raise MessageNotWriteableError(
                "the body of a received message cannot be changed: call clear_body first"
            )

    @property
    def body(self) -> Any:
        """The body as a Python value: `None`, str, bytes, a dict, a list or an object."""
        return None

    def get_body(self, kind: type[T]) -> T | None:
        """The body as a value of this type.

        Raises:
            MessageFormatError: the body is of another type, or a stream.
        """
        if not self.is_body_assignable_to(kind):
            raise MessageFormatError(f"the body of {self!r} is no {kind.__name__}")
        body: T | None = self.body
        return body

    def is_body_assignable_to(self, kind: type) -> bool:
        """Whether `get_body` with this type would give the body. A message without a body says yes."""
        if not isinstance(kind, type):
            raise InvalidArgumentError(f"kind is {kind!r}, and must be a class")
        body = self.body
        return body is None or isinstance(body, kind)

    def _wire_body(self) -> Any:
        """The body as the bus takes it."""
        return None

    def _frozen_body(self) -> Any:
        """The same, as it is now: changing the message later does not change it."""
        return self._wire_body()

    def _wire_properties(self) -> dict[str, Any] | None:
        """The properties as the bus takes them."""
        return self._own() or None

    def _wire_correlation_id(self) -> str | bytes | None:
        """The correlation id as the bus takes it."""
        if self._correlation_id is NOT_ASKED:
            self._read_headers()
        return self._correlation_id

    def acknowledge(self) -> None:
        """Acknowledge all messages that this message's session has delivered (CLIENT_ACKNOWLEDGE).

        Does nothing in other modes, and for a message that was not received.

        Raises:
            IllegalStateError: the session is closed.
        """
        if self._acknowledge is not None:
            self._acknowledge(self)

    def __repr__(self) -> str:
        about = f" {self.jms_message_id}" if self.jms_message_id else ""
        where = f" {self.jms_destination}" if self.jms_destination is not None else ""
        return f"<{type(self).__name__}{about}{where}>"


def checked_priority(priority: object) -> int:
    """A priority, 0 to 9."""
    if not isinstance(priority, int) or isinstance(priority, bool):
        raise InvalidArgumentError(f"priority is {priority!r}, and must be a whole number from 0 to 9")
    if not 0 <= priority <= 9:
        raise InvalidArgumentError(f"priority is {priority}, and must be 0 to 9")
    return priority


def checked_delivery_mode(delivery_mode: int) -> DeliveryMode:
    """A delivery mode, or its number."""
    try:
        return DeliveryMode(delivery_mode)
    except ValueError:
        raise InvalidArgumentError(
            f"delivery_mode is {delivery_mode!r}, and must be DeliveryMode.NON_PERSISTENT or PERSISTENT"
        ) from None


def _checked(name: str, value: Any, kind: type) -> Any:
    if value is not None and not isinstance(value, kind):
        raise _wrong(name, value, kind)
    return value


def _wrong(name: str, value: object, kind: type) -> TypeError:
    return InvalidArgumentError(f"{name} is {value!r}, and must be a {kind.__name__} or None")


def _checked_time(name: str, message: Message, value: object) -> int:
    if message._timestamp is NOT_ASKED:
        # What was received and is not set now must not be forgotten.
        message._read_headers()
    if not isinstance(value, int) or isinstance(value, bool):
        raise InvalidArgumentError(
            f"{name} is {value!r}, and must be a whole number of milliseconds since 1970"
        )
    return value
