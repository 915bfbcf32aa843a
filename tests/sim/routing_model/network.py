"""Links, lanes and virtual time. One seed decides delays; a lane between two nodes keeps its order."""

from __future__ import annotations

import heapq
import itertools
import random
from collections import Counter
from collections.abc import Callable
from typing import TYPE_CHECKING, Literal, NamedTuple

from .records import Message, Replay, Skip
from .rules import Rules

if TYPE_CHECKING:
    from .node import Node
    from .program import Flush

#: A unicast answer overtakes the data lane.
Lane = Literal["control", "data", "answer"]
#: Violations after which a run ends.
VIOLATIONS_MAX = 3
#: Records after which nodes only keep each other busy.
RECORDS_MAX = 60_000


class Link:
    """A LAN, or a link of two nodes."""

    def __init__(self, number: int, *, is_lan: bool, nodes: list[Node]) -> None:
        self.number, self.is_lan, self.nodes = number, is_lan, nodes
        self.is_up = True
        #: Counts breaks: what was in flight at one is gone.
        self.epoch = 0


class Violation(NamedTuple):
    """An invariant that does not hold."""

    invariant: str
    at_s: float
    what: str


class Network:
    """All nodes and links, and what happens next."""

    def __init__(self, seed: int, rules: Rules) -> None:
        self.seed, self.rules, self.draw = seed, rules, random.Random(seed)
        self.now_s = 0.0
        self.nodes: dict[int, Node] = {}
        self.links: list[Link] = []
        self.violations: list[Violation] = []
        self.counts: Counter[str] = Counter()
        #: Messages, skips and requests so far; a run that ended sends no more of them.
        self.work = 0
        #: (source, target, link) of which the target hears no data: the source took it for dead.
        self.deaf: set[tuple[int, int, int]] = set()
        self.flushes: list[Flush] = []
        #: Told of every number that a program reports lost, and of every flush that is confirmed.
        self.on_lost: Callable[[Node, int, int], None] = lambda *_: None
        self.on_confirmed: Callable[[Flush], None] = lambda _: None
        self._agenda: list[tuple[float, int, Callable[..., object], tuple[object, ...]]] = []
        self._order = itertools.count()
        self._busy: dict[tuple[int, int, int, Lane], float] = {}

    def after(self, seconds: float, do: Callable[..., object], *arguments: object) -> None:
        """Do something later."""
        heapq.heappush(self._agenda, (self.now_s + seconds, next(self._order), do, arguments))

    def run_until(self, at_s: float) -> None:
        """Let time pass."""
        while self._agenda and self._agenda[0][0] <= at_s and len(self.violations) <= VIOLATIONS_MAX:
            self.now_s, _, do, arguments = heapq.heappop(self._agenda)
            do(*arguments)
        self.now_s = at_s

    def violate(self, invariant: str, what: str) -> None:
        """Note that an invariant does not hold."""
        self.violations.append(Violation(invariant, round(self.now_s, 3), what))

    # --- transport ---

    def send(self, source: Node, link: Link, target: Node, lane: Lane, record: object) -> None:
        """Send to one node."""
        if not link.is_up or source.is_dead:
            return
        self.work += isinstance(record, Message | Skip | Replay)
        self.counts["records"] += 1
        if self.counts["records"] > RECORDS_MAX:
            self._agenda.clear()
            self.violate("ends", f"more than {RECORDS_MAX} records")
            return
        draw = self.draw
        delay_s = 0.001 + draw.random() * (0.02 if lane == "control" else 0.010)
        if draw.random() < 0.02:
            delay_s += draw.random() * 0.2
        key = (source.id, target.id, link.number, lane)
        at_s = max(self.now_s + delay_s, self._busy.get(key, 0.0) + 1e-6)
        self._busy[key] = at_s
        self.after(at_s - self.now_s, self._arrive, key, link, link.epoch, source.run, target.run, record)

    def cast(self, source: Node, link: Link, lane: Lane, record: object) -> None:
        """Send to all others on a link."""
        for node in link.nodes:
            if node is not source and not node.is_dead:
                self.send(source, link, node, lane, record)

    def _arrive(
        self,
        key: tuple[int, int, int, Lane],
        link: Link,
        epoch: int,
        source_run: int,
        target_run: int,
        record: object,
    ) -> None:
        source_id, target_id, number, lane = key
        target = self.nodes[target_id]
        if link.epoch != epoch or target.is_dead or target.run != target_run:
            return
        if link.is_lan and (source_id, target_id, number) in self.deaf:
            if lane == "data":
                target.gaps.add((number, source_id))
            if lane != "control":
                return
        if target.suspended_until_s > self.now_s:
            self._busy[key] = max(self._busy[key], target.suspended_until_s + 0.001)
            wait_s = target.suspended_until_s - self.now_s + 0.0001
            self.after(wait_s, self._arrive, key, link, epoch, source_run, target_run, record)
            return
        if lane == "data" and (number, source_id) in target.gaps:
            target.gaps.discard((number, source_id))
            target.on_gap(link, source_id)
        target.receive(link, source_id, source_run, lane, record)
