"""Skips that follow each other are said as one."""

from __future__ import annotations

from typing import TYPE_CHECKING

from .chain import Chain, To
from .records import Own, Skip, Why

if TYPE_CHECKING:
    from .router import Router

#: A clock that no node has reached.
NEVER = 10**9


class SkipRun:
    """A run of skips of one kind, decided under one clock."""

    def __init__(self, router: Router, chain: Chain, to: To) -> None:
        self._router, self._chain, self._to = router, chain, to
        self._first = self._end = 0
        self._kind: tuple[Why, int] = ("unwanted", 0)

    def add(self, number: int, why: Why, clock: int) -> None:
        """One more number."""
        if self._first and self._end == number and self._kind == (why, clock):
            self._end = number + 1
            return
        self.end()
        self._first, self._end, self._kind = number, number + 1, (why, clock)

    def end(self) -> None:
        """Say it."""
        if not self._first:
            return
        router, chain, to = self._router, self._chain, self._to
        assert chain.root is not None
        why, decided = self._kind
        clock: int | Own = decided
        if to.asker is not None and router.rules.unicast_version:
            applied_at, version = router.own_applied.get((to.link, to.asker), (NEVER, 0))
            clock = Own(version if applied_at <= decided else 0)
        digest = router.tree(chain.root).digest
        router.say(to, Skip(chain.publisher, self._first, self._end, why, clock, digest, chain.root))
        self._first = 0
