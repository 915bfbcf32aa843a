"""Alarms, daemons of hosts, tokens and the audit log."""

import asyncio
import time
from typing import Annotated, Any, Literal

from fastapi import APIRouter, Depends, HTTPException, Query, Request
from pydantic import Field

from shoal.config.tokens import (
    Principal,
    Principals,
    Token,
    day_of,
    is_principal,
    read_principals,
    write_principals,
)
from shoal.console.access import RANKS, Caller
from shoal.console.hosts import Hosts
from shoal.console.routes.common import REFUSALS, Body, Confirm, Name, allowed, confirmed, console_of
from shoal.web.audit import verify

router = APIRouter(responses=REFUSALS)

Viewer = Annotated[Caller, Depends(allowed("viewer"))]
Operator = Annotated[Caller, Depends(allowed("operator"))]
Admin = Annotated[Caller, Depends(allowed("admin"))]


class AcknowledgeBody(Body):
    """An alarm."""

    key: Annotated[str, Field(min_length=1, max_length=600)]


class OrderBody(Body):
    """An order to a host."""

    host: Name
    daemon: Name
    order: Literal["start", "stop", "reload"]
    confirm: Confirm = ""


class TokenBody(Body):
    """A principal that is to get a token."""

    principal: Annotated[str, Field(min_length=1, max_length=64)]
    role: Literal["viewer", "operator", "admin", "client", "daemon"] = "viewer"
    expires: Annotated[
        str | None, Field(pattern=r"^\d{4}-\d{2}-\d{2}$", description="The last day (UTC); none is for ever.")
    ] = None


class RevokeBody(Body):
    """A principal whose token goes."""

    principal: Annotated[str, Field(min_length=1, max_length=64)]
    confirm: Confirm = ""


@router.post("/alarms/acknowledge", tags=["alarms"])
async def acknowledge(request: Request, caller: Operator, body: AcknowledgeBody) -> dict[str, Any]:
    """Say that an alarm is known. It stays in the list while it is active."""
    console = console_of(request)
    if not console.picture.acknowledge(time.time(), body.key, caller.name):
        raise HTTPException(404, "There is no such alarm.")
    console.wake()
    await asyncio.to_thread(console.note, caller, "acknowledge", body.key, result="done")
    return {}


def _hosts(request: Request) -> Hosts:
    hosts = console_of(request).parts.hosts
    if hosts is None:
        raise HTTPException(503, "This console has no connection.")
    return hosts


@router.get("/hosts", tags=["hosts"])
def hosts(request: Request, caller: Viewer) -> dict[str, Any]:
    """The hosts whose keys the console has, with the daemons of their directories."""
    return {"hosts": _hosts(request).daemons(caller.name)}


@router.get("/hosts/log", tags=["hosts"])
def host_log(
    request: Request,
    caller: Operator,
    host: Annotated[str, Query(min_length=1, max_length=255)],
    daemon: Annotated[str, Query(min_length=1, max_length=255)],
) -> dict[str, Any]:
    """The last lines of a daemon's log, and what is wrong with its file, if anything is."""
    asked = _hosts(request)
    told = asked.order(host, "log", daemon, caller.name)
    try:
        check = asked.order(host, "check", daemon, caller.name)
        wrong = ""
    except LookupError as error:
        check, wrong = {}, str(error)
    return {"lines": [str(line) for line in told.get("lines", [])], "check": check, "wrong": wrong}


@router.post("/hosts/order", tags=["hosts"])
async def order(request: Request, caller: Admin, body: OrderBody) -> dict[str, Any]:
    """Start, stop or reload a daemon."""
    asked = _hosts(request)
    if body.order == "stop":
        confirmed(body.daemon, body.confirm)

    def do() -> dict[str, Any]:
        return {"daemon": asked.order(body.host, body.order, body.daemon, caller.name).get("daemon")}

    return await console_of(request).act(caller, body.order, f"{body.host}/{body.daemon}", do)


def _file(request: Request) -> Principals:
    tokens = console_of(request).parts.access.tokens
    if not isinstance(tokens, Principals):
        raise HTTPException(404, "This console has no token file. Start it with --tokens FILE.")
    return tokens


@router.get("/tokens", tags=["tokens"])
def tokens(request: Request, _caller: Admin) -> dict[str, Any]:
    """The principals of the token file."""
    found = read_principals(_file(request).path)
    return {"principals": [_principal(each) for each in found], "roles": list(RANKS)}


def _principal(found: Principal) -> dict[str, Any]:
    return {
        "name": found.name,
        "role": found.role,
        "domains": list(found.domains),
        "expires": None if found.expires is None else found.expires.isoformat(),
        "expired": found.is_expired(time.time()),
    }


@router.post("/tokens/new", tags=["tokens"])
async def new_token(request: Request, caller: Admin, body: TokenBody) -> dict[str, Any]:
    """Make a token for a new principal. The answer has it; nothing else keeps it."""
    file, made = _file(request), Token.new(body.principal)
    expires = None if body.expires is None else day_of(body.expires, "expires")

    def do() -> dict[str, Any]:
        known = read_principals(file.path)
        if any(each.name == body.principal for each in known):
            raise HTTPException(409, f"{body.principal!r} has a token: revoke it first.")
        write_principals(
            file.path, [*known, Principal(body.principal, body.role, made.verifier, (), expires)]
        )
        file.refresh()
        return {}

    await console_of(request).act(caller, "token new", f"{body.principal} ({body.role})", do)
    return {"principal": body.principal, "role": body.role, "token": made.text}


@router.post("/tokens/revoke", tags=["tokens"])
async def revoke_token(request: Request, caller: Admin, body: RevokeBody) -> dict[str, Any]:
    """Revoke a principal's token. Its sessions end at once."""
    file = _file(request)
    confirmed(body.principal, body.confirm)
    if body.principal == caller.name:
        raise HTTPException(409, "This is your own token: another admin can revoke it.")

    def do() -> dict[str, Any]:
        known = read_principals(file.path)
        if not is_principal(body.principal) or all(each.name != body.principal for each in known):
            raise HTTPException(404, f"There is no principal {body.principal!r}.")
        write_principals(file.path, [each for each in known if each.name != body.principal])
        file.refresh()
        return {}

    return await console_of(request).act(caller, "token revoke", body.principal, do)


@router.get("/audit", tags=["audit"])
def audit(
    request: Request,
    _caller: Admin,
    before: Annotated[int | None, Query(ge=1, le=1 << 60)] = None,
    limit: Annotated[int, Query(ge=1, le=1000)] = 200,
) -> dict[str, Any]:
    """The last acts, the newest first."""
    return {"rows": console_of(request).parts.audit.recent(before, limit)}


@router.get("/audit/verify", tags=["audit"])
def verify_audit(request: Request, _caller: Admin) -> dict[str, Any]:
    """Check the hash chain of the whole audit log."""
    path = console_of(request).parts.audit.path
    assert path is not None, "a console keeps a file"
    found = verify(path)
    return {
        "lines": found.lines,
        "last_hash": found.last_hash,
        "whole": not found.wrong_line,
        "wrong_line": found.wrong_line,
        "why": found.why,
    }
