"""Keeps a connection's links: a thread that hears what became of them, and connects again."""

import collections
import contextlib
import functools
import queue
import select
import socket
import threading
import time
import weakref
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from shoal import _core
from shoal.bus.events import Event, LinkDown, LinkReconnecting, LinkRefused, LinkUp
from shoal.bus.threads import start
from shoal.config import ConnectionConfig
from shoal.errors import ClosedError, ConfigError, LinkError, LinkRefusedError
from shoal.link import transport
from shoal.link.address import Target, is_address, resolve
from shoal.link.backoff import Backoff
from shoal.link.certificates import check_listening, replace_tls, tls_of
from shoal.link.congestion import ask_for
from shoal.link.dialler import Dialler
from shoal.link.meeting import Meeting
from shoal.link.pump import Pump
from shoal.link.state import LinkState, State
from shoal.link.transport import Channel, Listening, Transport

#: The thread looks at least so often, should a wake-up ever be missed.
_SLEEP_MAX_S = 5.0
#: Where somebody cannot be let in, for want of descriptors say, it is tried again after so long.
_ACCEPT_PAUSE_S = 0.1

#: What came of an attempt: addresses to try, a channel that is there, or why there is none.
_Found = list[str] | Channel | Exception


@dataclass(frozen=True)
class Listener:
    """A place that others may connect to."""

    number: int
    url: str
    #: What was asked for, where the port may be any.
    asked: str
    #: Who listens, if that is not the extension.
    door: Listening | None = None


class Keeper:
    """The links of one node. May be shared between threads."""

    def __init__(
        self, links: _core.TcpLinks, tell: Callable[[Event], None], config: ConnectionConfig
    ) -> None:
        self._links = links
        # Whoever owns the connection owns this too, and not the other way round.
        self._tell = weakref.WeakMethod(tell)
        self._config = config
        self._transports: dict[str, Transport] = {}
        self._tls: _core.Tls | None = None
        self._lock = threading.Lock()
        self._diallers: list[Dialler] = []
        self._listeners: dict[int, Listener] = {}
        #: Where the other end of each connection is that carries messages, and as which link.
        self._up: dict[int, tuple[str, str]] = {}
        #: How many each listener refused.
        self._refused: collections.Counter[int] = collections.Counter()
        self._meeting: Meeting | None = None
        self._found: queue.SimpleQueue[tuple[Dialler, _Found]] = queue.SimpleQueue()
        self._stopped = False
        self._bell = _core.Bell()
        links.attach_bell(self._bell)
        ask_for(links, config.tcp_congestion)
        self._thread = threading.Thread(target=self._run, name="shoal-link", daemon=True)
        start(self._thread)

    # --- commands ---

    def connect(self, target: Target) -> Dialler:
        """Begin to keep a target connected."""
        self._prepare(target)
        dialler = Dialler(
            target,
            backoff=Backoff(self._config.reconnect_max_s),
            refused_s=self._config.reconnect_max_s,
        )
        with self._lock:
            self._diallers.append(dialler)
        self._bell.ring(0)
        return dialler

    def listen(self, target: Target) -> str:
        """Let others connect: the URL they may use."""
        self._prepare(target)
        try:
            listener = self._listen(target)
        except ConfigError:
            raise
        except OSError as error:
            raise LinkError(f"{target.url} cannot be listened at: {error}") from error
        with self._lock:
            self._listeners[listener.number] = listener
        if listener.door is not None:
            accepting = functools.partial(_accept, weakref.ref(self), listener.door, listener.number)
            start(threading.Thread(target=accepting, name="shoal-accept", daemon=True))
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
        if scheme not in transport.SCHEMES and not transport.is_registered(scheme):
            raise ConfigError(
                f"{target.url!r} is not the URL of a link: use tcp://, tls://, ws:// or wss://host:port, or "
                "a scheme that shoal.link.register knows"
            )
        if scheme == "tls" and self._tls is None:
            self._tls = tls_of(self._config)
        if scheme not in transport.SOCKETS and scheme not in self._transports:
            self._transports[scheme] = transport.make(scheme, self._config)

    def _listen(self, target: Target) -> Listener:
        if target.scheme not in transport.SOCKETS:
            door = self._transports[target.scheme].listen(target)
            number = self._links.add_listener(self._config.connections_max)
            return Listener(number, door.url, target.url, door)
        tls = None
        if target.scheme == "tls":
            check_listening(self._config, target.url)
            tls = self._tls
        (address, *_) = resolve(target.host, target.port)
        number, port = self._links.listen(address, target.port, self._config.connections_max, tls)
        return Listener(number, Target(target.scheme, address, port).url, target.url)

    def meet(self, place: Target) -> Meeting:
        """Meet the other programs of this machine at a place: whoever is first listens there."""
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
        """Let nobody in any more at the URL that `listen` returned, and say goodbye to those who are."""
        with self._lock:
            found = [listener for listener in self._listeners.values() if listener.url == url]
            for listener in found:
                del self._listeners[listener.number]
        for listener in found:
            if listener.door is not None:
                listener.door.close()
            self._links.close_listener(listener.number)

    def leave(self, target: Target) -> bool:
        """Give up what leads to a target, or listens there: whether there was something."""
        diallers = [dialler for dialler in self._copy() if dialler.url == target.url]
        with self._lock:
            listeners = [one.url for one in self._listeners.values() if target.url in (one.url, one.asked)]
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
        with self._lock:
            doors = [listener.door for listener in self._listeners.values() if listener.door is not None]
        for door in doors:
            door.close()
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

    @property
    def has_stopped(self) -> bool:
        """Whether nothing is connected any more."""
        return self._stopped

    def states(self) -> list[LinkState]:
        """Every link, and every listener, as it is now."""
        with self._lock:
            diallers, listeners = list(self._diallers), dict(self._listeners)
            up = dict(self._up)
        sessions = {session["publisher"]: session for session in self._links.states()}
        found = [self._of_dialler(dialler, sessions) for dialler in diallers]
        for session in sessions.values():
            connection = session["connection"]
            url = up.get(connection, ("", ""))[0] if connection else ""
            listener = listeners.get(session["listener"] or 0)
            state: State = "up" if connection else "waiting"
            found.append(
                LinkState(
                    url=listener.url if listener else url, role="accept", state=state, **_figures(session)
                )
            )
        for listener in listeners.values():
            connections, turned_away = self._links.listener(listener.number)
            found.append(
                LinkState(
                    url=listener.url,
                    role="listen",
                    state="listening",
                    address=listener.url.partition("://")[2],
                    connections=connections,
                    turned_away=turned_away,
                    refused=self._refused[listener.number],
                )
            )
        return found

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
        poll = select.poll()
        poll.register(self._bell.fileno(), select.POLLIN)
        while not self._stopped:
            poll.poll(int(self._wait_s(time.monotonic()) * 1000) + 1)
            self._bell.take()
            if self._stopped or self._tell() is None or _core.is_abandoned():
                return
            try:
                self._turn(time.monotonic())
            except ClosedError:
                return

    def _wait_s(self, now: float) -> float:
        due = [at for dialler in self._copy() if (at := dialler.due_at(self._publishers())) is not None]
        return min(max(min(due, default=now + _SLEEP_MAX_S) - now, 0.0), _SLEEP_MAX_S)

    def _copy(self) -> list[Dialler]:
        with self._lock:
            return list(self._diallers)

    def _publishers(self) -> set[int]:
        if all(dialler.state != "standby" for dialler in self._copy()):
            return set()
        return {session["publisher"] for session in self._links.states() if session["connection"]}

    def _turn(self, now: float) -> None:
        changed = False
        for news in self._links.take_news():
            changed = True
            self._on_news(now, news)
        while not self._found.empty():
            changed = True
            dialler, found = self._found.get()
            if isinstance(found, LinkRefusedError):
                self._say_reconnecting(dialler, dialler.refuse(now, str(found)))
            elif isinstance(found, Exception):
                self._say_reconnecting(dialler, dialler.fail(now, str(found) or type(found).__name__))
            elif isinstance(found, Channel):
                self._carry(now, dialler, found)
            else:
                dialler.addresses = found
                self._dial(now, dialler)
        if self._meeting is not None:
            self._meeting.turn()
        up = self._publishers()
        for dialler in self._copy():
            at = dialler.due_at(up)
            if at is not None and at <= now:
                self._begin(now, dialler)
        if changed:
            # Somebody may wait for a link.
            self._links.wake()

    def _begin(self, now: float, dialler: Dialler) -> None:
        dialler.begin()
        target = dialler.target
        if target.scheme in transport.SOCKETS:
            if dialler.addresses or is_address(target.host):
                dialler.addresses = dialler.addresses or [target.host]
                self._dial(now, dialler)
                return
            # Names take as long as the system takes.
            find: Callable[[], _Found] = functools.partial(resolve, target.host, target.port)
        else:
            made = self._transports[target.scheme]
            find = functools.partial(made.connect, target, self._config.connect_timeout_s)
        arguments = (dialler, find, self._found, self._bell)
        try:
            start(threading.Thread(target=_find, args=arguments, name="shoal-connect", daemon=True))
        except LinkError as error:
            self._say_reconnecting(dialler, dialler.fail(now, str(error)))

    def _dial(self, now: float, dialler: Dialler) -> None:
        address, target = dialler.addresses.pop(0), dialler.target
        secure = (self._tls, self._config.tls_name or target.host) if target.scheme == "tls" else ()
        try:
            dialler.connection = self._links.dial(
                address, target.port, self._config.connect_timeout_s, dialler.publisher, *secure
            )
        except OSError as error:
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
        dialler = next((one for one in self._copy() if one.connection == number), None)
        listener = self._listeners.get(news["listener"] or 0)
        url = dialler.url if dialler else listener.url if listener else ""
        address = news["address"]
        delay_s = dialler.on_news(now, news) if dialler else None
        if kind == "up":
            self._up[number] = (url, address)
            self._say(LinkUp(url, news["node"], address, news["resumed"], news["identity"]))
        elif number in self._up:
            url, address = self._up.pop(number)
            left = kind in ("left", "closed")
            self._say(LinkDown(url, news["node"], address, _reason(kind, news["why"]), left))
        elif kind == "turned":
            self._refused[news["listener"] or 0] += 1
            self._say(LinkRefused(url, address, news["why"]))
        if dialler is not None and delay_s is not None:
            self._say_reconnecting(dialler, delay_s)

    def _say_reconnecting(self, dialler: Dialler, delay_s: float) -> None:
        if not dialler.addresses:
            self._say(LinkReconnecting(dialler.url, delay_s, dialler.why))

    def _say(self, event: Event) -> None:
        tell = self._tell()
        if tell is not None and not self._stopped:
            tell(event)


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
        except Exception:
            if (keeper := own()) is None or keeper.has_stopped:
                return None
            del keeper
            time.sleep(_ACCEPT_PAUSE_S)
            continue
        keeper = own()
        if channel is None:
            return None
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
