"""What happened in a simulated domain, as plain values for the checkers."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Literal, NamedTuple

if TYPE_CHECKING:
    from shoal._core import _DomainNodeState
    from shoal.testing.domain_topology import Topology

End = Literal["running", "left", "crashed"]


class MessageKey(NamedTuple):
    """Which message: who published it, on which of its chains, and as which."""

    publisher: int
    chain: int
    number: int

    def __str__(self) -> str:
        return f"ID:{self.publisher:016x}-{self.chain}-{self.number}"


class Published(NamedTuple):
    """A message that a node published; number 0 if it was dropped or refused."""

    at_s: float
    #: How long its publisher had to wait.
    waited_s: float
    topic: str
    priority: int
    key: MessageKey
    #: Ids of the members that wanted it, as far as its publisher knew.
    wanted_by: Sequence[int]
    body: bytes


class Reading(NamedTuple):
    """A message that an application read."""

    at_s: float
    topic: str
    key: MessageKey
    timestamp_us: int
    body: bytes


class Happening(NamedTuple):
    """Something that a node told its application."""

    at_s: float
    kind: str
    #: The node it is about.
    node: int
    details: Mapping[str, object]


class Loss(NamedTuple):
    """Messages that a node was told it has lost."""

    publisher: int
    chain: int
    first: int
    last: int


class Flush(NamedTuple):
    """A flush that is over."""

    number: int
    began_s: float
    ended_s: float
    #: Ids of the members that did not answer.
    silent: Sequence[int]
    #: Ids of those that lost something for good, and that no flush named before.
    losers: Sequence[int] = ()


@dataclass
class SubscriptionRecord:
    """A subscription, and what was read from it."""

    number: int
    pattern: str
    began_s: float
    accepts: Callable[[Published], bool] | None = None
    no_local: bool = False
    #: Whether its queue keeps what does not fit, and makes senders wait.
    keeps_all: bool = True
    #: Whether it was read without a break.
    always_read: bool = True
    ended_s: float | None = None
    readings: list[Reading] = field(default_factory=list)

    def wants(self, message: Published) -> bool:
        """Whether it asked for a message."""
        fits = matches(self.pattern, message.topic)
        return fits and (self.accepts is None or self.accepts(message))


@dataclass
class Life:
    """A node from one start to its end."""

    name: int
    #: Its node id, the present one: it takes another one if another node has it.
    node: int
    publisher: int
    began_s: float
    end: End = "running"
    ended_s: float | None = None
    #: Times in which the node stood still.
    pauses: list[tuple[float, float]] = field(default_factory=list)
    published: list[Published] = field(default_factory=list)
    subscriptions: dict[int, SubscriptionRecord] = field(default_factory=dict)
    happenings: list[Happening] = field(default_factory=list)
    flushes: list[Flush] = field(default_factory=list)
    #: What it holds now, and the most it ever held.
    state: _DomainNodeState | None = None
    #: The node ids it had before.
    nodes_before: list[int] = field(default_factory=list)
    #: Whether it forwards.
    router: bool = False

    def __str__(self) -> str:
        return f"node {self.name} ({self.publisher:016x})"

    @property
    def nodes(self) -> set[int]:
        """Every node id it ever had."""
        return {self.node, *self.nodes_before}

    @property
    def losses(self) -> list[Loss]:
        """What it was told it has lost."""
        told = [happening.details for happening in self.happenings if happening.kind == "lost"]
        return [
            Loss(
                _int(fields["publisher"]), _int(fields["chain"]), _int(fields["first"]), _int(fields["last"])
            )
            for fields in told
        ]


def _int(value: object) -> int:
    assert isinstance(value, int), value
    return value


@dataclass(frozen=True)
class DomainHistory:
    """Everything that happened."""

    seed: int
    #: The command that does the run again.
    repeat: str
    lives: Sequence[Life]
    #: Whether the network never lost a datagram.
    lossless: bool = True
    #: Which nodes could reach each other, and when.
    topology: Topology | None = None
    #: Whether the checks of routers are the strict ones.
    strict: bool = False

    def running(self) -> list[Life]:
        """The nodes that are there now."""
        return [life for life in self.lives if life.end == "running"]


def matches(pattern: str, topic: str) -> bool:
    """Whether a topic fits a pattern, as slowly and plainly as it can be said."""
    wanted, levels = pattern.split("/"), topic.split("/")
    if levels[0].startswith("_") and wanted[0] in ("*", ">"):
        return False
    for position, level in enumerate(wanted):
        if level == ">":
            return len(levels) > position
        if position >= len(levels) or level not in ("*", levels[position]):
            return False
    return len(wanted) == len(levels)
