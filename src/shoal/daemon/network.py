"""The network as its daemons describe it: nodes, LANs and the links between them. Knows no sockets."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any


@dataclass(frozen=True, kw_only=True)
class Place:
    """A node, or a LAN."""

    #: What links call it: a node id, or the group of a LAN.
    key: str
    #: What people call it.
    name: str
    #: `daemon`, `node` or `lan`.
    kind: str
    #: What its daemon says of itself; empty for others.
    status: Mapping[str, Any] = field(default_factory=dict)


@dataclass(frozen=True, kw_only=True)
class Line:
    """What joins two places."""

    #: The place whose link it is, and the other one.
    near: str
    far: str
    #: What its daemon calls it.
    name: str
    #: `norm`, `tcp`, …
    kind: str
    up: bool
    #: All that the daemon says of it.
    state: Mapping[str, Any]


@dataclass(frozen=True)
class Network:
    """All of it."""

    places: Mapping[str, Place]
    lines: tuple[Line, ...]


def network_of(
    statuses: Iterable[Mapping[str, Any]], members: Iterable[int], asker: int | None = None
) -> Network:
    """The network that daemons describe, and the other members, without the program that asked."""
    told = {str(status["node"]): status for status in statuses}
    places = {
        key: Place(key=key, name=str(told[key]["name"]), kind="daemon", status=told[key]) for key in told
    }
    lines: list[Line] = []
    for key, status in sorted(told.items()):
        for link in status.get("links", ()):
            line = _line(key, link, told)
            if line is None or line.far == str(asker) or _is_known(line, lines):
                continue
            lines.append(line)
            if line.far not in places:
                kind = "lan" if line.kind == "norm" and link.get("lan") else "node"
                places[line.far] = Place(key=line.far, name=line.far, kind=kind)
    for member in members:
        places.setdefault(str(member), Place(key=str(member), name=str(member), kind="node"))
    return Network(places, tuple(lines))


def _line(near: str, link: Mapping[str, Any], told: Mapping[str, Mapping[str, Any]]) -> Line | None:
    # A link in standby joins nothing: another one leads to the same node.
    if link.get("role") == "listen" or link.get("state") == "standby":
        return None
    far = str(link.get("lan") or link.get("peer") or "")
    if not far:
        # NORM between two ends names an address: its owner is the other end.
        far = _owner(str(link.get("far") or ""), near, told) or str(link.get("url", "?"))
    up = bool(link.get("up"))
    return Line(near=near, far=far, name=str(link["name"]), kind=str(link["kind"]), up=up, state=link)


def _owner(address: str, near: str, told: Mapping[str, Mapping[str, Any]]) -> str | None:
    """The daemon one of whose links has an address."""
    for key, status in told.items():
        for link in status.get("links", ()):
            if key != near and address and str(link.get("address", "")).rpartition(":")[0] == address:
                return key
    return None


def _is_known(line: Line, lines: Iterable[Line]) -> bool:
    """Both ends of a link describe it."""
    return any((other.near, other.far, other.kind) == (line.far, line.near, line.kind) for other in lines)
