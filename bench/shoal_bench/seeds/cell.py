"""One combination of an experiment's parameters: which messages are sent, which subscribers want them."""

from dataclasses import asdict, dataclass, field
from typing import Any

from shoal_bench.seeds.frame import Trial

TOPIC = "seeds/load"


@dataclass(frozen=True, kw_only=True)
class Group:
    """Subscribers that want the same: one filter, installed `count` times.

    With several topics each of them has a subscriber for every topic, on one connection.
    """

    count: int
    topics: tuple[str, ...] = (TOPIC,)
    selector: str | None = None
    correlation: str | None = None


@dataclass(frozen=True, kw_only=True)
class Cell(Trial):
    """What publishers send in turn, and which subscribers are there."""

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
    #: Whether the filters that match nothing are equal.
    equal: bool = False
    #: The study's default is an empty body.
    size: int = 0
    #: Topics, correlation ids and property values that publishers send round robin.
    topics: tuple[str, ...] = (TOPIC,)
    correlations: tuple[str, ...] = ()
    properties: tuple[dict[str, str], ...] = field(default=())

    def messages(self) -> list[tuple[str, dict[str, Any]]]:
        """Topics and headers that publishers send round robin."""
        headers: list[dict[str, Any]] = [{}]
        if self.correlations:
            headers = [{"correlation_id": correlation} for correlation in self.correlations]
        elif self.properties:
            headers = [{"properties": properties} for properties in self.properties]
        count = max(len(self.topics), len(headers))
        return [(self.topics[i % len(self.topics)], headers[i % len(headers)]) for i in range(count)]

    def to_json(self) -> dict[str, Any]:
        """For a process of its own."""
        return asdict(self)

    @classmethod
    def from_json(cls, told: dict[str, Any]) -> "Cell":
        """What `to_json` gave."""
        groups = {key: tuple(map(_group, told[key])) for key in ("matching", "idle")}
        listed = {key: tuple(told[key]) for key in ("topics", "correlations", "properties")}
        return cls(**{**told, **groups, **listed})


def _group(told: dict[str, Any]) -> Group:
    return Group(**{**told, "topics": tuple(told["topics"])})
