"""The registry's HTTP interface. Decides nothing: `Directory` does. Everything runs on one event loop."""

import json
import logging
from collections.abc import AsyncIterator
from typing import Annotated, Any, Literal

from fastapi import Depends, FastAPI, HTTPException, Path, Query, Request, Response
from fastapi.responses import JSONResponse, StreamingResponse
from pydantic import Field
from starlette.types import ASGIApp, Receive, Scope, Send

import shoal
from shoal.config.tokens import Principal
from shoal.messages import registry as notices
from shoal.registry.bodies import (
    AuditBody,
    CandidateBody,
    DaemonBody,
    ListBody,
    LocateBody,
    ProblemBody,
    RegisteredBody,
)
from shoal.registry.desk import (
    LOCATES_PER_S,
    REGISTRATIONS_PER_S,
    VIEWERS_MAX,
    WAITING_MAX,
    Desk,
    address_of,
)
from shoal.registry.directory import (
    LEASE_S,
    REFRESH_S,
    Candidate,
    DirectoryFullError,
    NotYoursError,
)

log = logging.getLogger("shoal.registry")

#: A request's body is no longer.
BODY_BYTES_MAX = 64 << 10
#: A question for the list waits no longer for a change.
WAIT_S_MAX = 30.0
#: A stream of events has the daemons' load at this interval.
LOAD_S = 5.0
#: What a client is to wait for when there is no room.
RETRY_S = 2

Domain = Annotated[
    str,
    Path(
        max_length=255,
        pattern=r"^[^\x00-\x1f\x7f]+$",
        description="The domain, as `connect` names it.",
        examples=["plant"],
    ),
]
Publisher = Annotated[
    str,
    Path(
        pattern="^[0-9a-f]{16}$",
        description="The daemon's publisher, in hex.",
        examples=["00000000000000a1"],
    ),
]

_REFUSED: dict[int | str, dict[str, Any]] = {
    400: {"model": ProblemBody, "description": "The body is no text."},
    401: {"model": ProblemBody, "description": "The token is missing, unknown or expired."},
    403: {"model": ProblemBody, "description": "The token is of another role, domain or principal."},
    413: {"model": ProblemBody, "description": f"The body is longer than {BODY_BYTES_MAX} bytes."},
    429: {"model": ProblemBody, "description": "The address asks too often."},
}
_FULL: dict[int | str, dict[str, Any]] = {503: {"model": ProblemBody, "description": "There is no room."}}


class BoundedBodies:
    """Refuses bodies that are too long, or do not say how long they are."""

    def __init__(self, app: ASGIApp) -> None:
        self._app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Pass a request on, or refuse it."""
        if scope["type"] == "http":
            absent = b"0" if scope["method"] in ("GET", "DELETE") else b""
            found = (value for name, value in scope["headers"] if name == b"content-length")
            length = next(found, absent)
            if not length.isdigit() or int(length) > BODY_BYTES_MAX:
                why = f"A body has a Content-Length of at most {BODY_BYTES_MAX}."
                await JSONResponse({"detail": why}, 413)(scope, receive, send)
                return
        await self._app(scope, receive, send)


def make_app(desk: Desk) -> FastAPI:
    """The HTTP interface of a registry."""
    app = FastAPI(
        title="Shoal registry",
        version=shoal.__version__,
        description="Daemons of Shoal networks: daemons find each other here, and clients the best daemon.",
        responses=_REFUSED,
    )
    app.state.desk = desk

    app.add_middleware(BoundedBodies)
    _add_daemons(app, desk)
    _add_clients(app, desk)
    return app


def _add_daemons(app: FastAPI, desk: Desk) -> None:
    """What daemons ask."""

    async def daemon(request: Request, domain: Domain) -> Principal | None:
        return desk.check(request, domain, "daemon")

    Daemon = Annotated[Principal | None, Depends(daemon)]  # noqa: N806

    @app.put("/v1/domains/{domain}/daemons/{publisher}", responses=_FULL)
    async def register(
        request: Request, domain: Domain, publisher: Publisher, body: DaemonBody, principal: Daemon
    ) -> RegisteredBody:
        """Register a daemon, or renew its lease."""
        now, address = desk.clock(), address_of(request)
        if not desk.registrations.admit(now, f"{address} {publisher}") or not desk.addresses.admit(
            now, address
        ):
            raise HTTPException(429, f"More than {REGISTRATIONS_PER_S} registrations a second.")
        who = {"domain": domain, "daemon": publisher, "principal": _name(principal), "address": address}
        before = desk.directory.find(domain, publisher)
        record = body.record(publisher)
        is_new = before is None or before.record != record
        try:
            entry = desk.directory.register(
                now,
                domain,
                record,
                None if body.udp_port is None else (address, body.udp_port),
                None if body.echo is None else bytes.fromhex(body.echo),
                owner=_name(principal),
                secret=bytes.fromhex(body.secret),
            )
        except DirectoryFullError:
            raise HTTPException(503, "The registry has as many daemons as it may.") from None
        except NotYoursError as error:
            raise _not_yours(desk, error, who) from None
        if is_new:
            notices.DAEMON_REGISTERED(name=body.name, domain=domain, address=address).log(log)
            desk.note("registered" if before is None else "changed", **who, detail=body.name)
            desk.change()
        desk.ask_for_proofs(domain, publisher)
        unproved = {each.target.url: entry.faults[each] for each in entry.unproved if each in entry.faults}
        return RegisteredBody(
            stamp=desk.directory.stamp(domain),
            lease_s=LEASE_S,
            refresh_s=REFRESH_S,
            key=entry.key.hex(),
            unproved=unproved,
        )

    @app.delete("/v1/domains/{domain}/daemons/{publisher}", status_code=204)
    async def leave(request: Request, domain: Domain, publisher: Publisher, principal: Daemon) -> Response:
        """Remove a daemon that says goodbye."""
        who = {
            "domain": domain,
            "daemon": publisher,
            "principal": _name(principal),
            "address": address_of(request),
        }
        owner = None if principal is not None and principal.is_operator else _name(principal)
        try:
            is_gone = desk.directory.leave(domain, publisher, owner)
        except NotYoursError as error:
            raise _not_yours(desk, error, who) from None
        if is_gone:
            desk.note("left", **who)
            desk.change()
        return Response(status_code=204)


def _add_clients(app: FastAPI, desk: Desk) -> None:
    """What clients, consoles and operators ask."""

    async def client(request: Request, domain: Domain) -> None:
        desk.check(request, domain, "client", "daemon")

    async def reader(request: Request, domain: Domain) -> None:
        desk.check(request, domain, "client", "daemon", "viewer")

    async def viewer(request: Request, domain: Domain) -> None:
        desk.check(request, domain, "viewer", "daemon")

    async def operator(request: Request) -> None:
        desk.check(request, None, "operator")

    @app.get(
        "/v1/domains/{domain}/daemons",
        response_model=ListBody,
        responses={304: {"description": "The list has the stamp that was given."}, **_FULL},
        dependencies=[Depends(reader)],
    )
    async def list_daemons(
        domain: Domain,
        since: Annotated[
            int | None, Query(ge=0, le=1 << 63, description="Answer once the list has another stamp.")
        ] = None,
        wait: Annotated[float, Query(ge=0, le=WAIT_S_MAX, description="How many seconds to wait.")] = 0.0,
    ) -> Response:
        """The daemons of a domain, with the addresses that they proved."""
        if since is not None:
            if desk.waiting >= WAITING_MAX:
                raise HTTPException(503, f"{WAITING_MAX} requests wait already.")
            desk.waiting += 1
            try:
                if not await desk.wait_for_change(domain, since, wait):
                    return Response(status_code=304)
            finally:
                desk.waiting -= 1
        return JSONResponse(desk.listing(domain))

    @app.get("/v1/domains/{domain}/locate", dependencies=[Depends(client)], responses=_FULL)
    async def locate(
        request: Request,
        domain: Domain,
        transport: Annotated[
            list[Literal["tcp", "tls", "ws", "wss"]] | None,
            Query(max_length=4, description="How the client can connect."),
        ] = None,
        exclude: Annotated[
            list[Annotated[str, Field(pattern="^[0-9a-f]{16}$")]] | None,
            Query(max_length=64, description="Publishers that failed for this client."),
        ] = None,
        current: Annotated[
            str | None,
            Query(
                pattern="^[0-9a-f]{16}$",
                description="The daemon that the client has, if it looks for a better one.",
            ),
        ] = None,
        version: Annotated[
            str,
            Query(max_length=32, description="The client's version; daemons of another one are left out."),
        ] = shoal.__version__,
    ) -> LocateBody:
        """The daemons for this client, the best first: near ones, with room, that accept a connection now."""
        address = address_of(request)
        if not desk.locates.admit(desk.clock(), address):
            raise HTTPException(
                429, f"More than {LOCATES_PER_S} requests a second.", headers={"Retry-After": "1"}
            )
        without = [*(exclude or ()), *([] if current is None else [current])]
        ranked = desk.directory.rank(
            domain, address, transports=transport or (), exclude=without, version=version
        )
        found = await desk.reached(ranked)
        if not found and current is None:
            why = _nowhere(desk, domain, version)
            raise HTTPException(503, why, headers={"Retry-After": str(RETRY_S)})
        if found and current is None:
            desk.directory.chosen(domain, found[0].record.publisher)
        mine = None if current is None else desk.directory.find(domain, current)
        return LocateBody(
            candidates=[_candidate(each) for each in found],
            current=None if mine is None else mine.record.fullness,
        )

    @app.get(
        "/v1/domains/{domain}/events",
        dependencies=[Depends(viewer)],
        response_class=StreamingResponse,
        responses={
            200: {"content": {"text/event-stream": {}}, "description": "Server-sent events."},
            **_FULL,
        },
    )
    async def events(request: Request, domain: Domain) -> StreamingResponse:
        """Server-sent events: `state` is the list, now and after each change; `load` how busy daemons are."""
        if desk.viewers >= VIEWERS_MAX:
            raise HTTPException(503, f"{VIEWERS_MAX} viewers watch already.")
        return StreamingResponse(_events(desk, request, domain), media_type="text/event-stream")

    @app.get("/v1/audit", dependencies=[Depends(operator)])
    async def audit(
        count: Annotated[int, Query(ge=1, le=1000, description="How many entries.")] = 100,
    ) -> AuditBody:
        """What happened at this registry, the newest first."""
        return AuditBody(entries=desk.audit.recent(limit=count))


async def _events(desk: Desk, request: Request, domain: str) -> AsyncIterator[str]:
    desk.viewers += 1
    try:
        stamp, loads = -1, ""
        while not await request.is_disconnected():
            news = json.dumps(desk.loads(domain))
            if desk.directory.stamp(domain) != stamp:
                stamp, loads = desk.directory.stamp(domain), news
                yield f"event: state\nid: {stamp}\ndata: {json.dumps(desk.listing(domain))}\n\n"
            elif news != loads:
                loads = news
                yield f"event: load\ndata: {loads}\n\n"
            else:
                yield ": here\n\n"
            await desk.wait_for_change(domain, stamp, LOAD_S)
    finally:
        desk.viewers -= 1


def _name(principal: Principal | None) -> str:
    return "" if principal is None else principal.name


def _not_yours(desk: Desk, error: NotYoursError, who: dict[str, str]) -> HTTPException:
    daemon, other = who["daemon"], who["principal"]
    why = f"The daemon {daemon} was registered by {error.owner!r}, and {other!r} may not change it."
    desk.note("refused", **who, detail=why)
    return HTTPException(403, why)


def _candidate(candidate: Candidate) -> CandidateBody:
    record = candidate.record
    return CandidateBody(
        **candidate.endpoint.as_json(), publisher=record.publisher, why=candidate.why, load=record.fullness
    )


def _nowhere(desk: Desk, domain: str, version: str) -> str:
    """Why no daemon is there for a client."""
    records = desk.directory.records(domain)
    if not records:
        return f"No daemon of domain {domain!r} is registered."
    others = {record.version for record in records}
    if version not in others:
        return (
            f"The daemons of domain {domain!r} are version {', '.join(sorted(others))}, the client {version}."
        )
    return (
        f"None of the {len(records)} daemons of domain {domain!r} has a free connection and can be reached."
    )
