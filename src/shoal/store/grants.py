"""What consumers of a queue or a subscription were granted, and what becomes of it when they are gone.

A message is *granted* to a consumer, under its lease, before it is sent: the log says so, durably. So a store
that was killed knows which messages a program may have received. It marks those as redelivered, no others.

- A consumer that ends itself says what it handed to its program. Its grants are over.
- A consumer that is gone without a word is *absent*, and what it was granted is marked. If it comes back and
  says what it handed over, the rest is marked no longer, unless another consumer was given it meanwhile.
- When the store starts, all consumers are absent. It keeps what they were granted until they had time to come
  back (`Grants.hold`, `Grants.let_go`), so that others are not given marked messages that no program has.

A grant rides with the rows that it is about where the store foresees who gets them: no delivery waits for the
disk a second time then. A consumer that is behind, fast and alone is granted messages ahead of its credit, as
many as it may hold: when its credit comes, they are delivered at once. So an absent consumer's marks are on
twice as many messages as it may hold, at the most.
"""

import json
import struct
from collections.abc import Iterable
from dataclasses import dataclass

from shoal._core import Backlog, Log
from shoal.store.consumer import Consumer
from shoal.store.core import Core
from shoal.store.requests import Runs

#: Numbers from here on hold messages for consumers of the store's last life, below those of commits.
_RETURNING_FROM = 1 << 60
#: Every offset.
ALL = [(0, (1 << 63) - 1)]

_OFFSET = struct.Struct("<Q")


@dataclass(slots=True)
class Foreseen:
    """Messages that a consumer gets once they are durable: their offsets, or rows of a turn before that."""

    first: int
    end: int
    lease: int
    #: Up to here they were given to it.
    given_to: int = 0


@dataclass(slots=True)
class Ahead:
    """Messages that the only consumer is granted before it has credit for them: their offsets."""

    lease: int
    #: The first that was not given to it, and the one after the last.
    next: int
    end: int
    #: The one after the last that the log will have once this turn is durable, and the turn.
    granting_to: int
    turn: int

    def settle(self, core: Core) -> None:
        """Count what became durable meanwhile."""
        if core.durable_turns >= self.turn:
            self.end = self.granting_to


class Grants:
    """The grants of one reader. For one thread at a time."""

    def __init__(self, log: Log, key: str, backlog: Backlog, *, is_durable: bool, is_new: bool) -> None:
        self._key, self._backlog, self._is_durable = key, backlog, is_durable
        #: Leases of consumers that are gone without a word, by what their clients call them.
        self._absent: dict[str, int] = {}
        #: Who holds messages for those of the store's last life.
        self._returning: dict[str, int] = {}
        #: Who gets messages that this turn stores.
        self._foreseen: list[Foreseen] = []
        #: What the only consumer gets next.
        self._ahead: Ahead | None = None
        #: Behind the last message that a consumer was given, or an absent one was granted.
        self._reached = 0
        #: Up to where an earlier version may have given messages out.
        self._given_below = 0
        if is_durable and not is_new:
            takers = json.loads(log.get(f"takers/{key}") or b"{}")
            self._absent = takers if isinstance(takers, dict) else {}
            self._reached = max((end for _, end, _ in log.grants(key)), default=0)
            if (found := log.get(f"given/{key}")) is not None:
                self._given_below = min(_OFFSET.unpack(found)[0], log.end)
                backlog.presume(0, self._given_below)

    # Consumers come and go.

    def note_takers(self, core: Core, consumers: Iterable[Consumer]) -> None:
        """Note who may hand messages over, for the next life of the store."""
        granted = self._backlog.granted
        self._absent = {
            taker: lease
            for taker, lease in self._absent.items()
            if taker in self._returning or granted(lease)
        }
        if not self._is_durable:
            return
        takers = self._absent | {each.taker: each.lease for each in consumers}
        core.turn.put(f"takers/{self._key}", json.dumps(takers).encode() if takers else None)
        if self._given_below:
            core.turn.delivered(self._key, 0, self._given_below, 0, 0)
            core.turn.put(f"given/{self._key}", None)
            self._given_below = 0

    def forget(self, core: Core) -> None:
        """The reader ends."""
        core.turn.put(f"takers/{self._key}", None)
        if self._given_below:
            core.turn.put(f"given/{self._key}", None)

    def end(self, core: Core, consumer: Consumer) -> None:
        """A consumer ended itself, and what it had went back."""
        self._withdraw(core)
        self._end_lease(core, consumer.lease)

    def _end_lease(self, core: Core, lease: int) -> None:
        if self._is_durable:
            core.turn.lease_over(self._key, lease)

    def lose(self, core: Core, consumer: Consumer) -> None:
        """A consumer is gone without a word: it was not sent what it was granted ahead."""
        self._withdraw(core)
        self._absent[consumer.taker] = consumer.lease

    # Consumers of the store's last life.

    def hold(self, now_us: int) -> bool:
        """The store starts: keep what was granted for those it was granted to; whether there is some."""
        for at, (taker, lease) in enumerate(self._absent.items()):
            holder = _RETURNING_FROM + at
            self._backlog.attach(holder)
            self._backlog.take_these(holder, self._backlog.granted(lease), now_us)
            if self._backlog.has(holder, ALL):
                self._returning[taker] = holder
            else:
                self._backlog.detach(holder, [], now_us)
        return bool(self._returning)

    @property
    def holders(self) -> Iterable[int]:
        """Who holds messages for consumers of the store's last life, as the backlog knows them."""
        return self._returning.values()

    @property
    def held(self) -> int:
        """How many messages are kept for consumers of the store's last life."""
        return sum(self._backlog.has(holder, ALL) for holder in self._returning.values())

    def let_go(self, now_us: int, takers: Iterable[str] | None = None) -> None:
        """These consumers of the store's last life are back, or had their time: others may have the rest."""
        for taker in list(self._returning) if takers is None else takers:
            if (holder := self._returning.pop(taker, None)) is not None:
                self._backlog.detach(holder, ALL, now_us)

    def absolve(self, core: Core, takers: Iterable[str]) -> None:
        """These said what they handed over: no program received the rest from them."""
        for taker in takers:
            if (lease := self._absent.pop(taker, None)) is not None:
                self._backlog.absolve(lease)
                self._end_lease(core, lease)

    # Messages.

    def presume(self, core: Core, runs: Runs) -> None:
        """Programs may have received these messages, both ends included: those are marked."""
        for first, last in runs:
            for start, end in self._backlog.presume(first, last + 1):
                self._mark(core, start, end)

    def _mark(self, core: Core, start: int, end: int) -> None:
        if self._is_durable:
            core.turn.delivered(self._key, start, end, 0, 0)

    def grant(
        self,
        core: Core,
        lease: int,
        first: int,
        runs: list[tuple[int, int]],
        marked: list[int],
        ahead: int,
    ) -> bool:
        """Note messages, from the `first` on, that a consumer is about to be sent; whether that is durable.

        Those that an absent consumer was granted are `marked`, and stay so, whatever that one says. So many
        messages more are granted `ahead`, if the consumer is the only one.
        """
        if not self._is_durable:
            return True
        for start, end, _ in self._backlog.runs_of([(offset, 0) for offset in marked]):
            self._mark(core, start, end)
        end = runs[-1][1]
        for each in self._foreseen:
            if each.lease == lease and each.first <= first and end <= each.end and not marked:
                each.given_to = max(each.given_to, end)
                return True
        if not marked and self._is_ahead(core, lease, first, end, ahead):
            return True
        # Before the grants, which may be of the same messages.
        self._revoke_foreseen(core)
        its = self._ahead
        if its is not None and (its.lease != lease or its.next < end):
            self._withdraw(core)
        for start, stop in runs:
            core.turn.granted(self._key, start, stop, lease)
        if end >= self._reached:
            self._grant_ahead(core, lease, end, ahead)
        return False

    def _is_ahead(self, core: Core, lease: int, first: int, end: int, ahead: int) -> bool:
        """Whether messages were granted ahead; then those that follow are, before they are needed."""
        its = self._ahead
        if its is None or its.lease != lease:
            return False
        its.settle(core)
        if first < its.next or end > its.end:
            return False
        its.next = end
        if end < self._reached:
            return True
        self._reached, to = end, min(end + ahead, core.log.durable_end)
        # In time, and not for each delivery.
        if its.granting_to == its.end and its.end < end + ahead // 2 and to > its.end:
            core.turn.granted(self._key, its.end, to, lease)
            its.granting_to, its.turn = to, core.turns + 1
        return True

    def _grant_ahead(self, core: Core, lease: int, first: int, ahead: int) -> None:
        """Grant messages behind all that were granted before: they can be withdrawn, and no mark is lost."""
        self._withdraw(core)
        self._reached = first
        to = min(first + ahead, core.log.durable_end)
        if to > first:
            core.turn.granted(self._key, first, to, lease)
            self._ahead = Ahead(lease, first, first, to, core.turns + 1)

    def _withdraw(self, core: Core) -> None:
        """What was granted ahead and not given is granted no longer."""
        its, self._ahead = self._ahead, None
        if its is not None and its.next < its.granting_to:
            core.turn.revoked(self._key, its.next, its.granting_to)

    def revoke(self, core: Core, number: int, runs: Runs) -> None:
        """A consumer gives back what it has of these: it is granted no longer."""
        if self._is_durable:
            for first, end in self._backlog.weigh(number, runs)[0]:
                core.turn.revoked(self._key, first, end)

    def foresee(self, core: Core, turns: list[tuple[int, int, Consumer]]) -> None:
        """Consumers will be given rows of the turn under way: the first, the one after the last, who."""
        if self._is_durable:
            for first, end, consumer in turns:
                core.turn.grant_rows(self._key, first, end, consumer.lease)
                self._foreseen.append(Foreseen(first, end, consumer.lease))

    def stored(self, first: int | None) -> None:
        """The turn is appended, its rows from an offset on; none if there was no room for them."""
        if first is None:
            self._foreseen.clear()
            return
        for each in self._foreseen:
            each.first, each.end = first + each.first, first + each.end
            self._reached = max(self._reached, each.end)

    def given(self, core: Core) -> None:
        """Everything that can be was given out: what was foreseen and did not happen is granted no longer."""
        ready, waiting, _ = self._backlog.counts
        if ready or waiting:
            self._revoke_foreseen(core)
        self._foreseen.clear()

    def _revoke_foreseen(self, core: Core) -> None:
        for each in self._foreseen:
            if (start := max(each.first, each.given_to)) < each.end:
                core.turn.revoked(self._key, start, each.end)
        self._foreseen.clear()
