"""What the registry's requests and answers look like. The reference of the HTTP interface is made from it."""

from typing import Annotated, Any, Literal

from pydantic import BaseModel, ConfigDict, Field

from shoal.link.directory import Edge, Endpoint, Load, Record


class Strict(BaseModel):
    """Numbers are numbers: no text or truth value stands for one."""

    model_config = ConfigDict(strict=True, allow_inf_nan=False)


class UrlBody(Strict):
    """An address at which a daemon listens."""

    model_config = ConfigDict(extra="forbid")
    transport: Literal["tcp", "tls", "ws", "wss"]
    host: str = Field(max_length=255, pattern="^[A-Za-z0-9._:%-]+$")
    port: int = Field(ge=1, le=65_535)
    path: str = Field("", max_length=255, pattern="^(/[!-~]*)?$", description="The path of a WebSocket.")


class LoadBody(Strict):
    """How busy a daemon is."""

    connections: int = Field(0, ge=0, le=1_000_000)
    cpu: float = Field(0.0, ge=0.0, le=1.0, description="The share of its cores that it uses.")
    msg_s: float = Field(0.0, ge=0.0, description="Messages that it forwards in a second.")


class EdgeBody(Strict):
    """A link with another daemon."""

    to: str = Field(pattern="^[0-9a-f]{16}$", description="The other daemon's publisher.")
    round_trip_s: float | None = Field(None, ge=0.0)
    state: str = Field(max_length=32, pattern="^[a-z]*$")


class DaemonBody(Strict):
    """What a daemon says of itself."""

    publisher: str = Field("", max_length=16)
    name: str = Field(pattern="^[A-Za-z0-9][A-Za-z0-9._-]{0,62}$")
    cluster: str = Field("", pattern="^[A-Za-z0-9._-]{0,63}$")
    urls: list[UrlBody] = Field(default_factory=list, max_length=16)
    udp_port: int | None = Field(None, ge=1, le=65_535, description="Where it hears datagrams.")
    echo: str | None = Field(None, pattern="^[0-9a-f]{16}$", description="From the last datagram it heard.")
    secret: str = Field(
        "",
        pattern="^([0-9a-f]{64})?$",
        description="With it the daemon proves that its addresses are its own.",
    )
    connections_max: int = Field(ge=0, le=100_000)
    cores: int = Field(1, ge=1, le=4096)
    roles: list[Annotated[str, Field(pattern="^[a-z]{1,32}$")]] = Field(default_factory=list, max_length=16)
    version: str = Field(max_length=32, pattern="^[!-~]*$")
    load: LoadBody = Field(default_factory=lambda: LoadBody(connections=0, cpu=0.0, msg_s=0.0))
    links: list[EdgeBody] = Field(default_factory=list, max_length=256)

    def record(self, publisher: str) -> Record:
        """The record that it describes."""
        return Record(
            publisher=publisher,
            name=self.name,
            endpoints=tuple(Endpoint(url.transport, url.host, url.port, url.path) for url in self.urls),
            cluster=self.cluster,
            connections_max=self.connections_max,
            cores=self.cores,
            roles=tuple(self.roles),
            version=self.version,
            load=Load(self.load.connections, self.load.cpu, self.load.msg_s),
            links=tuple(Edge(each.to, each.round_trip_s, each.state) for each in self.links),
        )


class RegisteredBody(Strict):
    """The answer to a registration: when to register again, and the key of datagrams."""

    stamp: int
    lease_s: float
    refresh_s: float
    key: str
    unproved: dict[str, str] = Field(
        description="Addresses that the daemon did not prove, and why: no client is sent there."
    )


class ListBody(Strict):
    """The daemons of a domain."""

    stamp: int
    settling: bool = Field(description="The registry has just started, and may not know every daemon.")
    daemons: list[dict[str, Any]]


class CandidateBody(Strict):
    """A daemon to connect to."""

    transport: str
    host: str
    port: int
    path: str
    publisher: str
    why: str
    load: float = Field(description="How full or busy it is, 0 to 1.")


class LocateBody(Strict):
    """The daemons to connect to, the best first."""

    candidates: list[CandidateBody]
    current: float | None = Field(description="How full or busy the daemon named `current` is.")


class AuditBody(Strict):
    """What happened, the newest first."""

    entries: list[dict[str, Any]]


class ProblemBody(Strict):
    """Why a request was refused."""

    detail: str
