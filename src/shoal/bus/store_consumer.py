"""What a store delivers to one consumer: what is ready, what is held, what may come. Waits for nothing.

A message is *ready* when it is here, *held* when the program has it and did not acknowledge it. Everything
belongs to a lease. A new session brings a new one, and begins with a report of the old one: what the program
finished, and what it was handed. So a store that was started again marks and counts what was handed over, and
nothing else.

With automatic acknowledgement a *reader* finishes what it took when it asks for the next message. The store
hears of it within `ACK_S`, together with what else was finished. It also hears what a program has in hand, so
that it counts hand-overs if the program dies: at once for a message that came before and for a reader that
takes its time, and otherwise within `ACK_S`.

Credit is given for what was taken out of the ready ones, so that at most `prefetch` messages are ready.
Without a `prefetch`, as many are ready as the readers take in `PREFETCH_S`; readers that take longer for one
message get the next one when they ask for it, so that other consumers have work.

A reader that is fast takes a *lot*: some messages at once, which it then gets one by one without the lock. It
has them when it gets them; what it did not get is ready again if the reader slows down or the consumer ends.
"""

import contextlib
import math
from collections import deque
from collections.abc import Callable, Hashable, Iterable, Iterator
from typing import Any

from shoal._core import Message, offsets_of, read_rows
from shoal.bus.readers import IsDone
from shoal.bus.store_protocol import RUNS_MAX
from shoal.errors import LeaseError, StoreError

#: Acknowledgements that wait to be sent together, or a quarter of the prefetch up to this; fewer if
#: nothing else is ready.
ACKS_TOGETHER, ACKS_TOGETHER_MAX = 64, 1000
#: What a reader finished, and what it has in hand, is said to the store this late at the most.
ACK_S = 0.05
#: Messages of a lot, at the most.
LOT_MAX = 256
#: A reader that is done with its lot so soon takes a larger one.
LOT_S = 0.001
#: Without a `prefetch` as many messages are ready as readers take in this time, and at most this many.
PREFETCH_S, PREFETCH_MAX = 0.1, 1000
#: Sessions that were lost before the store said that the consumer began, at the most.
SESSIONS_MAX = 100
#: Acknowledgements of which the store did not say that they are durable; beyond, it is asked.
UNCONFIRMED_MAX = 10_000

Request = dict[str, Any]


def runs_of(offsets: Iterable[int]) -> list[int]:
    """Offsets as runs: first, last, first, last, ascending."""
    runs: list[int] = []
    for offset in sorted(offsets):
        if runs and runs[-1] + 1 == offset:
            runs[-1] = offset
        elif not runs or runs[-1] != offset:
            runs += (offset, offset)
    return runs


class Inbox:
    """One consumer. For one thread at a time."""

    def __init__(
        self,
        number: int,
        begin: Request,
        *,
        prefetch: int | None,
        prefetch_bytes: int,
        auto: bool,
        receiver: object = None,
    ) -> None:
        self.number = number
        #: Numbers of a request that its link takes.
        self.numbers_fit = 1 << 60
        self._begin, self._prefetch_bytes = begin, prefetch_bytes
        #: Messages that may be ready now, and whether that follows the pace of the readers.
        self._prefetch, self._is_paced = (1, True) if prefetch is None else (prefetch, False)
        #: Readers hear that something came, and do not ask before: they get the next one unasked.
        self.is_eager = False
        self._auto = auto
        #: What its messages are acknowledged and answered through.
        self._receiver = receiver
        self.lease: int | None = None
        #: Why nothing more will come, once that is so.
        self.error: StoreError | None = None
        self.closed = False
        #: Nothing more is wanted; what is held can still be acknowledged under this lease.
        self.retired = False
        #: Messages that the store dropped, because there were more than it may keep.
        self.dropped = 0
        #: Called when something can be received, or never will be.
        self.on_change: list[Callable[[], None]] = []
        self._ready: deque[Message] = deque()
        self._held: dict[int, Message] = {}
        #: What each reader took last, which it has finished when it asks for more.
        self._last: dict[Hashable, list[int]] = {}
        self._acks: list[int] = []
        self._acks_together = max(ACKS_TOGETHER, min((prefetch or 0) // 4, ACKS_TOGETHER_MAX))
        #: What was acknowledged because a reader finished it, and what was acknowledged or given back because
        #: the program said so, with which delivery it was; and both before requests whose answers say that it
        #: is durable.
        self._said: list[int] = []
        self._told: dict[int, int] = {}
        self._unconfirmed: deque[tuple[int, list[int], dict[int, int]]] = deque()
        #: What was taken and is not with the program yet: its receiver kept it back.
        self._aside: set[int] = set()
        #: What was handed over and the store was not told of; whether that is to be said at once.
        self._handed: list[int] = []
        self._is_handed_due = self._is_ack_due = False
        #: When what was finished or handed over is to be said.
        self._say_at: float | None = None
        #: Which deliveries these are, of those that are not the first.
        self._counts: dict[int, int] = {}
        #: The store that it began in, and its incarnation: offsets mean other messages in another one.
        self._origin = ("", "")
        self._last_lease = 0
        #: What the last lease ended with, and the sessions since then, until the next one begins.
        self._former: Request | None = None
        self._lost: list[str] = []
        #: A reader asks for a message, and none is ready.
        self._is_asked = False
        self._granted_at = 0.0
        self._taken_at_grant = 0
        #: What fast readers took and were not given yet. Each takes out of its own without the lock.
        self.lots: dict[Hashable, deque[Message]] = {}
        #: How many each reader took last, and when.
        self._paces: dict[Hashable, tuple[int, float]] = {}
        #: Nothing is handed out while deliveries are put back.
        self._paused = False
        #: What is to be given back when nothing more comes, with how long it is to wait, and its groups.
        self._returns: list[tuple[int, float | None]] = []
        self._returned_groups: set[str] = set()
        self._sizes: deque[tuple[int, int]] = deque()
        #: When messages that are ready are too old, by offset.
        self._expiries: dict[int, float] = {}
        #: What became too old while it was ready; it is to go back.
        self._expired: list[int] = []
        self._reset()

    def _reset(self) -> None:
        for lot in self.lots.values():
            lot.clear()
        self.lots.clear()
        self._paces.clear()
        self._ready.clear()
        self._held.clear()
        self._last.clear()
        self._acks.clear()
        self._unconfirmed.clear()
        self._said.clear()
        self._told.clear()
        self._handed.clear()
        self._aside.clear()
        self._counts.clear()
        self._is_handed_due = self._is_ack_due = False
        self._say_at = None
        self._is_asked = False
        self._taken_at_grant = 0
        self._sizes.clear()
        self._expiries.clear()
        self._expired.clear()
        self._returns.clear()
        self._returned_groups.clear()
        self._paused = False
        self._taken = self._taken_bytes = self._arrived = 0
        self._granted = self._granted_bytes = 0

    # --- getters ---

    @property
    def name(self) -> str:
        """The queue or the subscription."""
        return str(self._begin.get("queue") or self._begin.get("name"))

    @property
    def pending(self) -> int:
        """Messages that are ready."""
        return len(self._ready) + sum(len(lot) for lot in list(self.lots.values()))

    @property
    def is_over(self) -> bool:
        """Whether nothing more can be received."""
        return (self.closed or self.error is not None) and not self._ready

    def holds(self, message: Message) -> bool:
        """Whether a message was handed out here, under this lease, and is not acknowledged."""
        delivery = message._delivery
        return delivery is not None and delivery[2] == self.lease and delivery[1] in self._held

    def held(self, offset: int) -> Message | None:
        """A message that was handed out and is not acknowledged."""
        return self._held.get(offset)

    def expiry_of(self, message: Message) -> float | None:
        """When a message is too old that was handed out just now; `None` is never."""
        expiries = self._expiries
        return expiries.get(offset_of(message)) if expiries else None

    def has_in_hand(self, message: Message) -> bool:
        """Whether a message is held from this very delivery: one that was given back may be here again."""
        return self.holds(message) and self._held[offset_of(message)] is message

    # --- commands; each returns what is to be said to the store ---

    def begin(self, origin: tuple[str, str] = ("", "")) -> Request:
        """Begin, in a new session with a store and its incarnation; report what the program did in the last.

        Another store, or one that was restored, gets no report: it has other messages at these offsets.
        """
        former = self._reported(origin)
        self._granted, self._granted_bytes = self._prefetch, self._prefetch_bytes
        request = {
            **self._begin,
            "consumer": self.number,
            "messages": self._granted,
            "bytes": self._granted_bytes,
        }
        return request if former is None else request | {"former": former}

    def _reported(self, origin: tuple[str, str]) -> Request | None:
        """Begin anew: what the program did under the last lease, if this is the store that it was of."""
        if origin != self._origin:
            self._origin, self._last_lease = origin, 0
            self._former, self._lost = None, []
        if self._lost and self._former is None:
            self._former = self._report()
        self.lease = None
        self._reset()
        return None if self._former is None else self._former | {"sessions": self._lost}

    def leave(self, origin: tuple[str, str]) -> Request | None:
        """Report what the program did, though it consumes no more: it ended while the store was away."""
        former = self._reported(origin)
        if former is None:
            return None
        return {**self._begin, "op": "report", "consumer": self.number, "former": former}

    def take(self, reader: Hashable, count_max: int = 1, now: float = 0.0) -> list[Message]:
        """The next messages that are ready, and not too old now."""
        if self._paused:
            return []
        lot = self.lots.get(reader)
        if lot:
            return list(_taken_from(lot, count_max))
        self.lots.pop(reader, None)
        while self._ready:
            count = min(count_max, len(self._ready))
            messages = [self._ready.popleft() for _ in range(count)]
            self._count_taken(count)
            self._held.update(zip(offsets_of(messages), messages, strict=True))
            if self._expiries:
                messages = self._still_good(messages, now)
            if messages:
                offsets = offsets_of(messages)
                if self._auto:
                    self._last.setdefault(reader, []).extend(offsets)
                self._hand_over(offsets, now)
                # Other readers that wait ask again when these came.
                self._is_asked = len(messages) < count_max
                return messages
        self._is_asked = True
        return []

    def _hand_over(self, offsets: list[int], now: float) -> None:
        """The program has these from now on; those of a lot, as soon as it gets them."""
        self._handed += offsets
        self._say_later(now)

    def _say_later(self, now: float) -> None:
        if self._say_at is None:
            self._say_at = now + ACK_S

    def _still_good(self, messages: list[Message], now: float) -> list[Message]:
        """Those that are not too old."""
        late = [
            offset
            for offset in offsets_of(messages)
            if (expiry := self._expiries.get(offset)) is not None and expiry <= now
        ]
        self._expired += late
        return [message for message in messages if offset_of(message) not in late]

    def poll_expired(self) -> Request | None:
        """What became too old here goes back, and the store does with it what it does with such."""
        if not self._expired:
            return None
        offsets, self._expired = self._expired, []
        return self.release(offsets, 0.0, seen=False)

    def take_one(self, reader: Hashable, now: float) -> Message | None:
        """The next message that is ready; a fast reader takes a lot with it, and finds the rest there."""
        size, at = self._paces.get(reader, (1, 0.0))
        is_fast = now - at < LOT_S
        # The age of each message of a lot is not checked. One that came before may be what ended its reader:
        # the store gets a report of that one by itself.
        has_lot = self._auto and is_fast and not self._expiries and not self._counts
        count_max = min(2 * size, LOT_MAX, max(1, self._prefetch // 4)) if has_lot else 1
        messages = self.take(reader, count_max, now)
        if not messages:
            return None
        self._paces[reader] = (len(messages), now)
        if self._auto:
            self.lots[reader] = deque(messages[1:])
        self._is_handed_due = self._is_handed_due or not is_fast or messages[0].redelivered
        return messages[0]

    def _take_back(self, reader: Hashable) -> None:
        """What a reader took and was not given is ready again; all but the last that it got is finished."""
        lot = self.lots.pop(reader)
        back = list(_taken_from(lot, len(lot)))
        offsets = set(offsets_of(back))
        got = [offset for offset in self._last.get(reader, ()) if offset not in offsets]
        self._acknowledge(got[:-1])
        self._last[reader] = got[-1:]
        self._ready.extendleft(reversed(back))
        self._taken -= len(back)
        self._taken_at_grant = min(self._taken_at_grant, self._taken)
        self.give_up(offsets)

    def _take_all_back(self) -> None:
        for reader in list(self.lots):
            self._take_back(reader)

    def settle(self, reader: Hashable, now: float = 0.0) -> None:
        """A reader asks for more: it has finished what it took."""
        if self._last and not self.lots.get(reader) and (last := self._last.pop(reader, None)) is not None:
            self._acknowledge(last)
            self._say_later(now)

    def handle_timeout(self, now: float) -> None:
        """Time has passed: what readers finished is acknowledged, what they have in hand is to be said."""
        if self._say_at is None or now < self._say_at:
            return
        for reader, lot in list(self.lots.items()):
            taken, left = self._last.get(reader, []), len(lot)
            got = len(taken) - left
            if got > 1:
                self._acknowledge(taken[: got - 1])
                self._last[reader] = taken[got - 1 :]
            elif left:
                # It takes its time: others may have the rest.
                self._take_back(reader)
        # A lot is looked at again.
        self._say_at = now + ACK_S if any(self.lots.values()) else None
        self._is_handed_due, self._is_ack_due = bool(self._handed), bool(self._acks)

    def keep_back(self, message: Message) -> None:
        """Do not acknowledge a message with the next one: its reader failed, or says so itself."""
        offset = offset_of(message)
        for last in self._last.values():
            if offset in last:
                last.remove(offset)

    def settle_all(self, is_done: IsDone) -> None:
        """Readers that are done with what they took last acknowledge it; others have it in hand."""
        self._take_all_back()
        for reader in [reader for reader in self._last if is_done(reader)]:
            self.settle(reader)

    def offset_of(self, message: Message) -> int:
        """The offset of a message that is held here; refuses others."""
        delivery = message._delivery
        if delivery is None or delivery[0] != self.number:
            raise ValueError(f"{message!r} was not received here")
        if delivery[2] != self.lease:
            raise LeaseError(
                f"{message!r} was delivered before the connection to the store was lost: it comes again, "
                "marked as redelivered"
            )
        if delivery[1] not in self._held:
            raise ValueError(f"{message!r} was acknowledged or given back before")
        return delivery[1]

    def through(self, message: Message) -> list[int]:
        """The offsets of a held message and of all that were handed out before it."""
        wanted, found = self.offset_of(message), []
        for offset in self._held:
            found.append(offset)
            if offset == wanted:
                break
        return found

    def acknowledge(self, offsets: Iterable[int]) -> Request:
        """Acknowledge messages now, because the program says so: it hears if they come again."""
        own = list(offsets)
        for offset in own:
            # One that is not persistent is delivered once at the most, though the store may not hear of this.
            if offset in self._held and self._held[offset].persistent:
                self._told[offset] = self._counts.get(offset, 1)
            else:
                self._said.append(offset)
        self.give_up(own)
        finished, self._acks = self._acks, []
        self._said += finished
        return {"op": "ack", "consumer": self.number, "lease": self.lease, "offsets": runs_of(own + finished)}

    def give_up(self, offsets: Iterable[int]) -> None:
        """A transaction acknowledges messages, or they are given back: this consumer holds them no more."""
        for offset in offsets:
            self._held.pop(offset, None)
            self._counts.pop(offset, None)
            self._expiries.pop(offset, None)
            self._aside.discard(offset)

    def dead(self, offsets: list[int], delay_s: float) -> Request:
        """Have messages put aside; those that the store cannot put aside come again after a while."""
        return self.release(offsets, delay_s) | {"dead": True}

    def release(self, offsets: list[int], delay_s: float | None, *, seen: bool = True) -> Request:
        """Give messages back."""
        if seen:
            self._told.update((offset, self._counts.get(offset, 1)) for offset in offsets)
        self.give_up(offsets)
        request: Request = {"op": "release", "lease": self.lease, "offsets": runs_of(offsets), "seen": seen}
        if delay_s is not None:
            request["delay_s"] = delay_s
        return request | {"consumer": self.number}

    def put_back(self, offset: int, group: str, delay_s: float | None) -> bool:
        """Give a message of a group back as soon as nothing more comes: whether to ask for a pause."""
        self._told[offset] = self._counts.get(offset, 1)
        self.give_up([offset])
        self._returns.append((offset, delay_s))
        self._returned_groups.add(group)
        return len(self._returns) == 1

    def poll_returns(self) -> list[Request]:
        """Give back what is to be given back, after a pause, and go on.

        What is ready of the same groups goes back before: it comes again behind what the program had.
        """
        behind = [message for message in self._ready if message.group in self._returned_groups]
        unseen = offsets_of(behind)
        self._ready = deque(message for message in self._ready if message.group not in self._returned_groups)
        self._count_taken(len(unseen))
        for offset in unseen:
            self._expiries.pop(offset, None)
        requests = [self.release(unseen, 0.0, seen=False)] if unseen else []
        requests += [self.release([offset], delay_s) for offset, delay_s in self._returns]
        self._returns.clear()
        self._returned_groups.clear()
        self._paused = False
        self._changed()
        return [*requests, self._credit()]

    def decline(self, messages: Iterable[Message]) -> Request | None:
        """Give messages back that were handed out, and that no program has looked at."""
        unseen = []
        for message in messages:
            offset = offset_of(message)
            if self.holds(message):
                unseen.append(offset)
            elif self._held.get(offset) is message:
                # Its lease is over: the report of it does not name this message.
                self.give_up([offset])
        return self.release(unseen, 0.0, seen=False) if unseen else None

    def retire(self) -> Request | None:
        """Give back what is ready, after a pause, and take nothing more."""
        self.retired = True
        unseen = offsets_of(list(self._ready))
        self._ready.clear()
        return self.release(unseen, 0.0, seen=False) if unseen else None

    def pause(self) -> Request:
        """Let nothing more come; the answer to this says that nothing does."""
        self._paused = True
        self._take_all_back()
        return {"op": "credit", "consumer": self.number, "messages": 0, "bytes": 0}

    def recover(self) -> list[Request]:
        """Give back everything that is held or ready, after a pause, and go on."""
        self._last.clear()
        held = list(self._held)
        self._handed.clear()
        unseen = offsets_of(list(self._ready))
        self._count_taken(len(self._ready))
        self._ready.clear()
        self._expiries.clear()
        self._paused = False
        requests = []
        if unseen:
            requests.append(self.release(unseen, 0.0, seen=False))
        if held:
            requests.append(self.release(held, 0.0))
        return [*requests, self._credit()]

    def cancel(self) -> Request:
        """End; what is not acknowledged goes back."""
        self.closed = True
        handed = self.handed()
        self._ready.clear()
        self._changed()
        cancel = {"op": "cancel", "consumer": self.number, "lease": self.lease}
        return cancel | ({"handed": handed} if handed else {})

    def handed(self) -> list[int]:
        """What the program has in hand, as runs. The rest counts as not delivered, also what is in flight."""
        self._take_all_back()
        held = [offset for offset in self._held if offset not in self._aside]
        return runs_of([*held, *(offset for offset, _ in self._returns)])

    def lose(self, session: str) -> None:
        """The session is over: messages that no receiver has yet come again in the next one."""
        self._take_all_back()
        self._ready.clear()
        if session and session not in self._lost:
            self._lost = [*self._lost, session][-SESSIONS_MAX:]
        if self.lease is not None:
            self._last_lease, self.lease = self.lease, None

    def _report(self) -> Request:
        """What the program did under the last lease. What is not persistent is delivered once at the most."""
        finished = [*self._acks, *self._said, *(at for _, some, _ in self._unconfirmed for at in some)]
        # Which delivery of each the program was handed last: what is only ready was not.
        handed = {at: count for _, _, some in self._unconfirmed for at, count in some.items()} | self._told
        for offset, message in self._held.items():
            if offset in self._aside:
                continue
            if message.persistent:
                handed[offset] = self._counts.get(offset, 1)
            else:
                finished.append(offset)
        counts = {offset: count for offset, count in handed.items() if count != 1}
        store, incarnation = self._origin
        done, had = runs_of(finished), runs_of(handed)
        report: Request = {"store": store, "incarnation": incarnation, "lease": self._last_lease}
        # All in one request: what is beyond comes again, marked.
        most = min(RUNS_MAX, self.numbers_fit // 6 * 2)
        report |= {"finished": done[:most], "handed": had[:most]}
        report["counts"] = dict(list(counts.items())[: most // 2])
        return report | ({"cut": True} if max(len(done), len(had), 2 * len(counts)) > most else {})

    def fail(self, error: StoreError) -> None:
        """Nothing more will come."""
        self.error = error
        self._changed()

    # --- input ---

    def on_began(self, answer: Request) -> None:
        """The store has the consumer."""
        self.lease = answer["lease"]
        self._former, self._lost = None, []

    def on_deliver(self, said: float, body: Request) -> None:
        """Messages came, which the store said at a time."""
        if self.closed or body["lease"] != self.lease:
            return
        messages = read_rows(
            body["rows"],
            body["first"],
            consumer=self.number,
            lease=body["lease"],
            counts=body.get("counts"),
            receiver=self._receiver,
        )
        self._arrived += len(messages)
        self._sizes.append((self._arrived, len(body["rows"])))
        self._ready.extend(messages)
        self._counts.update(body.get("counts") or {})
        self._expiries.update(
            (offset, said + left_us / 1e6) for offset, left_us in body.get("lives", {}).items()
        )
        if not self._paused:
            self._changed()

    # --- output ---

    def poll_timeout(self) -> float | None:
        """When to come back."""
        return None if self.lease is None else self._say_at

    def poll_acks(self, now: float | None = None) -> Request | None:
        """Acknowledgements to be sent: because they are many, or late, or nothing is ready; or at once."""
        if not self._acks or not (now is None or self._is_worth_it(now)):
            return None
        offsets, self._acks, self._is_ack_due = self._acks, [], False
        self._said += offsets
        return {"op": "ack", "consumer": self.number, "lease": self.lease, "offsets": runs_of(offsets)}

    def poll_handed(self) -> Request | None:
        """What the program has in hand and the store was not told of."""
        if not self._is_handed_due or self.lease is None:
            return None
        self._is_handed_due = False
        rest = {offset for lot in self.lots.values() for offset in offsets_of(list(lot))}
        handed = [offset for offset in self._handed if offset in self._held and offset not in rest]
        self._handed = [offset for offset in self._handed if offset in rest]
        if not handed:
            return None
        return {"op": "handed", "consumer": self.number, "lease": self.lease, "offsets": runs_of(handed)}

    def set_aside(self, message: Message) -> None:
        """A message that was taken is not with the program yet."""
        offset = offset_of(message)
        if self._held.get(offset) is message:
            self._aside.add(offset)
            if offset in self._handed:
                self._handed.remove(offset)

    def take_up(self, message: Message, now: float) -> bool:
        """The program gets a message that was set aside; false if its lease is over: it comes again."""
        if not self.has_in_hand(message):
            return False
        offset = offset_of(message)
        if offset in self._aside:
            self._aside.remove(offset)
            self._hand_over([offset], now)
        return True

    def report(self, message: Message) -> Request:
        """The program gets a message: say so now, and not when it is due."""
        offset = self.offset_of(message)
        if offset in self._handed:
            self._handed.remove(offset)
        return {"op": "handed", "consumer": self.number, "lease": self.lease, "offsets": runs_of([offset])}

    def poll_credit(self, now: float) -> Request | None:
        """Credit to be given, because half of it is used up, or a reader asks for more."""
        return self._credit(now) if self._is_credit_due() else None

    def has_word(self, now: float) -> bool:
        """Whether there is something to be said."""
        is_due = self._is_handed_due or (bool(self._acks) and self._is_worth_it(now))
        return is_due or self._is_credit_due()

    @property
    def is_unsure(self) -> bool:
        """Whether the store is to be asked if what was acknowledged is durable."""
        return len(self._said) + len(self._told) >= UNCONFIRMED_MAX

    def mark(self, number: int) -> None:
        """A request with this number follows what was acknowledged so far; its answer confirms all of it."""
        if self._said or self._told:
            self._unconfirmed.append((number, self._said, self._told))
            self._said, self._told = [], {}

    def confirm(self, number: int) -> None:
        """The request with this number was answered."""
        while self._unconfirmed and self._unconfirmed[0][0] <= number:
            self._unconfirmed.popleft()

    def _is_worth_it(self, now: float) -> bool:
        is_late = self._is_ack_due or (self._say_at is not None and now >= self._say_at)
        return is_late or len(self._acks) >= self._acks_together or not self._ready

    def _is_credit_due(self) -> bool:
        if self.lease is None or self._paused or self.closed or self.retired:
            return False
        used = self._taken + self._prefetch - self._granted
        used_bytes = self._taken_bytes + self._prefetch_bytes - self._granted_bytes
        if self._is_paced and self._prefetch == 1 and not self.is_eager:
            # The next one is for the first caller that asks.
            return self._is_asked and used > 0
        return 2 * used >= self._prefetch or 2 * used_bytes >= self._prefetch_bytes

    def _credit(self, now: float = 0.0) -> Request:
        if self._is_paced and now:
            self._follow_pace(now)
        self._granted = self._taken + self._prefetch
        self._granted_bytes = self._taken_bytes + self._prefetch_bytes
        return {
            "op": "credit",
            "consumer": self.number,
            "messages": self._granted,
            "bytes": self._granted_bytes,
        }

    def _follow_pace(self, now: float) -> None:
        """As many are ready as readers took in a while, at most twice as many as before."""
        elapsed_s = max(now - self._granted_at, 1e-6)
        pace = math.ceil((self._taken - self._taken_at_grant) * PREFETCH_S / elapsed_s)
        self._prefetch = max(1, min(pace, 2 * self._prefetch, PREFETCH_MAX))
        self._granted_at, self._taken_at_grant = now, self._taken
        self._is_asked = False

    def _count_taken(self, count: int) -> None:
        self._taken += count
        while self._sizes and self._sizes[0][0] <= self._taken:
            self._taken_bytes += self._sizes.popleft()[1]

    def _acknowledge(self, offsets: Iterable[int]) -> None:
        held = self._held
        done = [offset for offset in offsets if offset in held]
        for offset in done:
            del held[offset]
            if self._counts:
                self._counts.pop(offset, None)
            if self._expiries:
                self._expiries.pop(offset, None)
        self._acks += done

    def _changed(self) -> None:
        for change in self.on_change:
            change()


def _taken_from(lot: deque[Message], count_max: int) -> Iterator[Message]:
    """Messages out of a lot, from which another thread may take at the same time."""
    with contextlib.suppress(IndexError):
        for _ in range(count_max):
            yield lot.popleft()


def offset_of(message: Message) -> int:
    """The offset of a message that a store delivered."""
    delivery = message._delivery
    assert delivery is not None
    return delivery[1]


def requests_of(inbox: Inbox, now: float) -> Iterator[Request]:
    """What a consumer has to say by itself."""
    for request in (inbox.poll_acks(now), inbox.poll_handed(), inbox.poll_credit(now)):
        if request is not None:
            yield request
