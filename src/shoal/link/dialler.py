"""Keeps one address connected: decides when to connect again. No sockets, threads or clock of its own.

| on …                            | it is          | next                                               |
|---------------------------------|----------------|----------------------------------------------------|
| start                           | `connecting`   | at once                                            |
| `up`                            | `up`           |                                                    |
| `broken`, `left`, no such address | `reconnecting` | after a wait that grows                          |
| `duplicate`                     | `standby`      | when no other link leads to that publisher         |
| `stale`                         | `reconnecting` | at once: the other end holds on to what is no more |
| `refused`                       | `refused`      | after the longest wait                             |
| `elsewhere`                     | `reconnecting` | at once, at the first of the other addresses       |
| `closed`                        | over           | never                                              |
"""

import math
from collections.abc import Callable, Collection, Mapping
from typing import TYPE_CHECKING, Any

from shoal import _core
from shoal.config.target import Target
from shoal.link.backoff import Backoff
from shoal.link.redirect import places_of
from shoal.link.state import State

#: How often in a row daemons may send a program on, and addresses that it keeps.
SENT_MAX, PLACES_MAX = 4, 8

if TYPE_CHECKING:
    from shoal.link.locating import Locator
    from shoal.link.roaming import Roaming


class Dialler:
    """One address."""

    def __init__(
        self, target: Target, *, backoff: Backoff, refused_s: float, cost: int | None = None
    ) -> None:
        self.target, self.url = target, target.url
        #: Where it begins again when a daemon to which it was sent fails.
        self.home = target
        #: Addresses to which it was sent and that were not tried yet, and how often in a row it was sent on.
        self.places: list[Target] = []
        self._sent = 0
        #: Others that a daemon named when it sent the program away.
        self.spares: list[Target] = []
        #: Whether `target` is where it was sent, and not where registries say.
        self.is_sent = False
        #: Why the link broke that was up last.
        self.broke = ""
        #: Decides whether it moves to another daemon, where it may.
        self.roaming: Roaming | None = None
        #: What a step over the link costs; `None` is as usual.
        self.cost = cost
        self.state: State = "connecting"
        #: Why it is not up.
        self.why = ""
        #: Who was there last.
        self.publisher: int | None = None
        self.node = 0
        #: The connection that is being made, or is up.
        self.connection: int | None = None
        #: By when a program there has to have sent its greeting.
        self.greet_by = math.inf
        #: Who is there, where it is a node of this process.
        self.inside: Callable[[], _core.TcpLinks | None] | None = None
        #: What names the target of each attempt, where registries do.
        self.locator: Locator | None = None
        #: Addresses of the host that were not tried yet.
        self.addresses: list[str] = []
        #: It was tried to the end, once.
        self.settled = False
        self._backoff = backoff
        self._refused_s = refused_s
        #: When to connect, by `time.monotonic`; `None` while it is connected, or being connected.
        self._at: float | None = 0.0

    @property
    def is_greeting(self) -> bool:
        """Whether a connection is being made, and no greeting has come yet."""
        return self.connection is not None and self.state != "up"

    def due_at(self, up: Collection[int]) -> float | None:
        """When to connect; `up` are the publishers that some link leads to."""
        if self.state == "standby" and self.publisher in up:
            return None
        return self._at

    def begin(self) -> None:
        """It is being connected."""
        self._at = None
        if self.state == "standby":
            self.state = "reconnecting"

    def refuse(self, now: float, why: str) -> float:
        """It refuses us: how long to wait."""
        self.connection = None
        self.state, self.why, self.settled = "refused", why, True
        self.addresses.clear()
        self._at = now + self._refused_s
        return self._refused_s

    def fail(self, now: float, why: str) -> float:
        """It cannot be reached: how long to wait."""
        self.connection = None
        self.state, self.why = "reconnecting", why
        # Another address of the same host is tried at once, and then another daemon.
        goes_on = bool(self.addresses or self.places)
        if not self.places and self.is_sent and not self.addresses:
            self.places, self.spares = self.spares, []
            goes_on = bool(self.places)
        if not self.addresses and (self.places or self.is_sent):
            self._go_to(self.places.pop(0) if self.places else None)
        delay_s = 0.0 if goes_on else self._backoff.next_s()
        self._at = now + delay_s
        self.settled = self.settled or not goes_on
        return delay_s

    def _go_to(self, place: Target | None) -> None:
        """Lead to another daemon, or home."""
        self.is_sent = place is not None
        self.target, self.publisher = place or self.home, None
        self.addresses.clear()

    def take_over(self, other: "Dialler") -> None:
        """The link of another dialler, which is up, is this one's from now on."""
        self.target, self.connection, self.publisher = other.target, other.connection, other.publisher
        self.node, self.is_sent = other.node, self.locator is None
        self.state, self.why, self.settled, self._at = "up", "", True, None
        self.addresses.clear()
        self.places.clear()
        self._backoff.reset()

    def _on_sent(self, now: float, places: list[Target]) -> float:
        """A daemon that is full or leaves names others: how long to wait."""
        self._sent += 1
        self.places = places[:PLACES_MAX] if self._sent <= SENT_MAX else []
        self.addresses.clear()
        return self.fail(now, "the daemon is full or leaves")

    def on_news(self, now: float, news: Mapping[str, Any]) -> float | None:
        """Something became of its connection: how long to wait before the next, or `None`."""
        kind = news["kind"]
        if kind == "up":
            self.state, self.why, self.publisher = "up", "", news["publisher"]
            self.node, self.settled, self._sent = news.get("node", 0), True, 0
            self.addresses.clear()
            self.places.clear()
            self._backoff.reset()
            return None
        was_up = self.state == "up"
        if was_up:
            self.broke = news.get("why") or "the daemon left"
        self.connection = None
        match kind:
            case "duplicate":
                self.state, self.publisher = "standby", news["publisher"]
                self.why = "another link leads to the same program"
                self._at, self.settled = now, True
                return None
            case "stale":
                self.publisher = news["publisher"]
                self.state, self._at = "reconnecting", now
                return None
            case "elsewhere":
                return self._on_sent(now, places_of(news["why"], self.target))
            case "refused":
                return self.refuse(now, news["why"])
            case "left":
                return self.fail(now, "the other end closed its connection to the domain")
            case "closed":
                self._at = None
                return None
            case _:
                if was_up:
                    self.addresses.clear()
                return self.fail(now, news["why"])
