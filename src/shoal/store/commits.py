"""Which commits are done: a client that repeats one is told so, and nothing is done again.

A client uses a chain for its next transaction only when it knows the outcome of the last one. So the last
commit of each chain is enough, and it is remembered while the publisher can repeat it: until it says goodbye,
or until 10,000 chains of other publishers that went without a goodbye are remembered after it. Ids that
programs chose are remembered beside, 10,000 of them, because a program repeats them under another publisher
after it was started again. They belong to a principal and a client id; programs without both share theirs.
"""

import json
from collections import Counter
from typing import NamedTuple

from shoal.store.core import Core

#: Chains of publishers that are not here, and ids that programs chose, of which the last commits are
#: remembered.
COMMITS_MAX = 10_000

_LAST, _NAMED, _OWNED = "committed/", "commit/", "commit-of/"

Chain = tuple[int, int]


class Done(NamedTuple):
    """A commit: its id, the offsets of its messages, when it was done."""

    id: str
    first: int
    end: int
    wall_us: int


class Commits:
    """The commits that a store remembers. For one thread at a time."""

    def __init__(self, core: Core) -> None:
        self._core = core
        #: Sessions of each publisher.
        self._here: Counter[int] = Counter()
        last = [(_chain_of(key), Done(*json.loads(value))) for key, value in core.log.items(_LAST)]
        named = [(key, Done(_id_of(key), *json.loads(value))) for key, value in core.log.items(_NAMED)]
        named += [(key, Done(_id_of(key), *json.loads(value))) for key, value in core.log.items(_OWNED)]
        #: Both with the oldest first; ids that programs chose by their keys in the log.
        self._last = dict(sorted(last, key=lambda item: item[1].wall_us))
        self._named = dict(sorted(named, key=lambda item: item[1].wall_us))

    def find(self, id_: str, chain: Chain, owner: str) -> Done | None:
        """A commit that is done, or is part of this turn."""
        last = self._last.get(chain)
        return last if last is not None and last.id == id_ else self._named.get(_named(id_, owner))

    def add(self, id_: str, chain: Chain, owner: str, rows: int, *, named: bool, with_rows: bool) -> Done:
        """Remember a commit of this turn, which appends so many rows before its own."""
        core = self._core
        first = core.log.end + core.turn.rows
        done = Done(id_, first, first + rows, core.now.wall_us)
        self._last.pop(chain, None)
        self._last[chain] = done
        core.turn.put(_key(chain), json.dumps(done).encode(), with_rows=with_rows)
        if named:
            key = _named(id_, owner)
            self._named[key] = done
            core.turn.put(key, json.dumps(done[1:]).encode(), with_rows=with_rows)
        self._trim()
        return done

    def drop(self, id_: str, chain: Chain, owner: str) -> None:
        """A commit of this turn was not done."""
        self._last.pop(chain, None)
        self._named.pop(_named(id_, owner), None)

    def came(self, publisher: int) -> None:
        """A session of a publisher begins."""
        self._here[publisher] += 1

    def left(self, publisher: int, *, for_good: bool) -> None:
        """A session of a publisher is over; one that is gone `for_good` repeats nothing."""
        self._here[publisher] -= 1
        if self._here[publisher] <= 0:
            del self._here[publisher]
            for chain in [chain for chain in self._last if for_good and chain[0] == publisher]:
                self._forget(chain)

    def _trim(self) -> None:
        if len(self._last) > COMMITS_MAX:
            absent = [chain for chain in self._last if chain[0] not in self._here]
            for chain in absent[: max(0, len(absent) - COMMITS_MAX)]:
                self._forget(chain)
        if len(self._named) > COMMITS_MAX:
            oldest = next(iter(self._named))
            del self._named[oldest]
            self._core.turn.put(oldest, None)

    def _forget(self, chain: Chain) -> None:
        del self._last[chain]
        self._core.turn.put(_key(chain), None)


def owner_of(principal: str | None, client_id: str | None) -> str:
    """Whose ids a program chooses; empty if it names neither."""
    return "" if principal is None and client_id is None else f"{principal or ''}/{client_id or ''}"


def _named(id_: str, owner: str) -> str:
    """What the log calls a commit whose id a program chose."""
    return f"{_OWNED}{len(owner)}/{owner}/{id_}" if owner else _NAMED + id_


def _id_of(key: str) -> str:
    if key.startswith(_NAMED):
        return key.removeprefix(_NAMED)
    length, _, rest = key.removeprefix(_OWNED).partition("/")
    return rest[int(length) + 1 :]


def _key(chain: Chain) -> str:
    return f"{_LAST}{chain[0]:016x}-{chain[1]}"


def _chain_of(key: str) -> Chain:
    publisher, chain = key.removeprefix(_LAST).split("-")
    return int(publisher, 16), int(chain)
