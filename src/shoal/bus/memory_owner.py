"""Who has the queues in memory, where a domain has no store. Decides; waits for nothing, sends nothing.

Members that need them stand for it and say so. After a while the one with the highest hash of term and member
has them, opens a store in memory and says that it is here, under a term one higher than any before. It stays
while it lives; when it is gone, the others begin again, with the next term. What it had is gone with it.
"""

import hashlib
from collections.abc import Mapping
from typing import Any, Literal

#: Where candidates say so.
OWNER = "_store/owner"
#: How long others may stand, too, before it is decided; how often it is said.
STAND_S, SAY_EVERY_S = 1.0, 0.25
#: A member that said nothing for this time is no candidate any more.
SILENT_S = 1.0
#: Members that stand at once, of which one knows; and the highest term.
OTHERS_MAX, TERM_MAX = 10_000, 1 << 62


class Election:
    """One member's view. For one thread at a time."""

    def __init__(self, domain: str, publisher: int) -> None:
        self._domain, self._publisher = domain, publisher
        #: The highest term that was heard of.
        self.term = 0
        self._began: float | None = None
        self._say_at = 0.0
        self._others: dict[int, float] = {}

    @property
    def stands(self) -> bool:
        """Whether this member stands."""
        return self._began is not None

    def stand(self, now: float) -> None:
        """Begin to stand, unless it does already."""
        if self._began is None:
            self._began, self._say_at = now, now

    def withdraw(self) -> None:
        """There is an owner, or no program needs one any more."""
        self._began = None

    def on_owner(self, term: int) -> None:
        """There is an owner, or was."""
        self.term = max(self.term, term)

    def on_stand(self, now: float, body: Mapping[str, Any]) -> None:
        """Another member stands."""
        publisher, term = body.get("publisher"), body.get("term")
        if not isinstance(publisher, int) or not isinstance(term, int) or not 0 < term < TERM_MAX:
            return
        if publisher != self._publisher and (publisher in self._others or len(self._others) < OTHERS_MAX):
            self._others[publisher] = now
        # A candidate for a term knows of the one before.
        self.term = max(self.term, term - 1)

    def said(self) -> dict[str, int]:
        """What to say of oneself."""
        return {"publisher": self._publisher, "term": self.term + 1}

    def poll(self, now: float, *, alone: bool = False) -> Literal["say", "own"] | None:
        """What to do now: say that one stands, or be the owner; at once for a member that is `alone`."""
        if self._began is None:
            return None
        self._others = {who: at for who, at in self._others.items() if now - at < SILENT_S}
        if alone or now - self._began >= STAND_S:
            if self._publisher == max([self._publisher, *self._others], key=self._weight):
                self._began, self.term = None, self.term + 1
                return "own"
            # Another member is to be it, or is gone by the next time.
            self._began = now
        if now >= self._say_at:
            self._say_at = now + SAY_EVERY_S
            return "say"
        return None

    def poll_timeout(self) -> float | None:
        """When to look again."""
        return None if self._began is None else min(self._say_at, self._began + STAND_S)

    def _weight(self, publisher: int) -> bytes:
        return hashlib.sha256(f"{self._domain}/{self.term + 1}/{publisher}".encode()).digest()
