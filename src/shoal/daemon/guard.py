"""Decides about programs that connect to a daemon that registries know, and where others are sent.

| who says hello                             | is                                                          |
|--------------------------------------------|-------------------------------------------------------------|
| a registry that checks an address          | answered with the proof                                     |
| a program that `allow` does not name       | refused                                                     |
| a daemon of the domain                     | let in                                                      |
| a program, while there is room             | let in                                                      |
| a program, if the daemon is full or leaves | sent to daemons with room; without any, asked to come again |

No sockets here.
"""

import random
import threading
from collections import Counter
from collections.abc import Callable, Iterable

from shoal.link.admission import Allowed, Decide, Guest, Verdict
from shoal.link.challenge import proof_of, publisher_of
from shoal.link.directory import Record

#: Addresses that a program is given, and how long they may be together: a greeting has 255 bytes for them.
PLACES_MAX, PLACES_BYTES_MAX = 4, 250
#: A daemon that is so full looks at the load of others at each registration.
NEARLY_FULL = 0.8


class Guard:
    """Knows the other daemons of the domain. May be shared between threads."""

    def __init__(
        self,
        own: str,
        connections_max: int,
        count: Callable[[], int],
        chance: random.Random | None = None,
    ) -> None:
        """Guard the daemon with this publisher; `count` says how many connections there are."""
        self._own, self._connections_max, self._count = own, connections_max, count
        self._chance = chance or random.Random()
        self._lock = threading.Lock()
        self._secrets: tuple[bytes, ...] = ()
        #: By registry.
        self._records: dict[str, dict[str, Record]] = {}
        self._sent: Counter[str] = Counter()
        #: Whether it lets no program in any more, because it leaves.
        self.is_leaving = False

    # --- commands ---

    def use_secrets(self, secrets: Iterable[bytes]) -> None:
        """Answer registries that have one of these secrets."""
        self._secrets = tuple(secrets)

    def use(self, registry: str, records: Iterable[Record]) -> None:
        """A registry has this list now."""
        with self._lock:
            self._records[registry] = {
                each.publisher: each for each in records if each.publisher != self._own
            }
            self._sent.clear()

    def listener(self, allow: Allowed | None) -> Decide:
        """What decides at a listener with such a list."""
        return lambda guest: self._decide(allow, guest)

    def _decide(self, allow: Allowed | None, guest: Guest) -> bool | Verdict:
        for secret in self._secrets:
            if guest.publisher == publisher_of(secret, guest.node):
                return Verdict(proof_of(secret, guest.node), "answered")
        if allow is not None:
            allow(guest)
        if self.is_daemon(guest.publisher) or not (self.is_leaving or self._count() > self._connections_max):
            return True
        scheme = guest.link.partition(":")[0]
        if places := self.elsewhere(scheme):
            return Verdict(places, "elsewhere")
        full = f"this daemon has {self._connections_max} connections, and no other daemon has room"
        return Verdict("this daemon leaves" if self.is_leaving else full, "busy")

    # --- getters ---

    @property
    def wants_loads(self) -> bool:
        """Whether it is to know how busy the others are."""
        return self.is_leaving or self._count() > NEARLY_FULL * self._connections_max

    def is_daemon(self, publisher: int) -> bool:
        """Whether a publisher is a daemon of the domain."""
        key = f"{publisher:016x}"
        with self._lock:
            return any(key in records for records in self._records.values())

    def elsewhere(self, scheme: str) -> str:
        """Addresses of daemons with room for programs that connect by a scheme; empty if none has.

        A daemon with more free connections is likelier to be first.
        """
        with self._lock:
            free: dict[str, tuple[float, str]] = {}
            for records in self._records.values():
                for publisher, record in records.items():
                    urls = [each.target.url for each in record.endpoints if each.transport == scheme]
                    left = record.connections_max - record.load.connections - self._sent[publisher]
                    if urls and left > 0:
                        free[publisher] = (self._chance.random() ** (1 / left), urls[0])
            best = sorted(free, key=lambda each: free[each], reverse=True)[:PLACES_MAX]
            if best:
                self._sent[best[0]] += 1
        places = ""
        for publisher in best:
            longer = f"{places} {free[publisher][1]}".strip()
            if len(longer.encode()) > PLACES_BYTES_MAX:
                break
            places = longer
        return places
