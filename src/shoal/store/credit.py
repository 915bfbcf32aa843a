"""How much a session may publish for live subscribers before it is stored.

Clients publish a persistent message at once only within this credit; otherwise they send it here first, and
it is live when it is stored. So nothing that the store refuses for room was live. There is no credit while
space is low, and none for topics of subscriptions that refuse messages when they are full. A principal that
access rules bind has none: what a rule denies must not be live either.

A session hears of a change a moment after it. What it published meanwhile is an *overdraft*: the store takes
it without room, and no more of it between two changes than the credit was.
"""

from typing import Any

from shoal.bus.store_protocol import CREDIT_BYTES
from shoal.store.reader import Session
from shoal.store.readers import Readers
from shoal.store.rules import Rules

#: Patterns that sessions are told; if there are more, nothing has credit.
LIMITED_MAX = 1000


class Credit:
    """What sessions are told, and what they overdrew. For one thread at a time."""

    def __init__(self, readers: Readers, rules: Rules) -> None:
        self._readers, self._rules = readers, rules
        self._is_low = False
        self._seen = readers.limits
        self._fields = self._look()
        #: How often it changed.
        self._changes = 0

    def _look(self) -> dict[str, Any]:
        patterns = {
            pattern
            for reader in self._readers
            if reader.is_limited and reader.shape.queue is None
            for pattern in reader.shape.patterns
        }
        if self._is_low or len(patterns) > LIMITED_MAX:
            return {"credit": 0, "limited": []}
        return {"credit": CREDIT_BYTES, "limited": sorted(patterns)}

    def fields(self, session: Session) -> dict[str, Any]:
        """What a session is told."""
        owner = session.owner
        is_bound = self._rules.are_there and not owner.is_operator
        return {"credit": 0, "limited": []} if is_bound else self._fields

    def set_low(self, is_low: bool) -> None:
        """Whether space is low."""
        if is_low != self._is_low:
            self._is_low, self._seen = is_low, -1

    def has_changed(self) -> bool:
        """Whether sessions are to be told."""
        if self._seen == self._readers.limits:
            return False
        self._seen = self._readers.limits
        before, self._fields = self._fields, self._look()
        if self._fields == before:
            return False
        self._changes += 1
        return True

    def overdraw(self, session: Session, size: int) -> bool:
        """Whether to take rows that are live and for which there is no room."""
        if session.overdrawn[0] != self._changes:
            session.overdrawn = (self._changes, 0)
        taken = session.overdrawn[1]
        if taken >= CREDIT_BYTES:
            return False
        session.overdrawn = (self._changes, taken + size)
        return True
