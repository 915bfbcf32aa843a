"""One connection's talk with a store: requests and answers, rows to be stored, deliveries. Waits for nothing.

A session is *idle* while there is no store to talk to, *greeting* from `hello` to its answer, and *open*
then. When a session ends, because the store was started again or heard nothing of it, the next one begins
with everything that is still wanted: consumers, requests that were not answered, rows that are not stored.
Input is `handle` and `handle_timeout`; then `poll_output` gives what is to be sent, in order, and
`poll_timeout` says when to come back.
"""

import itertools
from collections import deque
from collections.abc import Callable, Iterator
from typing import Any, Literal

from shoal.bus.clock_offset import ClockOffset, clock_us
from shoal.bus.store_chain import RowsEngine
from shoal.bus.store_consumer import Inbox, requests_of
from shoal.bus.store_credit import NO_CREDIT, Credit
from shoal.bus.store_errors import error_of
from shoal.bus.store_greeting import Greeting
from shoal.bus.store_protocol import (
    LEASE_S,
    NUMBER_BYTES,
    PING_S,
    REQUEST_BYTES,
    RUNS_MAX,
    STORE_SILENT_S,
    VERSION,
)
from shoal.errors import LeaseError, StoreDeniedError, StoreError

#: A greeting without an answer for this time is sent again.
HELLO_S = 2.0
#: A client id that another session has is asked for again so often, until after the lease of that session.
IN_USE_RETRY_S, IN_USE_AFTER_S = 0.5, 1.0
#: Requests that wait for an answer, at the most.
REQUESTS_MAX = 100_000

State = Literal["idle", "greeting", "open"]
Body = dict[str, Any]
#: Called with the answer of a store, or with what went wrong.
Done = Callable[[Body | None, BaseException | None], None]


def lost() -> LeaseError:
    """What belongs to a session fails with it."""
    return LeaseError(
        "the connection to the store was lost meanwhile: what it delivered and was not acknowledged comes "
        "again, marked as redelivered"
    )


class Pending:
    """A request that was not answered."""

    __slots__ = ("body", "done", "lasting")

    def __init__(self, body: Body, done: Done, lasting: bool) -> None:
        self.body, self.done, self.lasting = body, done, lasting


class Session:
    """The session of one connection, and those after it. For one thread at a time."""

    def __init__(
        self, publisher: int, *, token: Callable[[], str], client_id: str | None = None, name: str = ""
    ) -> None:
        self.publisher, self._client_id, self._name, self._token = publisher, client_id, name, token
        self.state: State = "idle"
        #: How both sides prove who they are.
        self.greets = Greeting(None)
        #: Its rows are those of an outbox, whose numbers a store never forgets.
        self.kept = False
        #: What only its connection knows: no other client sends as its publisher.
        self.key: str | None = None
        #: Which of its connection's channels it is.
        self.way = 0
        #: Bytes of a delivery that its link takes.
        self.bytes_max: int | None = None
        #: Its id: another one for each session.
        self.id = ""
        #: The number of the last thing said in it, and of the last heard.
        self._said = self._heard = 0
        self.run = ""
        #: What the store said of itself.
        self.greeting: Body = {}
        #: Its clock.
        self._clock = ClockOffset()
        #: What may be published before it is stored.
        self.credit = NO_CREDIT
        #: The store ended the session itself, as one does that closes.
        self.is_dismissed = False
        self.chains: list[RowsEngine] = []
        self.inboxes: dict[int, Inbox] = {}
        #: Queues that live as long as the connection: each session asks for them.
        self._temporary: set[str] = set()
        #: Consumers that ended, until the store has heard so, or what their programs did.
        self._leaving: dict[int, Inbox] = {}
        #: Called when the state changed.
        self.on_state: Callable[[], None] = lambda: None
        #: Called when the store refuses this connection for good.
        self.on_refused: Callable[[StoreError], None] = lambda error: None
        #: Called when something was lost on the way, which ended the session.
        self.on_lost: Callable[[], None] = lambda: None
        #: Called when what answers as a store does not prove that it is the one.
        self.on_impostor: Callable[[StoreDeniedError], None] = lambda error: None
        #: Called when a patient chain has messages for a destination that the store does not keep.
        self.on_not_kept: Callable[[str], None] = lambda destination: None
        #: Called when another session has the client id, and may be dead: what the store says of it, and for
        #: how many seconds the id is asked for again.
        self.on_put_off: Callable[[StoreError, float], None] = lambda error, left_s: None
        #: Called when messages of a consumer are in flight at a session that is silent: what the store said.
        self.on_waiting: Callable[[str, Body], None] = lambda name, body: None
        #: Called when the store dropped messages of a consumer: its queue or subscription, and how many.
        self.on_dropped: Callable[[str, int], None] = lambda name, messages: None
        self._began: dict[int, Done] = {}
        self._numbers = itertools.count(1)
        self._requests: dict[int, Pending] = {}
        self._out: deque[Body] = deque()
        #: The lease to ask for; none is what the store gives.
        self._lease_s: float | None = None
        self._hello = 0
        self._hello_at = 0.0
        #: Until when a client id is asked for that another session has.
        self._refused_until: float | None = None
        self._said_at = self._heard_at = self._pinged_at = 0.0
        #: When the link to the store was heard, by its heartbeats.
        self._link_heard_at = 0.0
        #: Greetings that were not answered.
        self.unanswered = 0

    @property
    def is_put_off(self) -> bool:
        """Whether the store answers that another session has the client id; that one may have died."""
        return self._refused_until is not None

    @property
    def has_requests(self) -> bool:
        """Whether an answer is still to come."""
        return bool(self._requests)

    # --- commands ---

    def begin(self, now: float, lease_s: float | None = None) -> None:
        """Begin a session with the store that can be reached now, with a lease of its own."""
        self.end()
        self._lease_s = lease_s
        self.id, self.unanswered = self._token(), 0
        self._clock = ClockOffset()
        self._said = self._heard = 0
        self._greet(now)

    def _greet(self, now: float) -> None:
        self._hello, self._hello_at = next(self._numbers), now
        self._said_at = self._heard_at = self._pinged_at = now
        hello: Body = {"op": "hello", "n": self._hello, "version": VERSION, "publisher": self.publisher}
        hello["at"] = clock_us(now)
        if self._client_id is not None:
            hello["client_id"] = self._client_id
        if self._name:
            hello["name"] = self._name
        if self._lease_s is not None:
            hello["lease_s"] = self._lease_s
        if self.kept:
            hello["kept"] = True
        if self.key is not None:
            hello["key"] = self.key
        if self.way:
            hello["way"] = self.way
        if self.bytes_max is not None:
            hello["bytes_max"] = self.bytes_max
        self._out.append({**hello, **self.greets.hello()})
        self._set("greeting")

    def end(self) -> None:
        """The store cannot be reached any more, or the session is over."""
        self._out.clear()
        self._refused_until, self.credit = None, NO_CREDIT
        for number, pending in list(self._requests.items()):
            if not pending.lasting:
                del self._requests[number]
                pending.done(None, lost())
        for inbox in (*self.inboxes.values(), *self._leaving.values()):
            inbox.lose(self.id)
        self._set("idle")

    def bye(self) -> None:
        """End the session for good."""
        if self.state == "open":
            handed = [(inbox, runs) for inbox in self.inboxes.values() if (runs := inbox.handed())]
            if sum(len(runs) for _, runs in handed) > self._numbers_max:
                for inbox, runs in handed:
                    self._out.extend(self._given_back(inbox.number, inbox.lease, runs))
                handed = []
            named = [[inbox.number, runs] for inbox, runs in handed]
            self._out.append({"op": "bye", "n": 0, **({"handed": named} if named else {})})

    def fail(self, error: BaseException) -> None:
        """No more answers will come: tell the callers that wait."""
        for pending in list(self._requests.values()):
            pending.done(None, error)
        self._requests.clear()
        for done in list(self._began.values()):
            done(None, error)
        self._began.clear()

    def request(self, body: Body, done: Done, *, lasting: bool = True) -> None:
        """Ask something. What is `lasting` is asked again in the next session, unless it was answered."""
        if len(self._requests) >= REQUESTS_MAX:
            done(None, StoreError(f"{REQUESTS_MAX} requests wait for the store's answer already"))
            return
        if self.state != "open" and not lasting:
            done(None, lost())
            return
        number = next(self._numbers)
        self._requests[number] = Pending({**body, "n": number}, done, lasting)
        if self.state == "open":
            for inbox in self.inboxes.values():
                inbox.mark(number)
            self._out.extend(self._parts(self._requests[number].body))

    @property
    def _numbers_max(self) -> int:
        """Numbers of a request, first and last of each run, that its link and the store take."""
        return min(RUNS_MAX, self._numbers_fit) // 2 * 2

    @property
    def _numbers_fit(self) -> int:
        """Numbers of a request that its link takes."""
        most = 1 << 62 if self.bytes_max is None else self.bytes_max
        return max(6, (most - REQUEST_BYTES) // NUMBER_BYTES)

    def _parts(self, body: Body) -> Iterator[Body]:
        """A request as several that its link takes, where it names many messages; the last is answered."""
        most, offsets, handed = self._numbers_max, body.get("offsets", ()), body.get("handed", ())
        if body["op"] == "cancel" and len(handed) > most:
            yield from self._given_back(body["consumer"], body["lease"], handed[most:])
            body = {**body, "handed": handed[:most]}
        elif len(offsets) > most:
            *before, last = [offsets[at : at + most] for at in range(0, len(offsets), most)]
            yield from ({**body, "n": 0, "offsets": part} for part in before)
            body = {**body, "offsets": last}
        yield body

    def _given_back(self, consumer: int, lease: int | None, runs: list[int]) -> Iterator[Body]:
        """Give back what a program has in hand, because its consumer ends."""
        release: Body = {"op": "release", "consumer": consumer, "lease": lease, "seen": True, "delay_s": 0.0}
        return self._parts({**release, "n": 0, "offsets": runs})

    def say(self, body: Body) -> None:
        """Say something that needs no answer; of a session that is over no store wants to hear."""
        if self.state == "open":
            self._out.extend(self._parts({**body, "n": 0}))

    def refuse(self, body: Body, error: Exception) -> None:
        """What `poll_output` gave last cannot be said: its caller gets the error."""
        self._said -= body["op"] != "hello"
        if body["op"] in ("send", "forward"):
            for chain in self._chains_of(body):
                chain.on_unsent(body["rows"], body["after"], error)
        if (pending := self._requests.pop(body["n"], None)) is not None:
            pending.done(None, error)

    def add_inbox(self, inbox: Inbox, done: Done) -> None:
        """Begin to consume, in this session and in those that follow."""
        self.inboxes[inbox.number] = inbox
        inbox.numbers_fit = self._numbers_fit
        self._began[inbox.number] = done
        if self.state == "open":
            self._begin_inbox(inbox)

    def remove_inbox(self, inbox: Inbox, done: Done) -> None:
        """Consume no more; what is not acknowledged goes back."""
        is_known = self.inboxes.pop(inbox.number, None) is not None
        self._began.pop(inbox.number, None)
        cancel = inbox.cancel()
        acks = inbox.poll_acks()
        if acks is not None:
            self.say(acks)
        if is_known:
            self._leaving[inbox.number] = inbox
        if self.state == "open" and is_known:
            self.request(cancel, self._left(inbox, done), lasting=False)
        else:
            done({}, None)

    def _left(self, inbox: Inbox, done: Done) -> Done:
        """Note that the store heard of a consumer's end, unless the session is lost before that."""

        def answered(answer: Body | None, error: BaseException | None) -> None:
            if not isinstance(error, LeaseError):
                self._leaving.pop(inbox.number, None)
            done(answer, error)

        return answered

    def _leave(self, inbox: Inbox) -> None:
        """Report what a program did whose consumer ended while the store was away."""
        report = inbox.leave(self._origin)
        if report is None:
            self._leaving.pop(inbox.number, None)
        else:
            self.request(report, self._left(inbox, lambda answer, error: None), lasting=False)

    @property
    def _origin(self) -> tuple[str, str]:
        """The store of the session, and its incarnation."""
        return str(self.greeting.get("store", "")), str(self.greeting.get("incarnation", ""))

    def _begin_inbox(self, inbox: Inbox) -> None:
        self.request(
            inbox.begin(self._origin),
            lambda answer, error: self._on_began(inbox, answer, error),
            lasting=False,
        )

    def _on_began(self, inbox: Inbox, answer: Body | None, error: BaseException | None) -> None:
        if isinstance(error, LeaseError):
            return  # The session was lost: the next one begins it again.
        done = self._began.pop(inbox.number, None)
        if answer is not None:
            inbox.on_began(answer)
        elif self.inboxes.pop(inbox.number, None) is not None:
            inbox.fail(error if isinstance(error, StoreError) else StoreError(str(error)))
        if done is not None:
            done(answer, error)

    # --- input ---

    def handle(self, now: float, body: Body) -> None:
        """The store said something."""
        self._heard_at = now
        if (number := body.get("seq")) is not None:
            if number > self._heard + 1:
                # No store says it again, and a delivery among it would be ours for as long as we live.
                self.on_lost()
                self.end()
                return
            self._heard = number
        age_s = self._clock.age_s(now, body.get("at"))
        match body.get("op"):
            case "answer":
                self._on_answer(body)
            case "challenge":
                self._on_challenge(body)
            case "failed":
                self._on_failed(now, body)
            case "stored":
                for chain in self._chains_of(body):
                    chain.on_stored(body["through"])
            case "passed":
                for chain in self._chains_of(body):
                    chain.on_passed(body["through"])
            case "refused":
                for chain in self._chains_of(body):
                    chain.on_refused(now, body)
                    if body["error"] == "NOT_OWNED" and chain.patient and chain.is_next(body["first"]):
                        self.on_not_kept(str(body["destination"]))
            case "credit":
                self.credit = Credit.of(body, self.greeting.get("patterns"))
            case "deliver":
                inbox = self.inboxes.get(body["consumer"])
                if inbox is not None:
                    inbox.on_deliver(now - age_s, body)
            case "gone" if body.get("consumer") is None:
                self.is_dismissed = True
                self.end()
            case "gone":
                inbox = self.inboxes.get(body["consumer"])
                if inbox is not None and body.get("lease") == inbox.lease:
                    del self.inboxes[inbox.number]
                    inbox.fail(error_of(body))
            case "last":
                # What it has is handed out and acknowledged as before.
                inbox = self.inboxes.get(body["consumer"])
                if inbox is not None and body["lease"] == inbox.lease:
                    inbox.fail(error_of(body))
            case "waiting":
                inbox = self.inboxes.get(body["consumer"])
                if inbox is not None:
                    self.on_waiting(inbox.name, body)
            case "dropped":
                inbox = self.inboxes.get(body["consumer"])
                if inbox is not None:
                    inbox.dropped += body["messages"]
                    self.on_dropped(inbox.name, body["messages"])

    def _chains_of(self, body: Body) -> Iterator[RowsEngine]:
        key = (body["publisher"], body["chain"])
        return (chain for chain in self.chains if (chain.publisher, chain.chain) == key)

    def _on_answer(self, body: Body) -> None:
        number = body["n"]
        if number == self._hello:
            self._open(body)
        elif (pending := self._requests.pop(number, None)) is not None:
            for inbox in self.inboxes.values():
                inbox.confirm(number)
            self._note_temporary(pending.body)
            pending.done(body, None)

    def _note_temporary(self, asked: Body) -> None:
        """Note which queues live as long as the connection."""
        if asked["op"] == "declare" and asked.get("temporary"):
            self._temporary.add(asked["queue"])
        elif asked["op"] == "delete":
            self._temporary.discard(asked["queue"])

    def _on_challenge(self, body: Body) -> None:
        if self.state != "greeting" or body["n"] != self._hello:
            return
        try:
            self._out.append({**self.greets.prove(self.id, body), "n": self._hello})
        except StoreDeniedError as error:
            self._refuse_store(error)

    def _refuse_store(self, error: StoreDeniedError) -> None:
        """It did not prove itself: say nothing to it, and believe nothing of it."""
        self.end()
        self.on_impostor(error)

    def _open(self, body: Body) -> None:
        if self.state != "greeting":
            return
        if not self.greets.is_proven:
            self._refuse_store(self.greets.impostor())
            return
        self.greeting, self.run, self.is_dismissed = body, body["run"], False
        self._refused_until, self.unanswered = None, 0
        self.credit = Credit.of(body, body.get("patterns"))
        waiting = list(self._requests.values())
        self._set("open")
        for chain in self.chains:
            chain.restart()
        for queue in sorted(self._temporary):
            declare = {"op": "declare", "queue": queue, "temporary": True}
            self.request(declare, lambda answer, error: None, lasting=False)
        for inbox in list(self.inboxes.values()):
            if inbox.retired:
                # What it held comes again, to others.
                self._leaving[inbox.number] = self.inboxes.pop(inbox.number)
                inbox.closed = True
        for inbox in list(self._leaving.values()):
            self._leave(inbox)
        for inbox in list(self.inboxes.values()):
            self._begin_inbox(inbox)
        for pending in waiting:
            self._out.extend(self._parts(pending.body))

    def _on_failed(self, now: float, body: Body) -> None:
        number, error = body["n"], body.get("error")
        if number == self._hello:
            self._on_hello_failed(now, body)
        elif error in ("NO_SESSION", "CLOSING"):
            # Another store will answer what lasts.
            if self.state == "open":
                self.end()
        elif (pending := self._requests.pop(number, None)) is not None:
            pending.done(None, error_of(body))

    def _on_hello_failed(self, now: float, body: Body) -> None:
        if self.state != "greeting":
            return
        self.unanswered = 0
        if body.get("error") == "IN_USE":
            # Its holder may have died, which is known when its lease is over.
            left_s = body.get("retry_s", LEASE_S)
            if self._refused_until is None:
                self._refused_until = now + left_s + IN_USE_AFTER_S
                self.on_put_off(error_of(body), left_s + IN_USE_AFTER_S)
            if now < self._refused_until:
                self._hello, self._hello_at = 0, now + IN_USE_RETRY_S - HELLO_S
                return
        self.end()
        if body.get("error") != "CLOSING":
            self.on_refused(error_of(body))
            self.fail(error_of(body))

    def is_silent(self, now: float) -> bool:
        """Whether the store has been silent until its link should be asked for."""
        return self.state == "open" and now - self._heard_at >= PING_S

    def handle_link(self, at: float) -> None:
        """The link to the store was heard then: both ends live, though Python code may hold one up."""
        self._link_heard_at = max(self._link_heard_at, at)

    @property
    def _ping_at(self) -> float:
        return max(min(self._said_at, self._heard_at), self._pinged_at) + PING_S

    @property
    def _silent_at(self) -> float:
        return max(self._heard_at, self._link_heard_at) + STORE_SILENT_S

    def handle_timeout(self, now: float) -> None:
        """Time has passed."""
        for chain in self.chains:
            chain.handle_timeout(now)
        for inbox in self.inboxes.values():
            inbox.handle_timeout(now)
        if self.state == "greeting" and now - self._hello_at >= HELLO_S:
            self._out.clear()
            # A greeting that was refused was answered.
            self.unanswered += self._hello != 0
            self._greet(now)
        elif self.state == "open":
            if now >= self._silent_at:
                self.end()
            elif now >= self._ping_at:
                self._pinged_at = now
                self._ping(now)

    def _ping(self, now: float) -> None:
        self.request({"op": "ping", "at": clock_us(now)}, lambda answer, error: None, lasting=False)

    # --- output ---

    def poll_output(self, now: float) -> Body | None:
        """The next thing to be said to the store."""
        if not self._out and self.state == "open":
            self._collect(now)
        if not self._out:
            return None
        self._said_at = now
        body = {**self._out.popleft(), "session": self.id}
        if (since := body.pop("since", None)) is not None:
            # When its rows were as old as they say, which may be after `now`: the store hears how long they
            # waited here since then.
            said = max(now, since)
            body |= {"at": clock_us(said), "waited_us": clock_us(said - since)}
        if body["op"] not in ("hello", "prove"):
            self._said += 1
            body["seq"] = self._said
        return body

    def _collect(self, now: float) -> None:
        for chain in self.chains:
            request = chain.poll_send(now)
            if request is not None:
                self._out.append({**request, "n": 0})
        for inbox in self.inboxes.values():
            for request in requests_of(inbox, now):
                self._out.extend(self._parts({**request, "n": 0}))
        if any(inbox.is_unsure for inbox in self.inboxes.values()):
            self._ping(now)

    def poll_timeout(self) -> float | None:
        """When to come back."""
        due = [at for chain in self.chains if (at := chain.poll_timeout()) is not None]
        if self.state == "greeting":
            due.append(self._hello_at + HELLO_S)
        elif self.state == "open":
            due += [at for inbox in self.inboxes.values() if (at := inbox.poll_timeout()) is not None]
            due += (self._ping_at, self._silent_at)
        return min(due, default=None)

    def _set(self, state: State) -> None:
        if state != self.state:
            self.state = state
            self.on_state()
