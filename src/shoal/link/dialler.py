"""Keeps one address connected: decides when to connect again. No sockets, threads or clock of its own.

| on …                            | it is          | next                                               |
|---------------------------------|----------------|----------------------------------------------------|
| start                           | `connecting`   | at once                                            |
| `up`                            | `up`           |                                                    |
| `broken`, `left`, no such address | `reconnecting` | after a wait that grows                          |
| `duplicate`                     | `standby`      | when no other link leads to that publisher         |
| `stale`                         | `reconnecting` | at once: the other end holds on to what is no more |
| `refused`                       | `refused`      | after the longest wait                             |
| `closed`                        | over           | never                                              |
"""

import math
from collections.abc import Callable, Collection, Mapping
from typing import TYPE_CHECKING, Any

from shoal import _core
from shoal.link.address import Target
from shoal.link.backoff import Backoff
from shoal.link.state import State

if TYPE_CHECKING:
    from shoal.link.locating import Locator


class Dialler:
    """One address."""

    def __init__(
        self, target: Target, *, backoff: Backoff, refused_s: float, cost: int | None = None
    ) -> None:
        self.target, self.url = target, target.url
        #: What a step over the link costs; `None` is as usual.
        self.cost = cost
        self.state: State = "connecting"
        #: Why it is not up.
        self.why = ""
        #: Who was there last.
        self.publisher: int | None = None
        #: The connection that is being made, or is up.
        self.connection: int | None = None
        #: By when whoever is there has to have said who it is.
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
        """Whether a connection is being made, and nobody has said yet who is there."""
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
        # Another address of the same host is tried at once.
        delay_s = 0.0 if self.addresses else self._backoff.next_s()
        self._at = now + delay_s
        self.settled = self.settled or not self.addresses
        return delay_s

    def on_news(self, now: float, news: Mapping[str, Any]) -> float | None:
        """Something became of its connection: how long to wait before the next, or `None`."""
        kind = news["kind"]
        if kind == "up":
            self.state, self.why, self.publisher = "up", "", news["publisher"]
            self.settled = True
            self.addresses.clear()
            self._backoff.reset()
            return None
        was_up = self.state == "up"
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
