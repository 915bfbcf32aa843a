"""A store, its clients and the network between them, simulated: one seed, one run, the same every time.

The real machine runs over the real log on a simulated disk, which stops at any step, tears writes, loses
names and fails syncs; its clients are the engines of the real ones. Connections break, sessions time out,
clients die in the middle of anything. What programs were told is written down, and `store_history.check` says
whether it can be true.
"""

from __future__ import annotations

import json
import math
import random
from collections import deque
from typing import Any

from shoal._core import Log, SimulatedDisk
from shoal.bus.store_protocol import LEASE_S, queue_topic
from shoal.bus.store_session import Body
from shoal.errors import StoreError
from shoal.store.committed import Committed
from shoal.store.core import AHEAD_WITHIN_S, Now
from shoal.store.machine import Identity, Machine
from shoal.store.readers import queue_key, subscription_key
from shoal.testing import rows
from shoal.testing.store_clients import (
    QUEUES,
    SUBSCRIPTIONS,
    Client,
    Live,
    OutboxPublisher,
    Publisher,
    Speaker,
    Worker,
)
from shoal.testing.store_history import History, check

#: Segments of the simulated log: short, so that runs cross many.
SEGMENT_BYTES = 32 << 10
#: So few that runs often read behind it.
QUEUE_WINDOW = 16
STEPS = 250
#: Steps without faults at the end, in which everything must be delivered.
HEALING_ROUNDS = 400
LOSSES_BEFORE_HEALING = 4


def reader_key(name: str) -> str:
    """What the log calls a queue or a subscription."""
    return queue_key(name) if name in QUEUES else subscription_key(name, name, shared=False, durable=True)


class StoreRun:
    """One run."""

    def __init__(self, seed: int, steps: int = STEPS) -> None:
        self.seed = seed
        self.random = random.Random(seed)
        self.history = History()
        self.now_s = 1_000_000.0
        self.starts = 0
        #: By session: its client, and what is under way in both directions.
        self.clients: dict[str, Client] = {}
        self.inbound: dict[str, deque[dict[str, Any]]] = {}
        self.outbound: dict[str, deque[dict[str, Any]]] = {}
        self.is_healing = False
        #: The disk may be full: what the store promised to take it may have to refuse.
        self.has_no_space = False
        self.is_up = False
        self.live = Live(self)
        self.begin()
        self.open()
        self.publishers = [Publisher(self, "p"), OutboxPublisher(self, "o", 3)]
        self.speaker = Speaker(self, 9)
        self.workers = [Worker(self, f"w{n}", QUEUES[n % 2], auto=n >= 2) for n in range(4)]
        self.workers += [Worker(self, name, name) for name in SUBSCRIPTIONS]
        self.readers = {worker.name: worker.reader for worker in self.workers}
        # Before they subscribe nothing is kept for them.
        while len(self.machine.status()["subscriptions"]) < len(SUBSCRIPTIONS):
            self.turn()
            self.deliver()
        for _ in range(steps):
            self.step()
        self.heal()
        check(self.history)

    @property
    def now(self) -> Now:
        """The time, by both clocks."""
        return Now(self.now_s, int(self.now_s * 1e6))

    # The store.

    def begin(self) -> None:
        """Make what the store stands on."""
        self.disk = SimulatedDisk(self.seed)

    def open(self) -> None:
        """Start the store, which takes a moment."""
        self.starts += 1
        self.now_s += 0.001
        self.log = Log.simulated(
            self.disk,
            store_id=7,
            incarnation=bytes(16),
            segment_bytes=SEGMENT_BYTES,
            clock_us=self.now.wall_us,
        )
        self.begin_machine()

    def begin_machine(self) -> None:
        """Serve the log."""
        identity = Identity(name="sim", run=str(self.starts))
        # In every other run each consumer that is alone is granted messages ahead, however slow it is.
        ahead_within_s = AHEAD_WITHIN_S if self.seed % 2 else math.inf
        self.machine = Machine(
            self.log, identity, self.now, queue_window=QUEUE_WINDOW, ahead_within_s=ahead_within_s
        )
        self.committed = Committed(self.log)
        self.is_up = True
        for name in (*QUEUES, *SUBSCRIPTIONS):
            self.note_grants(name)

    def note_grants(self, name: str) -> None:
        """What was granted or marked may be marked, though the store died before it was sent."""
        key = reader_key(name)
        for first, end, count in self.log.deliveries(key):
            for offset in range(first, end) if count == 0 else ():
                self.history.marks.mark(name, offset)
        takers = {lease: taker for taker, lease in json.loads(self.log.get(f"takers/{key}") or b"{}").items()}
        for first, end, lease in self.log.grants(key):
            for offset in range(first, end):
                self.history.marks.granted[name, offset].add(takers.get(lease, f"lease {lease}"))

    def crash(self) -> None:
        """The store dies; whatever was under way is gone, and clients notice."""
        self.is_up = False
        self.live.lose()
        self.start_again()
        for session, client in list(self.clients.items()):
            self.disconnect(session)
            client.connect()

    def start_again(self) -> None:
        """Start a store that died."""
        # The process is killed, and the page cache survives; or the power fails.
        if self.random.random() < 0.5:
            self.disk.kill()
        else:
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
            self.choose_faults(self.disk)

    def choose_faults(self, disk: SimulatedDisk) -> None:
        """What goes wrong with a disk next."""
        what = self.random.random()
        self.has_no_space = self.has_no_space or 0.65 <= what < 0.75
        if what < 0.5:
            disk.set_faults(stop_at=self.random.randrange(1, 400))
        elif what < 0.65:
            disk.set_faults(fail_sync_at=self.random.randrange(1, 200))
        elif what < 0.75:
            used = sum(size for _, size in disk.files())
            disk.set_faults(capacity_bytes=used + self.random.randrange(3) * SEGMENT_BYTES)
        else:
            disk.set_faults()

    def turn(self) -> None:
        """The store takes some requests, makes them durable, answers; it may die anywhere in between."""
        try:
            self.log.set_clock_us(self.now.wall_us)
            if self.machine.poll_timeout() <= self.now_s:
                self.machine.handle_timeout(self.now)
            requests: list[dict[str, Any]] = []
            for waiting in self.inbound.values():
                for _ in range(self.random.randint(0, len(waiting))):
                    request = waiting.popleft()
                    known = self.machine._sessions.get(request["session"])
                    # Behind a request that was lost the store hears nothing more of a session.
                    if known is not None and request.get("seq", 1) <= known.asked + 1:
                        requests.append(request)
                    self.machine.handle(self.now, request)
            if self.machine.append(self.now):
                # Another thread publishes, whenever it likes.
                self.publish()
                self.make_durable()
            self.machine.settle(self.now)
            self.publish()
            for session, body in self.machine.poll_transmit():
                if body["op"] == "deliver":
                    self.note_delivery(session, body)
                if session in self.outbound:
                    self.outbound[session].append({**body, "set_out": self.history.setting_out()})
            # What was given out in this turn was so before the store heard of it.
            for request in requests:
                self.note_reports(request)
            self.machine.poll_silent()
            if self.random.random() < 0.05:
                self.tidy()
        except StoreError:
            self.crash()

    def make_durable(self) -> None:
        """Return when what was appended is durable."""
        self.log.sync()

    def note_delivery(self, session: str, body: dict[str, Any]) -> None:
        """The store gives messages out."""
        name, counts = self.reader_of(session), body.get("counts", {})
        for row in rows.decode(body["rows"], body["first"]):
            taker = f"{session}/{body['consumer']}"
            self.history.marks.given(name, row.offset, taker, counts.get(row.offset, 1))

    def reader_of(self, session: str) -> str:
        """What the client of a session reads."""
        return self.readers[session.rsplit("-", 2)[0]]

    def note_reports(self, request: dict[str, Any]) -> None:
        """A consumer says what it handed over: in a report of its last lease, or because it ends."""
        session, heard_of = request["session"], self.history.marks.heard_of
        if request["op"] in ("consume", "subscribe"):
            sessions = request.get("former", {}).get("sessions", [])
            heard_of.update(f"{each}/{request['consumer']}" for each in sessions)
        elif request["op"] == "cancel":
            heard_of.add(f"{session}/{request['consumer']}")
        elif request["op"] == "bye":
            heard_of.update(f"{session}/{number}" for number in range(1, 100))

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
                self.make_durable()
            self.machine.settle(self.now)
            self.log.close()
        except StoreError:
            pass
        self.crash()

    # The network.

    def connect(self, session: str, client: Client) -> None:
        """A client has a new connection, and no other."""
        for former in [name for name, each in self.clients.items() if each is client]:
            self.disconnect(former)
        self.clients[session] = client
        self.inbound[session] = deque()
        self.outbound[session] = deque()

    def see_off(self, session: str) -> None:
        """A client said goodbye: what it said last arrives, and no client hears the answers."""
        self.inbound.setdefault(f"{session} left", self.inbound[session])
        self.disconnect(session)

    def disconnect(self, session: str) -> None:
        """A connection breaks, and what was under way is gone."""
        for each in (self.clients, self.inbound, self.outbound):
            each.pop(session, None)

    def to_store(self, body: Body) -> None:
        """A request sets out."""
        if body["session"] in self.inbound:
            self.inbound[body["session"]].append(body)

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
        elif what < 0.91:
            self.lose()
        elif what < 0.94:
            self.pass_time(random_.choice((0.01, 0.5, LEASE_S + 1)))
        elif what < 0.97:
            everybody: list[Publisher | Worker] = [*self.publishers, *self.workers]
            self.disturb(random_.choice(everybody))
        elif what < 0.98:
            self.restart()
        else:
            self.crash()

    def lose(self) -> None:
        """A link that stays up drops some of what is under way, as one does that evicted a slow member."""
        waiting = self.random.choice([*self.inbound.values(), *self.outbound.values()])
        for _ in range(self.random.randint(0, len(waiting))):
            del waiting[self.random.randrange(len(waiting))]

    def disturb(self, client: Publisher | Worker) -> None:
        """A connection breaks, or a client dies, or leaves properly, and begins anew."""
        what = self.random.random()
        if what < 0.5:
            client.connect()
        elif what < 0.7 or isinstance(client, Publisher):
            client.begin()
        else:
            client.leave()

    def pass_time(self, seconds: float) -> None:
        """Time passes for all, in steps: what passes at once the store does not count."""
        until_s = self.now_s + seconds
        while self.now_s < until_s:
            self.now_s = min(until_s, self.now_s + 0.5)
            try:
                self.machine.handle_timeout(self.now)
            except StoreError:
                self.crash()
        for client in list(self.clients.values()):
            client.go_on()

    def heal(self) -> None:
        """No more faults: everything that was stored must arrive everywhere."""
        self.is_healing = True
        self.mend()
        # What the last fault took must be missed, too, though nothing else breaks any more.
        for _ in range(LOSSES_BEFORE_HEALING):
            self.lose()
        for at in range(HEALING_ROUNDS):
            self.pass_time(0.2)
            self.turn()
            self.deliver()
            for worker in self.workers:
                worker.work()
            if at > 20 and self.is_quiet():
                return
        raise AssertionError(f"not everything was delivered: {self.describe()}")

    def mend(self) -> None:
        """Nothing goes wrong with the disk any more."""
        self.disk.set_faults()
        if self.log.failure is not None or self.disk.is_stopped:
            self.crash()

    def is_quiet(self) -> bool:
        """Whether every receiver has everything."""
        status = self.machine.status()
        left = sum(each["messages"] for each in status["queues"])
        lag = sum(each["ready"] + each["in_flight"] for each in status["subscriptions"])
        busy = any(client.is_busy for client in (*self.publishers, *self.workers))
        scanned = all(each["cursor"] >= self.log.end for each in status["subscriptions"])
        busy = busy or bool(self.live.under_way or self.log.unpublished())
        return not left and not lag and not busy and scanned

    def describe(self) -> str:
        """What is left, for a person who looks for the reason."""
        status = self.machine.status()
        readers = [
            (each["key"], each["messages"], each["ready"], each["in_flight"], each["cursor"])
            for each in (*status["queues"], *status["subscriptions"])
        ]
        busy = [(client.name, client.session.state) for client in self.clients.values() if client.is_busy]
        return f"end {self.log.end}, readers {readers}, busy {busy}"
