"""From the bus's messages to those of JMS: the kind of a body decides the class."""

from collections.abc import Callable

from shoal._core import Message as BusMessage
from shoal.jms.bodies import MapMessage, ObjectMessage, TextMessage
from shoal.jms.destination import Destination
from shoal.jms.message import NOT_ASKED, Message
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
    # These are read when somebody asks.
    message._message_id = message._correlation_id = message._reply_to = message._type = NOT_ASKED
    message._timestamp = NOT_ASKED
    if delivery_count > 1:
        message._redelivered = True
    return message
