"""From the bus's messages to those of JMS: the kind of a body decides the class."""

from collections.abc import Callable

from shoal._core import Message as BusMessage
from shoal.jms.bodies import MapMessage, ObjectMessage, TextMessage
from shoal.jms.destination import Destination
from shoal.jms.message import Message
from shoal.jms.streams import BytesMessage, StreamMessage

#: By the kind that a record says: none, bytes, text, mapping, list, and whatever else there is.
CLASSES: tuple[type[Message], ...] = (
    Message,
    BytesMessage,
    TextMessage,
    MapMessage,
    StreamMessage,
    # A kind that a later version added can be read by nobody here.
    *(ObjectMessage,) * 251,
)

# Python lays instances out as the first of a class are used: what is read later has its place from the start.
for _cls in CLASSES[:6]:
    _first = _cls.__new__(_cls)
    _first._core = _first._destination = _first._acknowledge = _first._properties = None
    _first._properties_read_only = _first._body_read_only = True
    _first._delivery_count = 1
    _first._read_headers()
    _first._message_id = None


def of_bus(
    core: BusMessage,
    destination: Destination,
    acknowledge: Callable[[Message], None] | None,
    delivery_count: int = 1,
) -> Message:
    """A message that the bus delivered, as JMS has it. Nothing is decoded yet."""
    cls = CLASSES[core._body_kind]
    message: Message = cls.__new__(cls)
    message._core = core
    message._destination = destination
    message._acknowledge = acknowledge
    message._properties_read_only = message._body_read_only = True
    message._delivery_count = delivery_count
    if delivery_count > 1:
        message._redelivered = True
    return message
