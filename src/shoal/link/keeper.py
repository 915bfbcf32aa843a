"""Keeps a connection's links: a thread that hears what became of them, and connects again."""

import collections
import contextlib
import functools
import logging
import math
import queue
import socket
import threading
import time
import weakref
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, Union

from shoal import _core
from shoal.config import ConnectionConfig, schemes
from shoal.config.target import Target
from shoal.errors import ClosedError, ConfigError, LinkError, LinkRefusedError
from shoal.link import transport
from shoal.link.address import is_address, resolve
from shoal.link.admission import Decide
from shoal.link.backoff import Backoff
from shoal.link.certificates import replace_tls, tls_of
from shoal.link.congestion import ask_for
from shoal.link.dialler import Dialler
from shoal.link.events import LinkDenied, LinkDown, LinkEvent, LinkReconnecting, LinkRefused, LinkUp
from shoal.link.listeners import Listeners
from shoal.link.meeting import Meeting
from shoal.link.pump import Pump
from shoal.link.redirect import places_of
from shoal.link.state import LinkState, State
from shoal.link.transport import Channel, Listening, Transport, TurnedAway
from shoal.link.words import plain, words
from shoal.system import Readable
from shoal.threads import start

if TYPE_CHECKING:
    from shoal.link.locating import Locator
    from shoal.link.registry_client import Located
    from shoal.link.roaming import Measured, Roaming

#: The thread looks at least so often, should a wake-up ever be missed.
_SLEEP_MAX_S = 5.0
#: Events that were not taken, the oldest of which go first.
_EVENTS_MAX = 10_000
#: Where a connection cannot be accepted, for want of descriptors say, the next attempt comes after this.
_ACCEPT_PAUSE_S = 0.1

#: Where a link leads that stays in this process, and what the extension calls the address of its other end.
INSIDE, _INSIDE_ADDRESS = Target("inproc", ""), "this process"

log = logging.getLogger("shoal.link")

#: What came of an attempt: addresses to try, a daemon that a registry chose, a channel that is there, or why
#: there is none.
_Found = Union[list[str], Target, Channel, Exception, "Located", "Measured"]


class Keeper:
    """The links of one node. May be shared between threads."""

    def __init__(self, links: _core.TcpLinks, tell: Callable[[], None], config: ConnectionConfig) -> None:
        """Keep the links of a node; `tell` is called when there are events to take."""
        self._links = links
        # The owner of the connection owns this too, and not the other way round.
        self._tell = weakref.WeakMethod(tell)
        self._config = config
        self._transports: dict[str, Transport] = {}
        self._tls: _core.Tls | None = None
        self._lock = threading.Lock()
        #: Held while it is heard what became of links, and done what follows.
        self._hearing = threading.RLock()
        #: What was not taken yet. Listeners' threads add to it, too.
        self._events: collections.deque[LinkEvent] = collections.deque(maxlen=_EVENTS_MAX)
        self._diallers: list[Dialler] = []
        self._listeners = Listeners(links, config)
        #: Where the other end of each connection is that carries messages, and as which link.
        self._up: dict[int, tuple[str, str]] = {}
        self._meeting: Meeting | None = None
        self._found: queue.SimpleQueue[tuple[Dialler, _Found]] = queue.SimpleQueue()
        self._stopped = False
        #: Where the first of its links leads, or is listened at; the port is the one in use.
        self.first_url: str | None = None
        self._bell = _core.Bell()
        links.attach_bell(self._bell)
        ask_for(links, config.tcp_congestion)
        self._thread = threading.Thread(target=self._run, name="shoal-link", daemon=True)
        start(self._thread)

    # --- commands ---

    def connect(self, target: Target, cost: int | None = None) -> Dialler:
        """Begin to keep a target connected, over a link of this cost of a step."""
        if target.scheme == "locate":
            return self._keep(target, cost=cost, locator=locator_of(self._config))
        self._prepare(target)
        return self._keep(target, cost=cost)

    def join(self, other: "Keeper") -> Dialler:
        """Begin to keep a link with another node of this process, which needs no address."""
        return self._keep(INSIDE, functools.partial(_links_of, weakref.ref(other)))

    def _keep(
        self,
        target: Target,
        inside: Callable[[], _core.TcpLinks | None] | None = None,
        cost: int | None = None,
        locator: "Locator | None" = None,
    ) -> Dialler:
        longest_s = self._config.reconnect_max_s
        dialler = Dialler(target, backoff=Backoff(longest_s), refused_s=longest_s, cost=cost)
        dialler.inside, dialler.locator = inside, locator
        if locator is not None:
            dialler.roaming = self._roaming(dialler)
        if inside is None:
            self.first_url = self.first_url or dialler.url
        with self._lock:
            self._diallers.append(dialler)
        self._bell.ring(0)
        return dialler

    def _roaming(self, dialler: Dialler) -> "Roaming":
        # Few connections move.
        from shoal.link.roaming import Roaming

        return Roaming(self, dialler, dialler.locator, time.monotonic())

    def beside(self, dialler: Dialler, place: Target) -> Dialler:
        """Open a link beside one that is to move there."""
        second = Dialler(place, backoff=Backoff(1.0), refused_s=1.0, cost=dialler.cost)
        second.url = dialler.url
        try:
            self._prepare(place)
        except ConfigError as error:
            second.refuse(time.monotonic(), str(error))
            return second
        with self._lock:
            self._diallers.append(second)
        self._bell.ring(0)
        return second

    def part(self, connection: int) -> None:
        """Say goodbye on a connection once everything was sent."""
        self._links.part(connection)

    def find_out(self, dialler: Dialler, find: "Callable[[], Located | Measured]") -> None:
        """Find something out about daemons, on a thread of its own."""
        self._find(time.monotonic(), dialler, find)

    def tell(self, event: LinkEvent) -> None:
        """Tell the program."""
        self._say(event)

    def redirect(self, publisher: int, places: str) -> bool:
        """Send the program with this publisher elsewhere: whether it is connected."""
        for session in self._links.states():
            if session["publisher"] == publisher and session["connection"]:
                self._links.redirect(session["connection"], places)
                return True
        return False

    def listen(
        self, target: Target, admit: Decide | None = None, cost: int | None = None, spare: int = 0
    ) -> str:
        """Let others connect, those about whom `admit` says so: the URL they may use.

        A step over the links that are made there has this cost. `spare` more than `connections_max` may say
        hello, and be sent elsewhere.
        """
        self._prepare(target)
        made = self._transports.get(target.scheme)
        listener = self._listeners.add(
            target,
            admit,
            cost=cost,
            tls=self._tls if target.scheme == "tls" else None,
            made=made,
            spare=spare,
        )
        if listener.door is not None:
            accepting = functools.partial(_accept, weakref.ref(self), listener.door, listener.number)
            start(threading.Thread(target=accepting, name="shoal-accept", daemon=True))
        self.first_url = self.first_url or listener.url
        return listener.url

    def _prepare(self, target: Target) -> None:
        """Have what links of such a target need; refuse what cannot work."""
        scheme = target.scheme
        if scheme == "udp":
            raise ConfigError(
                f"{target.url!r} cannot be a link beside others: udp:// repairs nothing, and what was lost "
                "on it would be missing behind every other link; give it a connection of its own, "
                "shoal.connect('udp://…')"
            )
        if scheme not in (*schemes.SCHEMES, *schemes.registered):
            raise ConfigError(
                f"{target.url!r} is not the URL of a link: use tcp://, tls://, ws:// or wss://host:port, or "
                "a scheme that shoal.link.register knows"
            )
        if scheme == "tls" and self._tls is None:
            self._tls = tls_of(self._config)
        if scheme not in schemes.SOCKETS and scheme not in self._transports:
            self._transports[scheme] = transport.make(scheme, self._config)

    def meet(self, place: Target) -> Meeting:
        """Meet the other programs of this machine at a place: the first one listens there."""
        meeting = Meeting(place, listen=self._listen_if_free, connect=self.connect, forget=self.forget)
        meeting.turn()
        self._meeting = meeting
        return meeting

    def _listen_if_free(self, place: Target) -> bool:
        try:
            self.listen(place)
        except LinkError:
            return False
        return True

    def forget(self, dialler: Dialler) -> None:
        """Stop keeping an address connected."""
        with self._lock:
            if dialler in self._diallers:
                self._diallers.remove(dialler)

    def drop(self, dialler: Dialler) -> None:
        """Stop keeping an address connected, and say goodbye there."""
        self.forget(dialler)
        if dialler.connection is not None:
            self._links.part(dialler.connection)

    def stop_listening(self, url: str) -> None:
        """Accept no more connections at the URL that `listen` returned, and say goodbye to its guests."""
        self._listeners.close(url)

    def leave(self, target: Target) -> bool:
        """Give up what leads to a target, or listens there: whether there was something."""
        diallers = [dialler for dialler in self._copy() if dialler.url == target.url]
        listeners = self._listeners.urls_of(target)
        for dialler in diallers:
            self.drop(dialler)
        for url in listeners:
            self.stop_listening(url)
        return bool(diallers or listeners)

    def reload_certificates(self) -> bool:
        """Read certificates again, for connections that are made from now on: whether there are some.

        Raises:
            ConfigError: they cannot be used; then the old ones stay.
        """
        config = self._config
        if self._tls is not None:
            replace_tls(self._tls, config)
        for made in self._transports.values():
            made.reload()
        return self._tls is not None or "wss" in self._transports

    def stop(self) -> None:
        """Connect nothing any more, and end the thread."""
        self._stopped = True
        self._bell.ring(0)
        self._listeners.stop()
        if self._thread is not threading.current_thread():
            self._thread.join(5)

    def identify(self, number: int, identity: str) -> None:
        """The other end of a connection proved its name."""
        with contextlib.suppress(ClosedError):
            self._links.identify(number, identity)

    def end(self, number: int, why: str, refused: bool) -> None:
        """A connection that a transport carried is over."""
        with contextlib.suppress(ClosedError):
            self._links.end(number, why, refused)

    # --- getters ---

    def accepted(self) -> int:
        """Connections that others made, those that only said hello included."""
        return self._listeners.connections()

    def joined(self) -> int:
        """The same, and the links that this node made: together they are bounded by `connections_max`."""
        return self.accepted() + sum(each.role == "connect" for each in self.states())

    @property
    def has_stopped(self) -> bool:
        """Whether nothing is connected any more."""
        return self._stopped

    def heard(self) -> dict[int, float]:
        """The nodes at the other end of links that are up, and how many seconds ago each was heard."""
        with contextlib.suppress(ClosedError):
            return self._links.heard()
        return {}

    def states(self) -> list[LinkState]:
        """Every link, and every listener, as it is now."""
        with self._lock:
            diallers, up = list(self._diallers), dict(self._up)
        sessions = {session["publisher"]: session for session in self._links.states()}
        found = [self._of_dialler(dialler, sessions) for dialler in diallers]
        for session in sessions.values():
            connection = session["connection"]
            url = up.get(connection, ("", ""))[0] if connection else ""
            listener = self._listeners.get(session["listener"])
            state: State = "up" if connection else "waiting"
            found.append(
                LinkState(
                    url=listener.url if listener else url, role="accept", state=state, **_figures(session)
                )
            )
        return found + self._listeners.states()

    def _of_dialler(self, dialler: Dialler, sessions: dict[int, dict[str, Any]]) -> LinkState:
        known = sessions.get(dialler.publisher or 0)
        # A session that another link carries is that link's.
        if known is None or dialler.state == "standby":
            return LinkState(url=dialler.url, role="connect", state=dialler.state, why=dialler.why)
        del sessions[known["publisher"]]
        return LinkState(
            url=dialler.url, role="connect", state=dialler.state, why=dialler.why, **_figures(known)
        )

    # --- the thread ---

    def _run(self) -> None:
        bell_rings = Readable(self._bell.fileno())
        while not self._stopped:
            bell_rings.wait(self._wait_s(time.monotonic()))
            self._bell.take()
            if self._stopped or self._tell() is None or _core.is_abandoned():
                return
            try:
                with self._hearing:
                    self._turn(time.monotonic())
            except ClosedError:
                return
            self._tell_events()

    def _tell_events(self) -> None:
        # Apart from the loop, which would keep the connection while it waits.
        if self._events and (tell := self._tell()) is not None:
            tell()

    def _wait_s(self, now: float) -> float:
        diallers, up = self._copy(), self._publishers()
        due = [at for dialler in diallers if (at := dialler.due_at(up)) is not None]
        due += [dialler.greet_by for dialler in diallers if dialler.is_greeting]
        due += [dialler.roaming.due_at(now) for dialler in diallers if dialler.roaming is not None]
        due.append(self._listeners.look_at)
        return min(max(min(due, default=now + _SLEEP_MAX_S) - now, 0.0), _SLEEP_MAX_S)

    def unreached(self) -> list[str]:
        """Where it connects to, if it never reached a program there and none connects to this node."""
        diallers = self._copy()
        reached = any(dialler.publisher is not None for dialler in diallers)
        return [] if reached or self._listeners.states() else [dialler.url for dialler in diallers]

    def _copy(self) -> list[Dialler]:
        with self._lock:
            return list(self._diallers)

    def _publishers(self) -> set[int]:
        if all(dialler.state != "standby" for dialler in self._copy()):
            return set()
        return {session["publisher"] for session in self._links.states() if session["connection"]}

    def take_events(self) -> list[LinkEvent]:
        """What became of links, and was not taken yet; on any thread."""
        with self._hearing:
            with contextlib.suppress(ClosedError):
                if self._hear(time.monotonic()):
                    self._links.wake()
            # Its own thread has to look when to connect next: the bell rang for what was heard here.
            return [self._events.popleft() for _ in range(len(self._events))]

    def _hear(self, now: float) -> bool:
        """Hear what became of connections: whether something did."""
        told = self._links.take_news()
        for news in told:
            news["why"] = plain(news["why"])
            self._on_news(now, news)
        return bool(told)

    def _turn(self, now: float) -> None:
        changed = self._hear(now)
        while not self._found.empty():
            changed = True
            dialler, found = self._found.get()
            if isinstance(found, LinkRefusedError):
                self._say_reconnecting(dialler, dialler.refuse(now, str(found)))
            elif isinstance(found, Exception):
                self._say_reconnecting(dialler, dialler.fail(now, words(found)))
            elif isinstance(found, Channel):
                self._carry(now, dialler, found)
            elif isinstance(found, Target):
                self._use_located(now, dialler, found)
            elif isinstance(found, list):
                dialler.addresses = found
                self._dial(now, dialler)
            elif dialler.roaming is not None:
                dialler.roaming.on_found(now, found)
        for dialler in self._copy():
            if dialler.is_greeting and now >= dialler.greet_by:
                # The extension tells the rest as news.
                self._links.end(
                    dialler.connection or 0, "it did not say who it is in time (connect_timeout_s)", False
                )
                dialler.greet_by = math.inf
        if self._meeting is not None:
            self._meeting.turn()
        self._listeners.look_at_rules(now)
        for full in self._listeners.take_full(now):
            self._say(full)
        for dialler in self._copy():
            if dialler.roaming is not None:
                dialler.roaming.turn(now)
        up = self._publishers()
        for dialler in self._copy():
            at = dialler.due_at(up)
            if at is not None and at <= now:
                self._begin(now, dialler)
        if changed:
            # A caller may wait for a link.
            self._links.wake()

    def _begin(self, now: float, dialler: Dialler) -> None:
        dialler.begin()
        if dialler.inside is not None:
            self._join(now, dialler, dialler.inside())
        elif dialler.locator is not None and not dialler.addresses and not dialler.is_sent:
            dialler.locator.avoid(dialler.target)
            self._find(now, dialler, dialler.locator.find)
        else:
            self._reach(now, dialler)

    def _use_located(self, now: float, dialler: Dialler, target: Target) -> None:
        """Connect to the daemon that a registry chose."""
        if dialler.target != target:
            # A session is with one daemon: the next one knows nothing of it.
            dialler.target, dialler.publisher = target, None
        try:
            self._prepare(target)
        except ConfigError as error:
            self._say_reconnecting(dialler, dialler.refuse(now, str(error)))
            return
        self._reach(now, dialler)

    def _reach(self, now: float, dialler: Dialler) -> None:
        target = dialler.target
        if target.scheme in schemes.SOCKETS:
            if dialler.addresses or is_address(target.host):
                dialler.addresses = dialler.addresses or [target.host]
                self._dial(now, dialler)
                return
            # Names take as long as the system takes.
            find: Callable[[], _Found] = functools.partial(resolve, target.host, target.port)
        else:
            made = self._transports[target.scheme]
            find = functools.partial(made.connect, target, self._config.connect_timeout_s)
        self._find(now, dialler, find)

    def _find(self, now: float, dialler: Dialler, find: Callable[[], _Found]) -> None:
        """Find something out on a thread of its own."""
        arguments = (dialler, find, self._found, self._bell)
        try:
            start(threading.Thread(target=_find, args=arguments, name="shoal-connect", daemon=True))
        except LinkError as error:
            self._say_reconnecting(dialler, dialler.fail(now, str(error)))

    def _dial(self, now: float, dialler: Dialler) -> None:
        address, target = dialler.addresses.pop(0), dialler.target
        secure = (self._tls, self._config.tls_name or target.host) if target.scheme == "tls" else ()
        dialler.greet_by = now + self._config.connect_timeout_s
        try:
            dialler.connection = self._links.dial(
                address, target.port, self._config.connect_timeout_s, dialler.publisher, *secure
            )
        except OSError as error:
            self._say_reconnecting(dialler, dialler.fail(now, str(error)))

    def _join(self, now: float, dialler: Dialler, other: _core.TcpLinks | None) -> None:
        dialler.greet_by = now + self._config.connect_timeout_s
        try:
            if other is None:
                raise ClosedError("the other node is closed")
            dialler.connection = self._links.join(other, dialler.publisher)
        except (ClosedError, OSError) as error:
            self._say_reconnecting(dialler, dialler.fail(now, str(error)))

    def _carry(self, now: float, dialler: Dialler, channel: Channel) -> None:
        """The engine has a channel that was connected."""
        try:
            adopted = self._links.adopt(channel.address, channel.identity, last=dialler.publisher)
            if adopted is not None:
                self._pump(channel, adopted, accepted=False)
                dialler.connection = adopted[0]
        except ClosedError:
            channel.close()
            raise
        except OSError as error:
            channel.close()
            self._say_reconnecting(dialler, dialler.fail(now, str(error)))

    def accept(self, channel: Channel, listener: int) -> None:
        """The engine has a channel that was accepted, unless there are too many."""
        adopted = self._links.adopt(channel.address, channel.identity, listener=listener)
        if adopted is None:
            channel.close()
        else:
            self._pump(channel, adopted, accepted=True)

    def turn_away(self, listener: int, refused: TurnedAway) -> None:
        """A transport refused a program."""
        found = self._listeners.get(listener)
        if found is not None:
            self._listeners.note_refused(listener)
            self._say(LinkRefused(found.url, refused.address, refused.why))
            self._bell.ring(0)

    def cannot_accept(self, listener: int, error: Exception) -> None:
        """No program can be let in now, for want of descriptors say."""
        found = self._listeners.get(listener)
        if found is not None:
            self._say(LinkRefused(found.url, "a program", str(error) or type(error).__name__))
            self._bell.ring(0)

    def _pump(self, channel: Channel, adopted: tuple[int, int], *, accepted: bool) -> None:
        number, descriptor = adopted
        # Its threads must not keep the links.
        own = weakref.ref(self)
        Pump(
            channel,
            socket.socket(fileno=descriptor),
            accepted=accepted,
            opened=functools.partial(_opened, own, number),
            broken=functools.partial(_broken, own, number),
        )

    def _on_news(self, now: float, news: dict[str, Any]) -> None:
        number, kind = news["connection"], news["kind"]
        if kind == "asks":
            self._listeners.ask(news)
            return
        if kind == "redirected":
            self._on_redirect(now, number, news["why"])
            return
        if kind in ("denied", "denied there"):
            url, address = self._up.get(number, ("", news["address"]))
            self._say(LinkDenied(url, address, kind == "denied", news["why"]))
            return
        dialler = next((one for one in self._copy() if one.connection == number), None)
        listener = self._listeners.get(news["listener"])
        address = news["address"]
        inside = INSIDE.url if address == _INSIDE_ADDRESS else ""
        url = dialler.url if dialler else listener.url if listener else inside
        delay_s = dialler.on_news(now, news) if dialler else None
        if kind == "up":
            self._up[number] = (url, address)
            end = dialler or listener
            self._links.set_cost(news["publisher"], None if end is None else end.cost)
            self._say(LinkUp(url, news["node"], address, news["resumed"], news["identity"]))
            if dialler is not None and dialler.roaming is not None:
                dialler.roaming.on_up(now, news["node"])
        elif number in self._up:
            url, address = self._up.pop(number)
            left = kind in ("left", "closed")
            self._say(LinkDown(url, news["node"], address, _reason(kind, news["why"]), left))
        elif kind == "turned" and self._listeners.is_quiet(number):
            log.debug("%s answered %s and let it go", url, address)
        elif kind == "turned":
            self._listeners.note_refused(news["listener"])
            self._say(LinkRefused(url, address, news["why"]))
        if dialler is not None and delay_s is not None:
            self._say_reconnecting(dialler, delay_s)

    def _on_redirect(self, now: float, number: int, places: str) -> None:
        """The other end asks us to go elsewhere: only programs that connected there do."""
        dialler = next((one for one in self._copy() if one.connection == number), None)
        if dialler is None or dialler.state != "up" or self._config.router:
            return
        if dialler.roaming is None:
            dialler.roaming = self._roaming(dialler)
            dialler.roaming.on_up(now, dialler.node)
        dialler.roaming.on_redirect(now, places_of(places, dialler.target))

    def _say_reconnecting(self, dialler: Dialler, delay_s: float) -> None:
        # If it is required, `connect` raises: nothing is tried again then.
        given_up = self._config.required and all(one.publisher is None for one in self._copy())
        if not dialler.addresses and not given_up:
            self._say(LinkReconnecting(dialler.url, delay_s, dialler.why))

    def _say(self, event: LinkEvent) -> None:
        if not self._stopped:
            self._events.append(event)


def locator_of(config: ConnectionConfig) -> "Locator":
    """What finds daemons for a connection by `locate://`."""
    # HTTP is for connections that ask registries.
    from shoal.link.locating import Locator

    return Locator(
        config.host or "",
        config.domain,
        transport=config.transport,
        token_file=config.registry_token_file,
        ca=config.registry_ca,
    )


def _links_of(other: "weakref.ref[Keeper]") -> _core.TcpLinks | None:
    keeper = other()
    return None if keeper is None or keeper.has_stopped else keeper._links


def _find(
    dialler: Dialler,
    find: Callable[[], _Found],
    found: "queue.SimpleQueue[tuple[Dialler, _Found]]",
    bell: _core.Bell,
) -> None:
    try:
        found.put((dialler, find()))
    except Exception as error:
        # Whatever a transport raises, its link is tried again.
        found.put((dialler, error))
    bell.ring(0)


def _accept(own: "weakref.ref[Keeper]", door: Listening, listener: int) -> None:
    """The thread of a listener."""
    while True:
        try:
            channel = door.accept()
        except Exception as error:
            if (keeper := own()) is None or keeper.has_stopped:
                return None
            keeper.cannot_accept(listener, error)
            del keeper
            time.sleep(_ACCEPT_PAUSE_S)
            continue
        keeper = own()
        if channel is None:
            return None
        if isinstance(channel, TurnedAway):
            if keeper is not None:
                keeper.turn_away(listener, channel)
            del keeper
            continue
        if keeper is None or keeper.has_stopped:
            return channel.close()
        try:
            keeper.accept(channel, listener)
        except (ClosedError, OSError):
            channel.close()
        del keeper


def _opened(own: "weakref.ref[Keeper]", number: int, identity: str) -> None:
    if (keeper := own()) is not None:
        keeper.identify(number, identity)


def _broken(own: "weakref.ref[Keeper]", number: int, why: str, refused: bool) -> None:
    if (keeper := own()) is not None:
        keeper.end(number, why, refused)


def _reason(kind: str, why: str) -> str:
    match kind:
        case "left":
            return "the other end closed its connection to the domain"
        case "duplicate":
            return "another connection took over"
        case "closed":
            return "this end closed"
        case _:
            return why


def _figures(session: dict[str, Any]) -> dict[str, Any]:
    return {name: value for name, value in session.items() if name not in ("connection", "listener")}
