"""A store, its clients and the network between them, simulated: one seed, one run, the same every time.

The real machine runs over the real log on a simulated disk, which stops at any step, tears writes, loses
names and fails syncs. Connections break, sessions time out, clients die in the middle of anything. What
clients were told is written down, and `store_history.check` says whether it can be true.
"""

from __future__ import annotations

import random
from collections import deque
from typing import Any

from shoal._core import Log, SimulatedDisk
from shoal.bus.store_protocol import queue_topic
from shoal.errors import StoreError
from shoal.store.committed import Committed
from shoal.store.core import Now
from shoal.store.machine import Identity, Machine
from shoal.testing import rows
from shoal.testing.store_history import History, check

#: Segments of the simulated log: short, so that runs cross many.
SEGMENT_BYTES = 32 << 10
QUEUES = ("orders", "work")
TOPICS = ("t/1", "t/2")
SUBSCRIPTIONS = (("desk", "t/>"), ("night", "t/1"))
LEASE_S = 5.0
#: So few that runs often read behind it.
QUEUE_WINDOW = 16
STEPS = 250
#: Steps without faults at the end, in which everything must be delivered.
HEALING_ROUNDS = 400


class Publisher:
    """A client that sends, keeps what is not stored, and sends it again."""

    def __init__(self, run: StoreRun, name: str, publisher: int) -> None:
        self.run = run
        self.name = name
        self.publisher = publisher
        self.number = 0
        self.lives = 0
        #: Number, record, destination, in order.
        self.unstored: deque[tuple[int, bytes]] = deque()
        self.sent_through = 0
        self.begin()

    def begin(self) -> None:
        """A new session: what is not stored is sent again."""
        self.lives += 1
        self.session = f"{self.name}-{self.lives}"
        self.run.connect(self.session, self)
        self.run.to_store(self.session, "hello", version=1, publisher=self.publisher, lease_s=LEASE_S)
        self.sent_through = 0
        self.push()

    def publish(self, count: int) -> None:
        """Send some messages."""
        random_ = self.run.random
        for _ in range(count):
            self.number += 1
            is_queue = random_.random() < 0.6
            name = random_.choice(QUEUES if is_queue else TOPICS)
            topic = queue_topic(name) if is_queue else name
            body = f"{self.publisher}-{self.number}".encode()
            record = rows.record(
                topic,
                body + bytes(random_.randrange(200)),
                priority=random_.choice((4, 4, 9)),
                group=random_.choice((None, None, "g1", "g2")) if is_queue else None,
            )
            self.unstored.append((self.number, record))
            self.run.history.sent(self.publisher, self.number, topic)
        self.push()

    def push(self) -> None:
        """Send what was not sent in this session."""
        batch = [each for each in self.unstored if each[0] > self.sent_through]
        if batch:
            earlier = [number for number, _ in self.unstored if number <= self.sent_through]
            after = earlier[-1] if earlier else 0
            content = rows.encode(self.publisher, 5, [(n, 1, record) for n, record in batch])
            self.sent_through = batch[-1][0]
            self.run.to_store(
                self.session, "send", publisher=self.publisher, chain=5, after=after, rows=content
            )

    def hear(self, body: dict[str, Any]) -> None:
        """The store said something."""
        if body["op"] == "stored":
            while self.unstored and self.unstored[0][0] <= body["through"]:
                number, _ = self.unstored.popleft()
                self.run.history.stored(self.publisher, number)
        elif body["op"] == "refused":
            # Everything that is not stored is sent once more, later.
            self.sent_through = 0
        elif body["op"] == "gone" or body.get("error") == "NO_SESSION":
            self.begin()


class Worker:
    """A client that consumes a queue or a durable subscription, acknowledges some and commits some."""

    def __init__(self, run: StoreRun, name: str, reader: str) -> None:
        self.run = run
        self.name = name
        self.reader = reader
        self.publisher = run.random.getrandbits(60) + 1
        self.lives = 0
        self.tx_number = 0
        #: A commit whose outcome is not known: what is asked again.
        self.pending: dict[str, Any] | None = None
        self.begin()

    def begin(self) -> None:
        """Begin a new session."""
        self.lives += 1
        self.session = f"{self.name}-{self.lives}"
        self.run.connect(self.session, self)
        self.n = 0
        self.lease: int | None = None
        self.credit = 20
        self.held: deque[tuple[int, bytes]] = deque()
        self.acking: dict[int, list[int]] = {}
        self.waiting: dict[int, str] = {}
        is_queue = self.reader in QUEUES
        hello: dict[str, Any] = {} if is_queue else {"client_id": self.name}
        self.ask("hello", version=1, publisher=self.publisher, lease_s=LEASE_S, **hello)
        self.consume()
        if self.pending is not None:
            # If it was not done, its lease is over, and the store says so.
            self.waiting[self.ask("commit", **self.pending)] = "commit"

    def consume(self) -> None:
        """Ask for messages."""
        credit = {"consumer": 1, "messages": self.credit, "bytes": 1 << 40}
        if self.reader in QUEUES:
            self.ask("consume", queue=self.reader, deliveries_max=0, **credit)
        else:
            pattern = dict(SUBSCRIPTIONS)[self.reader]
            self.ask(
                "subscribe",
                patterns=[pattern],
                name=self.reader,
                durable=True,
                start="earliest",
                **credit,
            )

    def ask(self, op: str, **fields: Any) -> int:
        """Ask for an answer, which has this number."""
        self.n += 1
        self.run.to_store(self.session, op, n=self.n, **fields)
        return self.n

    def work(self) -> None:
        """Acknowledge some of what is held, give some back, or commit some with a new message."""
        random_ = self.run.random
        if self.lease is None or not self.held:
            return
        chosen = [self.held.popleft() for _ in range(random_.randint(1, len(self.held)))]
        offsets = [offset for offset, _ in chosen]
        runs = [at for offset in sorted(offsets) for at in (offset, offset)]
        what = random_.random()
        leased = {"consumer": 1, "lease": self.lease, "offsets": runs}
        if what < 0.6:
            self.acking[self.ask("ack", **leased)] = offsets
        elif what < 0.75:
            self.ask("release", **leased)
        elif self.pending is None:
            self.commit(offsets, runs)
        else:
            self.held.extendleft(reversed(chosen))
        self.credit += len(chosen)
        self.ask("credit", consumer=1, messages=self.credit, bytes=1 << 40)

    def commit(self, offsets: list[int], runs: list[int]) -> None:
        """Acknowledge, and send two messages, in one transaction."""
        numbers = [self.tx_number + 1, self.tx_number + 2]
        self.tx_number += 2
        id_ = f"{self.name}/{self.tx_number}"
        topics = [queue_topic(self.run.random.choice(QUEUES)), self.run.random.choice(TOPICS)]
        records = [
            (n, 1, rows.record(topic, f"{self.publisher}-{n}".encode()))
            for n, topic in zip(numbers, topics, strict=True)
        ]
        for n, topic in zip(numbers, topics, strict=True):
            self.run.history.sent(self.publisher, n, topic, commit=id_)
        self.pending = {
            "id": id_,
            "publisher": self.publisher,
            "chain": 6,
            "after": 0,
            "rows": rows.encode(self.publisher, 6, records),
            "topics": 1,
            "acks": [[1, self.lease, runs]],
        }
        self.run.history.committing(id_, self.reader, offsets)
        self.waiting[self.ask("commit", **self.pending)] = "commit"

    def hear(self, body: dict[str, Any]) -> None:
        """The store said something."""
        if body["op"] == "deliver" and body["lease"] == self.lease:
            counts = body.get("counts", {})
            for row in rows.decode(body["rows"], body["first"]):
                content = rows.body_of(row.record).rstrip(b"\0")
                self.run.history.delivered(
                    self.reader,
                    row.offset,
                    content.decode(),
                    counts.get(row.offset, 1) != 1,
                    (self.name, self.lives),
                    body["set_out"],
                )
                self.held.append((row.offset, content))
        elif body["op"] == "answer":
            if "lease" in body:
                self.lease = body["lease"]
            if body["n"] in self.acking:
                self.run.history.acknowledged(self.reader, self.acking.pop(body["n"]))
            if self.waiting.pop(body["n"], None) == "commit" and self.pending is not None:
                self.run.history.committed(self.pending["id"])
                self.pending = None
        elif body["op"] == "failed" and self.waiting.pop(body["n"], None) == "commit":
            if self.pending is not None and body["error"] in ("LEASE", "FULL"):
                self.run.history.rolled_back(self.pending["id"])
                self.pending = None
            # What was to be acknowledged comes again, to the next session.
            self.begin()
        elif body["op"] == "gone" or body.get("error") in ("NO_SESSION", "IN_USE", "LEASE"):
            self.begin()


class Speaker:
    """A program whose messages are not persistent: the store hears them on the bus, some more than once."""

    def __init__(self, run: StoreRun, publisher: int) -> None:
        self.run = run
        self.publisher = publisher
        self.said: deque[tuple[int, int, bytes]] = deque(maxlen=20)
        self.number = 0
        #: Which life of the store hears, and from which number on.
        self.life, self.first = 0, 1

    def publish(self, count: int) -> None:
        """Say some messages. Through another filter, and after a start of the store, some come again."""
        random_ = self.run.random
        is_new = self.life != self.run.starts
        if is_new:
            self.life, self.first = self.run.starts, self.number + 1 - random_.choice((0, 3))
        for _ in range(count):
            self.number += 1
            topic = random_.choice(TOPICS)
            body = f"{self.publisher}-{self.number}".encode()
            self.said.append((self.number, 1, rows.record(topic, body, persistent=False)))
            self.run.history.sent(self.publisher, self.number, topic)
        again = 3 if is_new else random_.choice((0, 0, 3))
        last = [each for each in list(self.said)[-count - again :] if each[0] >= self.first]
        self.run.hear(rows.encode(self.publisher, 2, last))


class Live:
    """A subscriber that is not durable and always there: the store publishes to it what is committed."""

    def __init__(self, run: StoreRun) -> None:
        self.run = run
        #: What the store published: offset, message, whether it says that it may have come before, order.
        self.under_way: deque[tuple[int, str, bool, int]] = deque()
        #: By flush, what has to arrive before it is answered.
        self.asked: dict[int, int] = {}

    def publish(self) -> None:
        """The store publishes some of what was committed."""
        committed, random_ = self.run.committed, self.run.random
        for piece in committed.pieces():
            rows_max = random_.randint(1, 5)
            found = self.run.log.rows(piece.first, piece.end, rows_max=min(piece.rows, rows_max))
            if not found:
                raise AssertionError(f"{piece} is to be published, and cannot be read")
            for offset, *_, record in found:
                marked = offset < committed.redelivered_before
                content = rows.body_of(record).rstrip(b"\0").decode()
                self.under_way.append((offset, content, marked, self.run.history.setting_out()))
            committed.published(piece, found[-1][0] + 1)
            if random_.random() < 0.3:
                break

    def take(self) -> None:
        """Some of it arrives."""
        for _ in range(self.run.random.randint(0, len(self.under_way))):
            offset, message, marked, order = self.under_way.popleft()
            self.run.history.delivered("live", offset, message, marked, ("live", 1), order)

    def answer(self) -> None:
        """The store hears of some of what arrived, and asks for more."""
        committed = self.run.committed
        for flush in committed.awaited:
            is_there = not self.under_way or self.under_way[0][0] > self.asked[flush]
            if not is_there or self.run.random.random() < 0.3:
                break
            del self.asked[flush]
            committed.arrived()
        if committed.is_asking_due:
            flush = max(self.asked, default=0) + 1
            self.asked[flush] = self.under_way[-1][0] if self.under_way else 0
            committed.asked(flush)

    def lose(self) -> None:
        """The store is dead, and nobody repairs what was under way."""
        self.take()
        self.under_way.clear()
        self.asked.clear()


class StoreRun:
    """One run."""

    def __init__(self, seed: int, steps: int = STEPS) -> None:
        self.seed = seed
        self.random = random.Random(seed)
        self.history = History()
        self.now_s = 1_000_000.0
        self.disk = SimulatedDisk(seed)
        self.starts = 0
        #: By session: whoever hears it, and what is under way in both directions.
        self.clients: dict[str, Any] = {}
        self.inbound: dict[str, deque[dict[str, Any]]] = {}
        self.outbound: dict[str, deque[dict[str, Any]]] = {}
        self.is_healing = False
        self.is_up = False
        self.live = Live(self)
        self.open()
        self.publishers = [Publisher(self, f"p{n}", n + 1) for n in range(2)]
        self.speaker = Speaker(self, 9)
        self.workers = [Worker(self, f"w{n}", QUEUES[n % 2]) for n in range(3)]
        self.workers += [Worker(self, name, name) for name, _ in SUBSCRIPTIONS]
        for _ in range(steps):
            self.step()
        self.heal()
        check(self.history)

    @property
    def now(self) -> Now:
        """The time, by both clocks."""
        return Now(self.now_s, int(self.now_s * 1e6))

    # The store.

    def open(self) -> None:
        """Start the store."""
        self.starts += 1
        self.log = Log.simulated(
            self.disk,
            store_id=7,
            incarnation=bytes(16),
            segment_bytes=SEGMENT_BYTES,
            clock_us=self.now.wall_us,
        )
        identity = Identity(name="sim", run=str(self.starts))
        self.machine = Machine(self.log, identity, self.now, queue_window=QUEUE_WINDOW)
        self.committed = Committed(self.log)
        self.is_up = True

    def crash(self) -> None:
        """The store dies; whatever was under way is gone, and clients notice."""
        self.is_up = False
        self.live.lose()
        self.disk.restart()
        for _ in range(5):
            if not self.is_healing and self.random.random() < 0.2:
                self.disk.set_faults(stop_at=self.random.randrange(1, 40))
            try:
                self.open()
                break
            except StoreError:
                self.disk.restart()
        else:
            self.open()
        if not self.is_healing:
            self.choose_faults()
        for session, client in list(self.clients.items()):
            self.disconnect(session)
            client.begin()

    def choose_faults(self) -> None:
        """What goes wrong with the disk next."""
        what = self.random.random()
        if what < 0.5:
            self.disk.set_faults(stop_at=self.random.randrange(1, 400))
        elif what < 0.65:
            self.disk.set_faults(fail_sync_at=self.random.randrange(1, 200))
        elif what < 0.75:
            used = sum(size for _, size in self.disk.files())
            self.disk.set_faults(capacity_bytes=used + self.random.randrange(3) * SEGMENT_BYTES)
        else:
            self.disk.set_faults()

    def turn(self) -> None:
        """The store takes some requests, makes them durable, answers; it may die anywhere in between."""
        try:
            self.log.set_clock_us(self.now.wall_us)
            if self.machine.poll_timeout() <= self.now_s:
                self.machine.handle_timeout(self.now)
            for waiting in self.inbound.values():
                for _ in range(self.random.randint(0, len(waiting))):
                    self.machine.handle(self.now, waiting.popleft())
            if self.machine.append(self.now):
                # Another thread publishes, whenever it likes.
                self.publish()
                self.log.sync()
            self.machine.settle(self.now)
            self.publish()
            for session, body in self.machine.poll_transmit():
                if session in self.outbound:
                    self.outbound[session].append({**body, "set_out": self.history.setting_out()})
            self.machine.poll_silent()
            if self.random.random() < 0.05:
                self.tidy()
        except StoreError:
            self.crash()

    def publish(self) -> None:
        """The thread that publishes has its turn, or not."""
        if self.is_healing or self.random.random() < 0.3:
            self.live.publish()
        self.live.answer()

    def hear(self, content: bytes) -> None:
        """Messages come on the bus."""
        try:
            self.log.set_clock_us(self.now.wall_us)
            self.machine.hear(self.now, content)
        except StoreError:
            self.crash()

    def tidy(self) -> None:
        """Retention: indexes; segments go, or are written anew without what was acknowledged."""
        self.log.build_next_index()
        pin = min([self.machine.pin or 0, *(first for first, _ in self.log.unpublished())])
        what = self.random.random()
        if what < 0.3:
            self.log.seal()
        elif what < 0.6:
            self.log.trim(pin)
        else:
            for segment in self.log.segments()[:-1]:
                if segment["sealed"] and segment["end"] <= pin:
                    self.log.compact(segment["number"], [queue_topic(name) for name in QUEUES])

    def restart(self) -> None:
        """The store closes in an orderly way, and starts again."""
        try:
            self.machine.close(self.now)
            if self.machine.append(self.now):
                self.log.sync()
            self.machine.settle(self.now)
            self.log.close()
        except StoreError:
            pass
        self.crash()

    # The network.

    def connect(self, session: str, client: Any) -> None:
        """A client has a new connection, and no other."""
        for former in [name for name, each in self.clients.items() if each is client]:
            self.disconnect(former)
        self.clients[session] = client
        self.inbound[session] = deque()
        self.outbound[session] = deque()

    def disconnect(self, session: str) -> None:
        """A connection breaks, and what was under way is gone."""
        for each in (self.clients, self.inbound, self.outbound):
            each.pop(session, None)

    def to_store(self, session: str, op: str, n: int = 0, **fields: Any) -> None:
        """A request sets out."""
        if session in self.inbound:
            self.inbound[session].append({"op": op, "session": session, "n": n, **fields})

    def deliver(self) -> None:
        """Some of what the store said arrives."""
        self.live.take()
        for session, waiting in list(self.outbound.items()):
            for _ in range(self.random.randint(0, len(waiting))):
                if session not in self.outbound or not waiting:
                    break
                self.clients[session].hear(waiting.popleft())

    # The run.

    def step(self) -> None:
        """Something happens."""
        random_ = self.random
        what = random_.random()
        if what < 0.05:
            self.speaker.publish(random_.randint(1, 8))
        elif what < 0.2:
            random_.choice(self.publishers).publish(random_.randint(1, 8))
        elif what < 0.4:
            random_.choice(self.workers).work()
        elif what < 0.65:
            self.turn()
        elif what < 0.9:
            self.deliver()
        elif what < 0.94:
            self.now_s += random_.choice((0.01, 0.5, LEASE_S + 1))
        elif what < 0.97:
            # A connection breaks, or a client dies and begins anew.
            clients: list[Publisher | Worker] = [*self.publishers, *self.workers]
            random_.choice(clients).begin()
        elif what < 0.98:
            self.restart()
        else:
            self.crash()

    def heal(self) -> None:
        """No more faults: everything that was stored must reach everybody."""
        self.is_healing = True
        self.disk.set_faults()
        if self.log.failure is not None or self.disk.is_stopped:
            self.crash()
        for at in range(HEALING_ROUNDS):
            self.now_s += 0.05
            for publisher in self.publishers:
                publisher.push()
            self.turn()
            self.deliver()
            for worker in self.workers:
                worker.work()
            if at % 50 == 49:
                self.now_s += LEASE_S + 1
            if at > 20 and self.is_quiet():
                return
        raise AssertionError(f"not everything was delivered: {self.describe()}")

    def is_quiet(self) -> bool:
        """Whether everybody has everything."""
        status = self.machine.status()
        left = sum(each["messages"] for each in status["queues"])
        lag = sum(each["ready"] + each["in_flight"] for each in status["subscriptions"])
        busy = any(publisher.unstored for publisher in self.publishers)
        busy = busy or any(worker.held or worker.acking or worker.pending for worker in self.workers)
        scanned = all(each["cursor"] >= self.log.end for each in status["subscriptions"])
        busy = busy or bool(self.live.under_way or self.log.unpublished())
        return not left and not lag and not busy and scanned

    def describe(self) -> str:
        """What is left, for whoever looks for the reason."""
        status = self.machine.status()
        readers = [
            (each["key"], each["messages"], each["ready"], each["in_flight"], each["cursor"])
            for each in (*status["queues"], *status["subscriptions"])
        ]
        unstored = [len(publisher.unstored) for publisher in self.publishers]
        held = [(worker.name, len(worker.held), worker.pending) for worker in self.workers]
        return f"end {self.log.end}, readers {readers}, unstored {unstored}, workers {held}"
