"""What routes share: who asks, and errors as answers."""

from collections.abc import Awaitable, Callable
from typing import Annotated, Any

from fastapi import HTTPException, Request
from pydantic import BaseModel, ConfigDict, Field

from shoal.console.access import Caller
from shoal.console.console import Console
from shoal.errors import (
    ConfigError,
    FullError,
    HistoryError,
    InUseError,
    InvalidDestinationError,
    InvalidSelectorError,
    InvalidTopicError,
    NoReplyError,
    ShoalError,
    StoreDeniedError,
    StoreUnavailableError,
)

Name = Annotated[str, Field(min_length=1, max_length=255)]
Selector = Annotated[str | None, Field(max_length=10_000, description="As in JMS; none selects everything.")]
Confirm = Annotated[
    str,
    Field(max_length=255, description="The name once more: an operator types it before something is lost."),
]
#: Answers beside the one that is described.
REFUSALS: dict[int | str, dict[str, Any]] = {
    400: {"description": "A name, a selector or a time is wrong."},
    401: {"description": "No user is logged in, and the request has no known token."},
    403: {
        "description": "The caller's role is not enough, or the request is not from the console's own page."
    },
    404: {"description": "There is no such thing."},
    409: {"description": "It is in use, or the name was not confirmed."},
    413: {"description": "The body is too long."},
    415: {"description": "The body is no JSON."},
    421: {"description": "The console has another name."},
    429: {"description": "Too many failed logins, or refused acts."},
    503: {"description": "A store, a host or the audit log does not answer."},
}
_STATUS: tuple[tuple[type[Exception], int], ...] = (
    (InvalidDestinationError, 404),
    (InvalidSelectorError, 400),
    (InvalidTopicError, 400),
    (StoreDeniedError, 403),
    (InUseError, 409),
    (FullError, 503),
    (NoReplyError, 503),
    (HistoryError, 400),
    (StoreUnavailableError, 503),
    (ConfigError, 400),
    (ShoalError, 503),
    (ValueError, 400),
)


class Body(BaseModel):
    """A request's body: fields that are not known are refused."""

    model_config = ConfigDict(extra="forbid", strict=True)


def console_of(request: Request) -> Console:
    """The console of a request."""
    console: Console = request.app.state.console
    return console


def allowed(role: str) -> Callable[[Request], Awaitable[Caller]]:
    """A dependency: the caller, if the role is enough. A refused act is noted in the audit log."""

    async def check(request: Request) -> Caller:
        console = console_of(request)
        access = console.parts.access
        caller = access.caller(request)
        if request.method != "GET":
            access.check_refusals(caller)
        try:
            access.check_own_page(request, caller)
            if not caller.may(role):
                raise HTTPException(
                    403, f"{caller.name!r} is {caller.role!r}, and must be {role!r} for this."
                )
        except HTTPException as refusal:
            if request.method != "GET":
                access.refused(caller)
                act = request.url.path.removeprefix("/api/v1/")
                console.note(caller, act, await _target(request), result=f"refused: {refusal.detail}")
            raise
        return caller

    return check


async def _target(request: Request) -> str:
    """What a refused request was about."""
    try:
        body = await request.json()
    except ValueError:
        return ""
    if not isinstance(body, dict):
        return ""
    return str(
        next((body[name] for name in ("name", "topic", "key", "daemon", "principal") if name in body), "")
    )[:255]


def confirmed(name: str, typed: str) -> None:
    """Refuse what loses something unless its name was typed."""
    if name != typed:
        raise HTTPException(409, f"Type the name {name!r} to confirm.")


def status_of(error: Exception) -> int:
    """The status of an answer that an error becomes."""
    return next(status for kind, status in _STATUS if isinstance(error, kind))
