"""From the bus's messages to those of JMS: the kind of a body decides the class."""

from shoal._core import Message as BusMessage
from shoal.jms.bodies import MapMessage, ObjectMessage, TextMessage
from shoal.jms.destination import Destination
from shoal.jms.message import Message
from shoal.jms.streams import BytesMessage, StreamMessage

#: By the kind that a record says: none, bytes, text, mapping, list, single value, Arrow, array, object.
_CLASSES: tuple[type[Message], ...] = (
    Message,
    BytesMessage,
    TextMessage,
    MapMessage,
    StreamMessage,
    ObjectMessage,
    ObjectMessage,
    ObjectMessage,
    ObjectMessage,
)


def of_bus(core: BusMessage, destination: Destination, delivery_count: int = 1) -> Message:
    """A message that the bus delivered, as JMS has it. Nothing is decoded yet."""
    kind = core._body_kind
    # A kind that a later version added can be read by nobody here.
    cls = _CLASSES[kind] if kind < len(_CLASSES) else ObjectMessage
    return cls._received(core, destination, delivery_count)
