"""Consumers: who reads what, under which lease, with how much credit."""

import dataclasses

from shoal.bus.store_protocol import BATCH_BYTES_MAX, QUEUES, RUNS_MAX, TEMPORARY_QUEUES, is_queue_name
from shoal.store.consumer import Consumer, Former
from shoal.store.core import Core
from shoal.store.reader import Options, Reader, Session, Shape
from shoal.store.readers import Readers, queue_key, subscription_key
from shoal.store.requests import Request, RequestError

#: Credit is no larger.
CREDIT_MAX = 1 << 62
#: Messages of which a client reports that it finished them, or was handed them, under its last lease.
REPORT_MAX = 1_000_000
#: Consumers of one session.
CONSUMERS_MAX = 10_000
#: Where a browser goes on is a rank, 0 for the highest priority, and an offset below this.
BROWSED_OFFSETS = 1 << 56
PRIORITY_MAX = 9
#: What rows take of which there are none.
NO_ROWS_BYTES = 4


def options_of(request: Request, former: Options) -> Options:
    """What of a reader's options a request changes."""

    def number(name: str, least: int, now: int | None) -> int | None:
        return request.number(name, least) if request.has(name) else now

    def seconds(name: str, now: float | None) -> float | None:
        return request.seconds(name) if request.has(name) else now

    dead_letter = request.text("dead_letter", former.dead_letter)
    if not is_queue_name(dead_letter) or dead_letter.startswith(TEMPORARY_QUEUES):
        raise RequestError("BAD_REQUEST", f"dead_letter is {dead_letter!r}, and must be a queue that stays")
    deliveries_max = number("deliveries_max", 0, former.deliveries_max)
    backoff_s, backoff_max_s = seconds("backoff_s", former.backoff_s), seconds("backoff_max_s", None)
    return Options(
        # 0 takes them back.
        expires_after_s=seconds("expires_after_s", former.expires_after_s) or None,
        backlog_max_bytes=number("backlog_max_bytes", 0, former.backlog_max_bytes) or None,
        on_full=request.choice("on_full", ("refuse", "drop_oldest"), former.on_full),
        deliveries_max=former.deliveries_max if deliveries_max is None else deliveries_max,
        backoff_s=former.backoff_s if backoff_s is None else backoff_s,
        backoff_max_s=former.backoff_max_s if backoff_max_s is None else backoff_max_s,
        dead_letter=dead_letter,
        dead_letter_expired=request.flag("dead_letter_expired")
        if request.has("dead_letter_expired")
        else former.dead_letter_expired,
    )


def queue_options(core: Core, session: Session, request: Request, former: Options) -> Options:
    """The same of a queue, whose dead letters must go where its principal may publish."""
    options = options_of(request, former)
    if request.has("dead_letter"):
        session.owner.check(core, "publish", QUEUES + options.dead_letter)
    return options


def check_owner(session: Session, reader: Reader) -> None:
    """Refuse a subscription of another principal."""
    made_by, asks = reader.shape.principal, session.owner
    if made_by is not None and made_by != asks.principal and not asks.is_operator:
        raise RequestError(
            "DENIED",
            f"{reader.name} belongs to {made_by!r}, not to {asks.principal!r}: use its token, or an "
            "operator's",
        )


class Receiving:
    """What goes out. For one thread at a time."""

    def __init__(self, core: Core, readers: Readers) -> None:
        self._core = core
        self._readers = readers
        #: Numbers of consumers are given once.
        self._last_consumer = 0

    # Requests.

    def consume(self, session: Session, request: Request, n: int) -> None:
        """Read a queue."""
        name = request.text("queue")
        session.owner.check(self._core, "consume", QUEUES + name)
        if self._readers.get(queue_key(name)) is None and not self._readers.is_forwarded(QUEUES + name):
            self._core.check_owned(QUEUES + name)
        reader = self._readers.queue(name)
        self._readers.change(reader, queue_options(self._core, session, request, reader.options))
        self._attach(session, request, n, reader, created=False)

    def subscribe(self, session: Session, request: Request, n: int) -> None:
        """Read a subscription, which is made if it is not there."""
        shape = self._shape(session, request)
        for pattern in shape.patterns:
            self._core.check_owned(pattern)
            session.owner.check(self._core, "subscribe", pattern)
        key = subscription_key(shape.name, shape.client_id, shared=shape.shared, durable=shape.durable)
        reader = self._readers.get(key)
        created = False
        if reader is not None:
            check_owner(session, reader)
            self._check_kind(reader, shape)
            if reader.consumers and not shape.shared:
                raise RequestError("IN_USE", f"{reader.name} is in use by another consumer")
            if not _same(reader.shape, shape):
                if reader.consumers:
                    raise RequestError("IN_USE", f"{reader.name} is in use, and reads something else")
                if not request.flag("replace"):
                    raise RequestError("DIFFERS", f"{reader.name} reads something else: {reader.shape}")
                self._readers.remove(reader)
                reader = None
        if reader is None:
            options = self._bounded(session, shape, options_of(request, Options(deliveries_max=0)))
            reader = self._readers.add(key, shape, options, start=self._start(request))
            created = True
        else:
            options = self._bounded(session, shape, options_of(request, reader.options))
            self._readers.change(reader, options)
        for publisher in session.publishers if shape.no_local else ():
            self._readers.leave_out_of(reader, publisher)
        self._attach(session, request, n, reader, created=created)

    def _bounded(self, session: Session, shape: Shape, options: Options) -> Options:
        """A subscription's options, with no more backlog than the quota of its principal allows."""
        owner = session.owner
        quota = self._core.rules.quota(owner.principal) if shape.durable and not owner.is_operator else None
        most = None if quota is None else quota.backlog_bytes
        if most is None or (options.backlog_max_bytes or most + 1) <= most:
            return options
        return dataclasses.replace(options, backlog_max_bytes=most)

    def _check_kind(self, reader: Reader, shape: Shape) -> None:
        """Refuse a subscription that is for one consumer to clients that share, and the other way round."""
        made, asked = reader.shape.single, shape.single
        if made is None or asked is None or made == asked:
            return
        is_, not_ = ("unshared", "shared") if made else ("shared", "unshared")
        raise RequestError(
            "DIFFERS",
            f"{reader.name} is {is_}, and cannot be {not_} too: unsubscribe it, or use another name",
        )

    def _shape(self, session: Session, request: Request) -> Shape:
        durable, shared = request.flag("durable"), request.flag("shared")
        name = request.optional_text("name")
        if durable and name is None:
            raise RequestError("BAD_REQUEST", "a durable subscription needs a name")
        if durable and not shared and session.client_id is None:
            raise RequestError(
                "NO_CLIENT_ID",
                f"the durable subscription {name!r} needs a client id: connect with client_id=…",
            )
        if shared and name is None:
            raise RequestError("BAD_REQUEST", "a shared subscription needs a name")
        if name is None:
            self._last_consumer += 1
            name = f"{session.id}/{self._last_consumer}"
        request.selector()
        selector = request._fields.get("selector") or None
        return Shape(
            patterns=tuple(request.texts("patterns")),
            selector=selector,
            no_local=request.flag("no_local"),
            shared=shared,
            durable=durable,
            client_id=session.client_id,
            name=name,
            principal=session.owner.principal if durable else None,
            single=request.flag("single") if request.has("single") else None,
        )

    def _start(self, request: Request) -> int:
        log = self._core.log
        start = request._fields.get("start") or "new"
        if start == "new":
            return log.end
        if start == "earliest":
            return log.floor
        return min(max(request.number("start"), log.floor), log.end)

    def _attach(self, session: Session, request: Request, n: int, reader: Reader, *, created: bool) -> None:
        own = request.number("consumer")
        if own in session.consumers:
            raise RequestError("BAD_REQUEST", f"the session has a consumer {own} already")
        if len(session.consumers) >= CONSUMERS_MAX:
            raise RequestError("BAD_REQUEST", f"a session has at most {CONSUMERS_MAX} consumers")
        messages = request.number("messages", 0, CREDIT_MAX)
        consumer = self._consumer(session, own, messages, request.number("bytes", 0, CREDIT_MAX))
        # A subscription has its selector in what it reads.
        selector = request.selector() if reader.shape.queue is not None else None
        reader.attach(self._core, consumer, selector)
        session.consumers[own] = (reader.key, consumer)
        former = _former(request)
        if former is not None and self._is_about(former, reader):
            reader.take_over(self._core, consumer.number, own, former)
        self._readers.touch(reader)
        start = reader.backlog.pin
        self._core.answer(session.id, n, lease=consumer.lease, created=created, **{"from": start})
        reader.tell_dropped(self._core)

    def report(self, session: Session, request: Request, n: int) -> None:
        """A program's consumer ended while the store was away: hear what the program finished and has."""
        former = _former(request)
        if request.has("queue"):
            name = request.text("queue")
            session.owner.check(self._core, "consume", QUEUES + name)
            reader = self._readers.get(queue_key(name))
        else:
            shape = self._shape(session, request)
            for pattern in shape.patterns:
                session.owner.check(self._core, "subscribe", pattern)
            key = subscription_key(shape.name, shape.client_id, shared=shape.shared, durable=shape.durable)
            reader = self._readers.get(key)
        if former is not None and reader is not None and self._is_about(former, reader):
            check_owner(session, reader)
            own = request.number("consumer")
            consumer = self._consumer(session, own, 0, 0)
            reader.attach(self._core, consumer, None)
            reader.take_over(self._core, consumer.number, own, former)
            reader.detach(self._core, consumer.number, [])
            self._left(reader)
        self._core.answer(session.id, n)

    def _consumer(self, session: Session, own: int, messages: int, size: int) -> Consumer:
        self._last_consumer += 1
        self._core.lease += 1
        return Consumer(
            number=self._last_consumer,
            session=session.id,
            own=own,
            lease=self._core.lease,
            messages=messages,
            bytes=size,
            bytes_max=session.bytes_max,
        )

    def _is_about(self, former: Former, reader: Reader) -> bool:
        """Whether the offsets of a report mean messages of this reader.

        They mean others in another store and after a restore, and after a seek they are void.
        """
        log = self._core.log
        if (former.store, former.incarnation) != (f"{log.store_id:016x}", log.incarnation):
            return False
        return not (former.finished or former.handed) or former.lease > reader.leases_after

    def _find(self, session: Session, request: Request) -> tuple[Reader, Consumer]:
        own = request.number("consumer")
        key, consumer = session.consumers.get(own, ("", None))
        reader = self._readers.get(key)
        if consumer is None or reader is None:
            raise RequestError("NO_CONSUMER", f"the session has no consumer {own}")
        return reader, consumer

    def _leased(self, session: Session, request: Request) -> tuple[Reader, Consumer]:
        try:
            reader, consumer = self._find(session, request)
        except RequestError as error:
            raise RequestError("LEASE", error.text) from None
        if request.number("lease") != consumer.lease:
            raise RequestError("LEASE", f"consumer {consumer.own} has another lease now")
        return reader, consumer

    def credit(self, session: Session, request: Request, n: int) -> None:
        """How much may have been delivered in all."""
        reader, consumer = self._find(session, request)
        consumer.messages = request.number("messages", 0, CREDIT_MAX)
        consumer.bytes = request.number("bytes", 0, CREDIT_MAX)
        if consumer.is_hungry:
            self._readers.touch(reader)
        self._core.answer(session.id, n, messages=consumer.given_messages, bytes=consumer.given_bytes)

    def ack(self, session: Session, request: Request, n: int) -> None:
        """Messages are done."""
        reader, consumer = self._leased(session, request)
        reader.acknowledge(self._core, consumer.number, request.runs("offsets"))
        self._readers.touch(reader)
        self._core.answer(session.id, n)

    def handed(self, session: Session, request: Request, n: int) -> None:
        """A program has messages in hand: they count as delivered if it is never heard of again."""
        reader, consumer = self._leased(session, request)
        reader.backlog.hand_over(consumer.number, request.runs("offsets"))
        self._core.answer(session.id, n)

    def release(self, session: Session, request: Request, n: int) -> None:
        """Messages go back."""
        reader, consumer = self._leased(session, request)
        seen = request.flag("seen") if request.has("seen") else True
        delay_s = request.seconds("delay_s")
        runs = request.runs("offsets")
        if request.flag("dead"):
            reader.give_up(self._core, consumer.number, runs, delay_s or 0.0)
        else:
            reader.give_back(self._core, consumer.number, runs, seen=seen, delay_s=delay_s)
        self._readers.touch(reader)
        self._core.answer(session.id, n)

    def cancel(self, session: Session, request: Request, n: int) -> None:
        """A consumer ends."""
        reader, consumer = self._find(session, request)
        del session.consumers[consumer.own]
        reader.detach(self._core, consumer.number, request.runs("handed"))
        self._left(reader)
        self._core.answer(session.id, n)

    def _left(self, reader: Reader) -> None:
        """A consumer is gone: a subscription that is not kept goes with the last one."""
        if not reader.consumers and not reader.shape.durable and reader.shape.queue is None:
            self._readers.remove(reader)
        else:
            self._readers.touch(reader)

    def end(self, session: Session, handed: dict[int, list[tuple[int, int]]] | None) -> None:
        """A session is over, and so are its consumers; without a goodbye, what was handed over is unknown."""
        for own, (key, consumer) in session.consumers.items():
            reader = self._readers.get(key)
            if reader is None:
                continue
            if handed is None:
                reader.abandon(self._core, consumer.number)
            else:
                reader.detach(self._core, consumer.number, handed.get(own, []))
            self._left(reader)
        session.consumers.clear()

    def explain(self, session: Session, silent_s: float, left_s: float) -> None:
        """Tell consumers, once, that wait for messages which a silent session has."""
        everything = [(0, CREDIT_MAX)]
        for key, holder in session.consumers.values():
            reader = self._readers.get(key)
            waiting = [] if reader is None or reader.backlog.counts[0] else reader.consumers.values()
            for consumer in waiting:
                if consumer.session == session.id or consumer.number in session.explained:
                    continue
                assert reader is not None
                held = reader.backlog.has(holder.number, everything)
                if held and consumer.is_hungry:
                    session.explained.add(consumer.number)
                    body = {"op": "waiting", "consumer": consumer.own, "messages": held}
                    body |= {"holder": session.name, "silent_s": silent_s, "left_s": left_s}
                    self._core.say(consumer.session, body)

    def browse(self, session: Session, request: Request, n: int) -> None:
        """Look at a queue's messages without taking them."""
        name = request.text("queue")
        session.owner.check(self._core, "browse", QUEUES + name)
        reader = self._readers.find(queue_key(name), f"queue {name!r}")
        now_us, selector = self._core.now.wall_us, request.selector()
        messages = request.number("messages", 1, 1 << 31, default=1000)
        size = request.number("bytes", 1, BATCH_BYTES_MAX, default=BATCH_BYTES_MAX)
        rank, start = divmod(request.number("start", default=0), BROWSED_OFFSETS)
        priority: int | None = max(PRIORITY_MAX - rank, 0)
        following = None
        # In the order of delivery: one priority after the other.
        while priority is not None and following is None:
            browsed = priority
            first, rows, on, priority = reader.backlog.browse(
                start, now_us, selector, messages, size, browsed
            )
            if start and browsed and on is None:
                # Those of a lower priority may all lie before.
                _, some, _, below = reader.backlog.browse(0, now_us, selector, 1, 1, browsed - 1)
                priority = browsed - 1 if len(some) > NO_ROWS_BYTES else below
            start = 0
            if on is not None:
                following = (PRIORITY_MAX - browsed) * BROWSED_OFFSETS + on
            elif priority is not None and len(rows) > NO_ROWS_BYTES:
                following = (PRIORITY_MAX - priority) * BROWSED_OFFSETS
        self._core.answer(session.id, n, first=first, rows=rows, next=following)

    def shown(self, session: Session, request: Request, n: int) -> None:
        """Which messages a queue has, by their offsets: for readers of history, who read them there."""
        name = request.text("queue")
        session.owner.check(self._core, "browse", QUEUES + name)
        reader = self._readers.find(queue_key(name), f"queue {name!r}")
        runs, following = reader.backlog.shown(
            request.number("start", default=0),
            self._core.now.wall_us,
            request.selector(),
            request.number("messages", 1, 1 << 31, default=1 << 31),
            RUNS_MAX // 2,
        )
        self._core.answer(session.id, n, runs=[at for run in runs for at in run], next=following)


def _former(request: Request) -> Former | None:
    """What a client reports of its last lease."""
    if not request.has("former"):
        return None
    report = request.part("former")
    former = Former(
        store=report.optional_text("store"),
        incarnation=report.optional_text("incarnation"),
        lease=report.number("lease", default=0),
        sessions=report.texts("sessions"),
        finished=report.runs("finished"),
        handed=report.runs("handed"),
        counts=report.counts("counts"),
        is_cut=report.flag("cut"),
    )
    if sum(last - first + 1 for first, last in (*former.finished, *former.handed)) > REPORT_MAX:
        raise RequestError("BAD_REQUEST", f"former names more than {REPORT_MAX} messages")
    return former


def _same(one: Shape, other: Shape) -> bool:
    return (one.patterns, one.selector, one.no_local) == (other.patterns, other.selector, other.no_local)
