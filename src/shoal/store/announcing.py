"""Answers to clients that subscribe wait until publishers of the domain know what the store hears for them.

So a client that was told that it subscribes misses nothing that is published from then on. Whatever else is
for the same client waits behind its answer; other clients do not.
"""

from collections import deque
from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Any

from shoal._core import Node
from shoal.errors import ShoalError

#: An answer waits no longer for members that do not say that they know.
KNOWN_S = 5.0
#: How often it is looked whether they do.
LOOK_S = 0.001

#: Sessions, and what goes to them.
Outgoing = list[tuple[str, dict[str, Any]]]


@dataclass
class _Wait:
    """Until members know what was announced, or do not say so in time."""

    flush: int
    until_s: float
    sessions: set[str] = field(default_factory=set)


class Announcing:
    """What waits to be told. For one thread at a time."""

    def __init__(self, node: Node) -> None:
        self._node = node
        self._waits: deque[_Wait] = deque()
        self._held: dict[str, Outgoing] = {}

    @property
    def is_waiting(self) -> bool:
        """Whether an answer waits."""
        return bool(self._waits)

    def begin(self, now_s: float, sessions: Iterable[str], *, is_new: bool) -> None:
        """Sessions subscribed; `is_new` if the store hears something for them that it did not hear before."""
        waiting = set(sessions)
        if not waiting or not (is_new or self._waits):
            return
        if is_new:
            try:
                self._waits.append(_Wait(self._node.begin_sync(), now_s + KNOWN_S))
            except ShoalError:
                # Nobody is there to know.
                return
        self._waits[-1].sessions |= waiting
        for session in waiting:
            self._held.setdefault(session, [])

    def admit(self, outgoing: Outgoing) -> Outgoing:
        """What goes out now; the rest waits."""
        if not self._held:
            return outgoing
        now: Outgoing = []
        for session, body in outgoing:
            self._held.get(session, now).append((session, body))
        return now

    def poll(self, now_s: float) -> Outgoing:
        """What needs to wait no longer."""
        released: Outgoing = []
        while self._waits and (self._is_known(self._waits[0]) or now_s >= self._waits[0].until_s):
            wait = self._waits.popleft()
            self._node.end_flush(wait.flush)
            still = set().union(*(each.sessions for each in self._waits))
            for session in wait.sessions - still:
                released += self._held.pop(session, [])
        return released

    def _is_known(self, wait: _Wait) -> bool:
        try:
            return self._node.poll_flush(wait.flush) is not None
        except ShoalError:
            return True

    def end(self) -> Outgoing:
        """The store closes: everything goes out."""
        for wait in self._waits:
            self._node.end_flush(wait.flush)
        self._waits.clear()
        held, self._held = self._held, {}
        return [each for waiting in held.values() for each in waiting]
