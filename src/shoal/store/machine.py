"""The store's state machine: what clients ask, what becomes durable, what they are told.

Sans-IO: time is an argument, the log is given, nothing waits. Called per batch, in this order:

1. `handle(now, request)` for each request that came, `handle_timeout(now)` when `poll_timeout` says so;
2. `append(now)` writes everything they change as one frame of the log; if it says so, sync the log;
3. `settle(now)`: that is durable. Answers and deliveries are ready;
4. `poll_transmit()` until there is nothing; `settle` says whether there is more to give out at once.

Nothing is answered or shown before it is durable. Acknowledgements that nobody waits for may be durable a
moment later: so deliveries do not wait for the disk. Everything that has to survive is in the log's state, so
a machine is made anew from the log alone. `shoal.testing` runs it on a simulated disk and network.
"""

import logging
import math
import re
import reprlib
from collections.abc import Callable, Collection, Iterable, Mapping
from dataclasses import dataclass
from typing import Any, NamedTuple

from shoal._core import Log
from shoal.bus.clock_offset import clock_us
from shoal.bus.store_protocol import LEASE_S, LEASE_S_MAX, LEASE_S_MIN, LINK_LEASE_S, VERSION
from shoal.errors import (
    InvalidTopicError,
    StoreCorruptError,
    StoreError,
    StoreFailedError,
    StoreFullError,
)
from shoal.messages import named
from shoal.messages import store as notices
from shoal.store.commits import Commits
from shoal.store.core import AHEAD_WITHIN_S, Core, Now
from shoal.store.credit import Credit
from shoal.store.custody import Custody
from shoal.store.destinations import Destinations
from shoal.store.forwards import Forwards
from shoal.store.gate import Gate, Via
from shoal.store.numbers import Numbers
from shoal.store.publishers import owner_of
from shoal.store.reader import QUEUE_WINDOW, Owner, Session
from shoal.store.readers import Readers, Wanted
from shoal.store.receiving import Receiving
from shoal.store.requests import Request, RequestError, runs_of
from shoal.store.reservations import Reservations
from shoal.store.retained import Values
from shoal.store.rule import ForwardRule
from shoal.store.rules import Rules
from shoal.store.sending import Sending

log = logging.getLogger("shoal.store")

#: How often the machine looks after itself.
HOUSEKEEPING_S = 1.0
#: Acknowledgements that nobody waits for are durable this late, at the most.
SETTLE_S = 0.02
#: Leases count no more time than this between two looks: the store itself stood still for the rest.
STILL_S = 1.0
#: What a session may be called: it is part of the topic that answers go to.
SESSION = re.compile(r"[0-9A-Za-z_-]{1,64}")
#: Sessions at once.
SESSIONS_MAX = 10_000

Handler = Callable[[Session, Request, int], None]


@dataclass(frozen=True, kw_only=True)
class Identity:
    """Who the store is, for its clients."""

    name: str
    #: Another one after each start.
    run: str
    #: Higher than that of the owner before.
    term: int = 1
    #: Destinations it keeps.
    patterns: tuple[str, ...] = (">",)
    #: Its node among those of the domain.
    node: int = 0
    #: Destinations that it takes, and forwards to the store that keeps them.
    forwards: tuple[str, ...] = ()


class Silent(NamedTuple):
    """A publisher that went without a word: its chain, and when it was heard of last, by the wall's clock."""

    publisher: int
    chain: int
    heard_us: int


class Machine:
    """The store. For one thread at a time."""

    def __init__(
        self,
        log_: Log,
        identity: Identity,
        now: Now,
        *,
        recorded: tuple[str, ...] = (),
        queue_window: int = QUEUE_WINDOW,
        gate: Gate | None = None,
        rules: Rules | None = None,
        forward: tuple[ForwardRule, ...] = (),
        return_s: float = LINK_LEASE_S,
        ahead_within_s: float = AHEAD_WITHIN_S,
    ) -> None:
        """A store that starts.

        Consumers of its last life have `return_s` to come back, from the first client on that does. Those
        with credit again within `ahead_within_s` of a delivery are granted messages ahead.
        """
        self.log = log_
        self.identity = identity
        #: Asks sessions who they are; none lets everybody in.
        self._gate = gate
        self._core = Core(log_, identity.patterns, queue_window, rules)
        self._core.now, self._core.lease = now, now.wall_us << 8
        self._core.ahead_within_s = ahead_within_s
        self._readers = Readers(self._core)
        self._commits = Commits(self._core)
        self._credit = Credit(self._readers, self._core.rules)
        #: Last values of topics.
        self.values = Values(self._core, is_secured=gate is not None)
        #: Which messages of publishers that changed stores are here.
        self.numbers = Numbers(self._core)
        self._sending = Sending(
            self._core, self._readers, self._commits, self._credit, self.values, self.numbers, recorded
        )
        #: What is forwarded to other stores, and what they forward here.
        self.forwards = Forwards(self._core, self._readers, forward)
        self.custody = Custody(
            self._core,
            self._readers,
            self._sending,
            self.numbers,
            self.forwards,
            is_secured=gate is not None,
        )
        self._sending.is_fed = lambda: self.custody.is_fed
        self._receiving = Receiving(self._core, self._readers)
        self._reservations = Reservations(self._core, self._readers)
        self._destinations = Destinations(self._core, self._readers, self._reservations)
        self._sessions: dict[str, Session] = {}
        #: Sessions by their client ids, and by the connections they are of.
        self._clients: dict[str, str] = {}
        self._connections: dict[tuple[int, int], str] = {}
        self._silent: list[Silent] = []
        #: The clock that counts leases, and when it was looked at; by that clock, no lease ends before.
        self._lease_now_s, self._looked_at_s = 0.0, now.mono_s
        self._lapse_at_s = math.inf
        #: Whether consumers of the store's last life may come back, and until when, once a client does.
        self._return_s, self._return_until_s = return_s, math.inf
        self._has_returning = return_s > 0 and self._readers.hold()
        self._destinations.adopt_none(LEASE_S)
        self._tidy_at_s = now.mono_s + HOUSEKEEPING_S
        #: When what was appended and may wait is to be durable.
        self._settle_at_s: float | None = None
        #: Whether the log is synced before the turn settles.
        self._will_sync = False
        self._is_closing = False
        #: Rules that an operator changed, until their forwarders know.
        self.ruled: set[str] = set()
        #: Requests in the name of a session that another peer began.
        self.foreign = 0
        #: Requests that failed with an exception that no handler expects.
        self.mistakes = 0
        #: Topics that come into the log past the machine, and up to where it has looked for them.
        self._recorded, self._looked_to = recorded, log_.durable_end
        self._handlers: dict[str, Handler] = {
            "ping": self._ping,
            "bye": self._bye,
            "send": self._sending.send,
            "commit": self._sending.commit,
            "forward": self.custody.forward,
            "rule": self._rule,
            "subscribe": self._receiving.subscribe,
            "consume": self._receiving.consume,
            "credit": self._receiving.credit,
            "ack": self._receiving.ack,
            "handed": self._receiving.handed,
            "release": self._receiving.release,
            "cancel": self._receiving.cancel,
            "report": self._receiving.report,
            "browse": self._receiving.browse,
            "shown": self._receiving.shown,
            "declare": self._destinations.declare,
            "delete": self._destinations.delete,
            "purge": self._destinations.purge,
            "move": self._destinations.move,
            "unsubscribe": self._destinations.unsubscribe,
            "seek": self._destinations.seek,
            "reserve": self._reservations.reserve,
            "reserved": self._reservations.reserved,
            "unreserve": self._reservations.unreserve,
            "status": self._status,
        }

    # Input.

    def handle(self, now: Now, body: object, via: Via = "inside", peer: int = 0) -> None:
        """A request came, by a door, from a peer: the session that it began is its alone."""
        self._look(now)
        if not isinstance(body, Mapping):
            return
        request = Request(body)
        session_id, op = body.get("session"), body.get("op")
        if not isinstance(session_id, str) or SESSION.fullmatch(session_id) is None:
            return
        n = body.get("n", 0)
        n = n if isinstance(n, int) and not isinstance(n, bool) and 0 <= n < 1 << 62 else 0
        session = self._sessions.get(session_id)
        if session is not None and session.peer != peer:
            # Not even an answer: it would reach the session's own client.
            self.foreign += 1
            return
        try:
            self._do(session_id, op, request, n, via, peer)
        except RequestError as error:
            self._failed(session_id, n, op, error)
        except InvalidTopicError as error:
            self._failed(session_id, n, op, RequestError("BAD_REQUEST", str(error)))
        except StoreCorruptError as error:
            notices.CORRUPT(why=error).log(log)
            self._failed(session_id, n, op, RequestError("FAILED", str(error)))
        except (StoreError, OSError):
            raise
        except Exception as error:
            # A mistake of ours about a field. Whoever reaches a door must not stop the store with it.
            self.mistakes += 1
            line = notices.REQUEST_FAILED(request=f"{op!r:.50}", session=session_id, why=named(error))
            line.log(log, exc_info=error)
            self._failed(session_id, n, op, RequestError("BAD_REQUEST", f"it cannot be read: {error!r}"))

    def _failed(self, session: str, n: int, op: object, error: RequestError) -> None:
        request = op if isinstance(op, str) and op in (*self._handlers, "hello") else "?"
        body = {"op": "failed", "n": n, "request": request, "error": error.code, "text": error.text}
        self._core.say(session, {**body, **error.more})

    def _do(self, session_id: str, op: object, request: Request, n: int, via: Via, peer: int) -> None:
        if self._is_closing:
            raise RequestError("CLOSING", f"the store {self.identity.name!r} is closing")
        if op in ("hello", "prove"):
            self._greet(session_id, str(op), request, n, via, peer)
            return
        session = self._sessions.get(session_id)
        if session is None:
            raise RequestError("NO_SESSION", "the session is over, or never began: say hello")
        session.heard_s = self._lease_now_s
        session.age_s = session.clock.age_s(self._core.now.mono_s, request.get("at"))
        seq = request.number("seq", default=session.asked + 1)
        if seq > session.asked + 1:
            # An acknowledgement may be among what is missing, and nobody repeats it.
            self._break(session, "requests were lost on the link")
            return
        session.asked = seq
        handler = self._handlers.get(op) if isinstance(op, str) else None
        if handler is None:
            raise RequestError("BAD_REQUEST", f"there is no request {reprlib.repr(op):.50}")
        handler(session, request, n)

    def handle_timeout(self, now: Now) -> None:
        """Time has passed."""
        self._look(now)
        self._readers.wake()
        if self._lease_now_s >= self._return_until_s:
            self._return_until_s = math.inf
            self._readers.let_go()
        if self._lease_now_s >= self._lapse_at_s:
            self._end_leases()
        if now.mono_s >= self._tidy_at_s:
            self._tidy_at_s = now.mono_s + HOUSEKEEPING_S
            self._readers.expire()
            self._destinations.end_orphans(self._lease_now_s)
            self._explain()
            self._look_on()
            self._readers.note_places()

    def handle_links(self, now: Now, heard: Mapping[str, float | None]) -> None:
        """How many seconds ago the links of sessions were heard, by heartbeats too; none if one is closed."""
        self._look(now)
        for session_id, age_s in heard.items():
            session = self._sessions.get(session_id)
            if session is None:
                continue
            if age_s is not None:
                session.heard_s, session.closed_s = max(session.heard_s, self._lease_now_s - age_s), None
            elif session.closed_s is None:
                session.closed_s = self._lease_now_s
                self._lapse_at_s = min(self._lapse_at_s, session.until_s)

    def _look(self, now: Now) -> None:
        self._core.now = now
        self._lease_now_s += min(max(0.0, now.mono_s - self._looked_at_s), STILL_S)
        self._looked_at_s = now.mono_s

    def _end_leases(self) -> None:
        now_s, wall_us = self._lease_now_s, self._core.now.wall_us
        for session in [each for each in self._sessions.values() if each.until_s <= now_s]:
            silent_s = now_s - session.heard_s
            heard_us = wall_us - int(silent_s * 1e6)
            self._silent += [Silent(*chain, heard_us) for chain in session.chains]
            is_closed = session.closed_s is not None
            why = "its link is closed" if is_closed else f"it has not been heard for {silent_s:.1f} s"
            self._break(session, why, returns_s=LINK_LEASE_S if is_closed else None)
        self._lapse_at_s = min((each.until_s for each in self._sessions.values()), default=math.inf)

    def _explain(self) -> None:
        """Tell consumers that wait for what a silent session has."""
        for session in self._sessions.values():
            left_s = session.until_s - self._lease_now_s
            if session.consumers and left_s < session.lease_s / 2:
                self._receiving.explain(session, self._lease_now_s - session.heard_s, left_s)

    def _look_on(self) -> None:
        try:
            self._readers.look_on()
        except StoreCorruptError as error:
            notices.CORRUPT(why=error).log(log)

    # Commands.

    def end_session(self, now: Now, session_id: str, why: str) -> None:
        """What a session was told did not reach it: end it, and redeliver what it has."""
        self._core.now = now
        if (session := self._sessions.get(session_id)) is not None:
            self._break(session, why)

    def set_space(self, full: str | None, low: str | None) -> None:
        """How the disk is: why nothing more is taken, or why whoever pins space takes nothing more."""
        self._core.full = full
        self._credit.set_low(full is not None or low is not None)
        self._sending.pinned = None
        if low is None:
            return
        self._look_on()
        pinning = self._readers.pinning
        if pinning is not None and pinning.backlog.pin < self.log.durable_end:
            text = f"{low}: {pinning.name} needs messages from offset {pinning.backlog.pin} on"
            self._sending.pinned = (pinning.key, text)

    def hear(self, now: Now, rows: bytes) -> None:
        """Messages came on the bus that subscriptions may want, and that are not persistent."""
        self._core.now = now
        if not self._is_closing:
            self._sending.hear(rows)

    def check_destinations(self, now: Now, destinations: Iterable[str]) -> None:
        """Refuse destinations that no client may send to."""
        self._core.now = now
        for destination in destinations:
            self._sending.check_destination(destination)

    def expect_rows(self, now: Now, sizes: Mapping[str, tuple[int, int]]) -> bool:
        """Rows are to come into the log past the machine: take room for them, or refuse them.

        If it says so, `append` and sync the log before they come.
        """
        self._core.now = now
        return self._sending.expect(sizes)

    def took(
        self, now: Now, first: int, end: int, expected: Mapping[str, tuple[int, int]], note: str | None = None
    ) -> None:
        """Rows came into the log past the machine, durable: they are counted, readers are due.

        Room for those that were `expected` was taken before. The `note` that names their queues goes.
        """
        core = self._core
        core.now = now
        came = {destination: messages for destination, messages, *_ in self.log.topics(first, end, [])}
        for destination in came.keys() | expected.keys():
            size = self.log.extent(first, end, [destination])[2] if destination in came else 0
            messages = came.get(destination, 0)
            self._sending.came(destination, messages, size, expected.get(destination, (0, 0)), end)
        if note is not None:
            core.turn.put(note, None, with_rows=True)

    def forwarded(self, now: Now, name: str, end: int, messages: int, size: int) -> None:
        """The next store of a rule has what lies below an offset."""
        self._core.now = now
        self.forwards.forwarded(name, end, messages, size)
        self.custody.tell_passed()

    def give_up_forwarded(self, now: Now, name: str, first: int, end: int, why: str) -> int:
        """The next store of a rule never takes some messages: how many go to the dead-letter queue."""
        self._core.now = now
        return self.forwards.give_up(name, first, end, why)

    def close(self, now: Now) -> None:
        """Take nothing more, and note how far readers are; `append`, sync and `settle` follow."""
        self._core.now = now
        self._is_closing = True
        for session in list(self._sessions.values()):
            body = {"op": "gone", "consumer": None, "error": "CLOSING", "text": "the store closes"}
            self._core.say(session.id, body)
            self._end(session, None, returns_s=LEASE_S)
        for reader in self._readers:
            reader.rest(self._core)

    # Making durable.

    def append(self, now: Now) -> bool:
        """Write what was changed as one frame; whether the log has to be synced before `settle`.

        Raises:
            StoreFailedError: the log takes nothing more.
        """
        core = self._core
        core.now = now
        refused = None
        if self._credit.has_changed():
            for session in self._sessions.values():
                core.say(session.id, {"op": "credit", **self._credit.fields(session)})
        foreseen = self._readers.foresee()
        may_wait = core.turn.may_wait and not self._is_closing
        if not core.turn.is_empty:
            first: int | None = None
            try:
                first, _ = self.log.append_turn(core.turn)
            except StoreFailedError:
                raise
            except StoreFullError as error:
                refused = str(error)
                core.turn.drop_rows()
                if not core.turn.is_empty:
                    self.log.append_turn(core.turn)
            for reader in foreseen:
                reader.grants.stored(first)
        core.appended(refused)
        if not core.turn.is_empty:
            # What is done only because the rows were taken, or were not.
            may_wait = False
            self.log.append_turn(core.turn)
        self._sending.begin_turn()
        core.turns += 1
        self._will_sync = self._is_due(may_wait and not core.has_held)
        return self._will_sync

    def _is_due(self, may_wait: bool) -> bool:
        """Whether what was appended has to be durable now."""
        now_s = self._core.now.mono_s
        if self.log.is_settled:
            self._settle_at_s = None
        elif self._settle_at_s is None:
            self._settle_at_s = now_s + SETTLE_S
        if self._settle_at_s is None or (may_wait and now_s < self._settle_at_s):
            return False
        self._settle_at_s = None
        return True

    def settle(self, now: Now) -> bool:
        """Everything that was appended is durable; whether there is more to give out at once."""
        core = self._core
        core.now = now
        if self._will_sync or self.log.is_settled:
            core.durable_turns = core.turns
        core.settle()
        touched, core.touched = core.touched, set()
        self._readers.arrived(touched)
        end = self.log.durable_end
        if self._recorded and end > self._looked_to:
            self._looked_to = end
            self._readers.recorded()
        try:
            # Deliveries may wait for their grants.
            return self._readers.dispatch() or core.has_held
        except StoreCorruptError as error:
            notices.CORRUPT(why=error).log(log)
            return True

    # Output.

    def poll_transmit(self) -> list[tuple[str, dict[str, Any]]]:
        """Sessions, and what goes to them, in order; what a live session is told is numbered."""
        outgoing = self._core.take_outgoing()
        for session_id, body in outgoing:
            if (session := self._sessions.get(session_id)) is not None:
                session.told += 1
                body["seq"] = session.told
        return outgoing

    def poll_silent(self) -> list[Silent]:
        """Publishers of whom nothing is heard: live subscribers may have missed their last messages."""
        silent, self._silent = self._silent, []
        return silent

    def poll_wanted(self) -> set[Wanted] | None:
        """What to hear on the bus, if that is not the same as before."""
        if not self._readers.has_changed:
            return None
        self._readers.has_changed = False
        return self._readers.wanted

    def poll_timeout(self) -> float:
        """When to call `handle_timeout`, by the clock that never jumps."""
        now = self._core.now
        at = self._tidy_at_s if self._settle_at_s is None else min(self._tidy_at_s, self._settle_at_s)
        lapse_at_s = min(self._lapse_at_s, self._return_until_s)
        at = min(at, self._looked_at_s + lapse_at_s - self._lease_now_s)
        wake_us = self._readers.next_wake_us()
        if wake_us is not None:
            at = min(at, now.mono_s + max(0, wake_us - now.wall_us) / 1e6)
        return at

    @property
    def sessions(self) -> Collection[str]:
        """The ids of the sessions there are."""
        return self._sessions.keys()

    @property
    def pin(self) -> int | None:
        """The lowest offset that a queue or subscription needs; none if there is none."""
        pinning = self._readers.pinning
        return None if pinning is None else pinning.backlog.pin

    def status(self) -> dict[str, Any]:
        """How everything is, for people."""
        readers = self._readers.status()
        pinning = self._readers.pinning
        return {
            "queues": [each for each in readers if each["queue"] is not None],
            "subscriptions": [each for each in readers if each["queue"] is None and not each["forward"]],
            "forwards": self.forwards.status(),
            "upstream": self.custody.status(),
            "sessions": [
                {
                    "session": session.id,
                    "name": session.name,
                    "client_id": session.client_id,
                    "principal": session.owner.principal,
                    "publisher": f"{session.publisher:016x}",
                    "consumers": len(session.consumers),
                }
                for session in self._sessions.values()
            ],
            "reservations": self._reservations.status(),
            "retained": len(self.values),
            "unheard": self._sending.unheard,
            "mistakes": self.mistakes,
            "foreign": self.foreign,
            "denied": self._core.rules.denied + (0 if self._gate is None else self._gate.denied),
            "pinned_by": None if pinning is None else pinning.name,
        }

    # Sessions.

    def _greet(self, session_id: str, op: str, request: Request, n: int, via: Via, peer: int) -> None:
        """Begin a session, or ask its client who it is first."""
        gate, now_s = self._gate, self._core.now.mono_s
        if gate is None or via == "inside" or session_id in self._sessions:
            # Programs of the store's own process may do what the process may.
            self._hello(session_id, request, n, Owner(None, via == "inside"), peer)
        elif via == "domain":
            gate.denied += 1
            raise RequestError(
                "DENIED",
                "The store asks for tokens, and so for a connection of its own: reach one of its addresses.",
            )
        elif op == "hello":
            fields = gate.challenge(now_s, session_id, peer, request)
            self._core.say(session_id, {"op": "challenge", "n": n, **fields})
        else:
            principal, hello = gate.prove(now_s, session_id, peer, request.get("proof"))
            owner = Owner(principal.name, principal.is_operator, principal.may_forward)
            self._hello(session_id, hello, n, owner, peer)

    def _hello(self, session_id: str, request: Request, n: int, owner: Owner, peer: int) -> None:
        core = self._core
        version = request.number("version")
        if version != VERSION:
            text = f"the store {self.identity.name!r} speaks version {VERSION}, and not {version}"
            raise RequestError("VERSION", text)
        client_id = request.optional_text("client_id")
        publisher = request.number("publisher", 1, (1 << 64) - 1)
        lease_s = min(max(request.seconds("lease_s") or LEASE_S, LEASE_S_MIN), LEASE_S_MAX)
        session = self._sessions.get(session_id)
        if session is None:
            if len(self._sessions) >= SESSIONS_MAX:
                raise RequestError("FULL", f"the store has {SESSIONS_MAX} sessions already")
            self._check_connections(owner, publisher)
            way = request.number("way", default=0)
            former = self._sessions.get(self._connections.get((publisher, way), ""))
            key = owner_of(request.optional_text("key"))
            if former is not None:
                if former.key != key:
                    raise self._in_use(f"the publisher {publisher:016x}", former)
                # A connection begins another session when the one before is over for it.
                self._end(former, None, returns_s=LINK_LEASE_S)
            if client_id is not None:
                self._claim(client_id, session_id, publisher, key)
            kept = request.flag("kept")
            session = Session(session_id, publisher, client_id, lease_s, self._lease_now_s, kept=kept)
            session.owner, session.peer, session.key = owner, peer, key
            session.bytes_max = request.number("bytes_max", 1, default=session.bytes_max)
            session.name = request.optional_text("name") or client_id or f"session {session_id}"
            session.publishers.append(publisher)
            self._sessions[session_id] = session
            session.way = way
            self._connections[publisher, way] = session_id
            self._commits.came(publisher)
            self._readers.leave_out(session, publisher)
        session.heard_s = self._lease_now_s
        session.clock.age_s(core.now.mono_s, request.get("at"))
        self._lapse_at_s = min(self._lapse_at_s, session.until_s)
        if self._has_returning:
            self._has_returning, self._return_until_s = False, self._lease_now_s + self._return_s
        core.answer(
            session_id,
            n,
            store=f"{self.log.store_id:016x}",
            name=self.identity.name,
            incarnation=self.log.incarnation,
            term=self.identity.term,
            run=self.identity.run,
            lease_s=session.lease_s,
            at=clock_us(core.now.mono_s),
            end=self.log.durable_end,
            state="open" if core.full is None else "full",
            patterns=list(self.identity.patterns),
            node=self.identity.node,
            forwards=list(self.identity.forwards),
            takes=["forward"],
            **self._credit.fields(session),
        )

    def _check_connections(self, owner: Owner, publisher: int) -> None:
        """Refuse a principal's session beyond its quota. A connection with several sessions counts once."""
        quota = None if owner.is_operator else self._core.rules.quota(owner.principal)
        if quota is None or quota.connections is None:
            return
        its = {each.publisher for each in self._sessions.values() if each.owner.principal == owner.principal}
        if len(its - {publisher}) >= quota.connections:
            raise RequestError(
                "DENIED",
                f"{owner.principal!r} has {len(its)} connections, and the quota {quota.name!r} allows "
                f"{quota.connections}: close one of them.",
            )

    def _claim(self, client_id: str, session_id: str, publisher: int, key: int) -> None:
        holder = self._sessions.get(self._clients.get(client_id, ""))
        if holder is not None and (holder.publisher, holder.key) != (publisher, key):
            raise self._in_use(f"the client id {client_id!r}", holder)
        self._clients[client_id] = session_id

    def _in_use(self, what: str, holder: Session) -> RequestError:
        left = max(0.0, holder.until_s - self._lease_now_s)
        return RequestError(
            "IN_USE",
            f"{what} is in use by {holder.name!r}: close that one first; if it died, the id is free in "
            f"{left:.1f} s",
            retry_s=left,
        )

    def _ping(self, session: Session, request: Request, n: int) -> None:
        self._core.answer(session.id, n, at=clock_us(self._core.now.mono_s))

    def _bye(self, session: Session, request: Request, n: int) -> None:
        handed = {}
        for each in request.items("handed"):
            if not isinstance(each, list) or len(each) != 2 or not isinstance(each[0], int):
                raise RequestError("BAD_REQUEST", "handed has entries that are not [consumer, offsets]")
            handed[each[0]] = runs_of("handed", each[1])
        self._core.answer(session.id, n)
        self._end(session, handed, for_good=not session.kept)

    def _break(self, session: Session, why: str, returns_s: float | None = LINK_LEASE_S) -> None:
        """End a session that did not end itself, and say so; its connection may come back for a while."""
        notices.SESSION_ENDED(session=session.name, why=why).log(log)
        body = {"op": "gone", "consumer": None, "error": "NO_SESSION", "text": why}
        self._core.say(session.id, body)
        self._end(session, None, returns_s=returns_s)

    def _end(
        self,
        session: Session,
        handed: dict[int, list[tuple[int, int]]] | None,
        *,
        for_good: bool = False,
        returns_s: float | None = None,
    ) -> None:
        del self._sessions[session.id]
        self._commits.left(session.publisher, for_good=for_good)
        if session.client_id is not None and self._clients.get(session.client_id) == session.id:
            del self._clients[session.client_id]
        if self._connections.get((session.publisher, session.way)) == session.id:
            del self._connections[session.publisher, session.way]
        self._receiving.end(session, handed)
        until_s = None if returns_s is None else self._lease_now_s + returns_s
        self._destinations.end(session, until_s)

    def _rule(self, session: Session, request: Request, n: int) -> None:
        """An operator lets a rule go on, or drops what waits for it."""
        name = request.text("name")
        if self._gate is not None and not session.owner.is_operator:
            raise RequestError("DENIED", "Rules of a store are an operator's: use an operator's token.")
        if name not in self.forwards.rules:
            known = ", ".join(self.forwards.rules) or "none"
            raise RequestError("EXISTS_NOT", f"there is no rule {name!r}; the store has: {known}")
        if request.choice("act", ("resume", "drop"), "resume") == "drop":
            self._core.answer(session.id, n, messages=self.forwards.drop(name))
        else:
            self.forwards.set_next(name, None)
            self._core.answer(session.id, n)
        self.ruled.add(name)

    def _status(self, session: Session, request: Request, n: int) -> None:
        self._core.answer(session.id, n, status=self.status())
