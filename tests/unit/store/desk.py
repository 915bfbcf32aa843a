"""A machine over a log in memory or on a simulated disk, and clients that speak to it directly."""

from collections.abc import Iterable
from typing import Any

from shoal._core import Log, Message, SimulatedDisk
from shoal.bus.store_protocol import queue_topic
from shoal.store.core import Now
from shoal.store.machine import Identity, Machine, Silent
from shoal.store.rule import ForwardRule
from shoal.testing import rows

SEGMENT_BYTES = 1 << 20


class Desk:
    """The machine, its log and the time."""

    def __init__(
        self,
        disk: SimulatedDisk | None = None,
        *,
        queue_window: int = 65_536,
        recorded: tuple[str, ...] = (),
        return_s: float = 0.0,
        forward: tuple[ForwardRule, ...] = (),
        store_id: int = 7,
        **identity: Any,
    ) -> None:
        self.queue_window, self.recorded, self.return_s = queue_window, recorded, return_s
        self.forward, self.store_id = forward, store_id
        self.disk = disk or SimulatedDisk(1)
        self.identity = identity
        self.now_s = 1000.0
        #: How far the wall's clock is ahead of the one that never jumps.
        self.jumped_s = 0.0
        self.clients: dict[str, Client] = {}
        self.silent: list[Silent] = []
        #: How often the log was synced.
        self.syncs = 0
        self.open()

    @property
    def now(self) -> Now:
        return Now(self.now_s, int((self.now_s + self.jumped_s) * 1e6))

    def open(self) -> None:
        self.log = Log.simulated(
            self.disk,
            store_id=self.store_id,
            incarnation=bytes(16),
            segment_bytes=SEGMENT_BYTES,
            clock_us=self.now.wall_us,
        )
        identity = Identity(name="desk", run="r", **self.identity)
        self.machine = Machine(
            self.log,
            identity,
            self.now,
            recorded=self.recorded,
            queue_window=self.queue_window,
            return_s=self.return_s,
            forward=self.forward,
        )

    def crash(self) -> None:
        """The power goes, and comes back."""
        self.disk.restart()
        self.clients.clear()
        self.open()

    def restart(self) -> None:
        """The store closes in an orderly way, and starts again."""
        self.machine.close(self.now)
        self.run()
        self.log.close()
        self.clients.clear()
        self.open()

    def client(self, name: str, **hello: Any) -> "Client":
        client = self.clients[name] = Client(self, name, hello.pop("publisher", None))
        client.hello = client.ask("hello", version=1, publisher=client.publisher, **hello)
        return client

    def run(self) -> None:
        """Make durable what was asked, and deliver until there is nothing more."""
        self.log.set_clock_us(self.now.wall_us)
        more = True
        while more:
            if self.machine.append(self.now):
                self.log.sync()
                self.syncs += 1
            more = self.machine.settle(self.now)
            outgoing = self.machine.poll_transmit()
            for session, body in outgoing:
                # Whatever is said can be sent.
                Message("t", body)
                if session in self.clients:
                    self.clients[session].hear(body)
            self.silent += self.machine.poll_silent()
            more = more or bool(outgoing)

    def wait(self, seconds: float) -> None:
        """Time passes."""
        until = self.now_s + seconds
        while self.now_s < until:
            self.now_s = min(until, max(self.machine.poll_timeout(), self.now_s + 0.01))
            self.log.set_clock_us(self.now.wall_us)
            self.machine.handle_timeout(self.now)
            self.run()


class Client:
    """One session, and what it heard."""

    def __init__(self, desk: Desk, name: str, publisher: int | None = None) -> None:
        self.desk = desk
        self.name = name
        self.publisher = publisher or (sum(name.encode()) << 8) + 1
        self.number = self.said = 0
        self.n = 0
        self.heard: list[dict[str, Any]] = []
        #: Requests but the first, which have numbers.
        self.sent = 0
        self.hello: dict[str, Any] = {}
        self.last_consumer = 0

    def hear(self, body: dict[str, Any]) -> None:
        self.heard.append(body)

    def tell(self, op: str, **fields: Any) -> None:
        self._request({"op": op, "session": self.name, "n": 0, **fields})

    def _request(self, request: dict[str, Any]) -> None:
        if request["op"] == "hello":
            self.sent = 0
        else:
            self.sent += 1
            request.setdefault("seq", self.sent)
        self.desk.machine.handle(self.desk.now, request)

    def ask(self, op: str, **fields: Any) -> dict[str, Any]:
        """Ask, and return the answer, or what failed."""
        self.n += 1
        self._request({"op": op, "session": self.name, "n": self.n, **fields})
        self.desk.run()
        (answer,) = [body for body in self.heard if body.get("n") == self.n]
        return answer

    def send(
        self, topic: str, *bodies: bytes, after: int | None = None, live: bool = False, **fields: Any
    ) -> None:
        """Send messages in one batch."""
        messages = []
        before = self.number if after is None else after
        for body in bodies:
            self.number += 1
            messages.append((self.number, self.desk.now.wall_us, rows.record(topic, body, **fields)))
        content = rows.encode(self.publisher, 5, messages)
        self.tell("send", publisher=self.publisher, chain=5, after=before, rows=content, live=live)
        self.desk.run()

    def say(self, topic: str, *bodies: bytes, chain: int = 2, again: int = 0) -> None:
        """Publish messages that are not persistent, and that the store hears; or some of them once more."""
        self.said -= again
        messages = []
        for body in bodies:
            self.said += 1
            record = rows.record(topic, body, persistent=False)
            messages.append((self.said, self.desk.now.wall_us, record))
        self.desk.machine.hear(self.desk.now, rows.encode(self.publisher, chain, messages))
        self.desk.run()

    def put(self, queue: str, *bodies: bytes, **fields: Any) -> None:
        self.send(queue_topic(queue), *bodies, **fields)

    def consume(self, queue: str, messages: int = 1000, **fields: Any) -> "Tap":
        return self._tap("consume", queue=queue, messages=messages, **fields)

    def subscribe(self, *patterns: str, messages: int = 1000, **fields: Any) -> "Tap":
        return self._tap("subscribe", patterns=list(patterns), messages=messages, **fields)

    def _tap(self, op: str, **fields: Any) -> "Tap":
        self.last_consumer += 1
        answer = self.ask(op, consumer=self.last_consumer, bytes=1 << 40, **fields)
        assert answer["op"] == "answer", answer
        return Tap(self, self.last_consumer, answer)

    def stored(self) -> list[int]:
        return [body["through"] for body in self.heard if body["op"] == "stored"]

    def refused(self) -> list[dict[str, Any]]:
        return [body for body in self.heard if body["op"] == "refused"]


class Tap:
    """A consumer."""

    def __init__(self, client: Client, number: int, answer: dict[str, Any]) -> None:
        self.client = client
        self.number = number
        self.lease = answer["lease"]
        self.answer = answer

    def deliveries(self) -> list[tuple[int, bytes, int]]:
        """Offset, body and count of everything that came."""
        found = []
        for body in self.client.heard:
            if body["op"] == "deliver" and body["consumer"] == self.number:
                counts = body.get("counts", {})
                for row in rows.decode(body["rows"], body["first"]):
                    found.append((row.offset, rows.body_of(row.record), counts.get(row.offset, 1)))
        return found

    def bodies(self) -> list[bytes]:
        return [body for _, body, _ in self.deliveries()]

    def offset(self, body: bytes) -> int:
        return next(offset for offset, each, _ in self.deliveries() if each == body)

    def _runs(self, bodies: Iterable[bytes]) -> list[int]:
        return [at for body in bodies for at in 2 * [self.offset(body)]]

    def ack(self, *bodies: bytes) -> dict[str, Any]:
        runs = self._runs(sorted(bodies, key=self.offset))
        return self.client.ask("ack", consumer=self.number, lease=self.lease, offsets=runs)

    def release(self, *bodies: bytes, **fields: Any) -> dict[str, Any]:
        runs = self._runs(sorted(bodies, key=self.offset))
        return self.client.ask("release", consumer=self.number, lease=self.lease, offsets=runs, **fields)

    def credit(self, messages: int) -> dict[str, Any]:
        return self.client.ask("credit", consumer=self.number, messages=messages, bytes=1 << 40)

    def cancel(self, **fields: Any) -> None:
        self.client.ask("cancel", consumer=self.number, **fields)
