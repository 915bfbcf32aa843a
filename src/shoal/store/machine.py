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
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, NamedTuple

from shoal._core import Log
from shoal.bus.store_protocol import LEASE_S, LEASE_S_MAX, LEASE_S_MIN, VERSION, queue_name
from shoal.errors import (
    InvalidTopicError,
    StoreCorruptError,
    StoreFailedError,
    StoreFullError,
)
from shoal.store.core import Core, Now
from shoal.store.destinations import Destinations
from shoal.store.reader import QUEUE_WINDOW, Session
from shoal.store.readers import Readers, Wanted, queue_key
from shoal.store.receiving import Receiving
from shoal.store.requests import Request, RequestError, runs_of
from shoal.store.reservations import Reservations
from shoal.store.sending import Sending

log = logging.getLogger("shoal.store")

#: How often the machine looks after itself.
HOUSEKEEPING_S = 1.0
#: Acknowledgements that nobody waits for are durable this late, at the most.
SETTLE_S = 0.02
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
    ) -> None:
        self.log = log_
        self.identity = identity
        self._core = Core(log_, identity.patterns, queue_window)
        self._core.now = now
        self._readers = Readers(self._core)
        self._sending = Sending(self._core, self._readers, recorded)
        self._receiving = Receiving(self._core, self._readers, now.wall_us << 8)
        self._reservations = Reservations(self._core, self._readers)
        self._destinations = Destinations(self._core, self._readers, self._sending, self._reservations)
        self._sessions: dict[str, Session] = {}
        self._clients: dict[str, str] = {}
        self._silent: list[Silent] = []
        self._tidy_at_s = now.mono_s + HOUSEKEEPING_S
        #: When what was appended and may wait is to be durable.
        self._settle_at_s: float | None = None
        self._is_closing = False
        #: Topics that come into the log past the machine, and up to where it has looked for them.
        self._recorded, self._looked_to = recorded, log_.durable_end
        self._handlers: dict[str, Handler] = {
            "ping": self._ping,
            "bye": self._bye,
            "send": self._sending.send,
            "commit": self._sending.commit,
            "subscribe": self._receiving.subscribe,
            "consume": self._receiving.consume,
            "credit": self._receiving.credit,
            "ack": self._receiving.ack,
            "release": self._receiving.release,
            "cancel": self._receiving.cancel,
            "browse": self._receiving.browse,
            "shown": self._receiving.shown,
            "declare": self._destinations.declare,
            "temporary": self._destinations.temporary,
            "delete": self._destinations.delete,
            "purge": self._destinations.purge,
            "move": self._destinations.move,
            "unsubscribe": self._destinations.unsubscribe,
            "reserve": self._reservations.reserve,
            "reserved": self._reservations.reserved,
            "unreserve": self._reservations.unreserve,
            "status": self._status,
        }

    # Input.

    def handle(self, now: Now, body: object) -> None:
        """A request came."""
        self._core.now = now
        if not isinstance(body, Mapping):
            return
        request = Request(body)
        session_id, op = body.get("session"), body.get("op")
        if not isinstance(session_id, str) or SESSION.fullmatch(session_id) is None:
            return
        n = body.get("n", 0)
        n = n if isinstance(n, int) and not isinstance(n, bool) and 0 <= n < 1 << 62 else 0
        try:
            self._do(session_id, op, request, n)
        except RequestError as error:
            self._failed(session_id, n, op, error)
        except InvalidTopicError as error:
            self._failed(session_id, n, op, RequestError("BAD_REQUEST", str(error)))
        except StoreCorruptError as error:
            log.error("%s", error)
            self._failed(session_id, n, op, RequestError("FAILED", str(error)))

    def _failed(self, session: str, n: int, op: object, error: RequestError) -> None:
        body = {"op": "failed", "n": n, "request": str(op), "error": error.code, "text": error.text}
        self._core.say(session, {**body, **error.more})

    def _do(self, session_id: str, op: object, request: Request, n: int) -> None:
        if self._is_closing:
            raise RequestError("CLOSING", f"the store {self.identity.name!r} is closing")
        if op == "hello":
            self._hello(session_id, request, n)
            return
        session = self._sessions.get(session_id)
        if session is None:
            raise RequestError("NO_SESSION", "the session is over, or never began: say hello")
        session.until_s = self._core.now.mono_s + session.lease_s
        handler = self._handlers.get(str(op))
        if handler is None:
            raise RequestError("BAD_REQUEST", f"there is no request {op!r:.50}")
        handler(session, request, n)

    def handle_timeout(self, now: Now) -> None:
        """Time has passed."""
        self._core.now = now
        self._readers.wake()
        for session in [each for each in self._sessions.values() if each.until_s <= now.mono_s]:
            log.warning(
                "nothing was heard of %s for %g s: its session is over", session.name, session.lease_s
            )
            body = {"op": "gone", "consumer": None, "error": "NO_SESSION"}
            text = f"nothing was heard of the session for {session.lease_s} s"
            self._core.say(session.id, {**body, "text": text})
            heard_us = now.wall_us - int(session.lease_s * 1e6)
            self._silent += [Silent(*chain, heard_us) for chain in session.chains]
            self._end(session, {})
        if now.mono_s >= self._tidy_at_s:
            self._tidy_at_s = now.mono_s + HOUSEKEEPING_S
            self._readers.expire()
            self._look_on()
            self._readers.note_places()

    def _look_on(self) -> None:
        try:
            self._readers.look_on()
        except StoreCorruptError as error:
            log.error("%s", error)

    # Commands.

    def set_space(self, full: str | None, low: str | None) -> None:
        """How the disk is: why nothing more is taken, or why whoever pins space takes nothing more."""
        self._core.full = full
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

    def took(self, now: Now, first: int, end: int) -> None:
        """Rows came into the log past the machine, durable: those of queues are counted, readers are due."""
        core = self._core
        core.now = now
        for destination, messages, *_ in self.log.topics(first, end, []):
            core.touched.add(destination)
            name = queue_name(destination)
            reader = self._readers.get(queue_key(name)) if name is not None else None
            if reader is not None:
                _, _, size = self.log.extent(first, end, [destination])
                core.turn.came(reader.key, messages, size)
                reader.totals.messages += messages
                reader.totals.bytes += size

    def close(self, now: Now) -> None:
        """Take nothing more, and note how far readers are; `append`, sync and `settle` follow."""
        self._core.now = now
        self._is_closing = True
        for session in list(self._sessions.values()):
            body = {"op": "gone", "consumer": None, "error": "CLOSING", "text": "the store closes"}
            self._core.say(session.id, body)
            self._end(session, {})
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
        may_wait = core.turn.may_wait and not self._is_closing
        if not core.turn.is_empty:
            try:
                self.log.append_turn(core.turn)
            except StoreFailedError:
                raise
            except StoreFullError as error:
                refused = str(error)
                core.turn.drop_rows()
                if not core.turn.is_empty:
                    self.log.append_turn(core.turn)
        core.appended(refused)
        if not core.turn.is_empty:
            # What is done only because the rows were taken, or were not.
            may_wait = False
            self.log.append_turn(core.turn)
        self._sending.begin_turn()
        return self._is_due(may_wait and not core.has_held)

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
        core.settle()
        touched, core.touched = core.touched, set()
        self._readers.arrived(touched)
        end = self.log.durable_end
        if self._recorded and end > self._looked_to:
            self._looked_to = end
            self._readers.recorded()
        try:
            return self._readers.dispatch()
        except StoreCorruptError as error:
            log.error("%s", error)
            return True

    # Output.

    def poll_transmit(self) -> list[tuple[str, dict[str, Any]]]:
        """Sessions, and what goes to them, in order."""
        return self._core.take_outgoing()

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
        for session in self._sessions.values():
            at = min(at, session.until_s)
        wake_us = self._readers.next_wake_us()
        if wake_us is not None:
            at = min(at, now.mono_s + max(0, wake_us - now.wall_us) / 1e6)
        return at

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
            "subscriptions": [each for each in readers if each["queue"] is None],
            "sessions": [
                {
                    "session": session.id,
                    "name": session.name,
                    "client_id": session.client_id,
                    "publisher": f"{session.publisher:016x}",
                    "consumers": len(session.consumers),
                }
                for session in self._sessions.values()
            ],
            "reservations": self._reservations.status(),
            "unheard": self._sending.unheard,
            "pinned_by": None if pinning is None else pinning.name,
        }

    # Sessions.

    def _hello(self, session_id: str, request: Request, n: int) -> None:
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
            if client_id is not None:
                self._claim(client_id, session_id)
            session = Session(session_id, publisher, client_id, lease_s, 0.0, kept=request.flag("kept"))
            session.name = request.optional_text("name") or client_id or f"session {session_id}"
            session.publishers.append(publisher)
            self._sessions[session_id] = session
            self._readers.leave_out(session, publisher)
        session.until_s = core.now.mono_s + session.lease_s
        core.answer(
            session_id,
            n,
            store=f"{self.log.store_id:016x}",
            name=self.identity.name,
            incarnation=self.log.incarnation,
            term=self.identity.term,
            run=self.identity.run,
            lease_s=session.lease_s,
            end=self.log.durable_end,
            state="open" if core.full is None else "full",
            patterns=list(self.identity.patterns),
            node=self.identity.node,
        )

    def _claim(self, client_id: str, session_id: str) -> None:
        holder = self._sessions.get(self._clients.get(client_id, ""))
        if holder is not None:
            left = holder.until_s - self._core.now.mono_s
            raise RequestError(
                "IN_USE",
                f"the client id {client_id!r} is in use by {holder.name!r}: close that one first; if it died,"
                f" the id is free in {max(0.0, left):.1f} s",
                retry_s=max(0.0, left),
            )
        self._clients[client_id] = session_id

    def _ping(self, session: Session, request: Request, n: int) -> None:
        self._core.answer(session.id, n)

    def _bye(self, session: Session, request: Request, n: int) -> None:
        unseen = {}
        for each in request.items("unseen"):
            if not isinstance(each, list) or len(each) != 2 or not isinstance(each[0], int):
                raise RequestError("BAD_REQUEST", "unseen has entries that are not [consumer, offsets]")
            unseen[each[0]] = runs_of("unseen", each[1])
        self._core.answer(session.id, n)
        self._end(session, unseen)

    def _end(self, session: Session, unseen: dict[int, list[tuple[int, int]]]) -> None:
        del self._sessions[session.id]
        if session.client_id is not None and self._clients.get(session.client_id) == session.id:
            del self._clients[session.client_id]
        self._receiving.end(session, unseen)
        self._destinations.end(session)

    def _status(self, session: Session, request: Request, n: int) -> None:
        self._core.answer(session.id, n, status=self.status())
