"""Decides at which daemon a program is, and when it moves. No sockets, threads or clock of its own.

| on …                                             | it |
|--------------------------------------------------|----------------------------------------------------------|
| `on_redirect`: the daemon is full or leaves      | opens a link to the first daemon that was named |
| `on_silence`: nothing was heard for `SUSPECT_S`  | asks for daemons, and opens a link to the best |
| `LOOK_S` passed                                  | asks for daemons that may be better |
| `on_located`: ours is overloaded, one is not     | opens a link there |
| `on_located`: otherwise                          | has the round trips of ours and of the others measured |
| `on_measured`: one is much nearer, three times   | opens a link there |
| `on_up`: the new link carries messages           | leaves the old one after `OVERLAP_S`: make before break |
| `on_failed`: the new link does not               | opens one to the next that it knows; with none it stays |
| `on_moved`: the link broke, and leads elsewhere  | tells it |

Moves for a better response are `APART_S` apart. Actions come from `poll_action`, events from `poll_event`;
`poll_timeout` says when to ask again.
"""

import collections
import math
import random
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from shoal.config.target import Target
from shoal.link.registry_client import Candidate, Located

#: Silence of a daemon after which the program looks for another one.
SUSPECT_S = 1.0
#: A program that has just moved does not suspect its new daemon for this time: a machine under load is late.
SUSPECTS_APART_S = 5.0
#: How often a program looks for a better daemon, and how long it stays at least after such a move.
LOOK_S, APART_S = 60.0, 120.0
#: A round trip below this part of ours, this number of times in a row, and shorter by this, is much nearer.
NEARER, TIMES, GAIN_S = 0.7, 3, 0.001
#: A daemon that is fuller than the first is left for one that is less full than the second.
OVERLOADED, IDLE = 0.8, 0.5
#: How long both links stay: the network learns of the new one before the old one goes.
OVERLAP_S = 1.0
#: A move that failed is tried again after this.
AGAIN_S = 2.0
#: Daemons to go to that are remembered.
PLACES_MAX = 8


@dataclass(frozen=True, slots=True)
class Locate:
    """Ask registries for daemons that may be better than ours."""


@dataclass(frozen=True, slots=True)
class Measure:
    """Measure how long a connection to each of these takes."""

    places: tuple[Target, ...]


@dataclass(frozen=True, slots=True)
class Open:
    """Open a link beside the present one."""

    place: Target


@dataclass(frozen=True, slots=True)
class Leave:
    """Say goodbye on the old link, once everything was sent there."""

    place: Target


Action = Locate | Measure | Open | Leave


@dataclass(frozen=True, slots=True)
class Moved:
    """The program is at another daemon now."""

    before: Target
    to: Target
    why: str


class Roamer:
    """One program's choice. For one thread at a time."""

    def __init__(self, now: float, *, can_locate: bool, chance: random.Random | None = None) -> None:
        """Begin without a daemon; `can_locate` says that there are registries to ask."""
        self._can_locate = can_locate
        self._chance = chance or random.Random()
        self.current: Target | None = None
        #: The daemon that a link is being opened to, and why.
        self._next: tuple[Target, str] | None = None
        #: Where to go if that fails.
        self._places: list[Target] = []
        #: The old daemon, and when it is left.
        self._old: tuple[Target, float] | None = None
        self._why = ""
        self._is_suspected = self._is_locating = False
        self._look_at = self._later(now) if can_locate else math.inf
        self._stay_until, self._again_at = -math.inf, -math.inf
        #: How often in a row each place was much nearer.
        self._nearer: collections.Counter[Target] = collections.Counter()
        self._candidates: tuple[Candidate, ...] = ()
        self._actions: collections.deque[Action] = collections.deque()
        self._events: collections.deque[Moved] = collections.deque()

    def _later(self, now: float) -> float:
        """Programs that began together do not ask together."""
        return now + LOOK_S * (0.75 + 0.5 * self._chance.random())

    # --- getters ---

    @property
    def is_moving(self) -> bool:
        """Whether a second link is being opened."""
        return self._next is not None

    def poll_timeout(self) -> float:
        """When `handle_timeout` has something to do."""
        return min(self._look_at, math.inf if self._old is None else self._old[1])

    # --- input ---

    def handle_timeout(self, now: float) -> None:
        """Time passed."""
        if self._old is not None and now >= self._old[1]:
            self._actions.append(Leave(self._old[0]))
            self._old = None
        if now >= self._look_at:
            self._look_at = self._later(now)
            if self.current is not None and self._next is None and now >= self._stay_until:
                self._locate()

    def on_moved(self, now: float, place: Target, why: str) -> None:
        """The program's own link is up at a place: for the first time, or after it broke."""
        before, self.current = self.current, place
        self._is_suspected = False
        self._nearer.clear()
        if self._old is not None and self._old[0] == place:
            # The new link broke, and the program is back at the daemon that it was to leave.
            self._old = None
        if before is not None and before != place:
            self._events.append(Moved(before, place, why))
            self._stay_until = now + APART_S

    def on_silence(self, now: float, silent_s: float) -> None:
        """Nothing was heard of the daemon for this time."""
        if silent_s < SUSPECT_S:
            self._is_suspected = False
        elif not self._is_suspected and self._next is None and now >= self._again_at:
            self._is_suspected = True
            self._why = f"nothing was heard of the daemon for {silent_s:.1f} s"
            if self._can_locate:
                self._locate()
            else:
                self._go(self._why)

    def on_redirect(self, now: float, places: Sequence[Target]) -> None:
        """The daemon asks the program to go to one of these."""
        known = [place for place in places if place != self.current][:PLACES_MAX]
        if known:
            self._places = known
            if self._next is None:
                self._go("the daemon sent this program elsewhere")

    def on_located(self, now: float, found: Located) -> None:
        """What a registry says; nothing if none answered."""
        self._is_locating = False
        others = [each for each in found.candidates if each.endpoint.target != self.current]
        if self._next is not None:
            return
        if self._is_suspected:
            self._places = [each.endpoint.target for each in others] or self._places
            if not self._places:
                self._is_suspected, self._again_at = False, now + AGAIN_S
            self._go(self._why)
            return
        if self.current is None:
            return
        idle = [each.endpoint.target for each in others if each.load < IDLE]
        if idle and found.current_load is not None and found.current_load > OVERLOADED:
            self._places = idle
            self._go(f"the daemon is {found.current_load:.0%} full or busy")
        elif others:
            self._candidates = tuple(others)
            self._actions.append(Measure((self.current, *(each.endpoint.target for each in others))))

    def on_measured(self, now: float, took_s: Mapping[Target, float]) -> None:
        """How long a connection to each place took; those that failed are missing."""
        ours = None if self.current is None else took_s.get(self.current)
        if ours is None or self._next is not None:
            return
        near = {
            place: took
            for place, took in took_s.items()
            if place != self.current and took < NEARER * ours and ours - took >= GAIN_S
        }
        self._nearer = collections.Counter({place: self._nearer[place] + 1 for place in near})
        often = [place for place, times in self._nearer.items() if times >= TIMES]
        if often:
            best = min(often, key=lambda place: near[place])
            self._places = [best]
            self._go(f"a connection takes {near[best] * 1e3:.1f} ms there, and {ours * 1e3:.1f} ms here")

    def on_up(self, now: float, place: Target) -> None:
        """The link that was to be opened carries messages, and is the program's own now."""
        if self._next is None or self._next[0] != place:
            return
        before, why = self.current, self._next[1]
        self.current, self._next, self._is_suspected = place, None, False
        self._places.clear()
        self._nearer.clear()
        self._stay_until, self._again_at = now + APART_S, now + SUSPECTS_APART_S
        if before is not None:
            self._leave_old(now)
            self._old = (before, now + OVERLAP_S)
            self._events.append(Moved(before, place, why))

    def on_failed(self, now: float, place: Target) -> None:
        """The link that was to be opened cannot be."""
        if self._next is None or self._next[0] != place:
            return
        why, self._next = self._next[1], None
        if not self._places:
            self._is_suspected, self._again_at = False, now + AGAIN_S
        self._go(why)

    # --- output ---

    def poll_action(self) -> Action | None:
        """What to do next."""
        return self._actions.popleft() if self._actions else None

    def poll_event(self) -> Moved | None:
        """What happened."""
        return self._events.popleft() if self._events else None

    # --- rules ---

    def _locate(self) -> None:
        if self._can_locate and not self._is_locating:
            self._is_locating = True
            self._actions.append(Locate())

    def _go(self, why: str) -> None:
        if self._places:
            place = self._places.pop(0)
            self._next = (place, why)
            self._actions.append(Open(place))

    def _leave_old(self, now: float) -> None:
        """Of two moves in a row, the first daemon is left before the second."""
        if self._old is not None:
            self._actions.append(Leave(self._old[0]))
            self._old = None
