"""A daemon's links: opened and looked at by the names that the file gives them."""

from collections.abc import Mapping
from typing import Any

from shoal.bus.sync import Bus
from shoal.daemon.config import LinkConfig
from shoal.link.address import LOOPBACK, text_of
from shoal.link.dialler import Dialler
from shoal.link.state import LinkState


class Links:
    """The links of one node."""

    def __init__(self, bus: Bus) -> None:
        self._bus = bus
        self._links: dict[str, LinkConfig] = {}
        #: Of TCP links: what is kept connected, or the URL that is listened at.
        self._diallers: dict[str, Dialler] = {}
        self._listens_at: dict[str, str] = {}

    def open(self, link: LinkConfig) -> None:
        """Open a link. A `norm` link is open as long as the node is.

        Raises:
            LinkError: its address cannot be listened at.
        """
        config = link.connection
        if config.scheme == "tcp":
            keeper = self._bus._connection.keeper()
            host = config.host or LOOPBACK
            if link.listens:
                self._listens_at[link.name] = keeper.listen(host, config.port)
            else:
                self._diallers[link.name] = keeper.connect(host, config.port)
        self._links[link.name] = link

    def states(self) -> list[dict[str, Any]]:
        """Every link as it is now."""
        tcp = self._bus.links
        found: list[dict[str, Any]] = []
        for name, link in self._links.items():
            common = {"name": name, "kind": link.connection.scheme, "url": url_of(link)}
            if link.connection.scheme == "norm":
                found.append(common | self._group(link))
            elif name in self._diallers:
                url = self._diallers[name].url
                found += [common | _tcp(each) for each in tcp if each.role == "connect" and each.url == url]
            else:
                url = self._listens_at[name]
                mine = (each for each in tcp if each.role != "connect" and each.url == url)
                found += [common | {"url": url} | _tcp(each) for each in mine]
        return found

    def _group(self, link: LinkConfig) -> dict[str, Any]:
        told: Mapping[str, Any] = self._bus.link()
        stats: Mapping[str, int] = self._bus.stats()
        config = link.connection
        where = (
            {"far": config.group} if config.is_unicast else {"lan": f"{url_of(link)} {told.get('interface')}"}
        )
        return {
            "state": "up" if told else "failed",
            "up": int(bool(told)),
            **where,
            "interface": told.get("interface"),
            "address": told.get("address"),
            "why": told.get("socket_error") or "",
            "rate_bytes_per_s": self._bus.rate_bytes_per_s,
            **{name: stats.get(name) for name in ("bytes_sent", "bytes_received", "repairs_sent")},
        }


def url_of(link: LinkConfig) -> str:
    """A link's address as a URL."""
    config = link.connection
    if config.scheme == "tcp":
        return text_of(config.host or LOOPBACK, config.port)
    group = config.group_address()
    return f"norm://{f'[{group}]' if ':' in group else group}:{config.port}"


def _tcp(state: LinkState) -> dict[str, Any]:
    told = {
        "state": state.state,
        "role": state.role,
        "up": int(state.state in ("up", "listening")),
        "peer": str(state.node) if state.node else "",
        "address": state.address,
        "why": state.why,
    }
    if state.role == "listen":
        return told | {"connections": state.connections, "turned_away": state.turned_away}
    return told | {
        "round_trip_s": state.round_trip_s,
        "bytes_sent": state.bytes_sent,
        "bytes_received": state.bytes_received,
        "unsent_bytes": state.unsent_bytes,
    }
