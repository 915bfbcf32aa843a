"""Who is logged in: sessions of browsers, and the failures that are refused for a while.

Sees no network and no clock.

A session belongs to a principal of the token file. It ends after `IDLE_S` without a request, after `LIFE_S`
in any case, when its principal logs out, and when the file does not know the principal's token any more.
"""

import hmac
import secrets
from collections import OrderedDict, deque
from dataclasses import dataclass

from shoal.config.tokens import Principal

#: How long a session lasts without a request, and at the most.
IDLE_S, LIFE_S = 8 * 3600.0, 24 * 3600.0
#: Sessions at once; the one that was used least recently gives way.
SESSIONS_MAX = 1000
#: Failed logins of one address within a minute, before it has to wait; and addresses that are remembered.
FAILURES_MAX, FAILURES_S, ADDRESSES_MAX = 5, 60.0, 10_000
#: Refused acts of one principal within a minute, before all its acts are refused for a while: each is a line
#: of the audit log.
REFUSALS_MAX = 60


@dataclass(slots=True)
class Session:
    """A browser that is logged in."""

    id: str
    csrf: str
    principal: Principal
    began_s: float
    used_s: float


class Sessions:
    """All sessions. For one thread at a time."""

    def __init__(self) -> None:
        self._sessions: OrderedDict[str, Session] = OrderedDict()

    def begin(self, now_s: float, principal: Principal) -> Session:
        """A principal logged in."""
        session = Session(secrets.token_urlsafe(32), secrets.token_urlsafe(32), principal, now_s, now_s)
        self._sessions[session.id] = session
        if len(self._sessions) > SESSIONS_MAX:
            self._sessions.popitem(last=False)
        return session

    def find(self, now_s: float, id_: str, known: Principal | None) -> Session | None:
        """The session of a cookie; `known` is the principal of its name in the token file now."""
        session = self._sessions.get(id_)
        if session is None:
            return None
        is_over = now_s - session.used_s > IDLE_S or now_s - session.began_s > LIFE_S
        is_other = known is None or known.verifier != session.principal.verifier
        if is_over or is_other or known is None:
            del self._sessions[id_]
            return None
        session.used_s, session.principal = now_s, known
        self._sessions.move_to_end(id_)
        return session

    def name_of(self, id_: str) -> str | None:
        """Whose session it is, if there is one."""
        session = self._sessions.get(id_)
        return None if session is None else session.principal.name

    def end(self, id_: str) -> None:
        """A principal logged out."""
        self._sessions.pop(id_, None)

    def __len__(self) -> int:
        return len(self._sessions)


def is_csrf(session: Session, shown: str) -> bool:
    """Whether a request shows the session's value, which pages of other origins cannot read."""
    return hmac.compare_digest(session.csrf.encode(), shown.encode())


class Failures:
    """Failures by address, or by principal: after so many within a minute it has to wait. Bounded."""

    def __init__(self, most: int = FAILURES_MAX) -> None:
        self._most = most
        self._of: OrderedDict[str, deque[float]] = OrderedDict()

    def wait_s(self, now_s: float, address: str) -> float:
        """How long an address has to wait before it may try again; 0 if it need not."""
        times = self._of.get(address, ())
        recent = [at for at in times if now_s - at < FAILURES_S]
        return FAILURES_S - (now_s - recent[0]) if len(recent) >= self._most else 0.0

    def add(self, now_s: float, address: str) -> None:
        """An address failed."""
        self._of.setdefault(address, deque(maxlen=self._most)).append(now_s)
        self._of.move_to_end(address)
        if len(self._of) > ADDRESSES_MAX:
            self._of.popitem(last=False)

    def forget(self, address: str) -> None:
        """An address logged in."""
        self._of.pop(address, None)
