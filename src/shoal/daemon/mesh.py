"""Which other daemons a daemon connects to, computed from a registry's list by each daemon for itself.

Up to eight daemons are all connected to each other. More of them are a ring in the order of a hash. Each
daemon connects to the two on either side of it, and by chords to daemons about a quarter, an eighth, … of the
ring ahead. A chord leads to the nearest of a few daemons there, by ping. So the number of links grows as the
logarithm of the number of daemons, any one daemon or link may fail, and paths stay short. None of them leads.
"""

import hashlib
import math
from collections.abc import Collection, Iterable, Mapping

#: Up to this number of daemons, each connects to all others.
FULL_MESH_MAX = 8
#: Each daemon of a ring connects to this number of successors, and to as many predecessors.
SUCCESSORS = 2
#: Daemons of which a chord leads to one. As many daemons may choose the same one, for each length of a chord.
CANDIDATES = 4


def neighbours(own: str, publishers: Iterable[str]) -> set[str]:
    """The daemons that are connected to a daemon whatever they measure; `own` is listed or not."""
    ring = _ring(own, publishers)
    if len(ring) <= FULL_MESH_MAX:
        return set(ring) - {own}
    here = ring.index(own)
    steps = range(1, SUCCESSORS + 1)
    return {ring[(here + sign * step) % len(ring)] for step in steps for sign in (1, -1)}


def chords(own: str, publishers: Iterable[str]) -> list[tuple[str, ...]]:
    """The daemons that each chord of a daemon may lead to."""
    ring = _ring(own, publishers)
    if len(ring) <= FULL_MESH_MAX:
        return []
    here, found = ring.index(own), []
    length = len(ring) // 4
    while length > SUCCESSORS:
        shortest = max(length // 2, SUCCESSORS, length - CANDIDATES)
        found.append(tuple(ring[(here + step) % len(ring)] for step in range(length, shortest, -1)))
        length //= 2
    return found


def chosen(
    chords: Iterable[Collection[str]], linked: Collection[str], took_s: Mapping[str, float]
) -> set[str]:
    """One daemon for each chord: one that is linked, or else the one whose connection took least.

    Daemons that are neither linked nor in `took_s` cannot be connected to.
    """
    found = set()
    for candidates in chords:
        there = [each for each in candidates if each in linked or each in took_s]
        if there:
            found.add(min(there, key=lambda each: (each not in linked, took_s.get(each, math.inf))))
    return found


def _ring(own: str, publishers: Iterable[str]) -> list[str]:
    return sorted({own, *publishers}, key=_place)


def _place(publisher: str) -> bytes:
    return hashlib.sha256(publisher.encode()).digest()
