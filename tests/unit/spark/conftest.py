"""A history small enough to be read at a glance, for what decides about offsets, limits and losses."""

import pytest

from shoal.errors import HistoryError, StoreUnavailableError
from shoal.spark import store, topics


class FakeHistory:
    """Topics in the order of their offsets; what a client of a real store can ask about them."""

    def __init__(self):
        self.topics_stored = []
        self.floor = 0
        self.incarnation = "one"
        self.domain = "d"
        self.failures = 0
        self.held = {}
        self.calls = []
        self.gaps_stored = []

    def lose(self, offset, number):
        """A message that would have been before an offset is missing."""
        gap = {"after_offset": offset - 1, "publisher": "p", "chain": 1, "count": 1}
        gap |= {"stored_us": 0, "reason": "lost"}
        self.gaps_stored.append(gap | {"first": number, "last": number})

    def gaps(self, *, start, end, incarnation):
        self._matching({"start": start, "end": end, "incarnation": incarnation, "topics": []})
        return [gap for gap in self.gaps_stored if start <= gap["after_offset"] + 1 <= end]

    def store(self, *names):
        self.topics_stored += names

    def _matching(self, query):
        self.calls.append(query)
        if self.failures:
            self.failures -= 1
            raise StoreUnavailableError("gone")
        if query.get("incarnation", self.incarnation) != self.incarnation:
            raise HistoryError("INCARNATION", "another store", {"incarnation": self.incarnation})
        if query["start"] < self.floor:
            raise HistoryError("TRIMMED", "too late", {"floor": self.floor})
        end = len(self.topics_stored) if query.get("end") is None else query["end"]
        offsets = range(query["start"], min(end, len(self.topics_stored)))
        return [
            at for at in offsets if any(topics.matches(p, self.topics_stored[at]) for p in query["topics"])
        ]

    def info(self):
        if self.failures:
            self.failures -= 1
            raise StoreUnavailableError("gone")
        end = len(self.topics_stored)
        return {"incarnation": self.incarnation, "floor": self.floor, "end": end, "domain": self.domain}

    def latest(self, *, max_rows=None, max_bytes=None, **query):
        found = self._matching(query)[:max_rows]
        high = len(self.topics_stored)
        return {"end": found[-1] + 1 if found else query["start"], "rows": len(found), "high": high}

    def wait(self, *, timeout_s, start, **query):
        if start == "latest":
            return None
        return self.latest(start=start, **query)

    def plan(self, *, partitions, rows_max, **query):
        found = self._matching(query)
        parts = max(partitions, -(-len(found) // rows_max))
        cuts = [found[len(found) * part // parts] for part in range(parts)] if found else []
        return [(first, end, 1) for first, end in zip(cuts, [*cuts[1:], query["end"]], strict=True)]

    def topics(self, pattern):
        return [{"topic": topic} for topic in sorted(set(self.topics_stored))]

    def offset_at(self, time_us):
        return time_us

    def hold(self, name, offset):
        self.held[name] = offset

    def close(self):
        pass


@pytest.fixture
def fake(monkeypatch):
    history = FakeHistory()
    monkeypatch.setattr(store.history, "connect", lambda *_, **__: history)
    monkeypatch.setattr(store.time, "sleep", lambda _: None)
    return history
