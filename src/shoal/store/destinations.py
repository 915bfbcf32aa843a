"""Queues and subscriptions as things: made, emptied, moved, removed."""

from shoal.bus.store_protocol import QUEUES, TEMPORARY_QUEUES
from shoal.store.core import Core
from shoal.store.reader import SCAN_ROWS, Options, Reader, Session, Shape
from shoal.store.readers import Readers, queue_key, subscription_key
from shoal.store.receiving import check_owner, queue_options
from shoal.store.requests import Request, RequestError
from shoal.store.reservations import Reservations

#: Messages that one purge or move deals with in a frame.
MOVE_MAX = 1000


class Destinations:
    """What is done to queues and subscriptions as a whole. For one thread at a time."""

    def __init__(self, core: Core, readers: Readers, reservations: Reservations) -> None:
        self._core = core
        self._reservations = reservations
        self._readers = readers
        #: Temporary queues whose connections may come back, and until when, by the clock that counts leases.
        self._orphans: dict[str, float] = {}

    def adopt_none(self, until_s: float) -> None:
        """The store starts: connections have until then to come back for their temporary queues."""
        self._orphans = {each.key: until_s for each in self._readers if each.shape.temporary is not None}

    # Queues.

    def declare(self, session: Session, request: Request, n: int) -> None:
        """A queue is to be there, with these options."""
        name = request.text("queue")
        session.owner.check(self._core, "admin", QUEUES + name)
        key = queue_key(name)
        reader = self._readers.get(key)
        is_new = reader is None
        if request.flag("temporary"):
            if not name.startswith(TEMPORARY_QUEUES):
                text = f"names of temporary queues begin with {TEMPORARY_QUEUES!r}, not as {name!r} does"
                raise RequestError("BAD_REQUEST", text)
            if reader is None:
                shape = Shape(patterns=(QUEUES + name,), name=name, temporary=session.publisher)
                reader = self._readers.add(key, shape, Options(), start=self._core.log.end)
            elif reader.shape.temporary != session.publisher:
                raise RequestError("DENIED", f"{reader.name} belongs to another connection")
            session.temporary.add(key)
            self._orphans.pop(key, None)
        if reader is None:
            self._core.check_owned(QUEUES + name)
            reader = self._readers.queue(name)
        self._readers.change(reader, queue_options(self._core, session, request, reader.options))
        self._core.answer(session.id, n, created=is_new)

    def _queue(self, session: Session, request: Request) -> Reader:
        name = request.text("queue")
        session.owner.check(self._core, "admin", QUEUES + name)
        return self._readers.find(queue_key(name), f"queue {name!r}")

    def delete(self, session: Session, request: Request, n: int) -> None:
        """A queue and its messages go."""
        reader = self._queue(session, request)
        if reader.consumers:
            raise RequestError("IN_USE", f"{reader.name} has {len(reader.consumers)} consumers")
        held = self._reservations.of(reader)
        if held is not None:
            text = f"{reader.name} has messages reserved as {held!r}: give them back first, with "
            text += f"'shoal queue release {held}'"
            raise RequestError("IN_USE", text)
        messages = reader.totals.messages
        if messages and request.flag("if_empty"):
            raise RequestError("IN_USE", f"{reader.name} has {messages} messages")
        self._readers.remove(reader)
        session.temporary.discard(reader.key)
        self._core.answer(session.id, n, messages=messages)

    def end(self, session: Session, until_s: float | None) -> None:
        """A session is over. What is temporary goes with its connection, which may come back until then."""
        for key in session.temporary:
            if until_s is None:
                self._end_temporary(key)
            else:
                self._orphans[key] = until_s

    def end_orphans(self, now_s: float) -> None:
        """Connections had their time to come back for their temporary queues."""
        for key in [key for key, until_s in self._orphans.items() if until_s <= now_s]:
            del self._orphans[key]
            self._end_temporary(key)

    def _end_temporary(self, key: str) -> None:
        reader = self._readers.get(key)
        if reader is None:
            return
        for consumer in list(reader.consumers.values()):
            body = {"op": "gone", "consumer": consumer.own, "lease": consumer.lease}
            text = f"{reader.name} is gone with its connection"
            self._core.say(consumer.session, {**body, "error": "EXISTS_NOT", "text": text})
        self._readers.remove(reader)

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
        reader = self._queue(session, request)
        done = reader.backlog.finish(self._choose(reader, request))
        reader.journal(self._core, done)
        self._core.answer(session.id, n, messages=done[1])

    def move(self, session: Session, request: Request, n: int) -> None:
        """Messages go to another queue, so many at a time: ask again while some went."""
        reader = self._queue(session, request)
        to = request.text("to")
        session.owner.check(self._core, "publish", QUEUES + to)
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

    def _subscription(self, session: Session, request: Request) -> Reader:
        """The durable subscription that a request names, if it is the session's to change."""
        name, shared = request.text("name"), request.flag("shared")
        client_id = request.optional_text("client_id") or session.client_id
        if not shared and client_id != session.client_id and not session.owner.is_operator:
            raise RequestError(
                "DENIED",
                f"the durable subscription {name!r} belongs to the client id {client_id!r}: connect with "
                "that client id, or with the token of an operator",
            )
        key = subscription_key(name, client_id, shared=shared, durable=True)
        reader = self._readers.find(key, f"durable subscription {name!r} of {client_id!r}")
        check_owner(session, reader)
        return reader

    def seek(self, session: Session, request: Request, n: int) -> None:
        """A durable subscription reads on elsewhere: what it had is forgotten, and what follows comes."""
        reader = self._subscription(session, request)
        if reader.consumers:
            raise RequestError("IN_USE", f"{reader.name} is in use: close it first")
        start = self._place(request)
        shape, options, publishers = reader.shape, reader.options, list(reader.publishers)
        self._readers.remove(reader)
        moved = self._readers.add(reader.key, shape, options, start=start)
        for publisher in publishers:
            self._readers.leave_out_of(moved, publisher)
        if options.backlog_max_bytes is not None:
            moved.measure(self._core)
        self._core.answer(session.id, n, **{"from": start})

    def _place(self, request: Request) -> int:
        log = self._core.log
        if request.has("time_us"):
            return max(log.offset_at(request.number("time_us")), log.floor)
        to = request.get("to")
        if to == "latest":
            return log.end
        if to == "earliest":
            return log.floor
        return min(max(request.number("to"), log.floor), log.end)

    def unsubscribe(self, session: Session, request: Request, n: int) -> None:
        """A durable subscription goes."""
        reader = self._subscription(session, request)
        if reader.consumers:
            raise RequestError("IN_USE", f"{reader.name} is in use: close it first")
        self._readers.remove(reader)
        self._core.answer(session.id, n)
