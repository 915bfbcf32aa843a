"""A publisher's chain at one node: what is known of it, what is kept, and who still needs what."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Literal, NamedTuple

from .records import Root

if TYPE_CHECKING:
    from .network import Link


class Kept(NamedTuple):
    """A message in a ring."""

    topic: int
    value: int
    at_s: float


class Unwanted(NamedTuple):
    """A skip in a ring: the view it was decided under, in our clock; its digest; the link it came over."""

    version: int
    digest: int | None
    link: int


#: A number that is older than its asker's interest, or lost for good.
Passed = Literal["older", "lost"]
RingEntry = Kept | Unwanted | Passed


class To(NamedTuple):
    """A target: a whole link, or one asker on a LAN that is answered by unicast."""

    link: int
    asker: int | None = None


@dataclass
class Target:
    """How far a target is served."""

    next: int
    #: Below this number only answers count: skips must cover what the target announced.
    strict_below: int = 0
    #: The target asks by age, and no number is known yet.
    age_s: float | None = None
    #: The number that this node lacks; 0 if it asks by age itself.
    missing: int | None = None
    asked_at_s: float = 0.0
    #: C10: nothing is asked upstream for it.
    ring_only: bool = False


@dataclass
class Ask:
    """The one request of a chain that is under way."""

    first: int
    age_s: float | None
    began_s: float
    #: Where it was noticed that something is missing.
    via: tuple[Link, int] | None
    #: How far all was at the last request: a request that gets on does not give up.
    mark: tuple[int, int]
    count: int = 0
    wait_s: float = 0.1


@dataclass
class Chain:
    """A chain, at a router or at a program."""

    publisher: int
    root: Root | None = None
    #: The next number; 0 while nothing is known.
    next: int = 0
    #: The highest number that exists, as far as was heard.
    last: int = 0
    #: The publisher said goodbye, or its nearest hop missed it; and when this node heard of it.
    ended: bool = False
    ended_at_s: float = 0.0
    moved_at_s: float = 0.0
    #: A number above `next` was heard; a program keeps the lowest, a router the highest.
    above: int = 0
    ring: dict[int, RingEntry] = field(default_factory=dict)
    #: The lowest number of which the ring knows something.
    low: int = 0
    #: Answers that are older than the ring, for the targets that wait.
    passing: dict[int, RingEntry] = field(default_factory=dict)
    targets: dict[To, Target] = field(default_factory=dict)
    #: What others brought to a LAN: the next number there, and since when it stands.
    heard: dict[int, int] = field(default_factory=dict)
    stands_since_s: dict[int, float] = field(default_factory=dict)
    ask: Ask | None = None

    def hear(self, link: int, number: int, now_s: float) -> None:
        """Another router brought everything below this number to a LAN."""
        if number > self.heard.get(link, 0):
            self.heard[link], self.stands_since_s[link] = number, now_s

    def keep(self, number: int, entry: RingEntry, ring_max: int) -> None:
        """Put into the ring, and drop the oldest beyond its bound."""
        if len(self.ring) >= ring_max and number < min(self.ring):
            return
        self.ring[number] = entry
        if not self.low or number < self.low:
            self.low = number
        while len(self.ring) > ring_max:
            oldest = min(self.ring)
            del self.ring[oldest]
            self.low = oldest + 1

    def progress(self) -> int:
        """Grows whenever something came, or was passed on."""
        return sum(target.next for target in self.targets.values()) + self.next
