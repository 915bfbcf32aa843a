"""What a registry knows of a daemon, and the datagram with which it advertises that its list changed.

Both ends use it: daemons and clients, which have the standard library alone, and the registry.
"""

import hashlib
import hmac
import struct
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from shoal.config.target import HOSTS, Target
from shoal.errors import LinkError

#: Daemons of one registry.
DAEMONS_MAX = 4096
#: The datagram: magic, version, three zero bytes, domain, registry, stamp, echo.
_STAMP = struct.Struct("!4sB3x8s8sQ8s")
_MAGIC, _VERSION = b"SHRG", 1
_MAC_BYTES = 8
#: The length of such a datagram.
STAMP_BYTES = _STAMP.size + _MAC_BYTES


@dataclass(frozen=True, slots=True)
class Endpoint:
    """An address at which a daemon listens."""

    transport: str
    host: str
    port: int
    #: The path of a WebSocket, such as `/links`; may be empty.
    path: str = ""

    @property
    def target(self) -> Target:
        """Where a link to it leads."""
        return Target(self.transport, self.host, self.port, self.path)

    def as_json(self) -> dict[str, Any]:
        """The address as a registry's answers have it."""
        return {"transport": self.transport, "host": self.host, "port": self.port, "path": self.path}


@dataclass(frozen=True, slots=True)
class Load:
    """How busy a daemon is."""

    #: Connections it has.
    connections: int = 0
    #: The share of its cores that it uses, 0 to 1.
    cpu: float = 0.0
    messages_per_s: float = 0.0


@dataclass(frozen=True, slots=True)
class Edge:
    """A link of a daemon with another one, for pictures of the network."""

    #: The other daemon's publisher.
    to: str
    #: How long an answer takes; `None` while none was heard.
    round_trip_s: float | None
    #: `up`, `standby`, `reconnecting`, …
    state: str


@dataclass(frozen=True, slots=True)
class Record:
    """A daemon, as it registered. A daemon that starts again has another publisher."""

    publisher: str
    name: str
    #: Where other daemons and clients connect; empty for a daemon that only connects itself.
    endpoints: tuple[Endpoint, ...] = ()
    cluster: str = ""
    connections_max: int = 0
    cores: int = 1
    roles: tuple[str, ...] = ()
    version: str = ""
    load: Load = field(default=Load(), compare=False)
    links: tuple[Edge, ...] = field(default=(), compare=False)

    @property
    def fullness(self) -> float:
        """How full or busy it is, 0 to 1."""
        share = self.load.connections / self.connections_max if self.connections_max else 1.0
        return min(max(share, self.load.cpu), 1.0)

    def as_json(self) -> dict[str, Any]:
        """The record as a registry's answers have it."""
        return {
            "publisher": self.publisher,
            "name": self.name,
            "cluster": self.cluster,
            "urls": [each.as_json() for each in self.endpoints],
            "connections_max": self.connections_max,
            "cores": self.cores,
            "roles": list(self.roles),
            "version": self.version,
            "load": {
                "connections": self.load.connections,
                "cpu": self.load.cpu,
                "msg_s": self.load.messages_per_s,
            },
            "links": [
                {"to": each.to, "round_trip_s": each.round_trip_s, "state": each.state} for each in self.links
            ],
        }

    @classmethod
    def from_json(cls, body: Mapping[str, Any]) -> "Record":
        """The record that an answer has.

        Raises:
            LinkError: a field is missing or has another type; the registry is another version, or none.
        """
        try:
            load = body["load"]
            return cls(
                publisher=str(body["publisher"]),
                name=str(body["name"]),
                endpoints=tuple(endpoint_of(each) for each in body["urls"]),
                cluster=str(body["cluster"]),
                connections_max=int(body["connections_max"]),
                cores=int(body["cores"]),
                roles=tuple(str(role) for role in body["roles"]),
                version=str(body["version"]),
                load=Load(int(load["connections"]), float(load["cpu"]), float(load["msg_s"])),
                links=tuple(_edge(each) for each in body.get("links", ())),
            )
        except (LookupError, TypeError, ValueError, AttributeError, OverflowError) as error:
            raise LinkError(f"The registry's answer has a record that cannot be read: {error!r}.") from None


def _edge(body: Mapping[str, Any]) -> Edge:
    took = body["round_trip_s"]
    return Edge(str(body["to"]), None if took is None else float(took), str(body["state"]))


def endpoint_of(body: Mapping[str, Any]) -> Endpoint:
    """The address in a record, or in a locator's answer.

    Raises:
        KeyError, TypeError, ValueError: it is none.
    """
    transport, host, port = str(body["transport"]), str(body["host"]), int(body["port"])
    path = str(body.get("path", ""))
    if transport not in HOSTS or not host or not 0 < port < 65_536 or (path and path[0] != "/"):
        raise ValueError(f"{transport}://{host}:{port}{path}")
    return Endpoint(transport, host, port, path)


@dataclass(frozen=True, slots=True)
class Stamp:
    """How new a registry's list is. A daemon whose own list has another stamp asks for it."""

    domain: str
    #: Drawn when the registry starts.
    registry: bytes
    stamp: int
    #: The daemon repeats it when it registers again: so the registry knows that its datagrams arrive.
    echo: bytes

    def seal(self, key: bytes) -> bytes:
        """The datagram. The key is known to the registry and to the one daemon it is for."""
        body = _STAMP.pack(_MAGIC, _VERSION, _domain_bytes(self.domain), self.registry, self.stamp, self.echo)
        return body + _mac(key, body)


def open_stamp(datagram: bytes, domain: str, key: bytes) -> Stamp | None:
    """The stamp in a datagram; `None` if it is malformed, forged, or of another domain."""
    if len(datagram) != STAMP_BYTES:
        return None
    body, mac = datagram[:-_MAC_BYTES], datagram[-_MAC_BYTES:]
    if not hmac.compare_digest(mac, _mac(key, body)):
        return None
    magic, version, named, registry, stamp, echo = _STAMP.unpack(body)
    if magic != _MAGIC or version != _VERSION or named != _domain_bytes(domain):
        return None
    return Stamp(domain, registry, stamp, echo)


def _domain_bytes(domain: str) -> bytes:
    return hashlib.sha256(domain.encode()).digest()[:8]


def _mac(key: bytes, body: bytes) -> bytes:
    return hmac.digest(key, body, "sha256")[:_MAC_BYTES]
