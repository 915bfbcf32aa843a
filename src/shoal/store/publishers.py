"""Which client sends as which publisher: the first one does, and after it every session that has its key.

A publisher's id is on each of its messages. If another client could send under it, the store would take the
publisher's next messages for ones that it has.
"""

import hashlib

from shoal.store.core import Core
from shoal.store.reader import Session
from shoal.store.requests import Request, RequestError


def owner_of(key: str | None) -> int:
    """What the log keeps of a key; 0 if there is none."""
    if key is None:
        return 0
    return int.from_bytes(hashlib.sha256(key.encode()).digest()[:8], "little") | 1


class Publishers:
    """The owners of chains. For one thread at a time."""

    def __init__(self, core: Core) -> None:
        self._core = core
        #: Owners of chains that begin in this turn.
        self._beginning: dict[tuple[int, int], int] = {}

    def begin_turn(self) -> None:
        """The log knows the owners of the last turn, or refused its rows."""
        self._beginning.clear()

    def check(self, session: Session, request: Request, publisher: int, chain: int) -> int:
        """The owner of a chain that a session sends; refuses one that another client began."""
        if request.has("key"):
            owner = owner_of(request.text("key"))
        elif publisher == session.publisher:
            owner = session.key
        else:
            raise RequestError(
                "BAD_REQUEST",
                f"the session is of publisher {session.publisher:016x}: another one needs a key",
            )
        known = self._beginning.get((publisher, chain)) or self._core.log.chain_owner(publisher, chain)
        if known not in (0, owner):
            raise RequestError(
                "IN_USE",
                f"another client sends as publisher {publisher:016x}: connect again; an outbox that was "
                "copied needs a directory of its own",
            )
        return owner

    def begin(self, publisher: int, chain: int, owner: int) -> None:
        """Rows of a chain are part of this turn."""
        if owner:
            self._beginning[publisher, chain] = owner
