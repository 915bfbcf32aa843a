"""Which other daemons a daemon connects to, computed from a registry's list by each daemon for itself.

Up to eight daemons are all connected to each other. More of them are a ring in the order of a hash, in which
each connects to its two successors and, by chords, to the daemons a quarter, an eighth, … of the ring ahead.
So the number of links grows as the logarithm of the number of daemons, any one daemon or link may fail, and
paths stay short. Every daemon computes the same mesh from the same list; none of them leads.
"""

import hashlib
from collections.abc import Iterable

from shoal.link.directory import Record

#: Up to this number of daemons, each connects to all others.
FULL_MESH_MAX = 8
#: Each daemon of a ring connects to this number of successors.
SUCCESSORS = 2


def neighbours(own: str, publishers: Iterable[str]) -> set[str]:
    """The daemons that a daemon connects to, or that connect to it; `own` is among the publishers or not."""
    ring = sorted({own, *publishers}, key=_place)
    if len(ring) <= FULL_MESH_MAX:
        return set(ring) - {own}
    here, found = ring.index(own), set()
    for step in _steps(len(ring)):
        found |= {ring[(here + step) % len(ring)], ring[(here - step) % len(ring)]}
    return found - {own}


def _steps(count: int) -> list[int]:
    """How far ahead each daemon of a ring connects."""
    steps = list(range(1, SUCCESSORS + 1))
    chord = count // 4
    while chord > SUCCESSORS:
        steps.append(chord)
        chord //= 2
    return steps


def _place(publisher: str) -> bytes:
    return hashlib.sha256(publisher.encode()).digest()


def wanted(own: str, records: Iterable[Record]) -> dict[str, Record]:
    """The records to connect to, by publisher: neighbours that listen somewhere."""
    known = {record.publisher: record for record in records}
    return {each: known[each] for each in neighbours(own, known) if each in known and known[each].endpoints}
