"""The kernel of queues does what the plain twin does, whatever is asked of it."""

import random

import pytest
from backlog_twin import NEVER, BacklogTwin, Entry

from shoal._core import Backlog, Log, Selector, Turn
from shoal.testing import rows

#: Later than any clock says: a log never goes back.
START_US = 4 * 10**15


class Pair:
    """A kernel and its twin, over one log."""

    def __init__(self, seed: int) -> None:
        self.dice = random.Random(seed)
        self.now = START_US
        self.log = Log.in_memory(store_id=1, incarnation=bytes(16), bytes_max=1 << 28, segment_bytes=64 << 10)
        self.log.set_clock_us(self.now)
        self.kernel = Backlog(self.log, "queue/q", patterns=["_queue/q"])
        self.twin = BacklogTwin()
        self.number = self.lease = 0
        for consumer in (1, 2):
            self.kernel.attach(consumer)

    def send(self) -> None:
        dice, messages, entries = self.dice, [], []
        end = self.log.end
        for at in range(dice.randrange(1, 6)):
            self.number += 1
            # Somebody else's messages lie between.
            topic = dice.choice(("_queue/q", "_queue/q", "other"))
            priority, group = dice.choice((4, 4, 4, 1, 9)), dice.choice((None, None, "g0", "g1"))
            delay = dice.choice((None, None, None, 5_000_000))
            ttl = dice.choice((None, None, None, 20_000_000))
            record = rows.record(
                topic, b"%d" % self.number, priority=priority, ttl_us=ttl, delay_us=delay, group=group
            )
            messages.append((self.number, 1, record))
            if topic == "_queue/q":
                due = self.now + delay if delay else 0
                expires = self.now + ttl if ttl else NEVER
                entries.append(Entry(end + at, priority, group, due, expires, max(self.now, due)))
        turn = Turn()
        turn.push_rows(rows.encode(9, 5, messages), 0)
        self.log.append_turn(turn)
        self.log.sync()
        self.kernel.scan(self.now, 10_000, self.dice.random() < 0.5)
        for entry in entries:
            self.twin.see(entry, self.now)

    def take(self) -> None:
        consumer, count = self.dice.choice((1, 2)), self.dice.randrange(1, 8)
        batches, _ = self.kernel.take(consumer, self.now, count, 1 << 40)
        found = []
        for first, content, counts, *_ in batches:
            known = dict(counts)
            found += [(row.offset, known.get(row.offset, 1)) for row in rows.decode(content, first)]
        assert found == self.twin.take(consumer, self.now, count)
        self.kernel.finish(self.kernel.wake(self.now))
        self.twin.wake(self.now)

    def some(self) -> tuple[int, list[int], list[tuple[int, int]]]:
        consumer = self.dice.choice((1, 2))
        held = self.twin.held(consumer)
        chosen = sorted(self.dice.sample(held, self.dice.randint(0, len(held))))
        return consumer, chosen, [(offset, offset) for offset in chosen]

    def step(self) -> None:
        what = self.dice.random()
        if what < 0.3:
            self.send()
        elif what < 0.6:
            self.take()
        elif what < 0.75:
            consumer, chosen, runs = self.some()
            assert self.kernel.weigh(consumer, runs)[1] == len(chosen)
            assert self.kernel.acknowledge(consumer, runs)[1] == len(chosen)
            self.twin.acknowledge(chosen)
        elif what < 0.9:
            consumer, chosen, runs = self.some()
            seen, due = self.dice.random() < 0.7, self.dice.choice((0, self.now + 3_000_000))
            counted = self.kernel.give_back(consumer, runs, seen, due, self.now)
            self.twin.give_back(chosen, seen, due, self.now)
            expected = [(at, self.twin.entries[at].delivered) for at in chosen]
            assert counted == (expected if seen else [])
        elif what < 0.97:
            self.now += self.dice.choice((100_000, 4_000_000))
            self.log.set_clock_us(self.now)
            self.kernel.finish(self.kernel.wake(self.now))
            self.twin.wake(self.now)
        elif what < 0.98:
            consumer, chosen, runs = self.some()
            assert self.kernel.transfer(consumer, 9, runs)[1] == len(chosen)
            assert not self.kernel.has(consumer, runs)
            if self.dice.random() < 0.5:
                self.kernel.transfer(9, consumer, runs)
            else:
                assert self.kernel.acknowledge(9, runs)[1] == len(chosen)
                self.twin.acknowledge(chosen)
            self.kernel.detach(9, [], self.now)
        elif what < 0.99:
            consumer, chosen, runs = self.some()
            self.kernel.hand_over(consumer, runs)
            self.lease += 1
            counted = self.kernel.abandon(consumer, self.lease, self.now)
            self.twin.abandon(consumer, chosen, self.lease, self.now)
            assert counted == [(at, self.twin.entries[at].delivered) for at in chosen]
            self.kernel.attach(consumer)
            if self.dice.random() < 0.5:
                lease = self.dice.randint(1, self.lease)
                self.kernel.absolve(lease)
                self.twin.absolve(lease)
        else:
            consumer = self.dice.choice((1, 2))
            held = self.twin.held(consumer)
            self.kernel.detach(consumer, [], self.now)
            self.kernel.attach(consumer)
            self.twin.give_back(held, True, 0, self.now)
        self.kernel.finish(self.kernel.wake(self.now))
        self.twin.wake(self.now)

    def check(self) -> None:
        states = [entry.state for entry in self.twin.entries.values()]
        assert self.kernel.counts == tuple(states.count(each) for each in ("ready", "waiting", "taken"))
        assert self.kernel.pin == min(self.twin.entries, default=self.kernel.scanned)


@pytest.mark.parametrize("seed", range(12))
def test_the_kernel_does_what_the_twin_does(seed: int) -> None:
    pair = Pair(seed)
    for _ in range(300):
        pair.step()
        pair.check()


def filled(count: int, *, window: int = 65_536, bodies: int = 10) -> tuple[Log, Backlog]:
    log = Log.in_memory(store_id=1, incarnation=bytes(16), bytes_max=1 << 28, segment_bytes=256 << 10)
    turn = Turn()
    messages = [(n, 1, rows.record("_queue/q", bytes(bodies), priority=n % 10)) for n in range(1, count + 1)]
    turn.push_rows(rows.encode(9, 5, messages), 0)
    log.append_turn(turn)
    log.sync()
    return log, Backlog(log, "queue/q", patterns=["_queue/q"], window=window)


def test_what_lies_behind_the_window_is_read_when_there_is_room() -> None:
    _, backlog = filled(1000, window=100)
    backlog.attach(1)
    taken = 0
    while taken < 1000:
        backlog.scan(1, 10_000, keep=True)
        assert backlog.counts[0] <= 100
        batches, _ = backlog.take(1, 1, 1000, 1 << 40)
        assert batches
        taken += sum(batch[4] for batch in batches)
        runs, _, _ = backlog.acknowledge(1, [(0, 1 << 60)])
        assert runs == [(0, backlog.scanned)], "what is done is one run"


def test_a_selector_finds_what_lies_behind_the_window() -> None:
    _, backlog = filled(12_000, window=10)
    backlog.scan(1, 10_000, keep=False)
    backlog.attach(1, Selector("JMSPriority = 9"))
    found = 0
    more = True
    while more:
        batches, more = backlog.take(1, 1, 10_000, 1 << 40)
        found += sum(batch[4] for batch in batches)
    assert found == 1200
    backlog.acknowledge(1, [(0, 1 << 60)])
    backlog.attach(2)
    rest = 0
    while True:
        backlog.scan(1, 10_000, keep=False)
        batches, _ = backlog.take(2, 1, 10_000, 1 << 40)
        if not batches:
            break
        rest += sum(batch[4] for batch in batches)
    assert rest == 10_800, "and nobody gets them again"


def test_a_reader_is_made_anew_from_what_the_log_knows() -> None:
    log, backlog = filled(100)
    backlog.scan(1, 10_000, keep=False)
    backlog.attach(1)
    backlog.take(1, 1, 100, 1 << 40)
    turn = Turn()
    runs, messages, size = backlog.acknowledge(1, [(10, 19), (30, 39)])
    turn.done("queue/q", messages, size, runs)
    for first, end, count in backlog.runs_of(backlog.give_back(1, [(5, 5)], True, 0, 1)):
        turn.delivered("queue/q", first, end, count, 0)
    turn.granted("queue/q", 0, 60, 7)
    log.append_turn(turn)
    log.sync()
    again = Backlog(log, "queue/q", patterns=["_queue/q"], by_priority=False)
    again.attach(1)
    again.scan(1, 10_000, keep=True)
    ((first, content, counts, _, count, *_),), _ = again.take(1, 1, 1000, 1 << 40)
    offsets = [row.offset for row in rows.decode(content, first)]
    assert count == 80
    assert offsets == [*range(10), *range(20, 30), *range(40, 100)]
    known = dict(counts)
    assert known.pop(5) == 2
    assert set(known.values()) == {0}, "those may have been given out, and nobody knows how often"
    assert max(known) == 59
