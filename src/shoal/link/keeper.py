"""Keeps a connection's TCP links: a thread that hears what became of them, and connects again."""

import queue
import select
import threading
import time
import weakref
from collections.abc import Callable
from typing import Any

from shoal import _core
from shoal.bus.events import Event, LinkDown, LinkReconnecting, LinkRefused, LinkUp
from shoal.errors import ClosedError, LinkError
from shoal.link.address import is_address, resolve, text_of
from shoal.link.backoff import Backoff
from shoal.link.dialler import Dialler
from shoal.link.state import LinkState, State

#: The thread looks at least so often, should a wake-up ever be missed.
_SLEEP_MAX_S = 5.0


class Listener:
    """An address that others may connect to."""

    def __init__(self, number: int, host: str, port: int) -> None:
        self.number = number
        self.url = text_of(host, port)


class Keeper:
    """The links of one node. May be shared between threads."""

    def __init__(
        self,
        links: _core.TcpLinks,
        tell: Callable[[Event], None],
        *,
        timeout_s: float,
        reconnect_max_s: float,
        connections_max: int,
    ) -> None:
        self._links = links
        # Whoever owns the connection owns this too, and not the other way round.
        self._tell = weakref.WeakMethod(tell)
        self._timeout_s, self._reconnect_max_s = timeout_s, reconnect_max_s
        self._connections_max = connections_max
        self._lock = threading.Lock()
        self._diallers: list[Dialler] = []
        self._listeners: dict[int, Listener] = {}
        #: Where the other end of each connection is that carries messages, and as which link.
        self._up: dict[int, tuple[str, str]] = {}
        self._found: queue.SimpleQueue[tuple[Dialler, list[str] | LinkError]] = queue.SimpleQueue()
        self._stopped = False
        self._bell = _core.Bell()
        links.attach_bell(self._bell)
        self._thread = threading.Thread(target=self._run, name="shoal-link", daemon=True)
        self._thread.start()

    # --- commands ---

    def connect(self, host: str, port: int) -> Dialler:
        """Begin to keep an address connected."""
        dialler = Dialler(
            text_of(host, port),
            host,
            port,
            backoff=Backoff(self._reconnect_max_s),
            refused_s=self._reconnect_max_s,
        )
        with self._lock:
            self._diallers.append(dialler)
        self._bell.ring(0)
        return dialler

    def listen(self, host: str, port: int) -> str:
        """Let others connect: the URL they may use."""
        (address, *_) = resolve(host, port)
        try:
            number, bound = self._links.listen(address, port, self._connections_max)
        except OSError as error:
            raise LinkError(f"{text_of(host, port)} cannot be listened at: {error}") from error
        listener = Listener(number, address, bound)
        with self._lock:
            self._listeners[number] = listener
        return listener.url

    def forget(self, dialler: Dialler) -> None:
        """Stop keeping an address connected."""
        with self._lock:
            if dialler in self._diallers:
                self._diallers.remove(dialler)

    def stop(self) -> None:
        """Connect nothing any more, and end the thread."""
        self._stopped = True
        self._bell.ring(0)
        if self._thread is not threading.current_thread():
            self._thread.join(5)

    # --- getters ---

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
                    address=listener.url.removeprefix("tcp://"),
                    connections=connections,
                    turned_away=turned_away,
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
            if isinstance(found, LinkError):
                self._say_reconnecting(dialler, dialler.fail(now, str(found)))
            else:
                dialler.addresses = found
                self._dial(now, dialler)
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
        if dialler.addresses or is_address(dialler.host):
            dialler.addresses = dialler.addresses or [dialler.host]
            self._dial(now, dialler)
        else:
            # Names take as long as the system takes.
            threading.Thread(
                target=_look_up, args=(dialler, self._found, self._bell), name="shoal-resolve", daemon=True
            ).start()

    def _dial(self, now: float, dialler: Dialler) -> None:
        address = dialler.addresses.pop(0)
        try:
            dialler.connection = self._links.dial(address, dialler.port, self._timeout_s, dialler.publisher)
        except OSError as error:
            self._say_reconnecting(dialler, dialler.fail(now, str(error)))

    def _on_news(self, now: float, news: dict[str, Any]) -> None:
        number, kind = news["connection"], news["kind"]
        dialler = next((one for one in self._copy() if one.connection == number), None)
        listener = self._listeners.get(news["listener"] or 0)
        url = dialler.url if dialler else listener.url if listener else ""
        address = news["address"] or ""
        delay_s = dialler.on_news(now, news) if dialler else None
        if kind == "up":
            self._up[number] = (url, address)
            self._say(LinkUp(url, news["node"], address, news["resumed"]))
        elif number in self._up:
            url, address = self._up.pop(number)
            left = kind in ("left", "closed")
            self._say(LinkDown(url, news["node"], address, _reason(kind, news["why"]), left))
        elif kind == "turned":
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


def _look_up(
    dialler: Dialler, found: "queue.SimpleQueue[tuple[Dialler, list[str] | LinkError]]", bell: _core.Bell
) -> None:
    try:
        found.put((dialler, resolve(dialler.host, dialler.port)))
    except LinkError as error:
        found.put((dialler, error))
    bell.ring(0)


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
    ignored = ("connection", "listener", "address")
    figures = {name: value for name, value in session.items() if name not in ignored}
    return figures | {"address": session["address"] or ""}
