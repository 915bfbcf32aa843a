"""Does what a `Roamer` decides: opens a second link, swaps, leaves the old one. On the keeper's thread."""

import functools
import math
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Protocol

from shoal.config.target import Target
from shoal.link.connect_times import connect_times
from shoal.link.events import LinkEvent, Roamed
from shoal.link.registry_client import Located
from shoal.link.roamer import Leave, Locate, Measure, Open, Roamer

if TYPE_CHECKING:
    from shoal.link.dialler import Dialler
    from shoal.link.locating import Locator

#: How often silence is looked at.
LOOK_S = 0.25
#: A turn that comes after this time was late.
LATE_S = 3 * LOOK_S


@dataclass(frozen=True)
class Measured:
    """How long connections took, by place."""

    took_s: dict[Target, float]


class Owner(Protocol):
    """What a keeper does for it."""

    def beside(self, dialler: "Dialler", place: Target) -> "Dialler":
        """Open a link beside one that there is."""

    def drop(self, dialler: "Dialler") -> None:
        """Stop keeping a link, and say goodbye there."""

    def forget(self, dialler: "Dialler") -> None:
        """Stop keeping a link."""

    def part(self, connection: int) -> None:
        """Say goodbye on a connection once everything was sent."""

    def find_out(self, dialler: "Dialler", find: Callable[[], Located | Measured]) -> None:
        """Find something out on a thread of its own."""

    def heard(self) -> dict[int, float]:
        """How many seconds ago each node was heard."""

    def tell(self, event: LinkEvent) -> None:
        """Tell the program."""


class Roaming:
    """A dialler that may move."""

    def __init__(self, owner: Owner, dialler: "Dialler", locator: "Locator | None", now: float) -> None:
        self._owner, self._dialler, self._locator = owner, dialler, locator
        self._roamer = Roamer(now, can_locate=locator is not None)
        self._second: Dialler | None = None
        #: Connections that are left, by place.
        self._old: dict[Target, int] = {}
        self._node, self._turned_at = 0, now

    def due_at(self, now: float) -> float:
        """When to turn again."""
        watches = self._dialler.state == "up" and self._locator is not None
        return min(self._roamer.poll_timeout(), now + LOOK_S if watches else math.inf)

    def on_up(self, now: float, node: int) -> None:
        """The dialler's own link is up."""
        self._node = node
        self._roamer.on_moved(now, self._dialler.target, self._dialler.broke or "the link broke")
        self._dialler.broke = ""

    def on_redirect(self, now: float, places: Iterable[Target]) -> None:
        """The daemon asks the program to go elsewhere."""
        known = list(places)
        self._dialler.spares = known
        self._roamer.on_redirect(now, known)

    def on_found(self, now: float, found: Located | Measured) -> None:
        """The answer of a registry is known."""
        if isinstance(found, Located):
            self._roamer.on_located(now, found)
        else:
            self._roamer.on_measured(now, found.took_s)

    def turn(self, now: float) -> None:
        """Look, and do what is to be done."""
        roamer, dialler = self._roamer, self._dialler
        if self._second is not None:
            self._look_at_second(now, self._second)
        # A program that stood still itself hears nothing, and suspects no daemon for it.
        was_late, self._turned_at = now - self._turned_at > LATE_S, now
        if dialler.state == "up" and self._locator is not None and not was_late:
            roamer.on_silence(now, self._owner.heard().get(self._node, 0.0))
        roamer.handle_timeout(now)
        while (action := roamer.poll_action()) is not None:
            match action:
                case Open(place):
                    self._second = self._owner.beside(dialler, place)
                case Leave(place):
                    connection = self._old.pop(place, None)
                    if connection is not None:
                        self._owner.part(connection)
                case Locate():
                    assert self._locator is not None
                    self._owner.find_out(dialler, functools.partial(self._locator.better, dialler.publisher))
                case Measure(places):
                    self._owner.find_out(dialler, functools.partial(measure, places))
        while (moved := roamer.poll_event()) is not None:
            self._owner.tell(Roamed(dialler.url, moved.before.url, moved.to.url, moved.why))

    def _look_at_second(self, now: float, second: "Dialler") -> None:
        dialler = self._dialler
        if second.state == "up":
            self._second = None
            self._owner.forget(second)
            if dialler.connection is not None:
                self._old[dialler.target] = dialler.connection
            self._node = second.node
            dialler.take_over(second)
            dialler.spares = [place for place in dialler.spares if place != second.target]
            self._roamer.on_up(now, second.target)
        elif second.settled or second.state == "standby":
            self._second = None
            self._owner.drop(second)
            self._roamer.on_failed(now, second.target)


def measure(places: Iterable[Target]) -> Measured:
    """How long a connection to each place takes."""
    return Measured(connect_times(places))
