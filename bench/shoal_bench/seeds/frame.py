"""What all published experiments share: cells, contestants, a figure to compare, the reading of a run.

An `Experiment` names the document it comes from and what its authors found. Its cells are run one by one for
each contestant by its own `measure`; each run gives a `Reading`.
"""

import os
from collections.abc import Callable, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, field
from types import TracebackType
from typing import TYPE_CHECKING, Any, Generic, Self, TypeVar

from shoal_bench.availability import Need, Needs

if TYPE_CHECKING:
    from shoal_bench.hosts import Host
    from shoal_bench.peers.artemis import Broker

#: Why a cell of a run without rules does not count.
NOT_JUDGED = "not judged"


@dataclass(frozen=True, kw_only=True)
class Trial:
    """One combination of an experiment's parameters."""

    experiment: str
    name: str
    #: The line of a picture that it is a point of, and where on it.
    series: str = ""
    x: float = 0.0


@dataclass(frozen=True, kw_only=True)
class Rig:
    """How cells are run."""

    seconds: float = 10.0
    every_s: float = 1.0
    #: Whether the node and its load have a core each, and a cell must keep the study's rules.
    strict: bool = True
    node_core: int | None = 1
    load_core: int | None = 0

    def __post_init__(self) -> None:
        if not 0 < self.seconds <= 3600:
            raise ValueError(f"seconds must be more than 0 and at most 3600, not {self.seconds}")
        if self.strict and (os.cpu_count() or 1) < 2:
            raise ValueError("the node and its load need a core each, and this machine has one core")


@dataclass(frozen=True, kw_only=True)
class Reading:
    """What one run of a cell showed."""

    #: By name; a name ends with its unit.
    figures: Mapping[str, float | None]
    #: Why it does not count, if it does not.
    why: str | None = None
    #: What each second added, as `shoal capacity fit` reads it; without the run's name.
    samples: tuple[Mapping[str, Any], ...] = ()


class Site:
    """Where cells are run: the rig, and peers' servers that outlive a cell."""

    def __init__(self, rig: Rig, hosts: "Sequence[Host]" = (), hours: float = 0.0) -> None:
        self.rig = rig
        #: Over how long a node is watched that ages.
        self.hours = hours
        #: Hosts of agents: the first has the node of a cell, the last its load. None is this machine.
        self.hosts = hosts
        #: What cells learned that later cells use: such as the share of a core that a contestant needs.
        self.learned: dict[str, Any] = {}
        #: The rule that this machine broke before the first cell, if it did.
        self.busy_before: str | None = None
        self._stack = ExitStack()
        self._artemis: Broker | None = None

    @property
    def artemis(self) -> "Broker":
        """An Artemis for all cells, so that what it runs is compiled. Started when first asked for."""
        from shoal_bench.peers.artemis import Broker

        if self._artemis is None:
            self._artemis = self._stack.enter_context(Broker(core=self.node_core))
        return self._artemis

    @property
    def node_core(self) -> int | None:
        """The core of the node; none where nothing is pinned."""
        return self.rig.node_core if self.rig.strict else None

    @property
    def load_core(self) -> int | None:
        """The core of the load; none where nothing is pinned."""
        return self.rig.load_core if self.rig.strict else None

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._artemis = None
        self._stack.close()


T = TypeVar("T", bound=Trial)
#: Told what a cell does now.
Note = Callable[[str], None]


@dataclass(frozen=True, kw_only=True)
class Experiment(Generic[T]):
    """A published experiment: what makes its cells, how one is measured, what its authors found."""

    name: str
    source: str
    found: str
    #: The cells, or a part of them for a quick look.
    cells: Callable[[bool], list[T]]
    #: Runs a cell once for a contestant.
    measure: Callable[[T, str, Site, Note], Reading]
    #: Ours first; peers follow, with what they need.
    contestants: tuple[str, ...] = ("shoal",)
    peers: Needs = field(default_factory=dict)
    #: The figure that is compared with the published one.
    headline: str
    lower_is_better: bool = False
    #: What the authors reached with a cell's parameters; none where their text does not say it.
    published: Callable[[T], float | None] = lambda _: None
    #: The contestants that can have their node and their load on hosts of agents.
    remote: tuple[str, ...] = ()
    #: In a quick run peers take part in the first and the last cell only.
    peers_at_ends: bool = False
    #: How often a quick run runs each cell of the first contestant, in turns with the others. The speed of a
    #: machine changes within minutes: cells that are compared with each other must not be of one moment.
    rounds: int = 1
    #: What the experiment itself cannot do without.
    needs: tuple[Need, ...] = ()

    @property
    def what(self) -> str:
        """Its one line."""
        return (self.cells.__doc__ or "").strip().partition(": ")[2]

    def factor(self, trial: T, reached: float) -> float | None:
        """How many times better than published."""
        theirs = self.published(trial)
        if theirs is None or not reached:
            return None
        return theirs / reached if self.lower_is_better else reached / theirs
