"""Logging in and out."""

import asyncio
from typing import Annotated, Any

from fastapi import APIRouter, Depends, Request, Response
from pydantic import BaseModel, Field

import shoal
from shoal.console.access import Caller, address_of
from shoal.console.routes.common import REFUSALS, Body, allowed, console_of

router = APIRouter(prefix="/session", tags=["session"], responses=REFUSALS)


class LoginBody(Body):
    """A token."""

    token: Annotated[str, Field(min_length=1, max_length=1000)]


class SessionBody(BaseModel):
    """Who is logged in."""

    principal: str
    role: str
    #: What unsafe requests show in `X-Shoal-CSRF`; empty for a program that shows its token.
    csrf: str
    domain: str
    version: str
    pages: list[dict[str, Any]]


def _about(request: Request, caller: Caller) -> SessionBody:
    console = console_of(request)
    extensions = request.app.state.extensions
    return SessionBody(
        principal=caller.name,
        role=caller.role,
        csrf="" if caller.session is None else caller.session.csrf,
        domain=console.parts.domain,
        version=shoal.__version__,
        pages=[
            {"name": name, "title": each.title, "module": f"/ext/{name}/page.js"}
            for name, each in extensions.items()
        ],
    )


@router.post("")
async def log_in(request: Request, response: Response, body: LoginBody) -> SessionBody:
    """Log in with a token: sets the session's cookie."""
    console = console_of(request)
    access = console.parts.access
    session = access.log_in(request, body.token)
    caller = Caller(session.principal, address_of(request), session)
    await asyncio.to_thread(console.note, caller, "login", caller.name, result="done")
    response.set_cookie(access.cookie, session.id, **access.cookie_options())
    return _about(request, caller)


@router.get("")
async def who(request: Request, caller: Annotated[Caller, Depends(allowed("viewer"))]) -> SessionBody:
    """Who is logged in, and what its page needs to know."""
    return _about(request, caller)


@router.delete("", status_code=204)
async def log_out(request: Request, caller: Annotated[Caller, Depends(allowed("viewer"))]) -> Response:
    """End the session."""
    console = console_of(request)
    if caller.session is not None:
        console.parts.access.sessions.end(caller.session.id)
    await asyncio.to_thread(console.note, caller, "logout", caller.name, result="done")
    response = Response(status_code=204)
    response.delete_cookie(console.parts.access.cookie, **console.parts.access.cookie_options())
    return response
