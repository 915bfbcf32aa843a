"""Queues and subscriptions as things: made, emptied, moved, removed; and messages that are reserved."""

import json
from typing import Any

from shoal.bus.store_protocol import BATCH_BYTES_MAX, QUEUES, TEMPORARY
from shoal.store.core import Core
from shoal.store.reader import SCAN_ROWS, Options, Reader, Session, Shape
from shoal.store.readers import TEMPORARY_QUEUES, Readers, queue_key, subscription_key
from shoal.store.receiving import options_of
from shoal.store.requests import Request, RequestError
from shoal.store.sending import Sending

#: Messages that one purge or move deals with in a frame.
MOVE_MAX = 1000
#: Messages of a reservation.
RESERVED_MAX = 100_000
#: Who holds a reservation, for the backlog. Consumers have positive numbers.
_RESERVED_FROM = 1 << 62

_RESERVATIONS = "reserve/"


class Destinations:
    """What is done to queues and subscriptions as a whole. For one thread at a time."""

    def __init__(self, core: Core, readers: Readers, sending: Sending) -> None:
        self._core = core
        self._readers = readers
        self._sending = sending
        #: Reservations by name: the queue, first and last offset, runs, and who holds them.
        self._reserved: dict[str, dict[str, Any]] = {}
        self._holder = _RESERVED_FROM
        self._recover()

    def _recover(self) -> None:
        """What was reserved stays reserved."""
        for key, value in self._core.log.items(_RESERVATIONS):
            found = json.loads(value)
            self._holder += 1
            found["holder"] = self._holder
            self._reserved[key.removeprefix(_RESERVATIONS)] = found
            reader = self._readers.get(queue_key(found["queue"]))
            if reader is not None and found["open"]:
                reader.backlog.attach(self._holder)
                runs = [(first, last) for first, last in found["runs"]]
                reader.backlog.take_these(self._holder, runs, self._core.now.wall_us)

    # Queues.

    def declare(self, session: Session, request: Request, n: int) -> None:
        """A queue is to be there, with these options."""
        name = request.text("queue")
        key = queue_key(name)
        reader = self._readers.get(key)
        is_new = reader is None
        if request.flag("temporary"):
            if not name.startswith(TEMPORARY_QUEUES):
                text = f"names of temporary queues begin with {TEMPORARY_QUEUES!r}, not as {name!r} does"
                raise RequestError("BAD_REQUEST", text)
            if reader is None:
                shape = Shape(patterns=(QUEUES + name,), durable=False, name=name)
                reader = self._readers.add(key, shape, Options(), start=self._core.log.end)
                session.temporary.add(key)
        if reader is None:
            reader = self._readers.queue(name)
        self._readers.change(reader, options_of(request, reader.options))
        self._core.answer(session.id, n, created=is_new)

    def temporary(self, session: Session, request: Request, n: int) -> None:
        """A temporary topic is to be there, as long as the session."""
        topic = request.text("topic")
        if not topic.startswith(TEMPORARY):
            raise RequestError("BAD_REQUEST", f"names of temporary topics begin with {TEMPORARY!r}")
        session.topics.add(topic)
        self._sending.topics.add(topic)
        self._core.answer(session.id, n)

    def _queue(self, request: Request, field: str = "queue") -> Reader:
        name = request.text(field)
        return self._readers.find(queue_key(name), f"queue {name!r}")

    def delete(self, session: Session, request: Request, n: int) -> None:
        """A queue and its messages go."""
        reader = self._queue(request)
        if reader.consumers:
            raise RequestError("IN_USE", f"{reader.name} has {len(reader.consumers)} consumers")
        messages = reader.totals.messages
        if messages and request.flag("if_empty"):
            raise RequestError("IN_USE", f"{reader.name} has {messages} messages")
        self._readers.remove(reader)
        session.temporary.discard(reader.key)
        self._core.answer(session.id, n, messages=messages)

    def end(self, session: Session) -> None:
        """A session is over, and so is what was temporary."""
        for key in session.temporary:
            reader = self._readers.get(key)
            if reader is not None:
                for consumer in list(reader.consumers.values()):
                    body = {"op": "gone", "consumer": consumer.own, "lease": consumer.lease}
                    text = f"{reader.name} is gone with its connection"
                    self._core.say(consumer.session, {**body, "error": "EXISTS_NOT", "text": text})
                self._readers.remove(reader)
        self._sending.topics -= session.topics

    def _choose(self, reader: Reader, request: Request) -> list[int]:
        """Messages that a request means, of those that nobody has."""
        reader.backlog.scan(self._core.now.wall_us, SCAN_ROWS, keep=False)
        most = request.number("messages", 1, MOVE_MAX, default=MOVE_MAX)
        chosen = reader.backlog.untaken(request.selector(), MOVE_MAX * 10)
        if request.has("offsets"):
            runs = request.runs("offsets")
            chosen = [at for at in chosen if any(first <= at <= last for first, last in runs)]
        return chosen[:most]

    def purge(self, session: Session, request: Request, n: int) -> None:
        """Messages of a queue go, so many at a time: ask again while some went."""
        reader = self._queue(request)
        done = reader.backlog.finish(self._choose(reader, request))
        reader.journal(self._core, done)
        self._core.answer(session.id, n, messages=done[1])

    def move(self, session: Session, request: Request, n: int) -> None:
        """Messages go to another queue, so many at a time: ask again while some went."""
        reader = self._queue(request)
        to = request.text("to")
        if self._readers.queue(to) is reader:
            raise RequestError("BAD_REQUEST", f"{reader.name} is where the messages are already")
        if self._core.full is not None:
            raise RequestError("FULL", self._core.full)
        chosen = [(offset, 0) for offset in self._choose(reader, request)]
        moved = reader.move(self._core, chosen, to, "moved") if chosen else 0

        def done(refused: str | None) -> None:
            if refused is None:
                self._core.answer(session.id, n, messages=moved)
            else:
                body = {"op": "failed", "n": n, "request": "move", "error": "FULL", "text": refused}
                self._core.say(session.id, body)

        self._core.after_rows(done, with_rows=bool(moved))

    # Subscriptions.

    def unsubscribe(self, session: Session, request: Request, n: int) -> None:
        """A durable subscription goes."""
        name, shared = request.text("name"), request.flag("shared")
        client_id = request.optional_text("client_id") or session.client_id
        key = subscription_key(name, client_id, shared=shared, durable=True)
        reader = self._readers.find(key, f"durable subscription {name!r} of {client_id!r}")
        if reader.consumers:
            raise RequestError("IN_USE", f"{reader.name} is in use: close it first")
        self._readers.remove(reader)
        self._core.answer(session.id, n)

    # Reservations.

    def reserve(self, session: Session, request: Request, n: int) -> None:
        """Set messages aside under a name, the same ones however often it is asked."""
        name, queue = request.text("name"), request.text("queue")
        start = request.number("start", -1)
        reader = self._readers.queue(queue)
        found = self._reserved.get(name)
        if found is not None and found["queue"] != queue:
            raise RequestError("DIFFERS", f"{name!r} is a reservation of the queue {found['queue']!r}")
        if found is not None and found["open"] and start in (-1, found["start"]):
            self._tell(session, n, found)
            return
        if found is not None and start not in (-1, found["end"]):
            text = f"{name!r} begins at {found['start']} and ends at {found['end']}, and not at {start}"
            raise RequestError("BAD_REQUEST", text)
        if found is not None and found["open"]:
            reader.acknowledge(self._core, found["holder"], [tuple(run) for run in found["runs"]])
        self._reserve(session, request, n, reader, name, found["end"] if found else max(start, 0))

    def _reserve(
        self, session: Session, request: Request, n: int, reader: Reader, name: str, start: int
    ) -> None:
        core = self._core
        self._holder += 1
        reader.backlog.attach(self._holder)
        reader.backlog.scan(core.now.wall_us, SCAN_ROWS, keep=False)
        most = request.number("messages", 1, RESERVED_MAX, default=RESERVED_MAX)
        size = request.number("bytes", 1, default=1 << 40)
        batches, _ = reader.backlog.take(self._holder, core.now.wall_us, most, size)
        runs = _runs_of(reader, self._holder)
        count = sum(batch[3] for batch in batches)
        end = max((run[1] + 1 for run in runs), default=start)
        kept = {"queue": reader.shape.queue, "start": start, "end": max(end, start), "runs": runs}
        found = {**kept, "messages": count, "open": count > 0}
        core.turn.put(_RESERVATIONS + name, json.dumps(found).encode())
        self._reserved[name] = {**found, "holder": self._holder}
        self._tell(session, n, self._reserved[name])

    def _tell(self, session: Session, n: int, found: dict[str, Any]) -> None:
        self._core.answer(session.id, n, start=found["start"], end=found["end"], messages=found["messages"])

    def reserved(self, session: Session, request: Request, n: int) -> None:
        """The rows of a reservation."""
        name = request.text("name")
        found = self._reserved.get(name)
        if found is None or not found["open"] or request.number("start", -1) not in (-1, found["start"]):
            raise RequestError("EXISTS_NOT", f"there is no reservation {name!r} that begins there")
        reader = self._readers.find(queue_key(found["queue"]), f"queue {found['queue']!r}")
        first, rows, following = reader.backlog.look(
            found["holder"], request.number("from", default=0), BATCH_BYTES_MAX
        )
        self._core.answer(session.id, n, first=first, rows=rows, next=following)

    def unreserve(self, session: Session, request: Request, n: int) -> None:
        """Give a reservation back."""
        name = request.text("name")
        found = self._reserved.pop(name, None)
        if found is None:
            raise RequestError("EXISTS_NOT", f"there is no reservation {name!r}")
        reader = self._readers.get(queue_key(found["queue"]))
        messages = 0
        if reader is not None and found["open"]:
            runs = [(first, last) for first, last in found["runs"]]
            messages = reader.backlog.has(found["holder"], runs)
            reader.backlog.detach(found["holder"], runs, self._core.now.wall_us)
            self._readers.touch(reader)
        self._core.turn.put(_RESERVATIONS + name, None)
        self._core.answer(session.id, n, messages=messages)

    def reservations(self) -> list[dict[str, Any]]:
        """What is reserved, for people."""
        return [
            {"name": name} | {key: value for key, value in found.items() if key not in ("runs", "holder")}
            for name, found in self._reserved.items()
        ]


def _runs_of(reader: Reader, holder: int) -> list[tuple[int, int]]:
    """What a holder has, as runs, both ends included."""
    runs, _, _ = reader.backlog.weigh(holder, [(0, (1 << 62))])
    return [(first, end - 1) for first, end in runs]
