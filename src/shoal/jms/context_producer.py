"""Producers of the simplified API: their calls can be chained, and they send bodies too."""

from collections.abc import Mapping
from typing import Any, Self

from shoal.jms.bodies import MapMessage, ObjectMessage, TextMessage
from shoal.jms.completion import CompletionListener, check_listener
from shoal.jms.destination import Destination
from shoal.jms.java_names import JavaNames
from shoal.jms.message import DeliveryMode, Message
from shoal.jms.producer import MessageProducer, ProducerBase
from shoal.jms.streams import BytesMessage


class ContextProducerBase(JavaNames):
    """What context producers of threads and of asyncio have in common: what they give messages."""

    __slots__ = ("_async", "_given", "_settings", "_template")

    def __init__(self, producer: ProducerBase) -> None:
        self._settings = producer
        # Its own rules for names and values are those of every message.
        self._template = Message()
        self._given: set[str] = set()
        self._async: CompletionListener | None = None

    def set_delivery_mode(self, delivery_mode: int) -> Self:
        """Whether a store keeps what is sent."""
        self._settings.delivery_mode = delivery_mode
        return self

    @property
    def delivery_mode(self) -> DeliveryMode:
        """Whether a store keeps what is sent."""
        return self._settings.delivery_mode

    def set_priority(self, priority: int) -> Self:
        """0 to 9; a higher one overtakes lower ones."""
        self._settings.priority = priority
        return self

    @property
    def priority(self) -> int:
        """0 to 9."""
        return self._settings.priority

    def set_time_to_live_s(self, time_to_live_s: float) -> Self:
        """Seconds after which a message is not delivered any more; 0 is never."""
        self._settings.time_to_live_s = time_to_live_s
        return self

    @property
    def time_to_live_s(self) -> float:
        """Seconds after which a message is not delivered any more; 0 is never."""
        return self._settings.time_to_live_s

    def set_delivery_delay_s(self, delivery_delay_s: float) -> Self:
        """Seconds before which a message is not delivered."""
        self._settings.delivery_delay_s = delivery_delay_s
        return self

    @property
    def delivery_delay_s(self) -> float:
        """Seconds before which a message is not delivered."""
        return self._settings.delivery_delay_s

    def set_disable_message_id(self, disable: bool) -> Self:
        """A hint that the program needs no message ids."""
        self._settings.disable_message_id = disable
        return self

    @property
    def disable_message_id(self) -> bool:
        """A hint that the program needs no message ids."""
        return self._settings.disable_message_id

    def set_disable_message_timestamp(self, disable: bool) -> Self:
        """A hint that the program needs no timestamps."""
        self._settings.disable_message_timestamp = disable
        return self

    @property
    def disable_message_timestamp(self) -> bool:
        """A hint that the program needs no timestamps."""
        return self._settings.disable_message_timestamp

    def set_async(self, listener: CompletionListener | None) -> Self:
        """Have `send` return at once, and the listener called when the message is sent; `None` ends that."""
        check_listener(listener)
        self._async = listener
        return self

    @property
    def completion_listener(self) -> CompletionListener | None:
        """What is called when a message is sent; `None` if `send` waits."""
        return self._async

    def set_jms_correlation_id(self, correlation_id: str | bytes | None) -> Self:
        """What messages answer or belong to."""
        if isinstance(correlation_id, bytes):
            self._template.jms_correlation_id_as_bytes = correlation_id
        else:
            self._template.jms_correlation_id = correlation_id
        self._given.add("_correlation_id")
        return self

    @property
    def jms_correlation_id(self) -> str | None:
        """What messages answer or belong to."""
        return self._template.jms_correlation_id

    @property
    def jms_correlation_id_as_bytes(self) -> bytes | None:
        """What messages answer or belong to, as bytes."""
        return self._template.jms_correlation_id_as_bytes

    def set_jms_reply_to(self, reply_to: Destination | None) -> Self:
        """Where answers go."""
        self._template.jms_reply_to = reply_to
        self._given.add("_reply_to")
        return self

    @property
    def jms_reply_to(self) -> Destination | None:
        """Where answers go."""
        return self._template.jms_reply_to

    def set_jms_type(self, type: str | None) -> Self:
        """The program's name for this kind of message."""
        self._template.jms_type = type
        self._given.add("_type")
        return self

    @property
    def jms_type(self) -> str | None:
        """The program's name for this kind of message."""
        return self._template.jms_type

    def set_property(self, name: str, value: bool | int | float | str | None) -> Self:
        """Give all messages a property, of the value's own type."""
        self._template.set_object_property(name, value)
        return self

    def clear_properties(self) -> Self:
        """Give messages no properties any more."""
        self._template.clear_properties()
        return self

    def property_exists(self, name: str) -> bool:
        """Whether messages are given such a property."""
        return self._template.property_exists(name)

    @property
    def property_names(self) -> list[str]:
        """The names of the properties that messages are given."""
        return self._template.property_names

    @property
    def properties(self) -> Mapping[str, Any]:
        """The properties that messages are given: a copy."""
        return self._template.properties

    def get_object_property(self, name: str) -> Any:
        """A property that messages are given."""
        return self._template.get_object_property(name)

    def get_boolean_property(self, name: str) -> bool:
        """A property that messages are given, read as a `boolean`."""
        return self._template.get_boolean_property(name)

    def get_byte_property(self, name: str) -> int:
        """A property that messages are given, read as a `byte`."""
        return self._template.get_byte_property(name)

    def get_short_property(self, name: str) -> int:
        """A property that messages are given, read as a `short`."""
        return self._template.get_short_property(name)

    def get_int_property(self, name: str) -> int:
        """A property that messages are given, read as an `int`."""
        return self._template.get_int_property(name)

    def get_long_property(self, name: str) -> int:
        """A property that messages are given, read as a `long`."""
        return self._template.get_long_property(name)

    def get_float_property(self, name: str) -> float:
        """A property that messages are given, read as a `float`."""
        return self._template.get_float_property(name)

    def get_double_property(self, name: str) -> float:
        """A property that messages are given, read as a `double`."""
        return self._template.get_double_property(name)

    def get_string_property(self, name: str) -> str | None:
        """A property that messages are given, read as a `String`."""
        return self._template.get_string_property(name)

    def _filled(self, body: Any) -> Message:
        """A message, or one of the kind that fits a body, with what the producer gives messages."""
        message = body if isinstance(body, Message) else _message_of(body)
        for name, value in self._template._own().items():
            message._set(name, value)
        for header in self._given:
            setattr(message, header, getattr(self._template, header))
        return message


class JMSProducer(ContextProducerBase):
    """Sends messages and bodies. Every `set_…` returns the producer, so that calls can be chained.

    Properties and header fields that are set here go before those of a message that is sent.
    """

    __slots__ = ("_producer",)

    def __init__(self, producer: MessageProducer) -> None:
        super().__init__(producer)
        self._producer = producer

    def send(self, destination: Destination, body: Any = None) -> Self:
        """Send a message, or a body in a message of the kind that fits it.

        Args:
            destination: where.
            body: a message; or a str, bytes, a mapping, or an object of a type that `shoal.codecs` knows.
        """
        self._producer.send(self._filled(body), destination=destination, completion_listener=self._async)
        return self


def _message_of(body: Any) -> Message:
    if body is None:
        return Message()
    if isinstance(body, str):
        return TextMessage(body)
    if isinstance(body, bytes | bytearray | memoryview):
        return BytesMessage(bytes(body))
    return MapMessage(body) if isinstance(body, Mapping) else ObjectMessage(body)
