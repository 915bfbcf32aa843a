"""Which nodes of a simulated domain could reach each other, and when: what checkers ask about paths.

It follows what a test does to the network: it knows LANs, cables, cuts, crashes and pauses, and nothing of
what routers think of them.
"""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from itertools import combinations


@dataclass
class _Place:
    domain: int
    segments: frozenset[int]
    router: bool
    is_up: bool = True


@dataclass(frozen=True)
class _Shape:
    """Who reaches whom: nodes that hear each other, and nodes next to one connected set of routers."""

    neighbours: frozenset[tuple[int, int]]
    parts: dict[int, frozenset[int]] = field(hash=False)

    def joins(self, one: int, two: int) -> bool:
        pair = (min(one, two), max(one, two))
        return pair in self.neighbours or bool(self.parts.get(one, _NONE) & self.parts.get(two, _NONE))


_NONE: frozenset[int] = frozenset()


class Topology:
    """The network as it is, and as it was at every time before."""

    def __init__(self) -> None:
        self._places: dict[int, _Place] = {}
        self._cables: set[tuple[int, int]] = set()
        self._cuts: set[tuple[int, int]] = set()
        self._shapes: list[tuple[float, _Shape]] = []
        self._changed = False

    # --- what a test does ---

    def add(self, name: int, *, domain: int, segments: Sequence[int], router: bool) -> None:
        """A node is there."""
        self._places[name] = _Place(domain, frozenset(segments), router)
        self._changed = True

    def join(self, one: int, two: int) -> None:
        """A cable joins two nodes."""
        self._cables.add((min(one, two), max(one, two)))
        self._changed = True

    def set_up(self, name: int, is_up: bool) -> None:
        """A node works, or does not."""
        if name in self._places:
            self._places[name].is_up = is_up
            self._changed = True

    def set_cut(self, source: int, target: int, is_cut: bool) -> None:
        """Nothing gets from one node to another, or everything does."""
        (self._cuts.add if is_cut else self._cuts.discard)((source, target))
        self._changed = True

    def heal(self) -> None:
        """Nothing is cut."""
        self._cuts.clear()
        self._changed = True

    def note(self, now_s: float) -> None:
        """Time goes on: from now on the network is as it is."""
        if not self._changed:
            return
        self._changed = False
        shape = self._shape()
        if self._shapes and self._shapes[-1][0] == now_s:
            self._shapes.pop()
        if not self._shapes or self._shapes[-1][1] != shape:
            self._shapes.append((now_s, shape))

    # --- what checkers ask ---

    def always_joined(self, one: int, two: int, since_s: float, until_s: float) -> bool:
        """Whether two nodes could reach each other all the time; also false if one was not there yet."""
        return all(shape.joins(one, two) for shape in self._between(since_s, until_s))

    def joined_for(self, one: int, two: int, since_s: float, seconds: float) -> float:
        """When two nodes had first been joined for `seconds` without a break, counted from `since_s`."""
        began_s = math.inf
        for at, (noted_s, shape) in enumerate(self._shapes):
            ended_s = self._ends(at)
            if ended_s <= since_s:
                continue
            if not shape.joins(one, two):
                began_s = math.inf
                continue
            began_s = min(began_s, max(noted_s, since_s))
            if ended_s - began_s >= seconds:
                return began_s + seconds
        return math.inf

    def routers_beside(self, name: int, at_s: float) -> list[int]:
        """The routers next to a node at a time."""
        pairs = [pair for shape in self._between(at_s, at_s) for pair in shape.neighbours if name in pair]
        beside = {other for pair in pairs for other in pair if other != name}
        return sorted(other for other in beside if self._places[other].router)

    def _between(self, since_s: float, until_s: float) -> Iterator[_Shape]:
        found = False
        for at, (noted_s, shape) in enumerate(self._shapes):
            if noted_s <= until_s and self._ends(at) > since_s:
                found = True
                yield shape
        if not found or self._shapes[0][0] > since_s:
            # Before the first node there was no network.
            yield _Shape(frozenset(), {})

    def _ends(self, at: int) -> float:
        return self._shapes[at + 1][0] if at + 1 < len(self._shapes) else math.inf

    # --- the present ---

    def _hears(self, one: int, two: int) -> bool:
        here, there = self._places.get(one), self._places.get(two)
        return (
            here is not None
            and there is not None
            and here.is_up
            and there.is_up
            and here.domain == there.domain
            and (one, two) not in self._cuts
            and (two, one) not in self._cuts
        )

    def _shape(self) -> _Shape:
        segments: dict[int, list[int]] = defaultdict(list)
        for name, place in sorted(self._places.items()):
            for segment in place.segments:
                segments[segment].append(name)
        pairs = {pair for members in segments.values() for pair in combinations(members, 2)} | self._cables
        working = frozenset(pair for pair in pairs if self._hears(*pair))
        return _Shape(working, self._parts(working))

    def _parts(self, working: frozenset[tuple[int, int]]) -> dict[int, frozenset[int]]:
        """For each node the connected sets of routers beside it; a program does not forward."""
        routers = {name for name, place in self._places.items() if place.router and place.is_up}
        group = {name: name for name in routers}

        def find(name: int) -> int:
            while group[name] != name:
                name = group[name]
            return name

        for one, two in working:
            if one in routers and two in routers:
                group[find(one)] = find(two)
        parts: dict[int, set[int]] = defaultdict(set)
        for name in routers:
            parts[name].add(find(name))
        for pair in working:
            for name, other in (pair, pair[::-1]):
                if other in routers:
                    parts[name].add(find(other))
        # Named by their smallest router, so that equal networks have equal shapes.
        names: dict[int, int] = {}
        for name in sorted(routers):
            names.setdefault(find(name), name)
        return {name: frozenset(names[each] for each in found) for name, found in parts.items()}
