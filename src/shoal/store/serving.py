"""Serves a store's machine: one thread takes requests of all clients, makes them durable together, answers.

Clients reach it by TCP, within the process, or over the domain's own bus; the protocol is the same. Which
other stores there are is in `presence`.
"""

import dataclasses
import logging
import secrets
import threading
import time
from collections import deque
from collections.abc import Callable, Iterable, Mapping
from typing import Any

from shoal import _core
from shoal._core import Log, Message
from shoal.bus.inside import be_private, core_of, links_of, node_of
from shoal.bus.log_limit import LogLimit
from shoal.bus.store_protocol import body_of, requests_topic, session_topic
from shoal.bus.subscription import Subscription
from shoal.bus.sync import Bus
from shoal.config import ConnectionConfig
from shoal.config.tokens import Principals
from shoal.errors import ClosedError, FullError, ShoalError, StoreError
from shoal.link.keeper import Keeper
from shoal.messages import named
from shoal.messages import store as notices
from shoal.store.announcing import LOOK_S, Announcing
from shoal.store.certificate import Certificate
from shoal.store.core import Now
from shoal.store.forwards import Next
from shoal.store.gate import Gate, Via
from shoal.store.held import Held
from shoal.store.listening import Listening
from shoal.store.machine import SESSION, Identity, Machine
from shoal.store.publishing import Publishing
from shoal.store.retained import Answers
from shoal.store.rule import ForwardRule
from shoal.store.rules import Rules
from shoal.system import Readable

log = logging.getLogger("shoal.store")

#: Requests that are taken before what they ask for is made durable.
REQUESTS_MAX = 1000
#: Rows of one turn; a request is never divided.
TURN_BYTES = 1 << 20
#: Requests that may wait, per bus.
QUEUE_BYTES_MAX = 16 << 20
#: Answers and deliveries, and their bytes, that may wait for one session that takes nothing; then it is over.
UNSENT_MAX, UNSENT_BYTES_MAX = 20_000, 64 << 20
#: How often a session that takes nothing is tried again.
RETRY_S = 0.005
#: Leases are noticed this late, at the most, and so is it that a link was closed.
WAIT_MAX_S = 0.25
#: Connections of clients.
CLIENTS_MAX = 10_000


class Unsent:
    """What waits for one session that takes nothing."""

    def __init__(self) -> None:
        self._bodies: deque[dict[str, Any]] = deque()
        self._bytes = 0

    def __bool__(self) -> bool:
        return bool(self._bodies)

    def add(self, body: dict[str, Any]) -> bool:
        """One more waits; false if there are too many, and then none does."""
        self._bodies.append(body)
        self._bytes += _size(body)
        # A single answer may be as long as it likes.
        is_full = len(self._bodies) > UNSENT_MAX or self._bytes > UNSENT_BYTES_MAX
        if is_full and len(self._bodies) > 1:
            self._bodies.clear()
            self._bytes = 0
            return False
        return True

    @property
    def first(self) -> dict[str, Any]:
        """What was added first."""
        return self._bodies[0]

    def drop_first(self) -> None:
        """It is sent."""
        self._bytes -= _size(self._bodies.popleft())


def _size(body: dict[str, Any]) -> int:
    """About how many bytes a body takes: those of its messages, and of the rest a little."""
    rows = body.get("rows", b"")
    return 200 + (len(rows) if isinstance(rows, bytes) else sum(map(len, rows)))


class Door:
    """A bus on which clients ask. For one thread at a time."""

    def __init__(self, bus: Bus, store: str, *, private: bool, via: Via, links: Keeper | None = None) -> None:
        self.bus, self.via = bus, via
        #: Where each client has a link of its own, whose heartbeats tell that it lives.
        self.links = links
        self._store, self._private = store, private
        self._requests: Subscription = bus.subscribe(requests_topic(store), queue_bytes_max=QUEUE_BYTES_MAX)
        #: What could not be sent yet, by session.
        self._unsent: dict[str, Unsent] = {}

    def attach_bell(self, bell: _core.Bell, source: int) -> None:
        """Ring when a request came."""
        core_of(self._requests).attach_bell(bell, source)

    def take(self) -> list[Message]:
        """Requests that came."""
        try:
            return self._requests.receive_nowait(REQUESTS_MAX)
        except ClosedError:
            return []

    @property
    def is_stuck(self) -> bool:
        """Whether somebody takes nothing."""
        return bool(self._unsent)

    def send(self, session: str, body: dict[str, Any]) -> bool:
        """Tell a session something, later if it takes nothing now; false if too much waits for it already.

        Then nothing of that reaches it: the session has to end.
        """
        if session in self._unsent or not self._try(session, body):
            return self._unsent.setdefault(session, Unsent()).add(body)
        return True

    def _try(self, session: str, body: dict[str, Any]) -> bool:
        try:
            topic = session_topic(self._store, session, private=self._private)
            self.bus.publish(topic, body, timeout_s=0.0)
        except FullError:
            return False
        except ClosedError:
            raise
        except ShoalError as error:
            notices.ANSWER_NOT_SENT(session=session, why=error).log(log)
        return True

    def retry(self) -> None:
        """Try those again that took nothing."""
        for session, waiting in list(self._unsent.items()):
            while waiting and self._try(session, waiting.first):
                waiting.drop_first()
            if not waiting:
                del self._unsent[session]


class Serving:
    """The thread that serves a store. `failed` is called with what ends it."""

    def __init__(
        self,
        log_: Log,
        bus: Bus,
        identity: Identity,
        *,
        endpoint: Bus | None,
        failed: Callable[[BaseException], None],
        publishing: Publishing | None = None,
        recorded: tuple[str, ...] = (),
        principals: Principals | None = None,
        rules: Rules | None = None,
        forward: tuple[ForwardRule, ...] = (),
        held: Held | None = None,
    ) -> None:
        self._log = log_
        #: The group that keeps the log, if one does: nothing is said while another store may own it.
        self._held = held
        #: Called when messages became durable, or an operator changed a rule.
        self.when_durable: Callable[[], None] = lambda: None
        self._has_rules = bool(forward)
        self._failed = failed
        self._publishing = publishing
        self._bus = bus
        store = f"{log_.store_id:016x}"
        gate = None if principals is None else Gate(principals, store, identity.run)
        self.machine = Machine(
            log_, identity, self._now(), recorded=recorded, gate=gate, rules=rules, forward=forward
        )
        #: The name of an inproc domain on which programs of this process ask.
        self.channel = f"store-{store}-{secrets.token_hex(4)}"
        inside = Bus(ConnectionConfig(scheme="inproc", domain=self.channel, when_slow="wait"))
        be_private(inside)
        self._inside = inside
        # A domain within one process has nobody else in it.
        via: Via = "inside" if bus.config.scheme == "inproc" else "domain"
        self._doors = [
            Door(inside, store, private=True, via="inside"),
            Door(bus, store, private=False, via=via),
        ]
        if endpoint is not None:
            self._doors.append(Door(endpoint, store, private=True, via="door", links=links_of(endpoint)))
        #: Which door a session uses, and the node that its requests come from.
        self._used: dict[str, tuple[Door, int]] = {}
        #: When links are asked next whom they heard.
        self._ask_links_at_s = 0.0
        self._waiting: deque[tuple[Door, Message]] = deque()
        self._bell = _core.Bell()
        for source, door in enumerate(self._doors, 1):
            door.attach_bell(self._bell, source)
        self._listening = Listening(bus, self._bell)
        self._announcing = Announcing(node_of(bus))
        #: Sessions that subscribed in this turn.
        self._subscribed: set[str] = set()
        self._listen()
        # On the bus a fetcher proves nothing: a store with tokens gives its values to no one there.
        self._may_answer = principals is None
        #: What answers fetches of last values, once there are some.
        self._answers: Answers | None = None
        #: Requests whose bodies were none.
        self._unreadable = 0
        self._log_limit = LogLimit()
        self._lock = threading.Lock()
        self._stopping = threading.Event()
        self._pin = self.machine.pin
        self._thread = threading.Thread(target=self._run, name="shoal-serve", daemon=True)

    def _now(self) -> Now:
        """The time, by both clocks: the log's goes on though the wall's is set back."""
        return Now(time.monotonic(), self._log.clock_us)

    def start(self) -> None:
        """Begin to serve."""
        self._answer_fetches()
        self._thread.start()

    @property
    def pin(self) -> int | None:
        """The lowest offset that a queue or subscription needs, as of the last turn."""
        return self._pin

    def status(self) -> dict[str, Any]:
        """How queues, subscriptions and sessions are."""
        with self._lock:
            return {**self.machine.status(), "unreadable": self._unreadable}

    def check_destinations(self, destinations: Iterable[str]) -> None:
        """Refuse destinations that no client may send to."""
        with self._lock:
            self.machine.check_destinations(self._now(), destinations)

    def expect_rows(self, sizes: Mapping[str, tuple[int, int]]) -> None:
        """Rows are to come into the log that no request brings: take room for them, or refuse them."""
        with self._lock:
            if self.machine.expect_rows(self._now(), sizes):
                # Under the lock: the thread that serves takes what this turn has for durable.
                self.machine.append(self._now())
                self._log.sync()

    def took(
        self, first: int, end: int, *, expected: Mapping[str, tuple[int, int]], note: str | None
    ) -> None:
        """Rows came into the log, durable, that no request brought."""
        with self._lock:
            self.machine.took(self._now(), first, end, expected, note)
        self._bell.ring(0)

    # What rules say.

    @property
    def log(self) -> Log:
        """The store's log."""
        return self._log

    def forwarded(self, name: str, end: int, messages: int, size: int) -> None:
        """The next store of a rule has what lies below an offset."""
        with self._lock:
            self.machine.forwarded(self._now(), name, end, messages, size)
        self._bell.ring(0)

    def give_up_forwarded(self, name: str, first: int, end: int, why: str) -> int | None:
        """Move messages to the dead-letter queue that the next store never takes; none without room."""
        with self._lock:
            at = self._now()
            moved = self.machine.give_up_forwarded(at, name, first, end, why)
            # Under the lock: the thread that serves takes what this turn has for durable.
            self.machine.append(at)
            self._log.sync()
            has_room = self.machine.forwards.place(name) >= end
        self._bell.ring(0)
        return moved if has_room else None

    def set_next(self, name: str, to: Next) -> None:
        """A rule leads to this store from now on."""
        with self._lock:
            self.machine.forwards.set_next(name, to)
        self._bell.ring(0)

    def take_ruled(self) -> dict[str, int]:
        """Rules that an operator changed, and where they are."""
        with self._lock:
            ruled, self.machine.ruled = self.machine.ruled, set()
            return {name: self.machine.forwards.place(name) for name in ruled}

    def set_space(self, full: str | None, low: str | None) -> None:
        """How the disk is."""
        with self._lock:
            self.machine.set_space(full, low)

    def _run(self) -> None:
        bell_rings = Readable(self._bell.fileno())
        more = False
        try:
            while not self._stopping.is_set():
                stuck = any(door.is_stuck for door in self._doors)
                if not more and not self._waiting and not self._listening.has_more:
                    left_s = min(self.machine.poll_timeout() - time.monotonic(), WAIT_MAX_S)
                    if self._announcing.is_waiting:
                        left_s = min(left_s, LOOK_S)
                    bell_rings.wait(max(0.0, min(left_s, RETRY_S) if stuck else left_s))
                self._listening.rang(self._bell.take())
                more = self._turn()
        except (StoreError, OSError) as error:
            if not self._stopping.is_set():
                self._failed(error)
        except ShoalError as error:
            if not self._stopping.is_set():
                self._failed(StoreError(f"the store cannot serve any more: {error}"))
        except Exception as error:
            # A mistake of ours. Nobody is to wait for a store that lives and answers nothing.
            notices.SERVING_FAILED(why=named(error)).log(log, exc_info=error)
            self._failed(StoreError(f"the store cannot serve any more: {error!r}"))

    def _turn(self) -> bool:
        """Take what came, make it durable, answer; whether there is more to give out at once."""
        # While requests wait here, others wait in the doors, whose bound holds their clients back.
        is_behind = bool(self._waiting)
        for door in self._doors:
            if not is_behind:
                self._waiting += [(door, message) for message in door.take()]
            door.retry()
        with self._lock:
            at = self._now()
            if at.mono_s >= self._ask_links_at_s:
                self._ask_links_at_s = at.mono_s + WAIT_MAX_S
                self._hear_links(at)
            if at.mono_s >= self.machine.poll_timeout():
                self.machine.handle_timeout(at)
            has_committed = self._handle(at)
            for rows in self._listening.take(TURN_BYTES):
                self.machine.hear(at, rows)
            is_unsettled = self.machine.append(self._now())
        if is_unsettled:
            self._log.sync()
        if self._held is not None:
            self._held.wait_for_lease()
        with self._lock:
            more = self.machine.settle(self._now())
            outgoing, silent = self.machine.poll_transmit(), self.machine.poll_silent()
            self._pin = self.machine.pin
        # Whoever is told that it subscribes misses nothing from then on.
        is_new = self._listen()
        now_s = time.monotonic()
        self._announcing.begin(now_s, self._subscribed, is_new=is_new)
        self._subscribed.clear()
        self._answer_fetches()
        outgoing = self._announcing.admit(outgoing)
        more = self._send(self._announcing.poll(now_s) + outgoing) or more
        if self._publishing is not None:
            for publisher in silent:
                self._publishing.publish_again(publisher)
            if has_committed:
                self._publishing.wake()
        if self._has_rules:
            self.when_durable()
        return more or is_behind

    def _answer_fetches(self) -> None:
        if self._answers is None and self._may_answer and len(self.machine.values):
            self._answers = Answers(self._bus, self._last_values)

    def _last_values(self, pattern: str) -> list[bytes]:
        with self._lock:
            return self.machine.values.matching(pattern)

    def _hear_links(self, at: Now) -> None:
        """Tell the machine which links were heard, and forget where sessions are that are over."""
        known = self.machine.sessions
        self._used = {session: used for session, used in self._used.items() if session in known}
        for door in self._doors:
            if door.links is not None and self._used:
                heard = door.links.heard()
                used = {session: node for session, (its, node) in self._used.items() if its is door}
                self.machine.handle_links(at, {session: heard.get(node) for session, node in used.items()})

    def _listen(self) -> bool:
        """Hear what subscriptions want; whether that is more than before."""
        wanted = self.machine.poll_wanted()
        return wanted is not None and self._listening.follow(wanted)

    def _handle(self, at: Now) -> bool:
        has_committed, size = False, 0
        while self._waiting and size < TURN_BYTES:
            door, message = self._waiting.popleft()
            body = body_of(message)
            if body is None:
                self._count_unreadable(message)
                continue
            session = body.get("session")
            if isinstance(session, str) and SESSION.fullmatch(session) and session not in self._used:
                self._used[session] = (door, message.sender)
            has_committed |= body.get("op") in ("commit", "forward")
            if body.get("op") == "subscribe" and isinstance(session, str):
                self._subscribed.add(session)
            rows = body.get("rows")
            size += len(rows) if isinstance(rows, bytes) else 100
            self.machine.handle(at, body, door.via, message.publisher)
        return has_committed

    def _count_unreadable(self, message: Message) -> None:
        """A body that is no request names no session to answer: count it, and log some of them."""
        self._unreadable += 1
        line = self._log_limit.admit("unreadable", notices.REQUEST_UNREADABLE(node=message.sender))
        if line is not None:
            line.log(log)

    def _send(self, outgoing: list[tuple[str, dict[str, Any]]]) -> bool:
        """Tell sessions what they are to be told; whether one ended, because it takes nothing."""
        lost = set()
        for session, body in outgoing:
            door, _ = self._used.get(session, (None, 0))
            if door is not None and not door.send(session, body):
                lost.add(session)
        if lost:
            with self._lock:
                for session in lost:
                    why = (
                        f"it stopped reading, and {UNSENT_MAX} answers and deliveries or {UNSENT_BYTES_MAX} "
                        "bytes wait for it"
                    )
                    self.machine.end_session(self._now(), session, why)
        return bool(lost)

    def stop(self) -> None:
        """Tell clients that the store closes, and end the thread; what it took is durable."""
        self._stopping.set()
        self._bell.ring(0)
        if self._thread.ident is not None and self._thread is not threading.current_thread():
            self._thread.join()

    def close(self, *, failed: bool) -> None:
        """After `stop`: note how far everybody is, unless the log failed."""
        self._listening.follow(set())
        if self._answers is not None:
            self._answers.close()
        if not failed:
            try:
                for rows in self._listening.take(TURN_BYTES):
                    self.machine.hear(self._now(), rows)
                self.machine.close(self._now())
                self.machine.append(self._now())
                self._log.sync()
                self.machine.settle(self._now())
                self._send(self._announcing.end() + self.machine.poll_transmit())
            except ShoalError as error:
                notices.CLOSED_UNCLEAN(why=error).log(log)
        for door in self._doors:
            if door.bus is not self._bus:
                door.bus.close(0.5)


def listening(
    connection: ConnectionConfig, host: str, port: int, certificate: Certificate | None
) -> tuple[Bus, str]:
    """A bus to which clients connect by TCP, over TLS where there is a certificate, and where."""
    from shoal.config.target import Target

    scheme = "tcp" if certificate is None else "tls"
    cert, key = (None, None) if certificate is None else certificate
    config = dataclasses.replace(
        ConnectionConfig(
            scheme=scheme, host=host, port=port, domain=connection.domain, tls_cert=cert, tls_key=key
        ),
        connections_max=CLIENTS_MAX,
        # What is for one client waits for that one, and is in nobody else's way.
        when_slow="wait",
        # Leases are renewed by the other end's heartbeats, and clients look after theirs as well.
        heartbeat_s=1.0,
    )
    bus = Bus(config)
    # Clients that died have not everything, and what it is they are told by the next run.
    be_private(bus)
    try:
        return bus, bus.listen(Target(scheme, host, port).url)
    except BaseException:
        bus.close(0)
        raise
