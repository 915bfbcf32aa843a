"""One combination of an experiment's parameters: which messages are sent, which subscribers want them."""

from dataclasses import asdict, dataclass, field
from typing import Any

TOPIC = "seeds/load"


@dataclass(frozen=True, kw_only=True)
class Group:
    """Subscribers that want the same: one filter, installed `count` times."""

    count: int
    topic: str = TOPIC
    selector: str | None = None
    correlation: str | None = None


@dataclass(frozen=True, kw_only=True)
class Cell:
    """What publishers send in turn, and which subscribers are there."""

    experiment: str
    name: str
    #: What is filtered by: none, correlation, property or topic.
    kind: str = "none"
    publishers: int = 5
    #: Subscribers that want messages. Each has a connection of its own, so that each gets a copy of its own.
    matching: tuple[Group, ...] = ()
    #: Subscribers whose filters match no message; they share connections.
    idle: tuple[Group, ...] = ()
    #: Filters that match nothing, and copies of each message: n and r of the study.
    n: int = 0
    r: int = 1
    size: int = 64
    #: Topics, correlation ids and property values that publishers send round robin.
    topics: tuple[str, ...] = (TOPIC,)
    correlations: tuple[str, ...] = ()
    properties: tuple[dict[str, str], ...] = field(default=())

    def to_json(self) -> dict[str, Any]:
        """For a process of its own."""
        return asdict(self)

    @classmethod
    def from_json(cls, told: dict[str, Any]) -> "Cell":
        """What `to_json` gave."""
        groups = {key: tuple(Group(**group) for group in told[key]) for key in ("matching", "idle")}
        listed = {key: tuple(told[key]) for key in ("topics", "correlations", "properties")}
        return cls(**{**told, **groups, **listed})
