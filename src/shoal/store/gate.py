"""Who may speak with a store: a session names its principal, and proves it about a fresh number. Sans-IO.

A challenge is good for one answer, for `PATIENCE_S`. Of a principal that there is none of, a challenge looks
as any other.
"""

import os
from collections.abc import Callable
from typing import Any, Literal, NamedTuple

from shoal.config.tokens import NONCE_BYTES, STORE_ROLES, Principal, Principals, is_principal, transcript_of
from shoal.store.requests import Request, RequestError

#: How long a client may take to prove itself.
PATIENCE_S = 10.0
#: Challenges that are not answered, at the most; the oldest goes first.
CHALLENGES_MAX = 10_000

#: How a request came: from this process, by a door of the store's own, or on the domain's bus.
Via = Literal["inside", "door", "domain"]


class Challenge(NamedTuple):
    """A session that is to prove itself."""

    peer: int
    principal: Principal
    is_known: bool
    transcript: bytes
    hello: Request
    until_s: float


class Gate:
    """The gate of one run of a store. For one thread at a time."""

    def __init__(
        self,
        principals: Principals,
        store: str,
        run: str,
        random: Callable[[int], bytes] = os.urandom,
    ) -> None:
        self._principals, self._store, self._run, self._random = principals, store, run, random
        self._challenges: dict[str, Challenge] = {}
        #: Sessions that were refused.
        self.denied = 0

    def challenge(self, now_s: float, session: str, peer: int, hello: Request) -> dict[str, Any]:
        """What to answer to `hello`.

        Raises:
            RequestError: it names no principal.
        """
        name, nonce = hello.get("principal"), hello.get("nonce")
        if not is_principal(name) or not isinstance(nonce, bytes) or len(nonce) != NONCE_BYTES:
            self.denied += 1
            raise RequestError(
                "DENIED",
                "The store asks for a token, and this connection shows none. Give it one: "
                "connect(token_file=...), or set SHOAL_TOKEN_FILE.",
            )
        principal, is_known = self._principals.find_or_nobody(name)
        mine = self._random(NONCE_BYTES)
        transcript = transcript_of(str(name), session, self._store, self._run, nonce, mine)
        if len(self._challenges) >= CHALLENGES_MAX:
            del self._challenges[next(iter(self._challenges))]
        self._challenges.pop(session, None)
        self._challenges[session] = Challenge(
            peer, principal, is_known, transcript, hello, now_s + PATIENCE_S
        )
        proof = principal.verifier.proof(transcript)
        return {"nonce": mine, "proof": proof, "store": self._store, "run": self._run}

    def prove(self, now_s: float, session: str, peer: int, proof: object) -> tuple[Principal, Request]:
        """Whose session it is, and the `hello` that it began with; a challenge is over with its answer.

        Raises:
            RequestError: it proves nothing.
        """
        found = self._challenges.get(session)
        if found is not None and found.peer == peer:
            del self._challenges[session]
            is_its = found.principal.verifier.accepts(proof, found.transcript)
            if is_its and found.is_known and now_s < found.until_s:
                _check_role(found.principal)
                return found.principal, found.hello
        self.denied += 1
        raise RequestError(
            "DENIED", "The token is wrong: use one that `shoal token new` added to this store's token file."
        )


def _check_role(principal: Principal) -> None:
    if principal.role not in STORE_ROLES:
        raise RequestError(
            "DENIED",
            f"{principal.name!r} is {principal.role!r}, which is for registries: a store serves "
            f"{' and '.join(STORE_ROLES)}.",
        )
