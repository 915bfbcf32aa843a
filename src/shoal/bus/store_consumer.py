"""What a store delivers to one consumer: what is ready, what is held, what may come. Waits for nothing.

A message is *ready* when it is here, *held* when the program has it and did not acknowledge it. Credit is
given for what was taken out of the ready ones, so that at most `prefetch` messages are ready. Everything
belongs to a lease; a new session brings a new one, and what was ready or held under the old one comes again,
marked as redelivered.

A reader that is fast takes a *lot*: some messages at once, which it then gets one by one without the lock. It
has them when it gets them; what it did not get is ready again if the consumer ends.
"""

import contextlib
from collections import deque
from collections.abc import Callable, Hashable, Iterable, Iterator
from typing import Any

from shoal._core import Message, offsets_of, read_rows
from shoal.bus.readers import IsDone
from shoal.errors import LeaseError, StoreError

#: Acknowledgements that wait to be sent together, or a quarter of the prefetch up to so many; fewer if
#: nothing else is ready.
ACKS_TOGETHER, ACKS_TOGETHER_MAX = 64, 1000
#: Messages of a lot, at the most.
LOT_MAX = 256
#: A reader that is done with its lot so soon takes a larger one.
LOT_S = 0.001

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
        self, number: int, begin: Request, *, prefetch: int, prefetch_bytes: int, auto: bool
    ) -> None:
        self.number = number
        self._begin, self._prefetch, self._prefetch_bytes = begin, prefetch, prefetch_bytes
        self._auto = auto
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
        self._held: dict[int, None] = {}
        #: The last message of each reader, which is acknowledged with the next one it takes.
        self._last: dict[Hashable, list[int]] = {}
        self._acks: list[int] = []
        self._acks_together = max(ACKS_TOGETHER, min(prefetch // 4, ACKS_TOGETHER_MAX))
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

    # --- commands; each returns what is to be said to the store ---

    def begin(self) -> Request:
        """Begin, in a new session."""
        self.lease = None
        self._reset()
        self._granted, self._granted_bytes = self._prefetch, self._prefetch_bytes
        return {
            **self._begin,
            "consumer": self.number,
            "messages": self._granted,
            "bytes": self._granted_bytes,
        }

    def take(self, reader: Hashable, count_max: int = 1, now: float = 0.0) -> list[Message]:
        """The next messages that are ready, and not too old now.

        What this reader took before is acknowledged, if automatic.
        """
        if self._paused:
            return []
        lot = self.lots.get(reader)
        if lot:
            return list(_taken_from(lot, count_max))
        self.lots.pop(reader, None)
        self.settle(reader)
        while self._ready:
            count = min(count_max, len(self._ready))
            messages = [self._ready.popleft() for _ in range(count)]
            self._count_taken(count)
            self._held.update(dict.fromkeys(offsets_of(messages)))
            if self._expiries:
                messages = self._still_good(messages, now)
            if messages:
                if self._auto:
                    self._last[reader] = offsets_of(messages)
                return messages
        return []

    def _still_good(self, messages: list[Message], now: float) -> list[Message]:
        """Those that are not too old."""
        late = [
            offset
            for offset in offsets_of(messages)
            if (expiry := self._expiries.pop(offset, None)) is not None and expiry <= now
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
        # Nobody looks at how old a message of a lot is.
        is_fast = self._auto and now - at < LOT_S and not self._expiries
        count_max = min(2 * size, LOT_MAX, max(1, self._prefetch // 4)) if is_fast else 1
        messages = self.take(reader, count_max, now)
        if not messages:
            return None
        self._paces[reader] = (len(messages), now)
        if self._auto:
            self.lots[reader] = deque(messages[1:])
        return messages[0]

    def _take_back(self) -> None:
        """What readers took and were not given is ready again; all but the last that they got is done."""
        for reader, lot in self.lots.items():
            back = list(_taken_from(lot, len(lot)))
            offsets = set(offsets_of(back))
            got = [offset for offset in self._last.get(reader, ()) if offset not in offsets]
            self._acknowledge(got[:-1])
            self._last[reader] = got[-1:]
            self._ready.extendleft(reversed(back))
            self._taken -= len(back)
            self.give_up(offsets)
        self.lots.clear()

    def settle(self, reader: Hashable) -> None:
        """A reader is done with what it took last."""
        if self._last and (last := self._last.pop(reader, None)) is not None:
            self._acknowledge(last)

    def keep_back(self, message: Message) -> None:
        """Do not acknowledge a message with the next one: its reader failed, or says so itself."""
        offset = offset_of(message)
        for last in self._last.values():
            if offset in last:
                last.remove(offset)

    def settle_all(self, is_done: IsDone) -> None:
        """Readers that are done with what they took last acknowledge it; others have it in hand."""
        self._take_back()
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
        """Acknowledge messages now."""
        self._acknowledge(offsets)
        request = self.poll_acks(now=True)
        assert request is not None
        return request

    def give_up(self, offsets: Iterable[int]) -> None:
        """Messages are acknowledged by somebody else, a transaction: they are held no more."""
        for offset in offsets:
            self._held.pop(offset, None)

    def dead(self, offsets: list[int], delay_s: float) -> Request:
        """Have messages put aside; those that the store cannot put aside come again after a while."""
        return self.release(offsets, delay_s) | {"dead": True}

    def release(self, offsets: list[int], delay_s: float | None, *, seen: bool = True) -> Request:
        """Give messages back."""
        self.give_up(offsets)
        request: Request = {"op": "release", "lease": self.lease, "offsets": runs_of(offsets), "seen": seen}
        if delay_s is not None:
            request["delay_s"] = delay_s
        return request | {"consumer": self.number}

    def put_back(self, offset: int, group: str, delay_s: float | None) -> bool:
        """Give a message of a group back as soon as nothing more comes: whether to ask for a pause."""
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
        """Give messages back that were handed out, and that nobody has looked at."""
        unseen = [offset_of(message) for message in messages if self.holds(message)]
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
        self._take_back()
        return {"op": "credit", "consumer": self.number, "messages": 0, "bytes": 0}

    def recover(self) -> list[Request]:
        """Give back everything that is held or ready, after a pause, and go on."""
        self._last.clear()
        held = list(self._held)
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
        self._take_back()
        unseen = runs_of(offsets_of(list(self._ready)))
        self._ready.clear()
        self._changed()
        return {"op": "cancel", "consumer": self.number, **({"unseen": unseen} if unseen else {})}

    def unseen(self) -> list[int]:
        """What is ready, as runs."""
        self._take_back()
        return runs_of(offsets_of(list(self._ready)))

    def lose(self) -> None:
        """The session is over: what nobody has received yet comes again in the next one."""
        self._take_back()
        self._ready.clear()

    def fail(self, error: StoreError) -> None:
        """Nothing more will come."""
        self.error = error
        self._changed()

    # --- input ---

    def on_began(self, answer: Request) -> None:
        """The store has the consumer."""
        self.lease = answer["lease"]

    def on_deliver(self, now: float, body: Request) -> None:
        """Messages came."""
        if self.closed or body["lease"] != self.lease:
            return
        messages = read_rows(
            body["rows"],
            body["first"],
            consumer=self.number,
            lease=body["lease"],
            counts=body.get("counts"),
        )
        self._arrived += len(messages)
        self._sizes.append((self._arrived, len(body["rows"])))
        self._ready.extend(messages)
        self._expiries.update(
            (offset, now + left_us / 1e6) for offset, left_us in body.get("lives", {}).items()
        )
        if not self._paused:
            self._changed()

    # --- output ---

    def poll_acks(self, *, now: bool = False) -> Request | None:
        """Acknowledgements to be sent: now, or because they are many, or nothing else is to be done."""
        if not self._acks or not (now or self._is_worth_it()):
            return None
        offsets, self._acks = self._acks, []
        return {"op": "ack", "consumer": self.number, "lease": self.lease, "offsets": runs_of(offsets)}

    def poll_credit(self) -> Request | None:
        """Credit to be given, because half of it is used up."""
        return self._credit() if self._is_credit_due() else None

    @property
    def has_word(self) -> bool:
        """Whether there is something to be said."""
        return (bool(self._acks) and self._is_worth_it()) or self._is_credit_due()

    def _is_worth_it(self) -> bool:
        return len(self._acks) >= self._acks_together or not self._ready

    def _is_credit_due(self) -> bool:
        if self.lease is None or self._paused or self.closed:
            return False
        used = self._taken + self._prefetch - self._granted
        used_bytes = self._taken_bytes + self._prefetch_bytes - self._granted_bytes
        return 2 * used >= self._prefetch or 2 * used_bytes >= self._prefetch_bytes

    def _credit(self) -> Request:
        self._granted = self._taken + self._prefetch
        self._granted_bytes = self._taken_bytes + self._prefetch_bytes
        return {
            "op": "credit",
            "consumer": self.number,
            "messages": self._granted,
            "bytes": self._granted_bytes,
        }

    def _count_taken(self, count: int) -> None:
        self._taken += count
        while self._sizes and self._sizes[0][0] <= self._taken:
            self._taken_bytes += self._sizes.popleft()[1]

    def _acknowledge(self, offsets: Iterable[int]) -> None:
        held = self._held
        done = [offset for offset in offsets if offset in held]
        for offset in done:
            del held[offset]
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


def requests_of(inbox: Inbox) -> Iterator[Request]:
    """What a consumer has to say by itself."""
    acks = inbox.poll_acks()
    if acks is not None:
        yield acks
    credit = inbox.poll_credit()
    if credit is not None:
        yield credit
