"""Which numbers of a publisher's chain a store has, where that is not all up to the highest.

A publisher that changes stores goes on behind what another store has: it sends number 11, and messages 1 to
10 are in the custody of a store that forwards them here later. So a chain is a list of *runs*, each from
after a number up to and with another. Most chains are one run from 0, and nothing is kept of them here.

A run begins where a sender vouches for it, and grows at its end: rows of one run lie in the log in the order
of their numbers. So a store that forwards a row tells where the row's run begins, and everything of the run
that the next store is to have came before.
"""

import json

from shoal.store.core import Core

#: Runs of one chain; beyond, the lowest two become one, as if nothing were missing between them.
RUNS_MAX = 32
#: Chains with more than one run, or one that does not begin at 0; of more, those kept longest are forgotten.
CHAINS_MAX = 5_000

_PREFIX = "numbers/"

#: From after a number, up to and with another one.
Run = tuple[int, int]
Chain = tuple[int, int]


class Numbers:
    """The numbers that a store has. For one thread at a time."""

    def __init__(self, core: Core) -> None:
        self._core = core
        self._runs: dict[Chain, list[Run]] = {
            _chain_of(key): [(after, last) for after, last in json.loads(value)]
            for key, value in core.log.items(_PREFIX)
        }
        #: What the chains were before this turn, whose rows may be refused.
        self._before: dict[Chain, list[Run] | None] = {}

    def known(self, chain: Chain, mark: int) -> list[Run]:
        """What the store has of a chain whose highest number is `mark`."""
        return self._runs.get(chain) or ([(0, mark)] if mark else [])

    def uneven(self, chain: Chain) -> list[Run] | None:
        """The runs of a chain that is not one run from 0; none if it is. Any thread may ask."""
        return self._runs.get(chain)

    def __len__(self) -> int:
        return len(self._runs)

    def add(self, chain: Chain, mark: int, after: int, last: int) -> None:
        """Rows of this turn cover the numbers from after one up to and with another."""
        before = self.known(chain, mark)
        runs = _joined(before, after, last)
        is_even = len(runs) == 1 and runs[0][0] == 0
        if runs == before or (is_even and chain not in self._runs):
            return
        if not self._before:
            self._core.after_rows(self._appended)
        self._before.setdefault(chain, self._runs.get(chain))
        self._set(chain, None if is_even else runs if len(runs) <= RUNS_MAX else _shortened(runs))
        while len(self._runs) > CHAINS_MAX:
            oldest = next(iter(self._runs))
            self._before.setdefault(oldest, self._runs[oldest])
            self._set(oldest, None)

    def _set(self, chain: Chain, runs: list[Run] | None) -> None:
        if runs is None:
            self._runs.pop(chain, None)
        else:
            self._runs[chain] = runs
        value = None if runs is None else json.dumps(runs).encode()
        self._core.turn.put(_key(chain), value, with_rows=True)

    def _appended(self, refused: str | None) -> None:
        before, self._before = self._before, {}
        for chain, runs in before.items() if refused is not None else ():
            if runs is None:
                self._runs.pop(chain, None)
            else:
                self._runs[chain] = runs


def _joined(runs: list[Run], after: int, last: int) -> list[Run]:
    """Runs with the numbers of one more: what is missing joins the run that ends where it begins."""
    found = sorted(runs)
    missing, at = [], after
    for first, end in found:
        if end <= at:
            continue
        if first >= last:
            break
        if first > at:
            missing.append((at, first))
        at = end
    if at < last:
        missing.append((at, last))
    for first, end in missing:
        ends = [index for index, run in enumerate(found) if run[1] == first]
        if ends:
            found[ends[0]] = (found[ends[0]][0], end)
        else:
            found.append((first, end))
    return sorted(found)


def _shortened(runs: list[Run]) -> list[Run]:
    return [(runs[0][0], runs[1][1]), *runs[2:]]


def _key(chain: Chain) -> str:
    return f"{_PREFIX}{chain[0]:016x}-{chain[1]}"


def _chain_of(key: str) -> Chain:
    publisher, chain = key.removeprefix(_PREFIX).split("-")
    return int(publisher, 16), int(chain)
