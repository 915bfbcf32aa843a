"""The way to a store: finds one, opens a link, keeps a session. Each connection has one, once it is needed.

`store_session`, `store_chain`, `store_consumer` and `store_finder` decide what to say and when, under
one lock; a thread hears the store and looks at the clock. A caller says it to the store itself, without
that thread.
"""

import contextlib
import importlib
import logging
import os
import secrets
import socket
import threading
import time
from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, Any, NamedTuple

from shoal import _core
from shoal.bus import operations
from shoal.bus.events import BacklogDropped, StoreDown, StoreUp
from shoal.bus.log_limit import LogLimit
from shoal.bus.memory_owner import OWNER, Election
from shoal.bus.readers import IsDone
from shoal.bus.store_chain import Chain, RowsEngine
from shoal.bus.store_consumer import Inbox, offset_of
from shoal.bus.store_credit import Credit
from shoal.bus.store_ear import HERES, REPLIES, Ear
from shoal.bus.store_errors import no_store
from shoal.bus.store_finder import Finder, Here
from shoal.bus.store_greeting import Greeting
from shoal.bus.store_protocol import (
    HERE,
    LINK_LEASE_S,
    WHO,
    body_of,
    is_said,
    keeps,
    requests_topic,
    session_topic,
)
from shoal.bus.store_session import Body, Done, Session
from shoal.bus.waiting import run
from shoal.config import ConnectionConfig
from shoal.config.target import Target, target_of
from shoal.errors import (
    ClosedError,
    ConfigError,
    FullError,
    LinkRefusedError,
    ShoalError,
    StoreDeniedError,
    StoreError,
)
from shoal.link.events import LinkReconnecting, LinkUp
from shoal.messages import bus as notices
from shoal.messages import named
from shoal.threads import start

if TYPE_CHECKING:
    from shoal.bus.connection import Connection
    from shoal.bus.sync import Bus

log = logging.getLogger("shoal.bus")

#: How long to look for a store before it is said that there is none.
LOOK_S = 5.0
#: How long again, when it was said before.
LOOK_AGAIN_S = 1.0
#: After this a member has heard who else is there, and what they listen to: on multicast, and in one process.
KNOWN_S = {"norm": 2.0, "inproc": 0.25}
#: How long before its patience ends a caller gets the error that there is no store.
SAY_BEFORE_S = 0.1
#: Greetings without an answer after which another way is tried.
GREETINGS_MAX = 3
#: How long an attempt to reach a store's own address may take.
CONNECT_S = 2.0
#: A store's address that could not be used is tried again after this.
OPEN_AGAIN_S = 1.0
#: What a store's own link may bring ahead of the thread that reads it.
REPLIES_BYTES = 16 << 20
#: Messages of a store that are handled before the lock is given to others.
TURN_MAX = 200
#: The thread looks at least so often.
SLEEP_MAX_S = 5.0
#: What was held back because the link is full is tried again at the latest after this.
FULL_CHECK_S = 0.01


#: What a store keeps that keeps all.
_EVERYTHING = [">"]


class Waiting(NamedTuple):
    """A caller that needs a store."""

    until: float
    look_s: float
    what: str
    done: Done
    #: One in memory does.
    memory: bool


class StoreChannel:
    """The way to a store. May be shared between threads."""

    def __init__(
        self,
        connection: "Connection",
        *,
        url: str | None,
        client_id: str | None,
        kept: bool = False,
        ordinal: int = 0,
        domain: str | None = None,
    ) -> None:
        """With `domain` the store at `url` is in another domain than the connection."""
        self._connection = connection
        self.birth = connection.birth
        self._url = url
        self._domain = domain or connection.config.domain
        self._token = connection.client.own_token()
        #: Why what answered is no store of ours, if that is so; the thread drops the link to it.
        self._denied: StoreDeniedError | None = None
        self._is_deceived = False
        name = f"process {os.getpid()} on {socket.gethostname()}"
        #: Everything here happens under it.
        self.lock = self._lock = threading.RLock()
        self._session = Session(
            connection.node.publisher, token=lambda: secrets.token_hex(8), client_id=client_id, name=name
        )
        self._session.kept, self._session.way = kept, ordinal
        self._session.key = connection.store_key
        self._session.bytes_max = connection.config.message_bytes_max
        self._session.on_state = self._on_state
        self._session.on_refused = self._on_refused
        self._session.on_put_off = self._on_put_off
        self._session.on_lost = self._on_lost
        self._session.on_impostor = self._on_impostor
        self._session.on_waiting = _log_waiting
        self._session.on_not_kept = lambda destination: self.want(destination, instead=True)
        self._session.on_dropped = lambda name, messages: connection.tell(BacklogDropped(name, messages))
        self._finder = Finder()
        self._here: Here | None = None
        #: The bus to the store, if it has a link of its own; where requests are published.
        self._bus: Bus | None = None
        self._node: _core.Node | None = None
        self._replies: _core.Subscription | None = None
        #: Where requests go; empty until their answers are subscribed to.
        self._topic = ""
        #: The store's own link was up once.
        self._was_up = False
        #: Not yet published, because the link was full.
        self._unsaid: Body | None = None
        self._waiting: list[Waiting] = []
        #: Who has the queues in memory where there is no store; this member's own, if it is the one.
        self._election = Election(connection.config.domain, connection.node.publisher)
        # Members prove nothing to each other: who has a token wants a store that does.
        self._can_own = (
            url is None
            and self._token is None
            and ordinal == 0
            and connection.config.scheme in ("norm", "inproc")
        )
        self._owned: Any = None
        self._standing: _core.Subscription | None = None
        self._was_open = self._said_none = False
        #: Why the way to the store could not be opened, and when that is tried again.
        self._why = ""
        self._open_at = 0.0
        self._log_limit = LogLimit()
        #: The store that answered last keeps nothing.
        self._is_memory = False
        #: Only a store that keeps will do, from now on: one was there, or messages wait in an outbox. Then a
        #: store that is away is waited for, and no member's memory takes what it was promised for.
        self._only_kept = kept or self._token is not None or ordinal > 0
        #: The first destination asked for: this channel's store is the one keeping it.
        self._destination: str | None = None
        #: The store that answered last does.
        self._keeps_it = True
        self._stopped = False
        # Consumers of all channels have different numbers.
        self._consumers = ordinal << 40
        self._known_at = time.monotonic() + KNOWN_S.get(connection.config.scheme, LOOK_S)
        self._ear = Ear(self._hear_replies, self._expects)
        self._heres: _core.Subscription | None = None
        if url is None:
            self._heres = connection.node.open_subscription(
                HERE, queue_bytes_max=1 << 20, when_full="drop_old"
            )
            self._heres.attach_bell(self._ear.bell, HERES)
        self._finder.look(time.monotonic())
        self._thread = threading.Thread(target=self._run, name="shoal-store", daemon=True)
        start(self._thread)

    # --- getters ---

    @property
    def is_open(self) -> bool:
        """Whether a store answers."""
        return self._session.state == "open"

    @property
    def is_linked(self) -> bool:
        """Whether its own link to the store is up, as far as that is known."""
        bus = self._bus
        return bus is not None and any(link.state == "up" for link in bus.links)

    @property
    def greeting(self) -> Body:
        """What the store said of itself."""
        return self._session.greeting

    @property
    def credit(self) -> Credit:
        """What may be published before it is stored."""
        return self._session.credit

    @property
    def store_id(self) -> str:
        """The store that it speaks with, or spoke with last; empty before."""
        return "" if self._here is None else self._here.store

    @property
    def store_node(self) -> int | None:
        """The store's node in this domain; none if its address was given, and it may be in another."""
        return self._session.greeting.get("node") if self._url is None else None

    @property
    def has_store(self) -> bool:
        """Whether a store answered, now or before."""
        return self._was_open

    @property
    def looks_for(self) -> str | None:
        """The first destination asked for: this channel's store is the one keeping it."""
        return self._destination

    @property
    def is_waited_for(self) -> bool:
        """Whether a caller waits for a store."""
        return bool(self._waiting)

    def keeps(self, destination: str) -> bool:
        """Whether the store that answered last keeps a destination, or forwards it to one that does."""
        greeting = self._session.greeting
        patterns = greeting.get("patterns") or _EVERYTHING
        return patterns == _EVERYTHING or keeps([*patterns, *(greeting.get("forwards") or ())], destination)

    def heard_patterns(self) -> list[tuple[str, ...]]:
        """What each store keeps that was heard of."""
        with self._lock:
            return self._finder.patterns(time.monotonic())

    @property
    def unheard_s(self) -> float:
        """The time left in which stores that run already may still be heard of for the first time."""
        return max(self._known_at - time.monotonic(), 0.0)

    @property
    def at(self) -> str:
        """The store that the program chose itself, in words; empty if any store of the domain will do."""
        if self._url is not None:
            return f"the store at {self._url}"
        store = self._connection.store
        return "" if store is None else f"the store of this program in {str(store.config.path)!r}"

    def trouble(self) -> str:
        """Why the store cannot be reached, in words; empty if that is not known."""
        if self.is_open:
            return ""
        if self._url is not None and self._was_up and not self._was_open:
            return str(self._denied or f"a program listens at {self._url}, and no store has answered there")
        return str(self._denied or self._why or self._connection.cut_off())

    # --- commands; each returns at once, and calls `done` later, on whatever thread ---

    def when_ready(
        self, what: str, done: Done, *, memory: bool = False, patience_s: float | None = None
    ) -> None:
        """Call `done` when a store was found, or with an error when none was.

        What need not be kept may go to one in `memory`, which is made where there is no other. A caller with
        `patience_s` hears of it shortly before it ends, but not sooner than others.
        """
        with self._lock:
            if self._stopped:
                done(None, closed())
            elif self.is_ready(memory):
                done({}, None)
            else:
                now = time.monotonic()
                is_memory = memory and self._can_own
                look_s = LOOK_AGAIN_S if self._said_none else LOOK_S
                if patience_s is not None and not is_memory:
                    look_s = max(look_s, patience_s - SAY_BEFORE_S)
                self._finder.look(now)
                self._waiting.append(Waiting(now + look_s, look_s, what, done, is_memory))
                self._ear.ring()

    def is_ready(self, memory: bool) -> bool:
        """Whether there was a store: one that keeps, or else any."""
        return self._was_open and self._keeps_it and (memory or not self._is_memory)

    def want(self, destination: str, *, instead: bool = False) -> None:
        """Speak with the store that keeps a destination, unless another one was asked for before.

        With `instead` another store is looked for: the one in use does not keep it.
        """
        if self._url is not None or (self._destination is not None and not instead):
            return
        with self._lock:
            self._destination = destination
            self._compare()
            self._ear.ring()

    def _compare(self) -> None:
        greeting = self._session.greeting
        patterns = [*(greeting.get("patterns") or _EVERYTHING), *(greeting.get("forwards") or ())]
        self._keeps_it = self._destination is None or keeps(patterns, self._destination)

    def request(self, body: Body, done: Done, *, lasting: bool = True) -> None:
        """Ask the store something."""
        self.birth.check_here()
        with self._lock:
            if self._stopped:
                done(None, closed())
                return
            self._session.request(body, done, lasting=lasting)
            self._pump()

    def say(self, body: Body) -> None:
        """Tell the store something."""
        with self._lock:
            self._session.say(body)
            self._pump()

    def add_chain(self, chain: RowsEngine) -> None:
        """Rows to be stored, from now on."""
        with self._lock:
            if self._session.state == "open":
                chain.restart()
            self._session.chains.append(chain)

    def remove_chain(self, chain: RowsEngine) -> None:
        """Rows of a chain are stored, or no program wants them to be."""
        with self._lock:
            if chain in self._session.chains:
                self._session.chains.remove(chain)
            chain.give_up(closed())

    def wait_stored(self, chain: Chain, number: int, done: Done, *, own: bool = True) -> None:
        """Call `done` when the rows up to a number are stored; sends what is to be sent."""
        with self._lock:
            if self._stopped:
                done(None, closed())
                return
            chain.wait(number, lambda error: done(None, error), own=own)
            self._pump()

    def look_in_time(self) -> None:
        """Let the channel's thread see that something is due sooner than it thinks."""
        self._ear.ring()

    def pump(self) -> None:
        """Send what is to be sent, unless the link is full."""
        with self._lock:
            self._pump()

    def open_inbox(
        self,
        begin: Body,
        done: Done,
        *,
        prefetch: int | None,
        prefetch_bytes: int,
        auto: bool,
        receiver: object = None,
    ) -> Inbox:
        """Begin to consume."""
        with self._lock:
            self._consumers += 1
            inbox = Inbox(
                self._consumers,
                begin,
                prefetch=prefetch,
                prefetch_bytes=prefetch_bytes,
                auto=auto,
                receiver=receiver,
            )
            if self._stopped:
                done(None, closed())
            else:
                self._session.add_inbox(inbox, done)
                self._pump()
            return inbox

    def close_inbox(self, inbox: Inbox, done: Done) -> None:
        """Consume no more."""
        with self._lock:
            if inbox.closed:
                done({}, None)
                return
            self._session.remove_inbox(inbox, done)
            self._pump()

    @contextlib.contextmanager
    def locked(self) -> Iterator[None]:
        """While this lasts nothing else happens; what it leaves to be said is said then."""
        # A thread that there is no more may have had the lock when the process forked.
        self.birth.check_here()
        with self._lock:
            yield
            self._pump()

    def release(self, inbox: Inbox, message: _core.Message, delay_s: float | None) -> None:
        """Give a message back. Later messages of its group that no receiver has yet go back as well."""
        offset, group = offset_of(message), message.group

        def paused(answer: Body | None, error: BaseException | None) -> None:
            # A session that was lost meanwhile delivers everything again by itself.
            if error is None and not inbox.closed:
                with self.locked():
                    for request in inbox.poll_returns():
                        self.say(request)

        with self.locked():
            if group is None or inbox.retired:
                self.say(inbox.release([offset], delay_s))
            elif inbox.put_back(offset, group, delay_s):
                self.request(inbox.pause(), paused, lasting=False)

    def inbox_of(self, number: int) -> Inbox | None:
        """A consumer by its number."""
        return self._session.inboxes.get(number)

    # --- the end ---

    def close(self, patience_s: float, is_done: IsDone) -> None:
        """Say goodbye, and end the thread; readers that are done acknowledge what they received last."""
        with self._lock:
            if self._stopped:
                return
            for inbox in list(self._session.inboxes.values()):
                inbox.settle_all(is_done)
                acks = inbox.poll_acks()
                if acks is not None:
                    self._session.say(acks)
            self._session.bye()
            self._pump()
        bus = self._bus
        if bus is not None and patience_s > 0:
            with contextlib.suppress(ShoalError):
                bus.flush(min(patience_s, CONNECT_S))
        self.stop()

    def stop(self) -> None:
        """End the thread, whatever waits."""
        with self._lock:
            if self._stopped:
                return
            self._stopped = True
            error = closed()
            self._session.fail(error)
            for chain in self._session.chains:
                chain.give_up(error)
            for inbox in list(self._session.inboxes.values()):
                inbox.closed = True
                inbox._changed()
            for waiting in self._waiting:
                waiting.done(None, error)
            self._waiting.clear()
        self._ear.ring()
        if self._thread is not threading.current_thread():
            self._thread.join(CONNECT_S)

    # --- the thread ---

    def _run(self) -> None:
        try:
            while not self._stopped and not _core.is_abandoned():
                try:
                    self._ear.run_once(self._sleep_ms, self._turn)
                except ClosedError:
                    if self._connection.closed or self._bus is None:
                        return
                    self._drop_link("its link was closed")
                except ShoalError as error:
                    line = self._log_limit.admit("failed", notices.STORE_LINK_FAILED(why=error))
                    if line is not None:
                        line.log(log)
                    self._drop_link(str(error))
                    with self._lock:
                        self._why, self._open_at = str(error), time.monotonic() + OPEN_AGAIN_S
                        if self._url is not None and isinstance(error, LinkRefusedError):
                            # Trying again soon does not help, and there is no other store to wait for.
                            for waiting in self._waiting:
                                waiting.done(None, no_store(waiting.what, why=self._why, at=self.at))
                            self._waiting.clear()
                        self._say_none(time.monotonic())
        finally:
            self._close_link()
            self._disown()
            for subscription in (self._heres, self._standing):
                if subscription is not None:
                    subscription.close()

    def hear(self, is_over: Callable[[], bool], limit_s: float | None) -> None:
        """Hear the store on this thread, if no other does, until something is over; for a while."""
        self._ear.hear(is_over, limit_s)

    def _expects(self) -> bool:
        """Whether the store may say something that no thread waits for."""
        session = self._session
        is_busy = session.inboxes or session.has_requests or any(chain.is_busy for chain in session.chains)
        return bool(is_busy) or session.state != "open" or self._unsaid is not None or self._stopped

    def _sleep_ms(self) -> int:
        with self._lock:
            looks = (self._session.poll_timeout(), self._finder.poll_timeout(), self._election.poll_timeout())
            due = [at for at in looks if at is not None]
            due += [waiting.until for waiting in self._waiting]
            if any(waiting.memory for waiting in self._waiting) and self._known_at > time.monotonic():
                due.append(self._known_at)
            if (self._url is not None and self._node is None) or self._open_at > time.monotonic():
                due.append(self._open_at)
            if self._unsaid is not None:
                due.append(time.monotonic() + FULL_CHECK_S)
        left_s = min(due, default=float("inf")) - time.monotonic()
        return int(min(max(left_s, 0.0), SLEEP_MAX_S) * 1000) + 1

    def _turn(self, rang: list[int]) -> None:
        self._hear_replies()
        if rang == [REPLIES]:
            # Nothing else happened, and whatever is due is soon enough with the next ring.
            return
        self._hear_heres()
        self._hear_link()
        now = time.monotonic()
        if self._is_deceived:
            self._is_deceived = False
            self._drop_link(str(self._denied))
        with self._lock:
            self._hear_heartbeats(now)
            self._session.handle_timeout(now)
            current = self._here.store if self._here is not None else None
            memory, destination = not self._only_kept, self._destination
            wanted = self._finder.choose(now, current, memory=memory, destination=destination)
            idle = self._session.state == "idle"
        if self._url is not None and self._node is None:
            if now >= self._open_at:
                self._open_url(self._url)
        elif wanted is not None and now >= self._open_at and (idle or self._is_another(wanted)):
            if self._url is None and (self._node is None or self._is_another(wanted)):
                self._open(wanted)
            else:
                self._here = wanted
                self._begin()
        elif self._session.unanswered >= GREETINGS_MAX:
            self._drop_link("it does not answer")
        self._stand(now, wanted)
        with self._lock:
            self._ask(now)
            self._say_none(now)
            self._pump()

    def _is_another(self, wanted: Here) -> bool:
        """Whether a store is not the one in use, or was started again since the session began.

        A session can begin before the announcement of a new run is heard: then the store's greeting names it.
        """
        here = self._here
        if here is None or wanted.store != here.store:
            return True
        return wanted.run not in ((here.run, self._session.run) if self.is_open else (here.run,))

    def _hear_heres(self) -> None:
        heres = self._heres
        for message in (heres.receive_nowait(100) or ()) if heres is not None else ():
            body = body_of(message)
            if body is not None:
                with self._lock:
                    self._finder.on_here(time.monotonic(), body)

    def _hear_replies(self) -> None:
        replies = self._replies
        while replies is not None:
            messages = replies.receive_nowait(TURN_MAX)
            if not messages:
                return
            now = time.monotonic()
            with self._lock:
                if replies is not self._replies:
                    # What a session before this one was told.
                    return
                for message in messages:
                    self._hear(now, message)
                self._pump()

    def _hear(self, now: float, message: _core.Message) -> None:
        body = body_of(message)
        if body is None or not is_said(body):
            self._ignore("it is no answer of a store")
            return
        try:
            self._session.handle(now, body)
        except Exception as error:
            # Whatever the fields are, the thread that hears the store goes on.
            self._ignore(named(error))

    def _ignore(self, why: str) -> None:
        line = self._log_limit.admit("ignored", notices.STORE_ANSWER_IGNORED(why=why))
        if line is not None:
            line.log(log)

    def _hear_link(self) -> None:
        """Hear of the store's own link: one that did not go on where it broke needs a new session."""
        bus = self._bus
        if bus is None:
            return
        for event in bus.events(timeout_s=0.0):
            if isinstance(event, LinkReconnecting):
                self._why = f"{event.link}: {event.why}"
            elif isinstance(event, LinkUp):
                self._why = ""
                # The first is the one it was opened with.
                was_up, self._was_up = self._was_up, True
                if was_up and not event.resumed:
                    with self._lock:
                        self._session.end()

    def _hear_heartbeats(self, now: float) -> None:
        """A link of our own to the store beats by itself, also while Python code holds up one of its ends."""
        bus = self._bus
        if bus is not None and self._session.is_silent(now):
            links = bus._connection.links
            # A store in this process is silent only if this process is.
            age_s = 0.0 if links is None else min(links.heard().values(), default=None)
            if age_s is not None:
                self._session.handle_link(now - age_s)

    def _ask(self, now: float) -> None:
        """Ask for stores, as long as none is known."""
        if self._session.state == "idle":
            self._finder.look(now)
        if not self._finder.should_ask(now):
            return
        node = self._node if self._url is not None else self._connection.node
        if node is not None:
            with contextlib.suppress(FullError):
                node.publish(WHO, {}, timeout_s=0.0)

    def _say_none(self, now: float) -> None:
        asked, self._waiting = self._waiting, []
        for waiting in asked:
            if self.is_ready(waiting.memory):
                waiting.done({}, None)
            elif now < waiting.until and not (waiting.memory and self._is_known_without(now)):
                self._waiting.append(waiting)
            elif self._session.is_put_off:
                # There is a store, which says in the end whether it takes us.
                self._waiting.append(waiting._replace(until=now + LOOK_AGAIN_S))
            elif waiting.memory:
                self._election.stand(now)
                self._waiting.append(waiting._replace(until=now + LOOK_S))
            else:
                self._said_none = True
                others = "" if self._destination is None else self._finder.others(now, self._destination)
                error = self._denied or no_store(
                    waiting.what,
                    waiting.look_s,
                    self.trouble(),
                    others,
                    self.at,
                    is_inproc=self._connection.config.scheme == "inproc",
                )
                waiting.done(None, error)

    # --- queues in memory, where there is no store ---

    def _is_known_without(self, now: float) -> bool:
        """Whether no member can be a store: all were heard, and none listens to programs that ask for one.

        What is behind a router is not known so well.
        """
        node = self._connection.node
        if now < self._known_at or node.subscribers(WHO):
            return False
        return not any(is_router for _, is_router, _ in node.network())

    def _stand(self, now: float, best: Here | None) -> None:
        """If a program needs queues in memory and no member keeps them, elect an owner."""
        election = self._election
        if best is not None:
            election.on_owner(best.term if best.memory else 0)
            election.withdraw()
            if self._owned is not None and best.store != self._owned_id():
                # One that keeps, or another owner, which every member prefers.
                self._disown()
            return
        if self._owned is not None:
            # This member is the owner, though it has not heard itself say so yet.
            election.withdraw()
            return
        if self._was_open and self._is_memory and self._session.inboxes:
            # The owner is gone, and a consumer here still reads.
            election.stand(now)
        if not election.stands:
            return
        node = self._connection.node
        if self._standing is None:
            self._standing = node.open_subscription(OWNER, queue_bytes_max=1 << 20, when_full="drop_old")
            self._standing.attach_bell(self._ear.bell, HERES)
        for message in self._standing.receive_nowait(100) or ():
            body = body_of(message)
            if body is not None:
                election.on_stand(now, body)
        match election.poll(now, alone=now >= self._known_at and not node.members):
            case "say":
                with contextlib.suppress(FullError):
                    node.publish(OWNER, election.said(), timeout_s=0.0)
            case "own":
                self._own()

    def _own(self) -> None:
        module = importlib.import_module("shoal.store.memory")
        self._owned = module.open_memory(self._connection.config, self._election.term)
        notices.MEMORY_OWNER().log(log)

    def _owned_id(self) -> str:
        return f"{self._owned.log.store_id:016x}"

    def _disown(self) -> None:
        owned, self._owned = self._owned, None
        if owned is not None:
            owned.close()

    # --- the link ---

    def _open_url(self, url: str) -> None:
        """The store's address was given: what it is, it says there."""
        target = target_of(url, self._connection.config.port)
        bus = self._tcp(target, self._domain)
        heres = bus._connection.node.open_subscription(HERE, queue_bytes_max=1 << 20, when_full="drop_old")
        heres.attach_bell(self._ear.bell, HERES)
        with self._lock:
            self._bus, self._node, self._heres = bus, bus._connection.node, heres
            self._session.greets = Greeting(self._token)
            self._bus._connection.node.attach_bell(self._ear.bell)
            self._finder.look(time.monotonic())

    def _open(self, here: Here) -> None:
        """Open the way to a store that said where it is, and greet it."""
        self._close_link()
        bus = self._link_to(here)
        node = self._connection.node if bus is None else bus._connection.node
        if bus is not None:
            node.attach_bell(self._ear.bell)
        with self._lock:
            self._here, self._bus, self._node = here, bus, node
            self._session.greets = Greeting(None if self._is_inside(here) else self._token)
        self._begin()

    def _begin(self) -> None:
        """Begin a session: its answers are subscribed to before anything is said."""
        here, node = self._here, self._node
        if here is None or node is None:
            return
        with self._lock:
            # Until then no caller says anything.
            self._unsaid, self._topic = None, ""
            is_linked = self._bus is not None and self._bus._connection.links is not None
            self._session.begin(time.monotonic(), LINK_LEASE_S if is_linked else None)
            session = self._session.id
        # A given address may be that of a program which only leads to the store.
        private = here.private if self._url is not None else self._bus is not None
        topic = session_topic(here.store, session, private=private)
        replies = node.open_subscription(topic, queue_bytes_max=REPLIES_BYTES)
        replies.attach_bell(self._ear.bell, REPLIES)
        with self._lock:
            old, self._replies = self._replies, replies
            self._topic = requests_topic(here.store)
        if old is not None:
            old.close()

    def _link_to(self, here: Here) -> "Bus | None":
        """A bus to a store alone; none if only the domain's own leads there."""
        if self._is_inside(here):
            return _bus(ConnectionConfig(scheme="inproc", domain=self._connection.store.channel))
        if self._connection.config.scheme == "inproc" or here.memory:
            return None
        for url in here.urls:
            try:
                return self._tcp(target_of(url, 0), here.domain)
            except ShoalError as error:
                self._why = f"{url}: {error}"
        return None

    def _is_inside(self, here: Here) -> bool:
        """Whether a store is the one of this process."""
        store = self._connection.store
        return _is_beside(store, here) and getattr(store, "channel", None) is not None

    def _tcp(self, target: Target, domain: str) -> "Bus":
        if target.scheme not in ("tcp", "tls"):
            raise ConfigError(
                f"{target.url} is no address of a store: use tcp://host:port or tls://host:port"
            )
        config = ConnectionConfig(
            scheme=target.scheme,
            host=target.host,
            port=target.port,
            domain=domain,
            **(self._connection.client.tls() if target.scheme == "tls" else {}),
            connect_timeout_s=CONNECT_S,
            reconnect_max_s=1.0,
            heartbeat_s=1.0,
            message_bytes_max=self._connection.config.message_bytes_max,
        )
        bus = _bus(config)
        try:
            connection = bus._connection
            run(connection, operations.dial(connection, [config.target()]))
            if not self._url and not any(state.state == "up" for state in bus.links):
                raise FullError(f"no store answers at {target.url}")
        except BaseException:
            bus.close(0.0)
            raise
        return bus

    def _drop_link(self, why: str) -> None:
        self._close_link()
        with self._lock:
            if self._here is not None:
                self._finder.forget(self._here)
            self._here = None
            self._session.end()
        notices.STORE_LINK_CLOSED(why=why).log(log)

    def _close_link(self) -> None:
        with self._lock:
            bus, self._bus, self._node = self._bus, None, None
            self._was_up = False
            replies, self._replies = self._replies, None
            self._unsaid = None
            if self._url is not None:
                self._heres, heres = None, self._heres
                if heres is not None:
                    heres.close()
        if replies is not None:
            replies.close()
        if bus is not None:
            with contextlib.suppress(ShoalError):
                bus.close(0.0)

    # --- under the lock ---

    def _pump(self) -> None:
        """Say what is to be said, in order, as far as the link takes it."""
        node = self._node
        while node is not None and self._topic:
            body = self._unsaid or self._session.poll_output(time.monotonic())
            if body is None:
                return
            self._unsaid = body
            try:
                node.publish(self._topic, body, timeout_s=0.0)
            except FullError:
                self._ear.ring()
                return
            except ClosedError:
                return
            except (ShoalError, ValueError, TypeError) as error:
                # What cannot be said harms its caller, and no other.
                self._session.refuse(body, error)
            self._unsaid = None

    def _on_lost(self) -> None:
        if (line := self._log_limit.admit("lost", notices.STORE_LINK_LOSS())) is not None:
            line.log(log)

    def _on_impostor(self, error: StoreDeniedError) -> None:
        """What answered did not prove to be the store: look for another one."""
        if self._here is not None:
            self._finder.ban(time.monotonic(), self._here)
        self._denied, self._is_deceived = error, True
        self._open_at = time.monotonic() + OPEN_AGAIN_S
        here = self._here
        store = "a store" if here is None else f"{here.name!r} at {', '.join(here.urls)}"
        if (
            line := self._log_limit.admit("unproven", notices.STORE_UNPROVEN(why=error, store=store))
        ) is not None:
            line.log(log)
        if self._url is not None:
            # There is no other store to wait for.
            self._tell_waiting(error)
        self._ear.ring()

    def _on_put_off(self, error: StoreError, left_s: float) -> None:
        if (line := self._log_limit.admit("put off", notices.ID_AWAITED(why=error, left=left_s))) is not None:
            line.log(log)

    def _on_refused(self, error: StoreError) -> None:
        self._open_at = time.monotonic() + OPEN_AGAIN_S
        self._tell_waiting(error)

    def _tell_waiting(self, error: StoreError) -> None:
        """Callers that wait for a store get an error."""
        refused, self._waiting = self._waiting, []
        for waiting in refused:
            waiting.done(None, error)

    def _on_state(self) -> None:
        state = self._session.state
        if state == "open":
            self._was_open, self._said_none, self._why, self._denied = True, False, "", None
            self._is_memory = self._here is not None and self._here.memory
            self._only_kept = self._only_kept or not self._is_memory
            self._compare()
            self._connection.tell(StoreUp(str(self._session.greeting.get("name", "")), self._session.run))
        elif state == "idle" and self._session.greeting and not self._stopped:
            name = str(self._session.greeting.get("name", ""))
            here = self._here
            is_replaced = self._is_memory and here is not None and not here.memory
            gave_way = self._session.is_dismissed or is_replaced
            self._connection.tell(StoreDown(name, self._is_memory, gave_way))
        self._ear.ring()


def closed() -> ClosedError:
    """What ends whatever waits when a connection closes."""
    return ClosedError("the connection is closed")


def _log_waiting(name: str, body: Body) -> None:
    silent, left = f"{body['silent_s']:.1f}", f"{body['left_s']:.1f}"
    notices.MESSAGES_IN_FLIGHT(
        messages=body["messages"], name=name, holder=body["holder"], silent=silent, left=left
    ).log(log)


def _is_beside(store: Any, here: Here) -> bool:
    """Whether a store is the one of this process."""
    return store is not None and f"{store.log.store_id:016x}" == here.store


def _bus(config: ConnectionConfig) -> "Bus":
    from shoal.bus.sync import Bus

    bus = Bus(config)
    # What a store that went did not take is sent to the next one.
    bus._connection.private = True
    return bus
