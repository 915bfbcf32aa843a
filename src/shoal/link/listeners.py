"""The places of a node that others may connect to: how many it admits, whom, and what it reports."""

import collections
import contextlib
import functools
import logging
import math
import threading
import weakref
from dataclasses import dataclass, replace
from typing import Any

from shoal import _core
from shoal.config import ConnectionConfig
from shoal.config.target import Target
from shoal.descriptors import KEPT_FREE, limit, room_left
from shoal.errors import ClosedError, ConfigError, LinkError, LinkRefusedError
from shoal.link import forks
from shoal.link.access import LOOK_S, LinkAccess
from shoal.link.address import resolve
from shoal.link.admission import WAITING_MAX, Decide, Doorkeeper, Guest, Verdict, check_admit
from shoal.link.certificates import check_listening
from shoal.link.events import LinkRefused
from shoal.link.state import LinkState
from shoal.link.transport import Listening, Transport
from shoal.link.words import words
from shoal.messages import link as notices

#: A full listener is reported this often at the most.
FULL_EVERY_S = 10.0

log = logging.getLogger("shoal.link")


@dataclass(frozen=True)
class Listener:
    """A place that others may connect to."""

    number: int
    url: str
    #: The wanted address, where the port may be any.
    asked: str
    #: Who listens, if that is not the extension.
    door: Listening | None = None
    #: Where the extension listens, if it does.
    place: tuple[str, int] | None = None
    #: Decides who is let in, if the program gave such a function.
    admit: Decide | None = None
    #: What a step over the links that are made here costs; `None` is as usual.
    cost: int | None = None
    #: Connections beyond `connections_max` that may say hello.
    spare: int = 0

    def close(self) -> None:
        """Accept no more connections, as far as that is Python's."""
        if self.door is not None:
            self.door.close()
        if self.place is not None:
            forks.forget(*self.place)


@dataclass
class Told:
    """News of a listener."""

    #: Connections it refused, because of their greeting or by decision.
    refused: int = 0
    #: How many it had turned away, for want of room, when that was told last; and when that was.
    turned_away: int = 0
    at_s: float = -math.inf


class Listeners:
    """The listeners of one node. May be shared between threads."""

    def __init__(self, links: _core.TcpLinks, config: ConnectionConfig) -> None:
        self._links, self._config = links, config
        self._lock = threading.Lock()
        self._open: dict[int, Listener] = {}
        self._told: dict[int, Told] = {}
        self._doorkeeper: Doorkeeper | None = None
        #: What programs that connect may do; none without rules.
        self._access: LinkAccess | None = None
        self._look_at = 0.0
        self._wrong: str | None = None
        #: Connections that end without a report; no more than wait to be decided about.
        self._quiet: collections.deque[int] = collections.deque(maxlen=WAITING_MAX)

    # --- commands ---

    def add(
        self,
        target: Target,
        admit: Decide | None,
        *,
        cost: int | None,
        tls: _core.Tls | None,
        made: Transport | None,
        spare: int = 0,
    ) -> Listener:
        """Let others connect, those about whom `admit` says so; over TLS, or by a transport that was `made`.

        `spare` more than `connections_max` may say hello, and be sent elsewhere.

        Raises:
            LinkError: that cannot be listened at.
        """
        if admit is not None:
            check_admit(admit)
        if self._config.access is not None and self._access is None:
            self._access = LinkAccess(self._config.access)
        try:
            wanted = Listener(0, "", target.url, admit=admit, cost=cost, spare=spare)
            return self._add(target, wanted, tls, made)
        except ConfigError:
            raise
        except OSError as error:
            raise LinkError(f"{target.url} cannot be listened at: {words(error)}") from error

    def _add(
        self, target: Target, wanted: Listener, tls: _core.Tls | None, made: Transport | None
    ) -> Listener:
        if target.scheme == "tls":
            check_listening(self._config, target.url)
        (address, *_) = (target.host,) if made else resolve(target.host, target.port)
        door = made.listen(target) if made else None
        # A question about a guest finds its listener.
        with self._lock:
            asks = wanted.admit is not None or self._access is not None
            if asks and self._doorkeeper is None:
                self._doorkeeper = Doorkeeper(functools.partial(_decided, weakref.ref(self)))
            if door is not None:
                # A socket, and a pipe to the engine.
                most = self._connections_max(3, wanted.spare)
                number = self._links.add_listener(most, asks=asks)
                listener = replace(wanted, number=number, url=door.url, door=door)
            else:
                most = self._connections_max(1, wanted.spare)
                number, port = self._links.listen(address, target.port, most, tls, asks=asks)
                forks.note(address, port)
                url = Target(target.scheme, address, port).url
                listener = replace(wanted, number=number, url=url, place=(address, port))
            self._open[number] = listener
        return listener

    def _connections_max(self, descriptors: int, spare: int) -> int:
        """How many connections a listener may have, given the descriptors that each needs."""
        most = self._config.connections_max + spare
        room = max(int(min((room_left() - KEPT_FREE) / descriptors, most)), 1)
        if room < most // 2:
            notices.FEWER_CONNECTIONS(room=room, wanted=most, limit=limit(), reserved=KEPT_FREE).log(log)
        return room

    def close(self, url: str) -> None:
        """Accept no more connections at the URL of a listener, and say goodbye to its guests."""
        with self._lock:
            found = [listener for listener in self._open.values() if listener.url == url]
            for listener in found:
                del self._open[listener.number]
                self._told.pop(listener.number, None)
        for listener in found:
            listener.close()
            self._links.close_listener(listener.number)

    def stop(self) -> None:
        """Accept no more connections."""
        for listener in self.all():
            listener.close()
        if self._doorkeeper is not None:
            self._doorkeeper.stop()

    def ask(self, news: dict[str, Any]) -> None:
        """Have it decided whether a program that sent its greeting is let in."""
        number = news["connection"]
        listener = self.get(news["listener"])
        if listener is None or self._doorkeeper is None:
            # It was closed meanwhile.
            self._links.end(number, "it closes", False)
            return
        guest = Guest(
            link=listener.url,
            address=news["address"],
            identity=news["identity"],
            node=news["node"],
            publisher=news["publisher"],
        )
        if not self._doorkeeper.ask(number, listener.admit or _admits, guest):
            self._links.end(number, "too many wait to be let in", False)

    def decide(self, number: int, guest: Guest, verdict: Verdict | None) -> None:
        """Let a program in that was decided about, with its rights, or say why not."""
        rights = None
        if verdict is None and self._access is not None:
            try:
                rights = self._access.admit(guest.identity, self._connected())
            except LinkRefusedError as error:
                verdict = Verdict(str(error))
        if verdict is not None and verdict.is_quiet:
            self._quiet.append(number)
        with contextlib.suppress(ClosedError):
            if verdict is None:
                self._links.admit(number, rights=rights)
            elif verdict.kind == "elsewhere":
                self._links.redirect(number, verdict.why)
            elif verdict.kind == "busy":
                self._links.end(number, verdict.why, False)
            else:
                self._links.admit(number, verdict.why)

    def _connected(self) -> list[str]:
        """The names of programs that are connected to a listener."""
        with contextlib.suppress(ClosedError):
            return [each["identity"] for each in self._links.states() if each["listener"]]
        return []

    def look_at_rules(self, now: float) -> None:
        """Use access rules that changed, if it is time to look."""
        if self._access is None or now < self.look_at:
            return
        self._look_at = now + LOOK_S
        has_changed, why = self._access.refresh()
        if has_changed:
            with contextlib.suppress(ClosedError):
                self._links.use_rules()
        if why is not None and why != self._wrong:
            notices.LINK_RULES_UNREADABLE(why=why).log(log)
        self._wrong = why

    @property
    def look_at(self) -> float:
        """When to look at access rules."""
        return math.inf if self._access is None else self._look_at

    def is_quiet(self, number: int) -> bool:
        """Whether a refused connection is not reported. Asked once."""
        with contextlib.suppress(ValueError):
            self._quiet.remove(number)
            return True
        return False

    def connections(self) -> int:
        """Connections of all listeners, those that only said hello included."""
        with contextlib.suppress(ClosedError):
            return sum(self._links.listener(one.number)[0] for one in self.all())
        return 0

    def note_refused(self, number: int | None) -> None:
        """A listener refused a connection."""
        with self._lock:
            if number in self._open:
                self._told.setdefault(number, Told()).refused += 1

    # --- getters ---

    def all(self) -> list[Listener]:
        """Every one."""
        with self._lock:
            return list(self._open.values())

    def get(self, number: int | None) -> Listener | None:
        """The one of a number, if there is one."""
        with self._lock:
            return self._open.get(number or 0)

    def urls_of(self, target: Target) -> list[str]:
        """The URLs of those that a target means."""
        return [one.url for one in self.all() if target.url in (one.url, one.asked)]

    def states(self) -> list[LinkState]:
        """Every one as it is now."""
        found = []
        for listener in self.all():
            connections, turned_away = self._links.listener(listener.number)
            found.append(
                LinkState(
                    url=listener.url,
                    role="listen",
                    state="listening",
                    address=listener.url.partition("://")[2],
                    connections=connections,
                    turned_away=turned_away,
                    refused=self._told.get(listener.number, Told()).refused,
                )
            )
        return found

    def take_full(self, now: float) -> list[LinkRefused]:
        """Listeners that refused connections for want of room since the last report, now and then."""
        found = []
        for listener in self.all():
            connections, turned_away = self._links.listener(listener.number)
            with self._lock:
                told = self._told.setdefault(listener.number, Told())
            count = turned_away - told.turned_away
            if not count or now < told.at_s + FULL_EVERY_S:
                continue
            told.turned_away, told.at_s = turned_away, now
            most = self._config.connections_max
            why = (
                f"connections_max is {most}"
                if connections >= most
                else f"this process may have {limit()} descriptors (ulimit -n, or LimitNOFILE= of systemd)"
            )
            found.append(
                LinkRefused(
                    listener.url,
                    "a program" if count == 1 else f"{count} others",
                    f"there are {connections} connections, and no more are let in: {why}",
                )
            )
        return found


def _admits(_guest: Guest) -> bool:
    return True


def _decided(own: "weakref.ref[Listeners]", number: int, guest: Guest, verdict: Verdict | None) -> None:
    if (listeners := own()) is not None:
        listeners.decide(number, guest, verdict)
