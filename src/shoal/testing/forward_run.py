"""Two stores, the first of which forwards to the second, and publishers that change between them: simulated.

Both machines run over real logs on simulated disks that stop, tear writes and fail syncs. The links between
publishers, the first store and the second one break at any step, and lose what is under way. One publisher
has an outbox and roams: it sends to the store that it reaches, and sends again to the other one what was not
confirmed. Another one commits transactions. At the end the second store has each message that a store
confirmed, and that the rule is about, exactly once; transactions are whole at any moment.
"""

from __future__ import annotations

import itertools
import random
from collections import deque
from collections.abc import Callable
from typing import Any

from shoal._core import Log, SimulatedDisk
from shoal.bus.store_chain import Chain
from shoal.bus.store_session import Body, Session
from shoal.errors import StoreError
from shoal.store.core import Now
from shoal.store.forward_chain import ForwardChain
from shoal.store.forwards import Next
from shoal.store.machine import Identity, Machine
from shoal.store.numbers import Run
from shoal.store.rule import ForwardRule
from shoal.testing import rows

SEGMENT_BYTES = 32 << 10
STEPS = 300
HEALING_ROUNDS = 600
#: Forwarded topics and queues, and one that stays where it is.
FORWARDED, LOCAL = ("t/1", "t/2", "_queue/q"), "local"
PERSISTENT_CHAIN, TRANSACTION_CHAIN = 5, 6


class Site:
    """A store on its disk. It is also what its rule tells and asks."""

    def __init__(self, run: ForwardRun, name: str, store_id: int, forward: tuple[ForwardRule, ...]) -> None:
        self.run, self.name, self._id, self._forward = run, name, store_id, forward
        self.disk = SimulatedDisk(run.seed * 2 + store_id)
        self.starts = 0
        self.inbound: dict[str, deque[Body]] = {}
        self.outbound: dict[str, deque[Body]] = {}
        self.open()

    @property
    def now(self) -> Now:
        """The time, by both clocks."""
        return Now(self.run.now_s, int(self.run.now_s * 1e6))

    def open(self) -> None:
        """Start the store."""
        self.starts += 1
        self.log = Log.simulated(
            self.disk,
            store_id=self._id,
            incarnation=bytes([self._id] * 16),
            segment_bytes=SEGMENT_BYTES,
            clock_us=self.now.wall_us,
        )
        identity = Identity(name=self.name, run=str(self.starts))
        self.machine = Machine(self.log, identity, self.now, forward=self._forward)
        for key in self.inbound.keys() | self.outbound.keys():
            self.cut(key)

    def crash(self) -> None:
        """The store dies, and starts again."""
        if self.run.random.random() < 0.5:
            self.disk.kill()
        else:
            self.disk.restart()
        for _ in range(5):
            try:
                self.open()
                break
            except StoreError:
                self.disk.restart()
        faults: dict[str, int] = {}
        if not self.run.is_healing and self.run.random.random() < 0.6:
            faults["stop_at"] = self.run.random.randrange(1, 300)
        self.disk.set_faults(**faults)
        self.run.on_crash(self)

    def turn(self) -> None:
        """Take some requests, make them durable, answer; the store may die anywhere in between."""
        try:
            self.log.set_clock_us(self.now.wall_us)
            if self.machine.poll_timeout() <= self.now.mono_s:
                self.machine.handle_timeout(self.now)
            for waiting in self.inbound.values():
                for _ in range(self.run.random.randint(0, len(waiting))):
                    self.machine.handle(self.now, waiting.popleft())
            if self.machine.append(self.now):
                self.log.sync()
            self.machine.settle(self.now)
            for session, body in self.machine.poll_transmit():
                if session in self.outbound:
                    self.outbound[session].append(body)
            if self.run.random.random() < 0.05:
                self.tidy()
        except StoreError:
            self.crash()

    def tidy(self) -> None:
        """Segments go that no rule needs; the last store of a message keeps it."""
        self.log.seal()
        if self._forward:
            self.log.trim(self.machine.pin or 0)

    def cut(self, session: str) -> None:
        """What is under way on a link is gone."""
        self.inbound[session] = deque()
        self.outbound[session] = deque()

    # What its rule tells and asks.

    def next_of(self, name: str) -> Next | None:
        """The store that the rule led to."""
        return self.machine.forwards.next_of(name)

    def set_next(self, name: str, to: Next) -> None:
        """The rule leads to this store."""
        self.machine.forwards.set_next(name, to)

    def release(self, name: str, end: int, messages: int, size: int) -> None:
        """Messages below an offset need no longer be kept."""
        self.machine.forwarded(self.now, name, end, messages, size)

    def give_up(self, name: str, first: int, end: int, why: str) -> bool:
        """No message of a run is refused for good."""
        raise AssertionError(f"{name} gives up {first} to {end}: {why}")

    def uneven(self, chain: tuple[int, int]) -> list[Run] | None:
        """The runs of a publisher's chain that is not one run."""
        return self.machine.numbers.uneven(chain)

    @property
    def upstream(self) -> list[str]:
        """The stores that a message here may have come through."""
        return self.machine.custody.upstream


class Talk:
    """A session with a store, over a link that breaks."""

    def __init__(self, run: ForwardRun, name: str, publisher: int, site: Site) -> None:
        self.run, self.name, self.site = run, name, site
        self._ids = itertools.count(1)
        self.session = Session(publisher, token=lambda: f"{name}-{next(self._ids)}", name=name)
        self.session.key = name
        self.connect(site)

    def connect(self, site: Site) -> None:
        """Connect anew, perhaps to another store: what was under way is gone."""
        self.site.inbound.pop(self.session.id, None)
        self.site.outbound.pop(self.session.id, None)
        self.site = site
        self.session.begin(self.run.now_s)
        site.cut(self.session.id)
        self.pump()

    def pump(self) -> None:
        """Say what is to be said. A rule reads it from the log of the first store, which may die of that."""
        try:
            while (body := self.session.poll_output(self.run.now_s)) is not None:
                waiting = self.site.inbound.get(self.session.id)
                if waiting is not None:
                    waiting.append(body)
        except StoreError:
            self.run.branch.crash()

    def hear(self) -> None:
        """Some of what the store said arrives."""
        waiting = self.site.outbound.get(self.session.id, deque())
        for _ in range(self.run.random.randint(0, len(waiting))):
            self.session.handle(self.run.now_s, waiting.popleft())
        self.session.handle_timeout(self.run.now_s)
        if self.session.state == "idle":
            self.connect(self.site)
        self.pump()


class Roamer:
    """A publisher with an identity that lasts: messages stay with it until a store has them."""

    def __init__(self, run: ForwardRun, publisher: int) -> None:
        self.run, self.publisher = run, publisher
        self.number = 0
        self.unsent: deque[tuple[int, bytes]] = deque()
        self.talk = Talk(run, f"roamer-{publisher}", publisher, run.branch)
        self.chain = Chain(
            publisher, PERSISTENT_CHAIN, self.take, lambda: 1 << 20, patient=True, on_stored=self.on_stored
        )
        self.talk.session.chains.append(self.chain)

    def publish(self, count: int) -> None:
        """Publish some messages."""
        for _ in range(count):
            self.number += 1
            topic = self.run.random.choice((*FORWARDED, LOCAL))
            name = f"{self.publisher}-{PERSISTENT_CHAIN}-{self.number}"
            self.run.sent[name] = topic
            self.unsent.append((self.number, rows.record(topic, name.encode())))
        self.talk.pump()

    def take(self) -> tuple[bytes, int, int] | None:
        """The next rows to send."""
        batch = [self.unsent.popleft() for _ in range(min(len(self.unsent), 4))]
        if not batch:
            return None
        content = rows.encode(
            self.publisher, PERSISTENT_CHAIN, [(number, 1, record) for number, record in batch]
        )
        return content, batch[0][0], batch[-1][0]

    def on_stored(self, through: int) -> None:
        """A store has every message up to a number."""
        for number in range(1, through + 1):
            self.run.stored.add(f"{self.publisher}-{PERSISTENT_CHAIN}-{number}")

    @property
    def is_busy(self) -> bool:
        """Whether something is not stored."""
        return bool(self.unsent) or not self.chain.is_idle


class Committer:
    """A publisher of transactions at the first store."""

    def __init__(self, run: ForwardRun, publisher: int) -> None:
        self.run, self.publisher = run, publisher
        self.number = self.committed = 0
        self.pending = False
        self.talk = Talk(run, f"committer-{publisher}", publisher, run.branch)

    def commit(self) -> None:
        """Send some messages in one transaction, unless the outcome of the last one is not known."""
        if self.pending:
            return
        self.pending = True
        records, names = [], []
        for _ in range(self.run.random.randint(2, 5)):
            self.number += 1
            name = f"{self.publisher}-{TRANSACTION_CHAIN}-{self.number}"
            topic = self.run.random.choice(FORWARDED)
            self.run.sent[name] = topic
            names.append(name)
            records.append((self.number, 1, rows.record(topic, name.encode())))
        self.run.transactions.append(names)
        last = self.number

        def done(answer: Body | None, error: BaseException | None) -> None:
            self.pending = False
            if error is None:
                self.committed = last
                self.run.stored.update(names)

        body = {
            "op": "commit",
            "id": f"tx-{self.number}",
            "publisher": self.publisher,
            "chain": TRANSACTION_CHAIN,
            "after": self.committed,
            "rows": rows.encode(self.publisher, TRANSACTION_CHAIN, records),
            "acks": [],
        }
        self.talk.session.request(body, done)
        self.talk.pump()


class ForwardRun:
    """One run."""

    def __init__(self, seed: int, steps: int = STEPS) -> None:
        self.seed, self.random = seed, random.Random(seed)
        self.now_s = 1_000_000.0
        self.is_healing = False
        self.sent: dict[str, str] = {}
        self.stored: set[str] = set()
        self.transactions: list[list[str]] = []
        release: Any = self.random.choice(("stored", "passed"))
        rule = ForwardRule(
            name="hq", patterns=("t/>", "_queue/q"), to="tcp://hq:1", release=release, publish=False
        )
        self.branch = Site(self, "branch", 7, (rule,))
        self.hq = Site(self, "hq", 8, ())
        self.rule = rule
        self.forwarder = Talk(self, "forwarder-0", 7, self.hq)
        self.begin_rule()
        self.roamers = [Roamer(self, 101), Roamer(self, 102)]
        self.committer = Committer(self, 201)
        actions: list[tuple[float, Callable[[], None]]] = [
            (0.15, lambda: self.random.choice(self.roamers).publish(self.random.randint(1, 6))),
            (0.05, self.committer.commit),
            (0.25, lambda: self.random.choice((self.branch, self.hq)).turn()),
            (0.4, self.hear),
            (0.03, self.roam),
            (0.03, self.cut),
            (0.04, lambda: self.pass_time(self.random.choice((0.01, 0.5, 3.0)))),
            (0.05, lambda: self.random.choice((self.branch, self.hq)).crash()),
        ]
        for _ in range(steps):
            (action,) = self.random.choices([call for _, call in actions], [share for share, _ in actions])
            action()
            self.check_transactions()
        self.heal()

    @property
    def talks(self) -> list[Talk]:
        """All sessions."""
        return [self.forwarder, self.committer.talk, *(each.talk for each in self.roamers)]

    def begin_rule(self) -> None:
        """The first store starts, and so does its rule."""
        self.rule_chain = ForwardChain(
            self.rule,
            self.branch.log,
            self.branch,
            lambda: self.forwarder.session.greeting,
            place=self.branch.machine.forwards.place("hq"),
            rows_together=3,
        )
        self.forwarder.session.chains[:] = [self.rule_chain]
        self.forwarder.connect(self.hq)

    def on_crash(self, site: Site) -> None:
        """A store died and started again: clients notice."""
        if not hasattr(self, "committer"):
            return
        for talk in self.talks:
            if talk.site is site:
                talk.connect(site)
        if site is self.branch:
            self.begin_rule()

    def cut(self) -> None:
        """A link breaks, and is made anew."""
        talk = self.random.choice(self.talks)
        talk.connect(talk.site)

    def roam(self) -> None:
        """A publisher leaves one site for the other."""
        roamer = self.random.choice(self.roamers)
        roamer.talk.connect(self.hq if roamer.talk.site is self.branch else self.branch)

    def hear(self) -> None:
        """Something arrives."""
        self.random.choice(self.talks).hear()

    def pass_time(self, seconds: float) -> None:
        """Time passes for all."""
        self.now_s += seconds
        for talk in self.talks:
            talk.session.handle_timeout(self.now_s)

    def at_hq(self) -> list[str]:
        """The messages of the second store, in their order."""
        log = self.hq.log
        found = log.rows(0, log.durable_end, rows_max=1 << 30)
        return [rows.body_of(row[-1]).decode() for row in found]

    def check_transactions(self) -> None:
        """Nothing of a transaction is at the second store, or all of it."""
        try:
            there = set(self.at_hq())
        except StoreError:
            self.hq.crash()
            return
        for names in self.transactions:
            found = there & set(names)
            assert len(found) in (0, len(names)), f"{sorted(found)} of {names} are there"

    def heal(self) -> None:
        """No more faults: every message that was stored must get there, once."""
        self.is_healing = True
        for site in (self.branch, self.hq):
            site.disk.set_faults()
            if site.log.failure is not None or site.disk.is_stopped:
                site.crash()
        for _ in range(HEALING_ROUNDS):
            self.pass_time(0.2)
            for site in (self.branch, self.hq):
                site.turn()
            for talk in self.talks:
                talk.hear()
            if self.is_quiet():
                break
        self.check()

    def is_quiet(self) -> bool:
        """Whether everything is where it belongs."""
        busy = any(each.is_busy for each in self.roamers) or self.committer.pending
        end = self.branch.log.end
        return not busy and not self.rule_chain.is_busy and self.branch.machine.forwards.place("hq") >= end

    def check(self) -> None:
        """Raise what must not be."""
        there = self.at_hq()
        wanted = {name for name in self.stored if self.sent[name] != LOCAL}
        lost = wanted - set(there)
        assert not lost, (
            f"lost: {sorted(lost)[:5]}; rule {self.rule_chain.stopped or self.rule_chain.refused}"
        )
        assert len(there) == len(set(there)), (
            f"twice: {[name for name in there if there.count(name) > 1][:5]}"
        )
        assert set(there) <= self.sent.keys()
        assert self.is_quiet(), "something waits for ever"
        self.check_transactions()
        (rule,) = self.branch.machine.status()["forwards"]
        assert (rule["messages"], rule["bytes"]) == (0, 0), rule
