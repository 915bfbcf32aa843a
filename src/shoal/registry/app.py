"""The registry's HTTP interface. Decides nothing: `Directory` does. Everything runs on one event loop."""

import asyncio
import contextlib
import json
import logging
import time
from collections.abc import AsyncIterator, Awaitable, Callable
from typing import Annotated, Any, Literal

from fastapi import Depends, FastAPI, HTTPException, Path, Query, Request, Response
from fastapi.responses import JSONResponse, StreamingResponse
from pydantic import BaseModel, ConfigDict, Field

import shoal
from shoal.config.tokens import Principals
from shoal.link.directory import Endpoint, Load, Record
from shoal.messages import registry as notices
from shoal.registry.directory import CANDIDATES, LEASE_S, REFRESH_S, Candidate, Directory, DirectoryFullError
from shoal.registry.limits import RateLimit
from shoal.registry.reach import Reach

log = logging.getLogger("shoal.registry")

#: A request's body is no longer.
BODY_BYTES_MAX = 64 << 10
#: Requests of one address in a second.
LOCATES_PER_S, REGISTRATIONS_PER_S = 20, 2
#: A question for the list waits no longer for a change.
WAIT_S_MAX = 30.0
#: Consoles that watch one registry.
VIEWERS_MAX = 64
#: A silent stream of events says that it lives so often.
COMMENT_S = 15.0

Domain = Annotated[str, Path(min_length=1, max_length=255, description="The domain, as `connect` names it.")]
Publisher = Annotated[str, Path(pattern="^[0-9a-f]{16}$", description="The daemon's publisher, in hex.")]


class UrlBody(BaseModel):
    """An address at which a daemon listens."""

    model_config = ConfigDict(extra="forbid")
    transport: Literal["tcp", "tls", "ws", "wss"]
    host: str = Field(min_length=1, max_length=255)
    port: int = Field(ge=1, le=65_535)


class LoadBody(BaseModel):
    """How busy a daemon is."""

    connections: int = Field(default=0, ge=0)
    cpu: float = Field(default=0.0, ge=0.0, le=1.0, description="The share of its cores that it uses.")
    msg_s: float = Field(default=0.0, ge=0.0)


class DaemonBody(BaseModel):
    """What a daemon says of itself."""

    publisher: str = Field("", max_length=16)
    name: str = Field(min_length=1, max_length=63)
    cluster: str = Field("", max_length=63)
    urls: list[UrlBody] = Field(default_factory=list, max_length=16)
    udp_port: int | None = Field(None, ge=1, le=65_535, description="Where it hears datagrams.")
    echo: str | None = Field(None, pattern="^[0-9a-f]{16}$", description="From the last datagram it heard.")
    connections_max: int = Field(ge=0, le=100_000)
    cores: int = Field(1, ge=1, le=4096)
    roles: list[str] = Field(default_factory=list, max_length=16)
    version: str = Field(max_length=32)
    load: LoadBody = LoadBody()


class RegisteredBody(BaseModel):
    """The answer to a registration: when to register again, and the key of datagrams."""

    stamp: int
    lease_s: float
    refresh_s: float
    key: str


class ListBody(BaseModel):
    """The daemons of a domain."""

    stamp: int
    settling: bool = Field(description="The registry has just started, and may not know every daemon.")
    daemons: list[dict[str, Any]]


class CandidateBody(BaseModel):
    """A daemon to connect to."""

    transport: str
    host: str
    port: int
    publisher: str
    why: str


class LocateBody(BaseModel):
    """The daemons to connect to, the best first."""

    candidates: list[CandidateBody]


class Service:
    """The directory, and the requests that wait for it to change. For one event loop."""

    def __init__(
        self,
        directory: Directory,
        principals: Principals | None = None,
        *,
        clock: Callable[[], float] = time.monotonic,
        reach: Callable[[Endpoint], Awaitable[bool]] | None = None,
    ) -> None:
        self.directory, self.principals, self.clock = directory, principals, clock
        self.reach = reach or Reach(clock)
        self.locates = RateLimit(LOCATES_PER_S)
        self.registrations = RateLimit(REGISTRATIONS_PER_S)
        self.viewers = 0
        self._changed = asyncio.Event()

    def change(self) -> None:
        """The list of some domain changed: let waiting requests look."""
        self._changed.set()
        self._changed = asyncio.Event()

    async def wait_for_change(self, domain: str, since: int, wait_s: float) -> bool:
        """Wait until the list has another stamp than `since`: whether it has."""
        until = self.clock() + wait_s
        while self.directory.stamp(domain) == since and self.clock() < until:
            with contextlib.suppress(TimeoutError):
                await asyncio.wait_for(self._changed.wait(), until - self.clock())
        return self.directory.stamp(domain) != since

    def listing(self, domain: str) -> dict[str, Any]:
        """The list as an answer has it."""
        directory = self.directory
        return {
            "stamp": directory.stamp(domain),
            "settling": directory.is_settling(self.clock()),
            "daemons": [record.as_json() for record in directory.records(domain)],
        }

    def check(self, request: Request, *roles: str) -> None:
        """Refuse a request without a token of one of these roles, where tokens are asked for."""
        if self.principals is None:
            return
        scheme, _, text = request.headers.get("Authorization", "").partition(" ")
        principal = self.principals.check(text) if scheme.lower() == "bearer" else None
        if principal is None:
            raise HTTPException(401, "A token is missing or unknown: shoal token new makes one.")
        if principal.role not in (*roles, "operator"):
            raise HTTPException(
                403, f"{principal.name!r} is {principal.role!r}, and must be {' or '.join(roles)}."
            )

    async def reached(self, candidates: list[Candidate]) -> list[Candidate]:
        """The first candidates that accept a connection now."""
        found: list[Candidate] = []
        for first in range(0, len(candidates), CANDIDATES):
            lot = candidates[first : first + CANDIDATES]
            are_there = await asyncio.gather(*(self.reach(each.endpoint) for each in lot))
            found += [each for each, is_there in zip(lot, are_there, strict=True) if is_there]
            if len(found) >= CANDIDATES:
                break
        return found[:CANDIDATES]


def make_app(service: Service) -> FastAPI:
    """The HTTP interface of a registry."""
    app = FastAPI(
        title="Shoal registry",
        version=shoal.__version__,
        description="Daemons of Shoal networks: daemons find each other here, and clients the best daemon.",
    )
    app.state.service = service

    @app.middleware("http")
    async def bound_bodies(request: Request, follow: Callable[[Request], Awaitable[Response]]) -> Response:
        length = request.headers.get("Content-Length", "0" if request.method in ("GET", "DELETE") else "")
        if not length.isdecimal() or int(length) > BODY_BYTES_MAX:
            return JSONResponse({"detail": f"A body has a Content-Length of at most {BODY_BYTES_MAX}."}, 413)
        return await follow(request)

    def daemon(request: Request) -> None:
        service.check(request, "daemon")

    def client(request: Request) -> None:
        service.check(request, "client", "daemon")

    def viewer(request: Request) -> None:
        service.check(request, "viewer", "daemon")

    @app.put("/v1/domains/{domain}/daemons/{publisher}", dependencies=[Depends(daemon)])
    async def register(
        request: Request, domain: Domain, publisher: Publisher, body: DaemonBody
    ) -> RegisteredBody:
        """Register a daemon, or renew its lease."""
        now, address = service.clock(), _address(request)
        if not service.registrations.admit(now, f"{address} {publisher}"):
            raise HTTPException(429, f"More than {REGISTRATIONS_PER_S} registrations a second.")
        before = service.directory.stamp(domain)
        udp = None if body.udp_port is None else (address, body.udp_port)
        echo = None if body.echo is None else bytes.fromhex(body.echo)
        try:
            entry = service.directory.register(now, domain, _record(publisher, body), udp, echo)
        except DirectoryFullError:
            raise HTTPException(503, "The registry has as many daemons as it may.") from None
        stamp = service.directory.stamp(domain)
        if stamp != before:
            notices.DAEMON_REGISTERED(name=body.name, domain=domain, address=address).log(log)
            service.change()
        return RegisteredBody(stamp=stamp, lease_s=LEASE_S, refresh_s=REFRESH_S, key=entry.key.hex())

    @app.delete("/v1/domains/{domain}/daemons/{publisher}", status_code=204, dependencies=[Depends(daemon)])
    async def leave(domain: Domain, publisher: Publisher) -> Response:
        """Remove a daemon that says goodbye."""
        if service.directory.leave(domain, publisher):
            service.change()
        return Response(status_code=204)

    @app.get(
        "/v1/domains/{domain}/daemons",
        response_model=ListBody,
        responses={304: {"description": "The list has the stamp that was given."}},
        dependencies=[Depends(client)],
    )
    async def list_daemons(
        domain: Domain,
        since: Annotated[int, Query(ge=0, description="Answer once the list has another stamp.")] = 0,
        wait: Annotated[float, Query(ge=0, le=WAIT_S_MAX, description="How many seconds to wait.")] = 0.0,
    ) -> Response:
        """The daemons of a domain."""
        if since and not await service.wait_for_change(domain, since, wait):
            return Response(status_code=304)
        return JSONResponse(service.listing(domain))

    @app.get("/v1/domains/{domain}/locate", dependencies=[Depends(client)])
    async def locate(
        request: Request,
        domain: Domain,
        transport: Annotated[list[str] | None, Query(max_length=4)] = None,
        exclude: Annotated[list[str] | None, Query(max_length=64)] = None,
    ) -> LocateBody:
        """The daemons for this client, the best first: near ones, with room, that accept a connection now."""
        address = _address(request)
        if not service.locates.admit(service.clock(), address):
            raise HTTPException(429, f"More than {LOCATES_PER_S} requests a second.")
        ranked = service.directory.rank(
            domain, address, transports=transport or (), exclude=exclude or (), version=shoal.__version__
        )
        found = await service.reached(ranked)
        if not found:
            raise HTTPException(503, _nowhere(service, domain), headers={"Retry-After": "2"})
        service.directory.chosen(domain, found[0].record.publisher)
        return LocateBody(candidates=[_candidate(each) for each in found])

    @app.get("/v1/domains/{domain}/events", dependencies=[Depends(viewer)])
    async def events(request: Request, domain: Domain) -> StreamingResponse:
        """Server-sent events: the list, now and after each change."""
        if service.viewers >= VIEWERS_MAX:
            raise HTTPException(503, f"{VIEWERS_MAX} viewers watch already.")
        return StreamingResponse(_events(service, request, domain), media_type="text/event-stream")

    return app


async def _events(service: Service, request: Request, domain: str) -> AsyncIterator[str]:
    service.viewers += 1
    try:
        stamp = -1
        while not await request.is_disconnected():
            if service.directory.stamp(domain) == stamp:
                yield ": here\n\n"
            else:
                stamp = service.directory.stamp(domain)
                yield f"event: state\nid: {stamp}\ndata: {json.dumps(service.listing(domain))}\n\n"
            await service.wait_for_change(domain, stamp, COMMENT_S)
    finally:
        service.viewers -= 1


def _address(request: Request) -> str:
    return request.client.host if request.client is not None else ""


def _record(publisher: str, body: DaemonBody) -> Record:
    return Record(
        publisher=publisher,
        name=body.name,
        endpoints=tuple(Endpoint(url.transport, url.host, url.port) for url in body.urls),
        cluster=body.cluster,
        connections_max=body.connections_max,
        cores=body.cores,
        roles=tuple(body.roles),
        version=body.version,
        load=Load(body.load.connections, body.load.cpu, body.load.msg_s),
    )


def _candidate(candidate: Candidate) -> CandidateBody:
    endpoint = candidate.endpoint
    return CandidateBody(
        transport=endpoint.transport,
        host=endpoint.host,
        port=endpoint.port,
        publisher=candidate.record.publisher,
        why=candidate.why,
    )


def _nowhere(service: Service, domain: str) -> str:
    known = len(service.directory.records(domain))
    if not known:
        return f"No daemon of domain {domain!r} is registered."
    return f"None of the {known} daemons of domain {domain!r} has a free connection and can be reached."
