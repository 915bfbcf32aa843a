"""Losses on their way into the log: what members of the domain tell, until there is room to note it."""

import logging
from typing import Protocol

from shoal.bus.events import Event, EventsDropped, MessagesLost
from shoal.messages import store as notices

log = logging.getLogger("shoal.store")

#: Losses that may wait for room in the log; beyond, they are only counted.
LOSSES_MAX = 10_000

#: Publisher, chain, first and last number as far as they are known, how many messages.
Loss = tuple[int, int, int | None, int | None, int]


def loss_of(event: Event) -> Loss | None:
    """What an event says is lost; none if nothing is."""
    if isinstance(event, MessagesLost):
        known = event.first > 0 and event.last > 0
        count = event.last - event.first + 1 if known else event.segments
        return event.publisher or event.node, event.chain, event.first or None, event.last or None, count
    if isinstance(event, EventsDropped):
        # Losses may have been among what nobody will hear of: whose, and how many, is not known.
        return 0, 0, None, None, 0
    return None


class GapLog(Protocol):
    """Where losses are noted."""

    def gap(self, publisher: int, chain: int, first: int | None, last: int | None, count: int, /) -> None:
        """Note that messages are lost."""


class Losses:
    """What is lost and not noted yet. For one thread at a time."""

    def __init__(self, most: int = LOSSES_MAX) -> None:
        self._most = most
        self._waiting: list[Loss] = []
        #: How many losses did not fit, and their messages. They become one gap record of publisher 0.
        self._others = (0, 0)

    @property
    def waiting(self) -> int:
        """How many losses are not in the log yet."""
        return len(self._waiting) + self._others[0]

    def add(self, loss: Loss) -> None:
        """Take a loss in."""
        if len(self._waiting) < self._most:
            self._waiting.append(loss)
            return
        events, messages = self._others
        if not events:
            notices.LOSSES_MERGED(losses=self._most).log(log)
        self._others = (events + 1, messages + loss[-1])

    def note(self, to: GapLog) -> None:
        """Note all of them, in their order; what raises leaves the rest for another time."""
        while self._waiting:
            to.gap(*self._waiting[0])
            self._waiting.pop(0)
        if self._others[0]:
            to.gap(0, 0, None, None, self._others[1])
            self._others = (0, 0)
