"""The daemon itself: a node, its links, and what stands beside it. Signals and files are `service`'s."""

import dataclasses
import itertools
import logging
import os
import threading
import time
from typing import TYPE_CHECKING, Any, Self

from shoal import _core
from shoal.bus.events import Event, MessagesLost
from shoal.bus.sync import Bus
from shoal.daemon.config import DaemonConfig
from shoal.daemon.links import Links
from shoal.daemon.parts import Parts
from shoal.errors import ConfigError
from shoal.link.directory import Load, Record
from shoal.link.events import LinkDown, LinkUp
from shoal.messages import daemon as notices
from shoal.messages import link as link_notices
from shoal.monitor.backlogs import store_status
from shoal.monitor.capacity import CapacityWatch
from shoal.monitor.load import load_status, totals
from shoal.monitor.process import process_status
from shoal.system import processor_s

if TYPE_CHECKING:
    from shoal.daemon.guard import Guard
    from shoal.daemon.registering import Registering
    from shoal.monitor.http import HttpEndpoint
    from shoal.store import Store

log = logging.getLogger("shoal.daemon")

#: How long closing waits for members that lack something.
LINGER_S = 5.0
#: A daemon that leaves looks so often whether its programs have gone, and tells them where to go again.
DRAIN_TURN_S, SEND_AWAY_S = 0.05, 1.5
#: Events noted before it looks after its links again.
EVENTS_MAX = 1000


class Daemon:
    """A running daemon. Close it, or use it in a `with` statement.

    Raises:
        ShoalError: something cannot be opened; then nothing stays open.
    """

    def __init__(self, config: DaemonConfig) -> None:
        self.config = config
        self._lock = threading.RLock()
        self._began_s = time.monotonic()
        self._reloads = self._lost = 0
        self._closed = False
        self._parts = Parts()
        self._cpu = (0.0, self._began_s)
        self._send_away_at = 0.0
        self._capacity = CapacityWatch(config.name)
        self.bus = Bus(config.connection)
        #: Decides which programs are let in; only a daemon that registers has one.
        self.guard = self._guard_of(config)
        self._links = Links(self.bus._connection, self.guard)
        try:
            self._links.change(config.open_links(), strict=True)
            self._parts.change(config, self)
        except BaseException:
            self.close(0.0)
            raise

    # --- commands ---

    def reload(self, config: DaemonConfig) -> list[str]:
        """Become what another configuration says, and leave alone what it does not change: what was done.

        Raises:
            ConfigError: it changes what only a restart can, and nothing was changed.
            ShoalError: a part that it names cannot be opened; links are changed already.
        """
        with self._lock:
            if config.connection != self.config.connection:
                raise ConfigError(
                    "domain, the role router or [connection] changed, which needs a restart: "
                    "nothing was changed"
                )
            if config.registry is not None and self.guard is None:
                raise ConfigError(
                    "[registry] was added, which needs a restart: listeners opened without it answer no "
                    "registry; nothing was changed"
                )
            done = self._links.reload_keys()
            done += self._links.change(config.open_links(), strict=False)
            self.config = config
            done += self._parts.change(config, self)
            self._reloads += 1
            return done

    def _guard_of(self, config: DaemonConfig) -> "Guard | None":
        if config.registry is None:
            return None
        from shoal.daemon.guard import Guard

        keeper = self.bus._connection.keeper()
        return Guard(f"{self.bus.publisher:016x}", config.connection.connections_max, keeper.joined)

    def record(self, address: str) -> Record:
        """What it tells registries; `address` is this machine's on the way there."""
        config = self.config
        advertised = config.registry.advertise if config.registry is not None else None
        with self._lock:
            return Record(
                publisher=f"{self.bus.publisher:016x}",
                name=config.name,
                endpoints=self._links.endpoints(advertised or address),
                connections_max=0 if self._is_leaving else config.connection.connections_max,
                cores=os.cpu_count() or 1,
                roles=tuple(name for name, on in dataclasses.asdict(config.roles).items() if on),
                version=_core.__version__,
                load=Load(self._links.connections(), self._cpu_share()),
                links=() if self.guard is None else self._links.edges(self.guard.is_daemon),
            )

    def _cpu_share(self) -> float:
        """The share of this machine's cores that the daemon used since the last call."""
        used, now = processor_s(), time.monotonic()
        (before, since), self._cpu = self._cpu, (used, now)
        cores = os.cpu_count() or 1
        return min(max((used - before) / max(now - since, 0.1) / cores, 0.0), 1.0)

    def begin_drain(self) -> None:
        """Let no program in any more, and send those that are here to other daemons. Other links stay."""
        with self._lock:
            guard, registering = self.guard, self._registering
            if guard is None or guard.is_leaving or self._closed:
                return
            guard.is_leaving = True
        notices.DRAINING(name=self.config.name, programs=len(self._programs())).log(log)
        if registering is not None:
            # Registries send no program here any more, and say which daemon has room.
            registering.refresh()
        self._send_away()

    def end_drain(self) -> None:
        """Let programs in again."""
        with self._lock:
            if self.guard is None or not self.guard.is_leaving:
                return
            self.guard.is_leaving = False
            registering = self._registering
        notices.DRAIN_ENDED(name=self.config.name).log(log)
        if registering is not None:
            registering.refresh()

    def drain(self, patience_s: float) -> int:
        """Drain, and wait until the programs have gone: how many stayed."""
        self.begin_drain()
        guard, until = self.guard, time.monotonic() + patience_s
        while guard is not None and guard.is_leaving and self._programs() and time.monotonic() < until:
            self.turn(DRAIN_TURN_S)
        return len(self._programs()) if guard is not None and guard.is_leaving else 0

    def _programs(self) -> dict[int, str]:
        """Programs that connected here, and are no daemons: publishers, and the scheme they came by."""
        guard, keeper = self.guard, self.bus._connection.links
        if guard is None or keeper is None:
            return {}
        return {
            state.publisher: state.url.partition(":")[0]
            for state in keeper.states()
            if state.role == "accept" and state.state == "up" and not guard.is_daemon(state.publisher)
        }

    def _send_away(self) -> None:
        """Tell programs where to go; again after a while, because some may not have found room there."""
        guard, keeper, now = self.guard, self.bus._connection.links, time.monotonic()
        if guard is None or keeper is None or not guard.is_leaving or now < self._send_away_at:
            return
        self._send_away_at = now + SEND_AWAY_S
        for publisher, scheme in self._programs().items():
            if places := guard.elsewhere(scheme):
                keeper.redirect(publisher, places)

    def turn(self, timeout_s: float) -> None:
        """Look after links for a while, and note what happens: to be called again and again."""
        for event in itertools.islice(self.bus.events(timeout_s=timeout_s), EVENTS_MAX):
            self._note(event)
        with self._lock:
            if not self._closed:
                self._links.turn()
                self._send_away()
                if (found := self._capacity.turn(time.monotonic(), self._counted)) is not None:
                    self.bus._connection.events.add(found)

    def close(self, linger_s: float = LINGER_S) -> None:
        """Close everything, after waiting for members that lack something. Closing again does nothing."""
        with self._lock:
            if self._closed:
                return
            self._closed = True
            registering = self._registering
        if registering is not None:
            # Its threads ask for the lock.
            registering.close()
        with self._lock:
            self._parts.close()
        self.bus.close(linger_s)

    # --- getters ---

    @property
    def http_url(self) -> str | None:
        """Where health and metrics are, if they are anywhere."""
        http: HttpEndpoint | None = self._parts.find("http")
        return None if http is None else http.url

    @property
    def _registering(self) -> "Registering | None":
        found: Registering | None = self._parts.find("registry")
        return found

    @property
    def _is_leaving(self) -> bool:
        return self.guard is not None and self.guard.is_leaving

    def status(self) -> dict[str, Any]:
        """What it is, and how: what `/status` shows, and `shoal nodes` asks for."""
        with self._lock:
            trouble = self._trouble()
            store, gateway = self._parts.find("store"), self._parts.find("gateway")
            servers = {"registry": self._parts.find("directory"), "console": self._parts.find("console")}
            return {
                "name": self.config.name,
                "domain": self.config.domain,
                "node": self.bus.node,
                "publisher": f"{self.bus.publisher:016x}",
                "roles": [name for name, on in dataclasses.asdict(self.config.roles).items() if on],
                "uptime_s": time.monotonic() - self._began_s,
                "draining": self._is_leaving,
                "healthy": not trouble,
                "trouble": "; ".join(trouble),
                "members": len(self.bus.members),
                "links": self._links.states(),
                **process_status(),
                **({} if store is None else {"store": store_status(store)}),
                **({} if gateway is None else {"gateway": gateway.status()}),
                **{name: server.url for name, server in servers.items() if server is not None},
                **({} if self._closed else self._loaded()),
                "capacity": self._capacity.status(),
                "reloads": self._reloads,
                "events_lost": self._lost,
            }

    def _loaded(self) -> dict[str, Any]:
        return {
            "filters_evaluated": self.bus.stats()["filters_evaluated"],
            "load": load_status(self.bus.load()),
        }

    def _counted(self) -> dict[str, Any]:
        """What capacity is estimated from."""
        return {"load": totals(self.bus.stats()), "cpu_s": processor_s(), "store": self._parts.find("store")}

    def _trouble(self) -> list[str]:
        trouble = ["closed"] if self._closed else self._links.trouble()
        store: Store | None = self._parts.find("store")
        if store is not None and store.failure is not None:
            trouble.append(f"store: {store.failure}")
        return trouble

    def _note(self, event: Event) -> None:
        match event:
            case MessagesLost():
                self._lost += 1
            case LinkUp(link, 0, address, False):
                link_notices.GROUP_JOINED(link=link, address=address).log(log)
            case LinkUp(link, 0, address, True):
                link_notices.GROUP_REJOINED(link=link, address=address).log(log)
            case LinkUp(link, node, address, False):
                link_notices.LINK_UP(link=link, node=node, address=address).log(log)
            case LinkUp(link, node, address, True):
                link_notices.LINK_RESUMED(link=link, node=node, address=address).log(log)
            # What goes wrong the connection logs itself, now and then.
            case LinkDown(link, 0, _, why, True):
                link_notices.GROUP_LEFT(link=link, why=why).log(log)
            case LinkDown(link, node, address, why, True):
                link_notices.PEER_LEFT(node=node, address=address, link=link, why=why).log(log)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *error: object) -> None:
        self.close()
