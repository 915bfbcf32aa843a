"""The registry's list of daemons, and the choice of one for a client. No sockets, threads or clock.

Everything is soft state. Daemons register, and renew their lease every few seconds; a registry that starts
again has its list back after one refresh.

| on …                                | the directory                                       |
|-------------------------------------|-----------------------------------------------------|
| a new record, or one that changed   | keeps it, and moves the stamp                       |
| the same record                     | renews its lease and its load; the stamp stays      |
| a lease that ran out, or a goodbye  | removes the record, and moves the stamp             |
| an address that its daemon proved   | shows it to clients and daemons, and moves the stamp|

A record belongs to the principal that registered it; no other one changes or removes it. Lists and choices
have the addresses that their daemons proved (`shoal.link.challenge`), and no others.

Daemons compare stamps to learn that the list changed, so the stamp grows also if the clock is set back.
"""

import dataclasses
import functools
import ipaddress
import random
import secrets
from collections.abc import Callable, Collection, Iterable
from dataclasses import dataclass, field
from typing import NamedTuple

from shoal.link.directory import DAEMONS_MAX, Endpoint, Record

#: The directory removes a daemon that did not register for this time.
LEASE_S = 15.0
#: How often daemons register.
REFRESH_S = 5.0
#: A registry younger than this may not know every daemon yet.
SETTLING_S = LEASE_S
#: Candidates that a client gets.
CANDIDATES = 3
#: Candidates whose ranks differ by less count as equal, so that clients spread.
RANK_MARGIN = 0.10
#: A datagram to an address that echoed none goes out no more often.
UNPROVEN_EVERY_S = 60.0


class DirectoryFullError(Exception):
    """The directory has as many daemons as it may."""


class NotYoursError(Exception):
    """A record belongs to another principal."""

    def __init__(self, owner: str) -> None:
        super().__init__(owner)
        self.owner = owner


@dataclass(slots=True)
class Entry:
    """A daemon that is registered."""

    record: Record
    until: float
    #: Where datagrams for it go, and the key that seals them.
    udp: tuple[str, int] | None
    key: bytes
    #: What it has to repeat to prove that datagrams arrive there.
    echo: bytes
    #: The principal that registered it; empty where no tokens are asked for.
    owner: str = ""
    #: With it the daemon proves its addresses, and those that it proved.
    secret: bytes = b""
    proved: frozenset[Endpoint] = frozenset()
    #: Why others are not proved, as far as they were tried.
    faults: dict[Endpoint, str] = field(default_factory=dict)
    #: Whether datagrams arrive at `udp`.
    proven: bool = False
    sent_at: float | None = None
    #: Clients that were sent there since it said how many it has.
    sent_here: int = 0

    @property
    def shown(self) -> Record:
        """The record with the addresses that the daemon proved."""
        endpoints = tuple(each for each in self.record.endpoints if each in self.proved)
        return dataclasses.replace(self.record, endpoints=endpoints)

    @property
    def unproved(self) -> tuple[Endpoint, ...]:
        """The addresses that it has still to prove."""
        return tuple(each for each in self.record.endpoints if each not in self.proved)


@dataclass(frozen=True, slots=True)
class Candidate:
    """A daemon that a client may use, and why it was chosen."""

    record: Record
    endpoint: Endpoint
    why: str


class Ranked(NamedTuple):
    """A candidate, and how good it is."""

    distance: int
    score: float
    free: int
    candidate: Candidate


class Directory:
    """The daemons of all domains. For one thread at a time."""

    def __init__(
        self,
        now: float,
        *,
        wall: Callable[[], float],
        chance: random.Random | None = None,
        sites: Iterable[str] = (),
        daemons_max: int = DAEMONS_MAX,
    ) -> None:
        """Begin with an empty list.

        Args:
            now: the time, monotonic.
            wall: the time of day, in seconds, from which stamps are made.
            chance: chooses among equals.
            sites: networks (CIDR) within which a client and a daemon count as near.
            daemons_max: daemons at the most.
        """
        self._began, self._wall = now, wall
        self._chance = chance or random.Random()
        self._sites = [ipaddress.ip_network(site) for site in sites]
        self._daemons_max = daemons_max
        self._domains: dict[str, dict[str, Entry]] = {}
        self._stamps: dict[str, int] = {}
        self._last_stamp = 0
        #: Drawn once, so that daemons tell one run of the registry from the next.
        self.id = secrets.token_bytes(8)

    # --- getters ---

    def __len__(self) -> int:
        """Daemons of all domains."""
        return sum(len(entries) for entries in self._domains.values())

    def is_settling(self, now: float) -> bool:
        """Whether the registry is so young that daemons may be missing from its list."""
        return now < self._began + SETTLING_S

    def stamp(self, domain: str) -> int:
        """How new the list of a domain is; 0 if it has no daemon."""
        return self._stamps.get(domain, 0)

    def records(self, domain: str) -> list[Record]:
        """The daemons of a domain, with the addresses that they proved."""
        return [entry.shown for entry in self.entries(domain)]

    def entries(self, domain: str) -> list[Entry]:
        """The daemons of a domain, with all that is known of them."""
        return list(self._domains.get(domain, {}).values())

    def find(self, domain: str, publisher: str) -> Entry | None:
        """One daemon, if it is registered."""
        return self._domains.get(domain, {}).get(publisher)

    # --- what daemons do ---

    def register(
        self,
        now: float,
        domain: str,
        record: Record,
        udp: tuple[str, int] | None = None,
        echo: bytes | None = None,
        *,
        owner: str = "",
        secret: bytes = b"",
    ) -> Entry:
        """Keep a daemon's record for another lease.

        Raises:
            DirectoryFullError: there are too many daemons.
            NotYoursError: another principal registered it.
        """
        entry = self.find(domain, record.publisher)
        if entry is None:
            if len(self) >= self._daemons_max:
                raise DirectoryFullError
            key, first = secrets.token_bytes(32), secrets.token_bytes(8)
            entry = Entry(record, now + LEASE_S, udp, key, first, owner, secret)
            self._domains.setdefault(domain, {})[record.publisher] = entry
            self._touch(domain)
            return entry
        if entry.owner != owner:
            raise NotYoursError(entry.owner)
        if entry.secret != secret:
            # What was proved with the secret before is nothing that this run of the daemon proved.
            entry.secret, entry.proved = secret, frozenset()
            entry.faults.clear()
            self._touch(domain)
        if entry.record != record:
            entry.proved &= frozenset(record.endpoints)
            entry.faults.clear()
            self._touch(domain)
        if entry.udp != udp:
            entry.udp, entry.proven, entry.sent_at = udp, False, None
            entry.echo = secrets.token_bytes(8)
        entry.record, entry.until, entry.sent_here = record, now + LEASE_S, 0
        entry.proven = entry.proven or echo == entry.echo
        return entry

    def prove(self, domain: str, publisher: str, secret: bytes, endpoint: Endpoint) -> bool:
        """A daemon proved with a secret that an address is its own: whether that is news."""
        entry = self.find(domain, publisher)
        if entry is None or entry.secret != secret or endpoint not in entry.unproved:
            return False
        entry.proved |= {endpoint}
        entry.faults.pop(endpoint, None)
        self._touch(domain)
        return True

    def note_fault(self, domain: str, publisher: str, secret: bytes, endpoint: Endpoint, why: str) -> None:
        """A daemon did not prove an address."""
        entry = self.find(domain, publisher)
        if entry is not None and entry.secret == secret and endpoint in entry.unproved:
            entry.faults[endpoint] = why

    def leave(self, domain: str, publisher: str, owner: str | None = None) -> bool:
        """A daemon said goodbye: whether it was registered. With `owner`, the record has to be its own.

        Raises:
            NotYoursError: another principal registered it.
        """
        entry = self.find(domain, publisher)
        if entry is None:
            return False
        if owner is not None and entry.owner != owner:
            raise NotYoursError(entry.owner)
        self._remove(domain, [publisher])
        return True

    def expire(self, now: float) -> list[str]:
        """Remove daemons whose lease ran out: the domains that changed."""
        changed = []
        for domain, entries in list(self._domains.items()):
            late = [publisher for publisher, entry in entries.items() if entry.until <= now]
            if late:
                self._remove(domain, late)
                changed.append(domain)
        return changed

    def due_stamps(self, now: float) -> list[tuple[str, tuple[str, int], Entry]]:
        """Domain, address and daemon of each datagram to send now. Unproven addresses get one a minute."""
        due = []
        for domain, entries in self._domains.items():
            for entry in entries.values():
                is_late = entry.sent_at is None or now >= entry.sent_at + UNPROVEN_EVERY_S
                if entry.udp is not None and (entry.proven or is_late):
                    entry.sent_at = now
                    due.append((domain, entry.udp, entry))
        return due

    def _remove(self, domain: str, publishers: Iterable[str]) -> None:
        entries = self._domains[domain]
        for publisher in publishers:
            del entries[publisher]
        self._touch(domain)
        if not entries:
            # Domains are named by daemons: of one without any, nothing stays.
            del self._domains[domain], self._stamps[domain]

    def _touch(self, domain: str) -> None:
        self._last_stamp = max(self._last_stamp + 1, int(self._wall() * 1e6))
        self._stamps[domain] = self._last_stamp

    # --- what clients do ---

    def rank(
        self,
        domain: str,
        client: str,
        *,
        transports: Collection[str] = (),
        exclude: Collection[str] = (),
        version: str = "",
    ) -> list[Candidate]:
        """Daemons with a free connection, the best first: the near ones, and of these the least busy.

        Candidates that are about as good come in random order; one with more free connections is likelier to
        be first.
        """
        ranked: list[Ranked] = []
        for publisher, entry in self._domains.get(domain, {}).items():
            record = entry.record
            usable = [
                each
                for each in record.endpoints
                if each in entry.proved and (not transports or each.transport in transports)
            ]
            used = record.load.connections + entry.sent_here
            free = record.connections_max - used
            if publisher in exclude or not usable or free <= 0 or (version and record.version != version):
                continue
            distance = self._distance(client, usable[0].host)
            idle = 1.0 - min(max(record.load.cpu, 0.0), 1.0)
            score = 0.5 * free / record.connections_max + 0.5 * idle
            near = ("on your network", "at your site", "farther away")[distance]
            why = f"{near}, {used} of {record.connections_max} connections, {record.load.cpu:.0%} busy"
            ranked.append(Ranked(distance, score, free, Candidate(record, usable[0], why)))
        return [each.candidate for each in self._ordered(ranked)]

    def _ordered(self, ranked: list[Ranked]) -> list[Ranked]:
        """By distance and score; those within the margin of the best that is left, in random order."""
        ranked.sort(key=lambda each: (each.distance, -each.score))
        ordered: list[Ranked] = []
        while ranked:
            best = ranked[0]
            equal = [
                each
                for each in ranked
                if each.distance == best.distance and each.score >= best.score - RANK_MARGIN
            ]
            ranked = ranked[len(equal) :]
            # A random order by weight (Efraimidis and Spirakis).
            drawn = sorted(equal, key=lambda each: -(self._chance.random() ** (1 / each.free)))
            # Of two drawn ones the less busy is first: chance alone would fill some of them (two choices).
            drawn[:2] = sorted(drawn[:2], key=lambda each: -each.score)
            ordered += drawn
        return ordered

    def chosen(self, domain: str, publisher: str) -> None:
        """A client was sent there; that counts until the daemon says how many it has."""
        entry = self.find(domain, publisher)
        if entry is not None:
            entry.sent_here += 1

    def _distance(self, client: str, host: str) -> int:
        """0 for the same subnet, 1 for the same site, 2 otherwise."""
        one, other = _address(client), _address(host)
        if one is None or other is None or one.version != other.version:
            return 2
        host_bits = 8 if one.version == 4 else 64
        if int(one) >> host_bits == int(other) >> host_bits:
            return 0
        return 1 if any(one in site and other in site for site in self._sites) else 2


@functools.lru_cache(maxsize=8192)
def _address(text: str) -> ipaddress.IPv4Address | ipaddress.IPv6Address | None:
    """What a text names; `None` if that is no address."""
    try:
        return ipaddress.ip_address(text)
    except ValueError:
        return None
