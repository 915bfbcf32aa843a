"""Rows of one publisher and chain on their way into a store. Decides; waits for nothing, sends nothing.

A row is *kept* here until the store says that it is stored. Rows go in requests, in order, a few requests
ahead of the store's word. What the store refuses comes back as an error to the caller that waits for it;
everything sent behind it comes back as a hole, and is sent again. A new session begins with everything that
is not stored.

A refusal belongs to its row. A caller that waits for the row gets it. Otherwise it is kept until a caller
asks for refusals of the row's destination, or for all of them.

A row is *live* if it was published for live subscribers when it was added. Others are published when they are
stored; until then, callers that wait for them wait on.

A *patient* chain, an outbox's, gives nothing up that may be taken later: it tries again.

A *strict* chain stores nothing behind a row that is refused: its rows have numbers of a client, which may
not hear of the refusal, and repeats them. If a later row were stored, the store would take the repeated one
for stored.
"""

import heapq
import itertools
import threading
from collections import deque
from collections.abc import Callable
from typing import Any, NamedTuple, Protocol

from shoal._core import check_rows, split_rows
from shoal.bus.store_credit import Publish, StoredRows
from shoal.bus.store_errors import error_of
from shoal.errors import ShoalError, StoreError, StoreRefusedError

#: Requests ahead of the store's word; what is added meanwhile goes together in the next one.
IN_FLIGHT_MAX = 4
#: While a request is on its way, a next one is made of at least these bytes.
WORTHWHILE_BYTES = 64 << 10
#: Bytes that are not stored yet; beyond it a caller that adds waits.
UNSTORED_BYTES_MAX = 32 << 20
#: Refusals that no caller asked for; of more the oldest are forgotten, and counted.
REFUSALS_MAX = 10_000
#: How long a patient chain waits before it tries again what was refused.
RETRY_S = 1.0
#: How long a publisher that changed stores waits for its messages that other stores forward to the new one.
CUSTODY_S = 5.0
#: Stored rows for which live subscribers have no room are published again after this.
FULL_CHECK_S = 0.01
#: What is refused for good, though the caller is patient.
_FINAL = frozenset({"TOO_LONG", "BAD_ROWS", "EXISTS_NOT", "BAD_REQUEST"})

#: Called when a row is stored, with nothing, or with why it never will be.
Done = Callable[[ShoalError | None], None]
#: Gives the next rows, with the numbers of the first and the last; none if there are none now. Another
#: function tells about how many bytes there are.
Take = Callable[[], tuple[bytes, int, int] | None]


class RowsEngine(Protocol):
    """Rows on their way into a store, as a session needs them: a chain, or a rule that forwards."""

    publisher: int
    chain: int
    patient: bool

    @property
    def is_busy(self) -> bool:
        """Whether the store has requests to answer."""

    def is_next(self, number: int) -> bool:
        """Whether nothing before a row waits to be stored."""

    def restart(self) -> None:
        """A new session begins."""

    def give_up(self, error: ShoalError) -> None:
        """Nothing more will be stored."""

    def on_stored(self, through: int) -> None:
        """The store has every row up to a number."""

    def on_passed(self, through: int) -> None:
        """The store has passed every row up to a number on to the next one."""

    def on_refused(self, now: float, body: dict[str, Any]) -> None:
        """The store took nothing of a request."""

    def on_unsent(self, rows: bytes, after: int, why: Exception) -> None:
        """The link does not take the last request."""

    def handle_timeout(self, now: float) -> None:
        """Time has passed."""

    def poll_send(self, now: float = 0.0) -> dict[str, Any] | None:
        """The next request, if one is to be sent now."""

    def poll_timeout(self) -> float | None:
        """When to look again."""


class Batch:
    """Rows of one request."""

    __slots__ = ("at", "error", "first", "last", "repeated", "rows")

    def __init__(self, rows: bytes, first: int, last: int, at: float, *, repeated: bool = False) -> None:
        self.rows, self.first, self.last = rows, first, last
        #: When they were as old as they say, or later.
        self.at = at
        #: It was sent in a session that is over.
        self.repeated = repeated
        #: Why the link takes it in no request: it is given up once those in front of it are stored.
        self.error: StoreError | None = None


class Refused(NamedTuple):
    """A row that was given up, and that no caller waited for."""

    destination: str
    error: StoreError
    #: Its caller is about to wait for it.
    is_claimed: bool


class Claims:
    """Rows whose callers wait for them, or are about to. May be shared between threads."""

    def __init__(self) -> None:
        self._numbers: set[int] = set()
        self._lock = threading.Lock()

    def __contains__(self, number: int) -> bool:
        return number in self._numbers

    def add(self, number: int) -> None:
        """A caller publishes a row, and waits for it next."""
        with self._lock:
            self._numbers.add(number)

    def discard(self, number: int) -> None:
        """A caller was told, or publishes nothing."""
        with self._lock:
            self._numbers.discard(number)

    def settle(self, through: int) -> None:
        """Rows up to a number are stored, or were given up."""
        if self._numbers:
            with self._lock:
                self._numbers = {number for number in self._numbers if number > through}


class Chain:
    """One publisher's rows, in order. For one thread at a time."""

    def __init__(
        self,
        publisher: int,
        chain: int,
        take: Take,
        size: Callable[[], int],
        *,
        stored: int = 0,
        patient: bool = False,
        strict: bool = False,
        on_stored: Callable[[int], None] = lambda through: None,
        publish: Publish | None = None,
        key: str | None = None,
        clock: Callable[[], float] | None = None,
    ) -> None:
        """`clock` is read after rows are taken: what passes meanwhile is part of the age that they say."""
        self.publisher, self.chain = publisher, chain
        self._clock = clock
        #: What only its publisher knows, if that is not the session's.
        self._key = key
        self._take, self._size, self.patient, self._on_stored = take, size, patient, on_stored
        self._strict = strict
        #: Why a strict chain stores nothing more.
        self._stopped: StoreError | None = None
        #: Every row up to this number is stored, or was given up. Others may read it at any time.
        self.stored = stored
        #: The same, where some of the rows are not live yet.
        self._mark = stored
        #: Rows up to this number are live, or were stored and published before.
        self.live = 0
        self._unlive = StoredRows(publish)
        self._publish_at: float | None = None
        #: The last row that was sent, and not given up.
        self._after = stored
        #: A store has every row up to this number.
        self._confirmed = stored
        #: Those rows are in another store than this one; until when the chain waits for that to forward them.
        self._elsewhere = False
        self._custody_until: float | None = None
        self._flying: deque[Batch] = deque()
        self._unsent: deque[Batch] = deque()
        #: Bytes that were taken, and are not stored. Others may read it at any time.
        self.unstored_bytes = 0
        #: Answers still to come for requests that are to be sent again.
        self._holes_due = 0
        self._retry_at: float | None = None
        #: Number, order, whom to tell, and whether the row is the caller's own: then a refusal is for it.
        self._waiting: list[tuple[int, int, Done, bool]] = []
        self._order = itertools.count()
        #: Rows that were given up, by number, and how many were not reported.
        self._refused: dict[int, Refused] = {}
        self.failures = 0
        self.claims = Claims()

    # --- getters ---

    @property
    def is_idle(self) -> bool:
        """Whether nothing that was taken waits to be stored."""
        return not self._flying and not self._unsent

    @property
    def is_busy(self) -> bool:
        """Whether the store has requests to answer, or stored rows wait for live subscribers."""
        return bool(self.in_flight or self._unlive)

    def poll_timeout(self) -> float | None:
        """When to look again, if not before."""
        due = [at for at in (self._retry_at, self._publish_at) if at is not None]
        return min(due, default=None)

    def is_next(self, number: int) -> bool:
        """Whether nothing before a row waits to be stored."""
        return number == self._mark + 1

    @property
    def waiting_bytes(self) -> int:
        """Bytes of rows that were taken and are not stored, or not live. Others may read it at any time."""
        return self.unstored_bytes + self._unlive.bytes

    # --- commands ---

    def wait(self, number: int, done: Done, *, own: bool = True) -> None:
        """Call `done` when everything up to a number is stored; if the row is `own`, with why it is not."""
        if self._stopped is not None and number > self.stored:
            done(self._stopped)
            return
        refused = self._refused.pop(number, None) if own else None
        if refused is None and number > self.stored:
            heapq.heappush(self._waiting, (number, next(self._order), done, own))
            return
        self.claims.discard(number)
        self.failures -= refused is not None
        done(None if refused is None else refused.error)

    def take_failure(self, destination: str | None = None) -> StoreError | None:
        """Why rows to a destination, or any, were given up that no caller waits for: the first, once."""
        found = [
            number
            for number, refused in self._refused.items()
            if not refused.is_claimed and destination in (None, refused.destination)
        ]
        if not found:
            return None
        errors = [self._refused.pop(number).error for number in found]
        self.failures -= len(errors)
        if len(errors) > 1:
            errors[0].add_note(f"{len(errors) - 1} more messages were refused")
        return errors[0]

    def restart(self) -> None:
        """A new session begins: what is not stored is sent again."""
        for batch in self._flying:
            batch.repeated = True
        self._unlive.repeat()
        self._unsent.extendleft(reversed(self._flying))
        self._flying.clear()
        self._after, self._holes_due, self._retry_at = self._mark, 0, None
        self._elsewhere, self._custody_until = False, None

    def give_up(self, error: ShoalError) -> None:
        """Nothing more will be stored: tell the callers that wait."""
        self._flying.clear()
        self._unsent.clear()
        self._unlive.clear()
        self.unstored_bytes = 0
        for _, _, done, _ in self._waiting:
            done(error)
        self._waiting.clear()

    # --- input ---

    def on_stored(self, through: int) -> None:
        """The store has every row up to a number: the answer to a request."""
        # Of a request that is to be sent again, too: another store may have forwarded its rows meanwhile.
        self._holes_due = max(0, self._holes_due - 1)
        self._advance(through)

    def _advance(self, through: int) -> None:
        through = self._credible(through)
        self._confirmed = max(self._confirmed, through)
        if through <= self._mark:
            return
        self._mark = through
        # What is to be sent again may have got there the first time.
        for batches in (self._flying, self._unsent):
            while batches and batches[0].last <= through:
                batch = self._drop(batches)
                if batch.last > self.live:
                    self._unlive.add(batch.rows, self.live, batch.at, repeated=batch.repeated)
        self._after = max(self._after, through)
        self._go_live()
        self._on_stored(through)

    def on_passed(self, through: int) -> None:
        """Of no concern to a publisher."""

    def _credible(self, through: int) -> int:
        """What the store can have: rows that were sent. An outbox may have sent more in an earlier life."""
        return through if self.patient else min(through, self._after)

    def _go_live(self) -> None:
        """Publish rows that are stored, and tell callers that wait for them."""
        self._unlive.publish()
        if self._unlive:
            self._publish_at = self._publish_at or 0.0
            self.stored = max(self.stored, self._unlive.first - 1)
        else:
            self._publish_at = None
            self.stored = self._mark
        self._tell(self.stored)

    def on_refused(self, now: float, body: dict[str, Any]) -> None:
        """The store took nothing of a request."""
        if self._holes_due:
            # The answer to a request that is to be sent again anyhow.
            self._holes_due -= 1
            return
        if not self._flying:
            return
        # Requests are answered in order: the store has those that went before.
        first, mark = body.get("first"), self._credible(body["mark"])
        self._advance(mark)
        lost = []
        # What cannot be read has no number: it is the oldest that is not answered.
        while self._flying and first is not None and self._flying[0].first != first:
            lost.append(self._drop(self._flying))
        refused = self._drop(self._flying) if self._flying else None
        self._holes_due = len(self._flying)
        self._unsent.extendleft(reversed(self._flying))
        self._flying.clear()
        # Rows that another store has never come here from this chain: what is sent comes behind them.
        self._after = max(mark, self._confirmed)
        if lost:
            # They never got there. No row is given up before those in front of it are stored.
            self._put_first(lost if refused is None else [*lost, refused])
        elif refused is not None:
            self._take_back(now, refused, body)

    def on_unsent(self, rows: bytes, after: int, why: Exception) -> None:
        """The link does not take the request that `poll_send` gave last: send its rows one by one."""
        if not self._flying or self._flying[-1].rows is not rows:
            # It is to be sent again anyhow, and the store has nothing to answer.
            self._holes_due = max(0, self._holes_due - 1)
            return
        unsent = self._flying.pop()
        self.unstored_bytes -= len(unsent.rows)
        self._after = after
        if unsent.first < unsent.last:
            self._put_first(_alone(unsent))
        else:
            unsent.error = error_of({"error": "TOO_LONG", "text": str(why)})
            self._put_first([unsent])

    def _take_back(self, now: float, refused: Batch, body: dict[str, Any]) -> None:
        """Send what was refused again, or give it up."""
        error = body["error"]
        is_several = refused.first < refused.last
        is_in_part = error == "NOT_OWNED" and is_several
        if error == "HOLE" or (self.patient and error not in _FINAL and not is_in_part):
            self._put_first([refused])
            if error != "HOLE":
                self._retry_at = now + RETRY_S
            elif body["mark"] < self._confirmed:
                self._go_on_behind(now, is_fed=bool(body.get("awaits")))
        elif is_several:
            # Only some of them may be at fault.
            self._put_first(_alone(refused))
        else:
            self._fail(refused, error_of(body))

    def _go_on_behind(self, now: float, *, is_fed: bool) -> None:
        """The store lacks rows that another one has. If stores forward to it, they may come for a while."""
        if self._custody_until is None:
            self._custody_until = now + CUSTODY_S
        if is_fed and now < self._custody_until:
            self._retry_at = now + RETRY_S
        else:
            self._elsewhere = True

    def handle_timeout(self, now: float) -> None:
        """Time has passed."""
        if self._retry_at is not None and now >= self._retry_at:
            self._retry_at = None
        if self._publish_at is not None and now >= self._publish_at:
            self._publish_at = now + FULL_CHECK_S
            self._go_live()

    # --- output ---

    def poll_send(self, now: float = 0.0) -> dict[str, Any] | None:
        """The next request, if one is to be sent now."""
        is_held = self._stopped is not None or self._retry_at is not None
        if is_held or self._holes_due or len(self._flying) >= IN_FLIGHT_MAX:
            return None
        while self._unsent and (error := self._unsent[0].error) is not None:
            if self._flying:
                return None
            self._fail(self._drop(self._unsent), error)
        if self._unsent:
            batch = self._unsent.popleft()
        else:
            if self._flying and not self._is_worth_it():
                return None
            taken = self._take()
            if taken is None:
                return None
            batch = Batch(*taken, now if self._clock is None else self._clock())
            self.unstored_bytes += len(batch.rows)
        after, self._after = self._after, batch.last
        self._flying.append(batch)
        request = {
            "op": "send",
            "publisher": self.publisher,
            "chain": self.chain,
            "after": after,
            "rows": batch.rows,
            "since": batch.at,
        }
        if self._key is not None:
            request["key"] = self._key
        if batch.last <= self.live:
            request["live"] = True
        if self._elsewhere:
            request["elsewhere"] = self._confirmed
        return request

    def _is_worth_it(self) -> bool:
        """Whether to send more while something is on its way: a caller waits for it, or it is much."""
        return self._size() >= WORTHWHILE_BYTES or (bool(self._waiting) and len(self._flying) < 2)

    @property
    def in_flight(self) -> int:
        """Requests that the store has not answered."""
        return len(self._flying) + self._holes_due

    def _drop(self, batches: deque[Batch]) -> Batch:
        """Keep the first batch no longer."""
        batch = batches.popleft()
        self.unstored_bytes -= len(batch.rows)
        return batch

    def _put_first(self, batches: list[Batch]) -> None:
        """Send these next."""
        self._unsent.extendleft(reversed(batches))
        self.unstored_bytes += sum(len(batch.rows) for batch in batches)

    def _fail(self, batch: Batch, error: StoreError) -> None:
        """Give one row up."""
        number = batch.first
        # Rows are refused in order, so everything before is stored or was given up.
        self._mark = max(self._mark, number)
        its = [entry for entry in self._waiting if entry[0] == number and entry[3]]
        if its:
            self._waiting = [entry for entry in self._waiting if entry not in its]
            heapq.heapify(self._waiting)
        is_claimed = number in self.claims
        self.claims.discard(number)
        if not its:
            self.failures += 1
            error.message_id = f"ID:{self.publisher:016x}-{self.chain}-{number}"
            self._refused[number] = Refused(self._destination_of(batch), error, is_claimed)
            if len(self._refused) > REFUSALS_MAX:
                del self._refused[next(iter(self._refused))]
        for _, _, done, _ in its:
            done(error)
        self._go_live()
        if self._strict:
            self._stop(StoreRefusedError(f"message {number} before it was refused: {error}"))

    def _stop(self, error: StoreError) -> None:
        """Store nothing more. Rows that are stored go live all the same."""
        self._stopped = error
        for batches in (self._flying, self._unsent):
            while batches:
                self._drop(batches)
        behind = [entry for entry in self._waiting if entry[0] > self._mark]
        self._waiting = [entry for entry in self._waiting if entry[0] <= self._mark]
        heapq.heapify(self._waiting)
        for _, _, done, _ in behind:
            done(error)

    def _destination_of(self, batch: Batch) -> str:
        try:
            return check_rows(batch.rows, self.publisher, self.chain, batch.first - 1)[4][0][0]
        except (ShoalError, IndexError):
            return ""

    def _tell(self, through: int) -> None:
        while self._waiting and self._waiting[0][0] <= through:
            heapq.heappop(self._waiting)[2](None)
        self.claims.settle(through)


def _alone(batch: Batch) -> list[Batch]:
    """The rows of a batch, one by one."""
    rows = split_rows(batch.rows)
    return [Batch(row, number, number, batch.at, repeated=batch.repeated) for number, row in rows]
