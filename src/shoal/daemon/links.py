"""A daemon's links: opened, closed and looked at by the names that the file gives them."""

import ipaddress
import logging
import socket
import struct
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from shoal.bus.connection import LEAVE_S, Connection
from shoal.config.keys import keys_of
from shoal.config.target import HOSTS, target_of
from shoal.daemon.config import LinkConfig
from shoal.errors import ShoalError
from shoal.link.admission import Allowed
from shoal.link.dialler import Dialler
from shoal.link.directory import Edge, Endpoint
from shoal.link.state import LinkState
from shoal.messages import daemon as notices

if TYPE_CHECKING:
    from shoal.daemon.guard import Guard

log = logging.getLogger("shoal.daemon")

#: What Linux is asked for an interface's address and mask by.
_SIOCGIFADDR, _SIOCGIFNETMASK = 0x8915, 0x891B
#: What links are called that no file names: those to daemons that a registry lists.
FOUND = "registry"
#: Connections beyond `connections_max` that may say hello, and be sent elsewhere.
SPARE = 64
#: Links with other daemons that a registry hears of.
EDGES_MAX = 256
#: A link that cannot be opened is tried again after this time.
RETRY_S = 5.0


@dataclass
class Open:
    """A link that is open: what the node knows it by. One of the three."""

    norm: int | None = None
    dialler: Dialler | None = None
    listens_at: str | None = None


class Links:
    """The links of one node. For one thread at a time."""

    def __init__(self, connection: Connection, guard: "Guard | None" = None) -> None:
        """Have no links yet; with `guard`, it decides who is let in."""
        self._connection, self._guard = connection, guard
        self._wanted: dict[str, LinkConfig] = {}
        self._open: dict[str, Open] = {}
        #: Of links that could not be opened: why, and when to try again.
        self._failed: dict[str, tuple[str, float]] = {}

    # --- commands ---

    def change(self, wanted: Mapping[str, LinkConfig], *, strict: bool) -> list[str]:
        """Close what is not wanted any more, open what is new: what was done, a line each.

        Raises:
            ShoalError: `strict`, and a link cannot be opened. Otherwise it is tried again and again.
        """
        done = []
        for name in [name for name, link in self._wanted.items() if wanted.get(name) != link]:
            self._close(name)
            done.append(f"closed {name}")
        for name, link in wanted.items():
            if name not in self._wanted:
                self._wanted[name] = link
                done.append(f"opened {name}" if self._try(name, strict) else f"could not open {name}")
        return done

    def turn(self) -> None:
        """Try again what failed, if it is time."""
        now = time.monotonic()
        for name, opened in list(self._open.items()):
            if opened.norm is not None:
                told = self._connection.node.norm_link(opened.norm)
                if told is None or told["has_ended"]:
                    del self._open[name]
                    self._connection.remove_norm(opened.norm)
                    self._failed[name] = ("its thread ended", now + RETRY_S)
        for name, (_, at) in list(self._failed.items()):
            if at <= now:
                self._try(name, strict=False)

    def reload_keys(self) -> list[str]:
        """Read key files and certificates again: what was read."""
        done = []
        for name, opened in self._open.items():
            config = self._wanted[name].connection
            keys = keys_of(config.key, config.key_file) if opened.norm is not None else None
            if keys is not None and self._connection.node.set_keys(keys, opened.norm):
                done.append(f"read the keys of {name}")
        keeper = self._connection.links
        if keeper is not None and keeper.reload_certificates():
            done.append("read the certificates")
        return done

    # --- getters ---

    def trouble(self) -> list[str]:
        """Links that cannot be opened, or whose interface is gone, and why."""
        down = {name: self._down(opened) for name, opened in self._open.items()}
        whys = {name: why for name, (why, _) in self._failed.items()}
        whys |= {name: why for name, why in down.items() if why is not None}
        return [f"link {name}: {why}" for name, why in whys.items()]

    def _down(self, opened: Open) -> str | None:
        told = None if opened.norm is None else self._connection.node.norm_link(opened.norm)
        return None if told is None else told["down"]

    def states(self) -> list[dict[str, Any]]:
        """Every link as it is now."""
        keeper = self._connection.links
        single = [] if keeper is None else keeper.states()
        found: list[dict[str, Any]] = []
        for name, link in self._wanted.items():
            opened = self._open.get(name)
            common = {"name": name, "kind": link.connection.scheme, "url": link.connection.where()}
            if opened is None:
                why = self._failed.get(name, ("closed", 0.0))[0]
                found.append(common | {"state": "failed", "up": 0, "why": why})
            elif opened.norm is not None:
                found.append(common | self._group(link, opened.norm))
            elif opened.dialler is not None:
                url = opened.dialler.url
                mine = (each for each in single if each.role == "connect" and each.url == url)
                found += [common | _single(each) for each in mine]
            else:
                mine = (each for each in single if each.role != "connect" and each.url == opened.listens_at)
                found += [common | {"url": each.url} | _single(each) for each in mine]
        named = {opened.dialler.url for opened in self._open.values() if opened.dialler is not None}
        others = (each for each in single if each.role == "connect" and each.url not in named)
        found += [
            {"name": FOUND, "kind": each.url.partition(":")[0], "url": each.url} | _single(each)
            for each in others
        ]
        return found

    def connections(self) -> int:
        """Connections that others made."""
        keeper = self._connection.links
        states = [] if keeper is None else keeper.states()
        return sum(each.role == "accept" and each.state == "up" for each in states)

    def edges(self, is_daemon: Callable[[int], bool]) -> tuple[Edge, ...]:
        """The links with other daemons."""
        keeper = self._connection.links
        states = [] if keeper is None else keeper.states()
        return tuple(
            Edge(f"{each.publisher:016x}", each.round_trip_s, each.state)
            for each in states
            if each.publisher and is_daemon(each.publisher)
        )[:EDGES_MAX]

    def endpoints(self, address: str) -> tuple[Endpoint, ...]:
        """Where others may connect; `address` stands for listeners on every address."""
        urls = [opened.listens_at for opened in self._open.values() if opened.listens_at is not None]
        targets = [target_of(url, 0) for url in urls]
        return tuple(
            Endpoint(
                target.scheme,
                address if target.host in ("0.0.0.0", "::") else target.host,
                target.port,
                target.path,
            )
            for target in targets
            if target.scheme in HOSTS
        )

    def _group(self, link: LinkConfig, number: int) -> dict[str, Any]:
        node, config = self._connection.node, link.connection
        told = node.norm_link(number)
        if told is None:
            return {"state": "failed", "up": 0, "why": "it was closed"}
        lan = f"{config.where()} on {_network_of(told['interface'])}"
        where = {"far": config.group} if config.is_unicast else {"lan": lan}
        stats, down = told["stats"], told["down"]
        return {
            "state": "reconnecting" if down else "up",
            "up": int(not down),
            **where,
            "interface": told["interface"],
            "address": told["address"],
            "why": down or node.take_socket_error(number) or "",
            "round_trip_s": told["round_trip_s"],
            "rate_bytes_per_s": told["rate_bytes_per_s"],
            **{name: stats[name] for name in ("bytes_sent", "bytes_received", "repairs_sent")},
        }

    # --- opening and closing ---

    def _try(self, name: str, strict: bool) -> bool:
        try:
            self._open[name] = self._opened(self._wanted[name])
        except ShoalError as error:
            if strict:
                raise
            if self._failed.get(name, ("",))[0] != str(error):
                notices.LINK_NOT_OPEN(link=name, why=error, every_s=RETRY_S).log(log)
            self._failed[name] = (str(error), time.monotonic() + RETRY_S)
            return False
        if self._failed.pop(name, None):
            notices.LINK_OPEN(link=name).log(log)
        return True

    def _opened(self, link: LinkConfig) -> Open:
        config = link.connection
        if config.scheme == "norm":
            return Open(norm=self._connection.add_norm(config))
        keeper = self._connection.keeper()
        if link.listens:
            allow = Allowed(link.allow) if link.allow else None
            if self._guard is None:
                return Open(listens_at=keeper.listen(config.target(), allow, config.cost))
            admit = self._guard.listener(allow)
            return Open(listens_at=keeper.listen(config.target(), admit, config.cost, spare=SPARE))
        return Open(dialler=keeper.connect(config.target(), config.cost))

    def _close(self, name: str) -> None:
        del self._wanted[name]
        self._failed.pop(name, None)
        opened = self._open.pop(name, None)
        if opened is None:
            return
        if opened.norm is not None:
            self._connection.remove_norm(opened.norm, LEAVE_S)
        elif opened.dialler is not None:
            self._connection.keeper().drop(opened.dialler)
        elif opened.listens_at is not None:
            self._connection.keeper().stop_listening(opened.listens_at)


def _single(state: LinkState) -> dict[str, Any]:
    """Of a link with one program, or of a listener."""
    told = {
        "state": state.state,
        "role": state.role,
        "up": int(state.state in ("up", "listening")),
        "peer": str(state.node) if state.node else "",
        "identity": state.identity,
        "address": state.address,
        "why": state.why,
    }
    if state.role == "listen":
        return told | {
            "connections": state.connections,
            "turned_away": state.turned_away,
            "refused": state.refused,
        }
    return told | {
        "round_trip_s": state.round_trip_s,
        "bytes_sent": state.bytes_sent,
        "bytes_received": state.bytes_received,
        "messages_sent": state.messages_sent,
        "messages_received": state.messages_received,
        "denied": state.denied,
        "resting": state.resting,
        "unsent_bytes": state.unsent_bytes,
        "unacknowledged_bytes": state.unacknowledged_bytes,
    }


def _network_of(interface: str) -> str:
    """The network of an interface: two LANs may have the same group, on interfaces of the same name."""
    name = struct.pack("256s", interface.encode())
    try:
        import fcntl

        with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as asking:
            address, mask = (
                socket.inet_ntoa(fcntl.ioctl(asking, request, name)[20:24])
                for request in (_SIOCGIFADDR, _SIOCGIFNETMASK)
            )
        return str(ipaddress.ip_interface(f"{address}/{mask}").network)
    except (ImportError, OSError, ValueError):
        # It has no address of IPv4, or this is Windows.
        return interface
