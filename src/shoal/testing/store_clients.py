"""Clients of a simulated store: the engines of the real ones, and programs that do anything at any time."""

from __future__ import annotations

import itertools
from abc import ABC, abstractmethod
from collections import deque
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any

from shoal._core import Log, Message, SimulatedDisk, split_rows
from shoal.bus.outbox import Outbox
from shoal.bus.store_chain import Chain
from shoal.bus.store_consumer import Inbox, offset_of, runs_of
from shoal.bus.store_protocol import queue_topic
from shoal.bus.store_session import Body, Session
from shoal.errors import ShoalError, StoreError
from shoal.testing import rows

if TYPE_CHECKING:
    from shoal.testing.store_run import StoreRun

QUEUES = ("orders", "work")
TOPICS = ("t/1", "t/2")
SUBSCRIPTIONS = {"desk": "t/>", "night": "t/1"}
#: A topic that the store refuses, and how many of the messages of a publisher without an outbox go there.
REFUSED, REFUSED_SHARE = "_refused", 0.1
#: The chains of persistent messages, and of transactions.
PERSISTENT_CHAIN, TRANSACTION_CHAIN = 5, 6
#: Rows of one request, at the most.
TOGETHER_MAX = 8
PREFETCH = 20
#: A subscription that may have a limit, and how many bytes may wait for it then.
LIMITED, LIMIT_BYTES = "night", 1500
#: Segments of a simulated outbox: short, so that they go while it is used.
OUTBOX_SEGMENT_BYTES = 4 << 10


class Client(ABC):
    """A program that dies and begins anew, and its session with the store, over the simulated network."""

    session: Session

    def __init__(self, run: StoreRun, name: str, *, client_id: str | None = None) -> None:
        self.run, self.name, self._client_id = run, name, client_id
        self.life = 0
        self._sessions = itertools.count(1)
        self.begin()

    def begin(self) -> None:
        """Begin a life: whatever the program had in memory is gone."""
        self.life += 1
        self.session = Session(
            self.publisher(), token=self._token, client_id=self._client_id, name=f"{self.name} {self.life}"
        )

    def publisher(self) -> int:
        """Who this life is."""
        return self.run.random.getrandbits(60) | 1

    def _token(self) -> str:
        return f"{self.name}-{self.life}-{next(self._sessions)}"

    def connect(self) -> None:
        """Connect anew: whatever was under way is gone."""
        self.session.begin(self.run.now_s)
        self.run.connect(self.session.id, self)
        self.pump()

    def hear(self, body: Body) -> None:
        """The store said something."""
        self.session.handle(self.run.now_s, body)
        self.go_on()

    def go_on(self) -> None:
        """Time has passed, or something happened."""
        self.session.handle_timeout(self.run.now_s)
        if self.session.state == "idle":
            self.connect()
        self.pump()

    @property
    @abstractmethod
    def is_busy(self) -> bool:
        """Whether it has something to do."""

    def pump(self) -> None:
        """Say what is to be said."""
        while (body := self.session.poll_output(self.run.now_s)) is not None:
            self.run.to_store(body)


class Publisher(Client):
    """Sends persistent messages, which are in its memory until they are stored."""

    def begin(self) -> None:
        """Begin a life, as another publisher."""
        super().begin()
        self.number = 0
        #: Number and record of what was not sent yet.
        self.unsent: deque[tuple[int, bytes]] = deque()
        #: Numbers that live subscribers were given: within the store's credit at once, others when stored.
        self.live: set[int] = set()
        self.last_stored_first = 0
        self.chain = self.make_chain()
        self.session.chains.append(self.chain)
        self.connect()

    def make_chain(self) -> Chain:
        """The way of its messages into the store."""
        return Chain(
            self.session.publisher, PERSISTENT_CHAIN, self.take, lambda: 1 << 20, publish=self.go_live
        )

    def go_live(self, content: bytes, at: float, redelivered: bool) -> None:
        """A row is published for live subscribers."""
        self.live.update(number for number, _ in split_rows(content))

    def publish(self, count: int) -> None:
        """Send some messages."""
        for _ in range(count):
            self.number += 1
            topic, body, headers = self.make(self.number)
            if self.run.random.random() < REFUSED_SHARE:
                topic = REFUSED
            self.run.history.sent(self.session.publisher, self.number, topic)
            self.publish_live(topic)
            self.unsent.append((self.number, rows.record(topic, body, **headers)))
            self.chain.wait(self.number, self.when_stored(self.number, topic))
        self.pump()

    def publish_live(self, topic: str) -> None:
        """Publish a message for live subscribers now, if the store's credit covers it; else once stored."""
        if topic.startswith("_"):
            return
        waiting = self.chain.waiting_bytes + sum(len(record) for _, record in self.unsent)
        is_next = self.last_stored_first <= self.chain.stored
        if is_next and self.session.credit.covers(topic, waiting):
            self.chain.live = self.number
            self.live.add(self.number)
        else:
            self.last_stored_first = self.number

    def when_stored(self, number: int, topic: str) -> Callable[[ShoalError | None], None]:
        """Note what a caller hears that waits for a message."""
        is_queue = topic.startswith("_")
        publisher, history, live = self.session.publisher, self.run.history, self.live

        def tell(error: ShoalError | None) -> None:
            if error is None:
                assert is_queue or number in live, f"{number} of {publisher} is stored, and never was live"
                history.stored(publisher, number)
            elif isinstance(error, StoreError) and not self.run.has_no_space:
                assert number not in live, (
                    f"message {number} of {publisher} was live, and is refused: {error}"
                )

        return tell

    def make(self, number: int) -> tuple[str, bytes, dict[str, Any]]:
        """A message: topic, body, headers."""
        random_ = self.run.random
        is_queue = random_.random() < 0.6
        name = random_.choice(QUEUES if is_queue else TOPICS)
        body = f"{self.session.publisher}-{number}".encode() + bytes(random_.randrange(200))
        headers: dict[str, Any] = {"priority": random_.choice((4, 4, 9))}
        if is_queue:
            headers["group"] = random_.choice((None, None, "g1", "g2"))
        return queue_topic(name) if is_queue else name, body, headers

    def take(self) -> tuple[bytes, int, int] | None:
        """The next rows to send."""
        batch = [self.unsent.popleft() for _ in range(min(len(self.unsent), TOGETHER_MAX))]
        if not batch:
            return None
        content = rows.encode(
            self.session.publisher, PERSISTENT_CHAIN, [(number, 1, record) for number, record in batch]
        )
        return content, batch[0][0], batch[-1][0]

    @property
    def is_busy(self) -> bool:
        """Whether something is not stored."""
        return bool(self.unsent) or not self.chain.is_idle


class OutboxPublisher(Publisher):
    """Sends persistent messages, which are in its outbox until they are stored: that is its promise."""

    def __init__(self, run: StoreRun, name: str, publisher: int) -> None:
        self._publisher = publisher
        self._disk = SimulatedDisk(run.seed + 1)
        super().__init__(run, name)

    def publisher(self) -> int:
        """The outbox's, for ever."""
        return self._publisher

    def begin(self) -> None:
        """Begin a life, with what the disk has; it may stop while it is read."""
        self._disk.restart()
        random_ = self.run.random
        self._disk.set_faults(stop_at=None if self.run.is_healing else random_.randrange(1, 300))
        try:
            self.box = self.open_outbox()
        except StoreError:
            self._disk.restart()
            self.box = self.open_outbox()
        super().begin()
        self.session.kept = True

    def open_outbox(self) -> Outbox:
        """The outbox, as it is on the disk."""
        log = Log.simulated(
            self._disk,
            store_id=self._publisher,
            incarnation=bytes(16),
            segment_bytes=OUTBOX_SEGMENT_BYTES,
            clock_us=self.run.now.wall_us,
        )
        return Outbox(log, Path("outbox"), 1 << 30, rows_together=2, clock=lambda: self.run.now_s)

    def make_chain(self) -> Chain:
        """What brings the entries of the outbox to the store."""
        return self.box.chain(PERSISTENT_CHAIN)

    def publish(self, count: int) -> None:
        """Send some messages; when they are durable they must not be lost any more."""
        publisher, history = self._publisher, self.run.history
        first = self.box.builder.next
        try:
            for number in range(first, first + count):
                topic, body, headers = self.make(number)
                history.sent(publisher, number, topic)
                self.box.add(topic, body, bytes_max=1 << 20, **headers)
            self.box.sync()
        except StoreError:
            self.begin()
            return
        for number in range(first, first + count):
            history.stored(publisher, number)
        self.pump()

    def pump(self) -> None:
        """Say what is to be said, as long as the disk can be read."""
        try:
            super().pump()
        except StoreError:
            self.begin()

    @property
    def is_busy(self) -> bool:
        """Whether something is not stored."""
        return self.box.waiting > 0


class Worker(Client):
    """Consumes a queue or a durable subscription: acknowledges some, gives some back, commits some."""

    def __init__(self, run: StoreRun, name: str, reader: str, *, auto: bool = False) -> None:
        self.reader, self._auto = reader, auto
        super().__init__(run, name, client_id=None if reader in QUEUES else name)

    def begin(self) -> None:
        """Begin a life: what was held comes again, and how a commit ended is not known."""
        super().begin()
        self._consumers = itertools.count(1)
        self.tx_number = 0
        #: Transactions whose outcome is not known.
        self.pending: set[str] = set()
        self.held: list[Message] = []
        #: When a message set out from the store, by lease and offset.
        self._set_out: dict[tuple[int, int], int] = {}
        self.consume()
        self.connect()

    def consume(self) -> None:
        """Begin to consume."""
        begin: Body = {"op": "consume", "queue": self.reader, "deliveries_max": 0}
        if self.reader not in QUEUES:
            patterns = [SUBSCRIPTIONS[self.reader]]
            begin = {"op": "subscribe", "patterns": patterns, "name": self.reader, "durable": True}
            # Some lives have a limit, beyond which the store refuses messages; it takes the limit back, too.
            most = self.run.random.choice((0, 0, LIMIT_BYTES)) if self.reader == LIMITED else 0
            begin |= {"start": "earliest", "backlog_max_bytes": most}
        number = next(self._consumers)
        self.inbox = Inbox(number, begin, prefetch=PREFETCH, prefetch_bytes=1 << 20, auto=self._auto)
        self.session.add_inbox(self.inbox, lambda answer, error: None)

    def leave(self) -> None:
        """End as a program does that closes its connection, and begin another one."""
        self.inbox.settle_all(lambda reader: True)
        if (acks := self.inbox.poll_acks()) is not None:
            self.session.say(acks)
        self.session.bye()
        self.pump()
        self.run.see_off(self.session.id)
        self.begin()

    def hear(self, body: Body) -> None:
        """The store said something."""
        if body["op"] == "deliver":
            for row in rows.decode(body["rows"], body["first"]):
                self._set_out[body["lease"], row.offset] = body["set_out"]
        super().hear(body)

    # What the program does.

    def work(self) -> None:
        """Take some messages, and do something with some that are held."""
        if self.inbox.is_over:
            self.consume()
        if self._auto:
            self._read()
        else:
            self.held = [message for message in self.held if self.inbox.holds(message)]
            self._take()
            if self.held:
                self._decide()
        self.go_on()

    def _read(self) -> None:
        """Read one after the other, each of which acknowledges the one before."""
        for _ in range(self.run.random.randint(1, 6)):
            lot = self.inbox.lots.get(self.name)
            self.inbox.settle(self.name, self.run.now_s)
            message = lot.popleft() if lot else self.inbox.take_one(self.name, self.run.now_s)
            if message is None:
                return
            self._note(message)

    def _take(self) -> None:
        for message in self.inbox.take(self.name, self.run.random.randint(1, 10), self.run.now_s):
            self._note(message)
            self.held.append(message)

    def _note(self, message: Message) -> None:
        delivery = message._delivery
        assert delivery is not None
        self.run.history.delivered(
            self.reader,
            delivery[1],
            bytes(message.body).rstrip(b"\0").decode(),
            message.redelivered,
            (self.name, self.life),
            self._set_out[delivery[2], delivery[1]],
        )

    def _decide(self) -> None:
        count = self.run.random.randint(1, len(self.held))
        chosen, self.held = self.held[:count], self.held[count:]
        offsets = [offset_of(message) for message in chosen]
        what = self.run.random.random()
        if what < 0.6:
            self._acknowledge(offsets)
        elif what < 0.75:
            self.session.say(self.inbox.release(offsets, 0.0))
        elif what < 0.8:
            self.held = []
            self.session.request(self.inbox.pause(), self._on_paused(self.inbox), lasting=False)
        elif not self.pending:
            self._commit(self.inbox, offsets)
            self._go_astray(offsets)
        else:
            self.held = chosen + self.held

    def _go_astray(self, offsets: list[int]) -> None:
        """Do what a program should not while its commit is under way: the commit is done, or this is."""
        what = self.run.random.random()
        if what < 0.1:
            self.session.say(self.inbox.release(offsets, 0.0))
        elif what < 0.2:
            self._commit(self.inbox, offsets, chain=TRANSACTION_CHAIN + 1)
        elif what < 0.3:
            self.session.remove_inbox(self.inbox, lambda answer, error: None)
            self.held = []
            self.consume()

    def _acknowledge(self, offsets: list[int]) -> None:
        def done(answer: Body | None, error: BaseException | None) -> None:
            if error is None:
                self.run.history.acknowledged(self.reader, offsets)

        self.session.request(self.inbox.acknowledge(offsets), done, lasting=False)

    def _on_paused(self, inbox: Inbox) -> Any:
        """Everything comes again, when nothing more is under way."""
        session = self.session

        def done(answer: Body | None, error: BaseException | None) -> None:
            for request in inbox.recover() if error is None else ():
                session.say(request)

        return done

    def _commit(self, inbox: Inbox, offsets: list[int], *, chain: int = TRANSACTION_CHAIN) -> None:
        """Acknowledge, and send two messages, in one transaction."""
        session, lease, history = self.session, inbox.lease, self.run.history
        numbers = [self.tx_number + 1, self.tx_number + 2]
        self.tx_number += 2
        id_ = f"{self.name}/{self.life}/{self.tx_number}"
        self.pending.add(id_)
        topics = [queue_topic(self.run.random.choice(QUEUES)), self.run.random.choice(TOPICS)]
        records = []
        for number, topic in zip(numbers, topics, strict=True):
            history.sent(session.publisher, number, topic, commit=id_)
            records.append((number, 1, rows.record(topic, f"{session.publisher}-{number}".encode())))
        history.committing(id_, self.reader, offsets)
        held = [message for offset in offsets if (message := inbox.held(offset)) is not None]

        def done(answer: Body | None, error: BaseException | None) -> None:
            self.pending.discard(id_)
            if error is None:
                history.committed(id_)
                if inbox.lease == lease:
                    inbox.give_up([offset_of(message) for message in held if inbox.has_in_hand(message)])
            elif isinstance(error, StoreError):
                history.rolled_back(id_)
                back = [offset_of(message) for message in held if inbox.has_in_hand(message)]
                if inbox.lease == lease and not inbox.closed and back:
                    session.say(inbox.release(back, 0.0))

        session.request(
            {
                "op": "commit",
                "id": id_,
                "publisher": session.publisher,
                "chain": chain,
                "rows": rows.encode(session.publisher, chain, records),
                "topics": 1,
                "acks": [[inbox.number, lease, runs_of(offsets)]],
            },
            done,
        )

    @property
    def is_busy(self) -> bool:
        """Whether it has something to do."""
        return bool(self.held or self.inbox.pending or self.pending)


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
        """The store is dead, and nothing repairs what was under way."""
        self.take()
        self.under_way.clear()
        self.asked.clear()
