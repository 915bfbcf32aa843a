"""How a client and a store prove each other who they are, before a session begins. Waits for nothing.

The client's `hello` names its principal and a fresh number. The store answers with a `challenge`: a fresh
number of its own, and the proof that it knows the client's token. Only then the client proves that it has it
(`prove`). The token itself is never said.
"""

import os
from collections.abc import Callable, Mapping
from typing import Any

from shoal.config.tokens import NONCE_BYTES, Token, transcript_of
from shoal.errors import StoreDeniedError


class Greeting:
    """One client's side of it, for one session after the other. For one thread at a time."""

    def __init__(self, token: Token | None, nonce: Callable[[int], bytes] = os.urandom) -> None:
        self._token, self._random = token, nonce
        self._nonce = b""
        #: Whether the store has proved itself; without a token nothing is asked of it.
        self.is_proven = token is None

    @property
    def principal(self) -> str | None:
        """Whose token it is."""
        return None if self._token is None else self._token.principal

    def hello(self) -> dict[str, Any]:
        """What `hello` says beside everything else."""
        self.is_proven = self._token is None
        if self._token is None:
            return {}
        self._nonce = self._random(NONCE_BYTES)
        return {"principal": self._token.principal, "nonce": self._nonce}

    def prove(self, session: str, challenge: Mapping[str, Any]) -> dict[str, Any]:
        """The answer to a challenge.

        Raises:
            StoreDeniedError: the store did not prove itself.
        """
        nonce, store, run = challenge.get("nonce"), challenge.get("store"), challenge.get("run")
        if self._token is None:
            raise StoreDeniedError(
                "The store asks for a token, and this connection has none: connect(token_file=...), or set "
                "SHOAL_TOKEN_FILE."
            )
        if not isinstance(nonce, bytes) or not isinstance(store, str) or not isinstance(run, str):
            raise self.impostor()
        transcript = transcript_of(self._token.principal, session, store, run, self._nonce, nonce)
        if not self._token.is_known_to(challenge.get("proof"), transcript):
            raise self.impostor()
        self.is_proven = True
        return {"op": "prove", "proof": self._token.proof(transcript)}

    def impostor(self) -> StoreDeniedError:
        """What a store is refused with that proves nothing."""
        return StoreDeniedError(
            f"What answers as a store did not prove that it knows the token of {self.principal!r}. Add the "
            "principal to the store's token file (shoal token new), or find out who poses as the store."
        )
