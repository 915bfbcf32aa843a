"""What clients call destinations, and what the bus calls them."""

from dataclasses import dataclass
from typing import Literal

from shoal.bus.store_protocol import TEMPORARY, TEMPORARY_QUEUES
from shoal.errors import InvalidDestinationError
from shoal.types import QueueName

#: Answers to requests of the bus go to topics that begin so.
_REPLIES = "_reply/"

Kind = Literal["topic", "queue", "temporary"]
_PREFIXES: dict[str, Kind] = {
    "/topic/": "topic",
    "/queue/": "queue",
    "/temp-queue/": "temporary",
    "/temp-topic/": "temporary",
}


@dataclass(frozen=True, slots=True)
class Destination:
    """Where messages go: a topic, a queue, or what a client calls a temporary one of its own."""

    kind: Kind
    name: str
    #: As the client wrote it.
    text: str


def parse(text: str) -> Destination:
    """The destination that a text names.

    Raises:
        InvalidDestinationError: it names none.
    """
    for prefix, kind in _PREFIXES.items():
        if text.startswith(prefix) and len(text) > len(prefix):
            return Destination(kind, text[len(prefix) :], text)
    raise InvalidDestinationError(
        f"destination is {text!r:.100}, and must be /topic/NAME, /queue/NAME or /temp-queue/NAME."
    )


def check_sending(destination: Destination) -> None:
    """Refuse topics that the bus uses itself; answers go to some of them."""
    name = destination.name
    if destination.kind == "topic" and name.startswith("_") and not name.startswith((_REPLIES, TEMPORARY)):
        raise InvalidDestinationError(
            f"{destination.text!r:.100} is reserved: topics that begin with '_' are the bus's own."
        )


def check_reading(destination: Destination) -> None:
    """Refuse what the bus reads itself, and what belongs to another connection."""
    name = destination.name
    if destination.kind == "topic" and name.startswith("_"):
        raise InvalidDestinationError(
            f"{destination.text!r:.100} is reserved: topics that begin with '_' are the bus's own."
        )
    if destination.kind == "queue" and name.startswith(TEMPORARY_QUEUES):
        raise InvalidDestinationError(
            f"{destination.text!r:.100} is temporary: only the connection that made it may read it."
        )


def reply_text(name: str) -> str:
    """What a client calls a destination for answers."""
    return f"/queue/{name}" if isinstance(name, QueueName) else f"/topic/{name}"
