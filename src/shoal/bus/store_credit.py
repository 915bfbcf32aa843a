"""When persistent messages reach live subscribers: at once within the store's credit, otherwise once stored.

So a message that the store refuses was never live, and a program that sends it again does not double it. The
store says how many bytes may be live and not stored, which topics it keeps, and which it may refuse for room:
subscriptions with a limit read them. It takes what was live within its credit, whether it has room or not.
Without a session there is no credit, and messages wait for the store. So do last values, which it may have no
room for.
"""

from collections import deque
from collections.abc import Callable, Mapping
from typing import Any

from shoal._core import match_topics, split_rows
from shoal.bus.store_protocol import keeps
from shoal.errors import FullError, InvalidTopicError

#: Topics of which it is remembered whether the store may refuse them; when there are more, all are forgotten.
TOPICS_MAX = 4096

#: Publishes rows for live subscribers, which were as old as they say at a time, marked as redelivered or not;
#: raises `FullError` if their link has no room now.
Publish = Callable[[bytes, float, bool], None]


class Credit:
    """What a store lets a connection publish before it is stored. May be shared between threads."""

    def __init__(
        self, bytes_max: int = 0, limited: tuple[str, ...] = (), patterns: tuple[str, ...] = (">",)
    ) -> None:
        self._bytes_max, self._limited, self._patterns = bytes_max, list(limited), patterns
        self._covers_all = not limited and ">" in patterns
        self._known: dict[str, bool] = {}

    @staticmethod
    def of(body: Mapping[str, Any], patterns: object) -> "Credit":
        """What a store said, which keeps these patterns; none if that makes no sense."""
        size, limited = body.get("credit"), body.get("limited")
        kept = patterns if isinstance(patterns, list) else [">"]
        if not isinstance(size, int) or not isinstance(limited, list):
            return NO_CREDIT
        try:
            match_topics([*limited, *kept], [])
        except (InvalidTopicError, TypeError, ValueError):
            return NO_CREDIT
        return Credit(size, tuple(limited), tuple(kept))

    def covers(self, topic: str, unstored_bytes: int) -> bool:
        """Whether a message may be live before it is stored, with these bytes not stored yet."""
        if unstored_bytes >= self._bytes_max:
            return False
        if self._covers_all:
            return True
        known = self._known.get(topic)
        if known is None:
            if len(self._known) >= TOPICS_MAX:
                self._known.clear()
            is_limited = bool(self._limited) and bool(match_topics(self._limited, [topic]))
            known = self._known[topic] = not is_limited and keeps(self._patterns, topic)
        return known


#: Before a store said anything.
NO_CREDIT = Credit()


class StoredRows:
    """Rows that are stored and not live yet, in order. For one thread at a time."""

    def __init__(self, publish: Publish | None) -> None:
        self._publish = publish
        self._rows: deque[tuple[int, bytes, float, bool]] = deque()
        self.bytes = 0

    def __bool__(self) -> bool:
        return bool(self._rows)

    @property
    def first(self) -> int:
        """The number of the first one."""
        return self._rows[0][0]

    def add(self, rows: bytes, after: int, at: float, *, repeated: bool) -> None:
        """Rows are stored; those up to a number were live before.

        They were as old as they say at a time. The store may have published rows that were sent `repeated`ly,
        when it missed this client.
        """
        if self._publish is not None:
            for number, row in split_rows(rows):
                if number > after:
                    self._rows.append((number, row, at, repeated))
                    self.bytes += len(row)

    def repeat(self) -> None:
        """Mark all: the store may have published them, when it missed this client."""
        self._rows = deque((number, row, at, True) for number, row, at, _ in self._rows)

    def publish(self) -> None:
        """Publish as many as live subscribers have room for."""
        while self._rows and self._publish is not None:
            try:
                self._publish(*self._rows[0][1:])
            except FullError:
                return
            self.bytes -= len(self._rows.popleft()[1])

    def clear(self) -> None:
        """Publish none of them."""
        self._rows.clear()
        self.bytes = 0
