"""A queue or a subscription of a store: its options, its consumers, and what it gives them.

Per message the extension's `Backlog` decides; here are batches, credit and policy. No clock, no network.
"""

import dataclasses
import json
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple

from shoal._core import Backlog, Log, Selector, split_rows
from shoal.bus.clock_offset import ClockOffset, clock_us
from shoal.bus.store_protocol import BATCH_BYTES_MAX, CLOSED_LEASE_S, QUEUES
from shoal.config.access import Action
from shoal.store.consumer import Consumer, Former
from shoal.store.core import Core
from shoal.store.grants import ALL, Grants
from shoal.store.requests import Runs

#: Messages that are ready in memory, at the most.
QUEUE_WINDOW = 65_536
SUBSCRIPTION_WINDOW = 4096
#: Rows that are looked at in one go.
SCAN_ROWS = 10_000
#: Whoever looks after messages that are on their way to another queue.
LIMBO = 0
#: Numbers from here on hold messages for commits. Those of consumers are lower, those of reservations higher.
COMMITS_FROM = 1 << 61
#: A delay is doubled no more often: it is longer than any bound by then.
DOUBLED_MAX = 60
#: How long a message stays that could not be moved to the dead-letter queue for want of room.
LIMBO_RETRY_S = 5.0
#: Publishers that a subscription leaves out.
PUBLISHERS_MAX = 1000
#: How often it is measured what messages take that are not acknowledged, where more lie behind the window.
MEASURE_EVERY_S = 1.0
MEASURE_AT_ONCE_MAX = 10_000

#: What a delivery has beside its rows, at the most; and for each message that came before, or expires.
DELIVERY_BYTES, DELIVERY_ENTRY_BYTES = 1024, 40


@dataclass(frozen=True, kw_only=True)
class Options:
    """What a queue or a subscription is told. Sizes are in bytes, times in seconds."""

    #: It goes when nobody consumed for so long.
    expires_after_s: float | None = None
    #: Messages that are not acknowledged may take so much.
    backlog_max_bytes: int | None = None
    #: What happens beyond: `refuse` refuses messages, `drop_oldest` drops old ones and says so.
    on_full: str = "refuse"
    #: A message that was delivered so often and not acknowledged goes to the dead-letter queue; 0 is never.
    deliveries_max: int = 10
    #: How long a message is kept back after the first delivery; twice as long after each more.
    backoff_s: float = 0.0
    #: How long at the most.
    backoff_max_s: float = 60.0
    #: Where messages go that nobody could take.
    dead_letter: str = "dead-letters"
    #: Messages that expire go there, too; otherwise they are gone.
    dead_letter_expired: bool = False


@dataclass(frozen=True, kw_only=True)
class Shape:
    """What a reader reads."""

    #: A queue's, or those of a subscription.
    patterns: tuple[str, ...]
    selector: str | None = None
    no_local: bool = False
    #: Several consumers share the messages.
    shared: bool = True
    #: It is kept in the log; otherwise it goes with the session or the last consumer.
    durable: bool = True
    client_id: str | None = None
    name: str = ""
    #: Who made it, where the store asks for tokens.
    principal: str | None = None
    #: Its clients let one consumer at a time use it, or several; none if they did not say.
    single: bool | None = None
    #: The publisher of the connection that it lives as long as; none if it stays.
    temporary: int | None = None
    #: It is a rule: what it reads is forwarded to another store.
    forward: bool = False

    @property
    def queue(self) -> str | None:
        """The queue's name; none if it is a subscription, or a rule."""
        if self.forward:
            return None
        only = self.patterns[0]
        return only.removeprefix(QUEUES) if only.startswith(QUEUES) else None


@dataclass(slots=True)
class Totals:
    """Messages and bytes that came and are not done."""

    messages: int = 0
    bytes: int = 0


class Delivery(NamedTuple):
    """Messages for one consumer: which delivery each is that is not the first, and how long it may live."""

    first: int
    rows: bytes
    counts: dict[int, int]
    lives: dict[int, int]


#: Tells a session something.
Tell = Callable[[str, dict[str, Any]], None]


class Reader:
    """A queue or a subscription. For one thread at a time."""

    def __init__(
        self,
        log: Log,
        key: str,
        shape: Shape,
        options: Options,
        *,
        queue: Callable[[str], "Reader"],
        publishers: Sequence[int] = (),
        selector: Selector | None = None,
        leases_after: int = 0,
        idle_since_s: float = 0.0,
        window: int = QUEUE_WINDOW,
        is_new: bool = False,
    ) -> None:
        """Read on where the log says, or from the beginning if it `is_new`.

        The log may still know a former reader of the same key, which ends in the same turn.
        """
        self.key = key
        #: The last lease before it began, or before a seek: reports about it are void.
        self.leases_after = leases_after
        #: Finds a queue, or makes it.
        self._queue = queue
        self.shape = shape
        self.options = options
        self.publishers = list(publishers)
        self.consumers: dict[int, Consumer] = {}
        self.totals = Totals()
        #: When its last consumer went.
        self.idle_since_s = idle_since_s
        #: Messages dropped because the backlog was full, or that expired.
        self.dropped = 0
        self.expired = 0
        #: Of those dropped, how many no consumer was told of.
        self.untold = 0
        #: And how many were not logged, and before which time nothing is.
        self.unlogged, self.log_at_s = 0, 0.0
        #: Rows below this offset were in the log when it was measured.
        self.measured_to = 0
        #: Before this time it is not measured again.
        self._measure_at_s = 0.0
        is_queue = shape.queue is not None
        self.backlog = Backlog(
            log,
            "" if is_new else key,
            patterns=shape.patterns,
            selector=selector,
            unless=publishers,
            window=window if is_queue else min(window, SUBSCRIPTION_WINDOW),
            by_priority=is_queue,
        )
        self.grants = Grants(log, key, self.backlog, is_durable=shape.durable, is_new=is_new)
        self.backlog.attach(LIMBO)
        #: When it is due by itself, as far as that was noted.
        self.wakes_at_us: int | None = None
        self._turn_of = 0
        #: Commits that held messages.
        self._commits = 0

    # What is kept of it.

    def describe(self) -> bytes:
        """What the log keeps of it."""
        kept = {
            "shape": dataclasses.asdict(self.shape),
            "options": dataclasses.asdict(self.options),
            "publishers": self.publishers[-PUBLISHERS_MAX:],
            "leases_after": self.leases_after,
        }
        return json.dumps(kept).encode()

    @property
    def name(self) -> str:
        """What people call it."""
        queue = self.shape.queue
        if queue is not None:
            return f"the queue {queue!r}"
        if self.shape.forward:
            return f"the rule {self.shape.name!r}"
        shared = "shared " if self.shape.shared else ""
        of = f" of {self.shape.client_id!r}" if self.shape.client_id and not self.shape.shared else ""
        return f"the {shared}subscription {self.shape.name!r}{of}"

    def journal(self, core: Core, done: tuple[list[tuple[int, int]], int, int]) -> None:
        """Note what is done."""
        runs, messages, size = done
        if messages:
            self.totals.messages -= messages
            self.totals.bytes -= size
        if self.shape.durable and runs:
            core.turn.done(self.key, messages, size, runs)

    def begin(self, core: Core, start: int) -> None:
        """It is new: what lies before an offset is of no concern to it."""
        if self.shape.durable:
            core.turn.put(self.key, self.describe())
            if start:
                core.turn.done(self.key, 0, 0, [(0, start)])

    def end(self, core: Core) -> None:
        """It goes."""
        if self.shape.durable:
            core.turn.put(self.key, None)
            self.grants.forget(core)
            core.turn.forget(self.key)

    def rest(self, core: Core) -> None:
        """The store closes: how far it is is noted."""
        pin = self.backlog.pin
        if self.shape.durable and pin:
            core.turn.done(self.key, 0, 0, [(0, pin)])

    # Consumers.

    def attach(self, core: Core, consumer: Consumer, selector: Selector | None) -> None:
        """A consumer begins."""
        self.consumers[consumer.number] = consumer
        self.backlog.attach(consumer.number, selector)
        self.grants.note_takers(core, self.consumers.values())

    def detach(self, core: Core, number: int, handed: Runs) -> None:
        """A consumer ends: what it has goes back, and what its program was handed counts as delivered.

        The consumer's client says what it handed over, and not what it did not: deliveries may be in flight
        to it that it will never see.
        """
        consumer = self.consumers.pop(number, None)
        if consumer is None:
            return
        counted = self.backlog.give_back(number, handed, True, 0, core.now.wall_us)
        self.backlog.detach(number, ALL, core.now.wall_us)
        self.grants.end(core, consumer)
        self._left(core, counted)

    def abandon(self, core: Core, number: int) -> None:
        """A consumer ends without a word: what it handed over, as far as it said so, counts as delivered.

        The rest may have been delivered. The consumer says so itself if it comes back, and is one of those
        that are absent until then.
        """
        consumer = self.consumers.pop(number, None)
        if consumer is None:
            return
        counted = self.backlog.abandon(number, consumer.lease, core.now.wall_us)
        self.grants.lose(core, consumer)
        self._left(core, counted)

    def take_over(self, core: Core, number: int, own: int, former: Former) -> None:
        """A consumer begins whose program had another lease, which is over, or was of an earlier life.

        What the program finished is done, whoever has it by now. What it was handed counts as delivered,
        once, and if another consumer has it already, it stays marked. No program received the rest of what
        was granted under the other lease.
        """
        backlog, wall_us = self.backlog, core.now.wall_us
        takers = {f"{session}/{own}" for session in former.sessions}
        self.grants.let_go(wall_us, takers)
        # Below, all is done, and may be gone from the log.
        pin, end = backlog.pin, core.log.durable_end
        finished, handed = _within(former.finished, pin, end), _within(former.handed, pin, end)
        backlog.take_these(number, finished, wall_us)
        # Behind the window, a message of a group that another consumer has can be taken by that one alone.
        ahead = _within(finished, backlog.scanned, end)
        for other in (*self.consumers, *self.grants.holders) if ahead else ():
            backlog.take_these(other, ahead, wall_us)
        self.journal(core, backlog.finish([at for first, last in finished for at in range(first, last + 1)]))
        backlog.take_these(number, handed, wall_us)
        held, _, _ = backlog.weigh(number, handed)
        uncounted = [
            (offset, offset)
            for first, end in held
            for offset in range(first, end)
            if backlog.delivery_of(offset) <= max(1, former.counts.get(offset, 1))
        ]
        self.give_back(core, number, uncounted, seen=True, delay_s=0.0)
        self.give_back(core, number, handed, seen=False, delay_s=0.0)
        if not former.is_cut:
            self.grants.presume(core, handed)
            self.grants.absolve(core, takers)
            self.grants.note_takers(core, self.consumers.values())

    def let_go(self, core: Core) -> None:
        """Consumers of the store's last life had their time to come back: others may have what they had."""
        self.grants.let_go(core.now.wall_us)

    def _left(self, core: Core, counted: list[tuple[int, int]]) -> None:
        self._count(core, counted, 0)
        self.grants.note_takers(core, self.consumers.values())
        if not self.consumers:
            self.idle_since_s = core.now.mono_s

    def acknowledge(self, core: Core, number: int, runs: Runs) -> None:
        """A consumer acknowledges."""
        self.journal(core, self.backlog.acknowledge(number, runs))

    def give_back(self, core: Core, number: int, runs: Runs, *, seen: bool, delay_s: float | None) -> None:
        """A consumer gives messages back."""
        now_us = core.now.wall_us
        self.grants.revoke(core, number, runs)
        if delay_s is not None or not self.options.backoff_s or not seen:
            due_us = now_us + int((delay_s or 0.0) * 1e6)
            self._count(core, self.backlog.give_back(number, runs, seen, due_us, now_us), due_us)
            return
        # Each waits as long as it has been given out.
        for offset, count in self.backlog.give_back(number, runs, True, now_us, now_us):
            wait_s = min(
                self.options.backoff_s * 2 ** min(count - 1, DOUBLED_MAX), self.options.backoff_max_s
            )
            due_us = now_us + int(wait_s * 1e6)
            self.backlog.seize(LIMBO, [offset])
            self.backlog.give_back(LIMBO, [(offset, offset)], False, due_us, now_us)
            self._count(core, [(offset, count)], due_us)

    def give_up(self, core: Core, number: int, runs: Runs, delay_s: float) -> None:
        """A consumer cannot handle messages: they are moved; those of the dead-letter queue come again."""
        now_us = core.now.wall_us
        due_us = now_us + int(delay_s * 1e6)
        self.grants.revoke(core, number, runs)
        counted = self.backlog.give_back(number, runs, True, due_us, now_us)
        self._count(core, counted, due_us, given_up=True)

    def _count(
        self, core: Core, counted: list[tuple[int, int]], due_us: int, *, given_up: bool = False
    ) -> None:
        """Note how often messages were given out, and move those that were too often, or are given up."""
        most = self.options.deliveries_max if self.shape.queue is not None else 0
        dead = counted if given_up else [each for each in counted if most and each[1] >= most]
        if self.shape.durable:
            later_us = due_us if due_us > core.now.wall_us else 0
            for first, end, count in self.backlog.runs_of(counted):
                core.turn.delivered(self.key, first, end, count, later_us)
        if dead and self.shape.queue != self.options.dead_letter:
            self.move(core, dead, self.options.dead_letter, "given up" if given_up else "deliveries")

    def move(self, core: Core, messages: list[tuple[int, int]], to: str, reason: str) -> int:
        """Move messages, each with how often it was given out, to another queue, in this turn; how many."""
        target = self._queue(to)
        offsets = [offset for offset, _ in messages]
        self.backlog.seize(LIMBO, offsets)
        properties = [("shoal_queue", self.shape.queue or self.shape.name), ("shoal_reason", reason)]
        moved = core.turn.push_moved(core.log, messages, QUEUES + to, properties)
        runs = [(offset, offset) for offset, _ in moved]
        if not runs:
            return 0
        done, count, size = self.backlog.weigh(LIMBO, runs)
        if self.shape.durable:
            core.turn.done(self.key, count, size, done, with_rows=True)
        total = sum(each[1] for each in moved)
        target.totals.messages += len(moved)
        target.totals.bytes += total
        core.add_to(target.key, len(moved), total)
        if target.shape.durable:
            core.turn.came(target.key, len(moved), total)
        core.touched.add(QUEUES + to)

        def after(refused: str | None) -> None:
            now_us = core.now.wall_us
            if refused is None:
                self.totals.messages -= count
                self.totals.bytes -= size
                self.backlog.acknowledge(LIMBO, runs)
            else:
                target.totals.messages -= len(moved)
                target.totals.bytes -= total
                due_us = now_us + int(LIMBO_RETRY_S * 1e6)
                self.backlog.give_back(LIMBO, runs, False, due_us, now_us)

        core.after_rows(after)
        return len(moved)

    def begin_commit(self, core: Core, consumer: Consumer, runs: Runs, with_rows: bool) -> "HeldForCommit":
        """A commit acknowledges messages of a consumer: they leave its hold, and are done with the commit."""
        self._commits += 1
        holder = COMMITS_FROM + self._commits
        done, messages, size = self.backlog.transfer(consumer.number, holder, runs)
        if self.shape.durable and done:
            core.turn.done(self.key, messages, size, done, with_rows=with_rows)
        return HeldForCommit(core, self, consumer, holder)

    # Giving out.

    @property
    def moves_expired(self) -> bool:
        """Whether messages that expire are moved; in the dead-letter queue itself they stay as they are."""
        queue = self.shape.queue
        return self.options.dead_letter_expired and queue is not None and queue != self.options.dead_letter

    def dispatch(self, core: Core, budget: int) -> tuple[int, bool]:
        """Give consumers what they may have: bytes given, and whether there is more to do at once."""
        now_us = core.now.wall_us
        # Whether anybody consumes or not, it is noticed in time what expires and is to be moved.
        is_expiring = self.moves_expired and self.backlog.is_low
        more = is_expiring and self.backlog.scan(now_us, SCAN_ROWS, keep=False)
        expired = self.backlog.wake(now_us)
        if expired:
            self.expired += len(expired)
            if self.moves_expired:
                self.move(core, [(offset, 0) for offset in expired], self.options.dead_letter, "expired")
            else:
                self.journal(core, self.backlog.finish(expired))
        hungry = [each for each in self.consumers.values() if each.is_hungry]
        if not hungry:
            self.grants.given(core)
            return 0, more
        more = self.backlog.is_low and self.backlog.scan(now_us, SCAN_ROWS, keep=True)
        more = self.backlog.look_ahead(now_us, SCAN_ROWS) or more
        was_low = self.backlog.is_low
        used, turn = 0, self._turn_of
        for at, consumer in enumerate(self._in_turn(hungry)):
            ready = self.backlog.counts[0]
            share = -(-ready // (len(hungry) - at))
            used += self._give(core, consumer, share, min(BATCH_BYTES_MAX, budget - used))
            self._turn_of = turn + (used > 0)
            if used >= budget:
                self.grants.given(core)
                return used, True
        self.grants.given(core)
        is_left = self.backlog.counts[0] > 0 and used > 0
        looking = any(each.more and each.is_hungry for each in hungry)
        # What was given may have made room for what lies behind the window.
        is_behind = used > 0 and not was_low and self.backlog.is_low
        return used, more or is_left or looking or is_behind

    def foresee(self, core: Core, first: int, end: int, messages: int) -> bool:
        """The turn under way stores messages, in rows from the first on: grant them to consumers who wait.

        Only if it is plain who gets which: nothing else is ready, and the rows are all for this reader, or
        all for one consumer. Otherwise they are granted when they are given out. Whether some were granted.
        """
        hungry = [each for each in self.consumers.values() if each.is_hungry]
        is_next = self.backlog.scanned >= core.log.end and not self.backlog.counts[0]
        if not hungry or not is_next:
            return False
        if end - first == messages:
            turns = self._shares(hungry, first, end)
        elif len(hungry) == 1 and messages <= hungry[0].room:
            turns = [(first, end, hungry[0])]
        else:
            return False
        self.grants.foresee(core, turns)
        return True

    def _in_turn(self, hungry: list[Consumer]) -> list[Consumer]:
        """Another one is the first each time that something was given."""
        first = self._turn_of % len(hungry)
        return hungry[first:] + hungry[:first]

    def _shares(self, hungry: list[Consumer], first: int, end: int) -> list[tuple[int, int, Consumer]]:
        """Who will be given which of these rows, if all are alike: as `dispatch` does it."""
        turns = []
        for at, consumer in enumerate(self._in_turn(hungry)):
            count = min(consumer.room, -(-(end - first) // (len(hungry) - at)))
            if count:
                turns.append((first, first + count, consumer))
                first += count
        return turns

    def _give(self, core: Core, consumer: Consumer, share: int, budget: int) -> int:
        left = consumer.messages - consumer.given_messages
        size = min(budget, consumer.bytes - consumer.given_bytes)
        if size <= 0:
            return 0
        ahead = self._ahead(core, consumer)
        batches, consumer.more = self.backlog.take(
            consumer.number, core.now.wall_us, min(left, max(1, share)), size, oldest=core.is_scattered
        )
        used, tell = 0, core.send_now
        for first, rows, counts, lives, messages, taken, runs in batches:
            consumer.given_messages += messages
            consumer.given_bytes += taken
            used += taken
            if consumer.is_unfit:
                self._take_back(core, consumer, [number for number, _ in enumerate(split_rows(rows), first)])
                continue
            marked = [offset for offset, count in counts if count == 0]
            if not self.grants.grant(core, consumer.lease, first, runs, marked, ahead):
                # Nothing that follows overtakes what has to wait until its grant is durable.
                tell = core.say
            length = len(rows) + DELIVERY_BYTES + DELIVERY_ENTRY_BYTES * (len(counts) + len(lives))
            delivery = Delivery(first, rows, dict(counts), dict(lives))
            if length <= consumer.bytes_max:
                tell(consumer.session, _delivering(core, consumer, delivery))
            else:
                self._deliver_alone(core, tell, consumer, delivery)
        return used

    def _ahead(self, core: Core, consumer: Consumer) -> int:
        """How many messages more the consumer is granted: as many as it may hold, if it is alone and fast."""
        is_fast = core.now.mono_s - consumer.given_at_s < core.ahead_within_s
        consumer.given_at_s = core.now.mono_s
        return self.backlog.counts[2] + consumer.room if is_fast and len(self.consumers) == 1 else 0

    def _deliver_alone(self, core: Core, tell: Tell, consumer: Consumer, delivery: Delivery) -> None:
        """Deliver messages one by one that are too long together, up to one that is too long alone."""
        for offset, (_, row) in enumerate(split_rows(delivery.rows), delivery.first):
            if not consumer.is_unfit and len(row) + DELIVERY_BYTES > consumer.bytes_max:
                self._tell_unfit(core, consumer, offset, len(row))
            if consumer.is_unfit:
                self._take_back(core, consumer, [offset])
                continue
            count, life = delivery.counts.get(offset), delivery.lives.get(offset)
            counts = {} if count is None else {offset: count}
            lives = {} if life is None else {offset: life}
            tell(consumer.session, _delivering(core, consumer, Delivery(offset, row, counts, lives)))

    def _take_back(self, core: Core, consumer: Consumer, offsets: list[int]) -> None:
        """Give messages to others that were meant for a consumer and not sent to it."""
        self.give_back(core, consumer.number, [(each, each) for each in offsets], seen=False, delay_s=None)

    def _tell_unfit(self, core: Core, consumer: Consumer, offset: int, size: int) -> None:
        """A consumer's connection does not take a message that is next: tell its client.

        The client hands out what the consumer has, acknowledges it, and ends the consumer.
        """
        consumer.is_unfit = True
        text = (
            f"the message at offset {offset} of {self.name} has {size} bytes, and the connection takes "
            f"{consumer.bytes_max - DELIVERY_BYTES}: connect with a larger message_bytes_max"
        )
        body = {"op": "last", "consumer": consumer.own, "lease": consumer.lease}
        core.say(consumer.session, {**body, "error": "TOO_LONG", "text": text})

    @property
    def is_limited(self) -> bool:
        """Whether messages are refused that it has no room for."""
        return self.options.backlog_max_bytes is not None and self.options.on_full == "refuse"

    def has_room(self, core: Core, size: int) -> bool:
        """Whether so many bytes more may wait.

        What is counted is no less than what waits: it counts what a selector leaves out. So it is measured
        before somebody is told that there is no room.
        """
        most = self.options.backlog_max_bytes
        if most is None or self.totals.bytes + size <= most:
            return True
        if core.now.mono_s >= self._measure_at_s:
            self.measure(core)
        return self.totals.bytes + size <= most

    def measure(self, core: Core) -> None:
        """Count what waits, in the log, and beside it what this turn adds and what room was taken for."""
        self.measured_to = core.log.durable_end
        self.totals.messages, self.totals.bytes, behind = self.backlog.measure(core.now.wall_us)
        if behind > MEASURE_AT_ONCE_MAX:
            self._measure_at_s = core.now.mono_s + MEASURE_EVERY_S
        for beside in (core.adding, core.expected):
            messages, size = beside.get(self.key, (0, 0))
            self.totals.messages += messages
            self.totals.bytes += size

    def drop_oldest(self, core: Core, room: int) -> int:
        """Drop messages that nobody has until there is so much room; how many were dropped."""
        dropped = 0
        most = self.options.backlog_max_bytes or 0
        while self.totals.bytes + room > most:
            self.backlog.scan(core.now.wall_us, SCAN_ROWS, keep=False)
            offsets = self.backlog.untaken(None, 100)
            if not offsets:
                break
            for offset in offsets:
                if self.totals.bytes + room > most:
                    done = self.backlog.finish([offset])
                    dropped += done[1]
                    self.journal(core, done)
        self.dropped += dropped
        self.untold += dropped
        return dropped

    def tell_dropped(self, core: Core) -> None:
        """Tell consumers how many messages were dropped of which nobody was told."""
        if self.untold and self.consumers:
            for consumer in self.consumers.values():
                body = {"op": "dropped", "consumer": consumer.own, "messages": self.untold}
                core.say(consumer.session, body)
            self.untold = 0

    def status(self, log: Log) -> dict[str, Any]:
        """How it is, for people."""
        ready, waiting, taken = self.backlog.counts
        found: dict[str, Any] = {
            "patterns": list(self.shape.patterns),
            "forward": self.shape.forward,
            "selector": self.shape.selector,
            "shared": self.shape.shared,
            "durable": self.shape.durable,
            "messages": max(0, self.totals.messages),
            "bytes": max(0, self.totals.bytes),
            "ready": ready,
            "waiting": waiting,
            "in_flight": taken,
            "cursor": self.backlog.pin,
            "lag": max(0, log.durable_end - self.backlog.pin),
            "consumers": len(self.consumers),
            "expired": self.expired,
            "dropped": self.dropped,
            "lost": self.backlog.lost,
            **dataclasses.asdict(self.options),
        }
        return found


def _delivering(core: Core, consumer: Consumer, delivery: Delivery) -> dict[str, Any]:
    body: dict[str, Any] = {"op": "deliver", "consumer": consumer.own, "lease": consumer.lease}
    body |= {"first": delivery.first, "rows": delivery.rows}
    if delivery.counts:
        body["counts"] = delivery.counts
    if delivery.lives:
        body |= {"lives": delivery.lives, "at": clock_us(core.now.mono_s)}
    return body


def _within(runs: Runs, first: int, end: int) -> Runs:
    """What of runs lies from an offset on and below another one."""
    clipped = [(max(start, first), min(last, end - 1)) for start, last in runs]
    return [(start, last) for start, last in clipped if start <= last]


@dataclass(slots=True)
class HeldForCommit:
    """Messages that a commit of this turn acknowledges."""

    core: Core
    reader: Reader
    consumer: Consumer
    holder: int

    def end(self, is_done: bool) -> None:
        """The commit is done, or there was no room for it: then its consumer has them again, or the queue."""
        reader, backlog = self.reader, self.reader.backlog
        if is_done:
            _, messages, size = backlog.acknowledge(self.holder, ALL)
            reader.totals.messages -= messages
            reader.totals.bytes -= size
        elif self.consumer.number in reader.consumers:
            backlog.transfer(self.holder, self.consumer.number, ALL)
        else:
            reader.give_back(self.core, self.holder, ALL, seen=True, delay_s=0.0)
        backlog.detach(self.holder, [], self.core.now.wall_us)


def recall(value: bytes) -> tuple[Shape, Options, list[int], int]:
    """What the log kept of a reader."""
    kept = json.loads(value)
    shape = {**kept["shape"], "patterns": tuple(kept["shape"]["patterns"])}
    return Shape(**shape), Options(**kept["options"]), list(kept["publishers"]), kept.get("leases_after", 0)


@dataclass(frozen=True, slots=True)
class Owner:
    """Whose session it is: a principal, none where the store asks for no token; an operator may do more."""

    principal: str | None = None
    is_operator: bool = False
    #: It is a store that forwards messages here: they keep the identities that their publishers gave them.
    may_forward: bool = False

    def check(self, core: Core, action: Action, destination: str) -> None:
        """Refuse what the store's rules do not let it do with a topic, a pattern or a queue's topic."""
        core.rules.check(self.principal, action, destination, operator=self.is_operator)


@dataclass(slots=True)
class Session:
    """One client's talk with this run of the store."""

    id: str
    publisher: int
    client_id: str | None
    lease_s: float
    #: When it was heard, and since when its link is closed, by the clock that counts leases.
    heard_s: float
    closed_s: float | None = None
    name: str = ""
    #: The number of the last thing it was told, and of its last request.
    told: int = 0
    asked: int = 0
    #: Which of its connection's channels it is.
    way: int = 0
    #: Bytes of a delivery that its connection takes.
    bytes_max: int = 1 << 62
    #: Bytes that it had no credit for and were taken, since the credit changed so often.
    overdrawn: tuple[int, int] = (0, 0)
    #: Whose it is.
    owner: Owner = field(default_factory=Owner)
    #: Who began it: requests of others in its name are ignored.
    peer: int = 0
    #: The owner of its publisher's chains; 0 if its client gave no key.
    key: int = 0
    #: Consumers by what the session calls them: the reader's key and the consumer.
    consumers: dict[int, tuple[str, Consumer]] = field(default_factory=dict)
    #: Keys of temporary queues.
    temporary: set[str] = field(default_factory=set)
    #: Whose messages it sends: its own, and those of its outbox.
    publishers: list[int] = field(default_factory=list)
    #: Chains it sent, by publisher and number.
    chains: set[tuple[int, int]] = field(default_factory=set)
    #: Its chains are those of an outbox, which come back after years.
    kept: bool = False
    #: Consumers that were told that they wait for what it has, by their numbers.
    explained: set[int] = field(default_factory=set)
    #: Its client's clock, and how long the last request was on its way.
    clock: ClockOffset = field(default_factory=ClockOffset)
    age_s: float = 0.0

    @property
    def until_s(self) -> float:
        """When its lease is over, unless it is heard before."""
        ends_s = self.heard_s + self.lease_s
        return ends_s if self.closed_s is None else min(ends_s, self.closed_s + CLOSED_LEASE_S)
