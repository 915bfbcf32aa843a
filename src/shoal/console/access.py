"""Who asks, and whether they may: tokens, sessions, and what protects a session from other pages (CSRF)."""

import hmac
import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Protocol

from fastapi import HTTPException, Request

from shoal.config.tokens import Principal, Token
from shoal.console.sessions import REFUSALS_MAX, Failures, Session, Sessions, is_csrf

#: What roles of the token file may do here, each also what those before it may.
RANKS = {"viewer": 0, "operator": 1, "admin": 2}
CSRF_HEADER = "X-Shoal-CSRF"
_SAFE = ("GET", "HEAD", "OPTIONS")


class Tokens(Protocol):
    """The principals that may log in: a token file, or one token."""

    def check(self, text: str) -> Principal | None:
        """The principal whose token a text is."""

    def find(self, name: object) -> Principal | None:
        """The principal of a name."""

    def refresh(self) -> str | None:
        """Read the file again if it changed; what is wrong with it, if anything is."""


class OneToken:
    """One token of the role admin, for one run of a console on its own machine."""

    def __init__(self) -> None:
        self.token = Token.new("admin")
        self._principal = Principal("admin", "admin", self.token.verifier)

    def check(self, text: str) -> Principal | None:
        """The principal, if the text is the token."""
        return (
            self._principal if hmac.compare_digest(text.strip().encode(), self.token.text.encode()) else None
        )

    def find(self, name: object) -> Principal | None:
        """The principal of a name."""
        return self._principal if name == self._principal.name else None

    def refresh(self) -> str | None:
        """There is no file."""
        return None


@dataclass(frozen=True, slots=True)
class Caller:
    """Who asks."""

    principal: Principal
    address: str
    #: The browser's session; none of a program that shows its token.
    session: Session | None = None

    @property
    def name(self) -> str:
        """The principal's name."""
        return self.principal.name

    @property
    def role(self) -> str:
        """The principal's role."""
        return self.principal.role

    def may(self, role: str) -> bool:
        """Whether the caller's role is enough."""
        return RANKS.get(self.role, -1) >= RANKS[role]


class Access:
    """Decides about requests. For one event loop."""

    def __init__(
        self, tokens: Tokens, cookie: str, *, is_tls: bool, clock: Callable[[], float] = time.monotonic
    ) -> None:
        self.tokens, self.cookie, self._is_tls, self._clock = tokens, cookie, is_tls, clock
        self.sessions, self.failures = Sessions(), Failures()
        self._refusals = Failures(REFUSALS_MAX)

    def log_in(self, request: Request, text: str) -> Session:
        """Begin the session of a token.

        Raises:
            HTTPException: the token is unknown, its role has no use here, or the address failed too often.
        """
        self._check_origin(request, missing_is_fine=True)
        principal = self._principal(address_of(request), text)
        if principal.role not in RANKS:
            raise HTTPException(
                403,
                f"{principal.name!r} has the role {principal.role!r}: a console is for {', '.join(RANKS)}.",
            )
        return self.sessions.begin(self._clock(), principal)

    def _principal(self, address: str, text: str) -> Principal:
        now = self._clock()
        wait_s = self.failures.wait_s(now, address)
        if wait_s > 0:
            raise HTTPException(
                429,
                f"Too many failed logins from {address}: try again in {wait_s:.0f} s.",
                headers={"Retry-After": f"{wait_s:.0f}"},
            )
        principal = self.tokens.check(text)
        if principal is None:
            self.failures.add(now, address)
            raise HTTPException(401, "This token is unknown. `shoal token new` makes one for a token file.")
        self.failures.forget(address)
        return principal

    def caller(self, request: Request) -> Caller:
        """Who asks: by a token that the request shows, or by the session of its cookie.

        Raises:
            HTTPException: the request shows no known token and no session.
        """
        address = address_of(request)
        scheme, _, text = request.headers.get("Authorization", "").partition(" ")
        if scheme:
            if scheme.lower() != "bearer":
                raise HTTPException(401, "Show a token as 'Authorization: Bearer TOKEN', or log in.")
            principal = self._principal(address, text)
            return Caller(principal, address)
        id_ = request.cookies.get(self.cookie, "")
        known = self.tokens.find(self.sessions.name_of(id_))
        session = self.sessions.find(self._clock(), id_, known) if id_ else None
        if session is None:
            raise HTTPException(401, "Log in with a token.")
        return Caller(session.principal, address, session)

    def is_still(self, caller: Caller) -> bool:
        """Whether a caller may go on reading a stream: its token is valid, and its session is not over."""
        known = self.tokens.find(caller.name)
        if caller.session is not None:
            return self.sessions.find(self._clock(), caller.session.id, known) is not None
        return known is not None and known.verifier == caller.principal.verifier and known.role in RANKS

    def check_refusals(self, caller: Caller) -> None:
        """Refuse a caller that was refused too often, before anything is noted."""
        wait_s = self._refusals.wait_s(self._clock(), caller.name)
        if wait_s > 0:
            raise HTTPException(
                429,
                f"Too many acts of {caller.name!r} were refused: try again in {wait_s:.0f} s.",
                headers={"Retry-After": f"{wait_s:.0f}"},
            )

    def refused(self, caller: Caller) -> None:
        """An act of a caller was refused."""
        self._refusals.add(self._clock(), caller.name)

    def check_own_page(self, request: Request, caller: Caller) -> None:
        """Refuse an unsafe request with a cookie that a page of another origin may have caused."""
        if caller.session is None or request.method in _SAFE:
            return
        kind = request.headers.get("Content-Type", "").partition(";")[0].strip().lower()
        if kind != "application/json":
            raise HTTPException(415, "Send application/json.")
        self._check_origin(request)
        if not is_csrf(caller.session, request.headers.get(CSRF_HEADER, "")):
            raise HTTPException(403, f"The header {CSRF_HEADER} must have the session's value.")

    def _check_origin(self, request: Request, *, missing_is_fine: bool = False) -> None:
        origin = request.headers.get("Origin")
        own = f"{'https' if self._is_tls else 'http'}://{request.headers.get('Host', '').lower()}"
        if origin is None and missing_is_fine:
            return
        if origin is None or origin.lower() != own:
            raise HTTPException(403, f"The Origin is {origin!r}, and must be {own!r}.")

    def cookie_options(self) -> dict[str, Any]:
        """How the session's cookie is set."""
        return {"httponly": True, "samesite": "strict", "secure": self._is_tls, "path": "/"}


def cookie_name(port: int, *, is_tls: bool) -> str:
    """Browsers accept `__Host-` only over HTTPS. Cookies do not know ports, so the plain name has it."""
    return "__Host-shoal-console" if is_tls else f"shoal-console-{port}"


def address_of(request: Request) -> str:
    """Where a request came from."""
    return request.client.host if request.client is not None else ""
