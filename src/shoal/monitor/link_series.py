"""Links as metrics show them: few lines, whose counters never go back.

Programs come and go at a listener, each under an address and a node id that is never used again. So all
connections of a listener are one series, which goes on when one of them ends.
"""

import threading
from collections.abc import Iterable, Mapping
from typing import Any

#: Links that have series of their own; further ones share the series `other`.
SERIES_MAX = 50
OTHER = "other"

COUNTERS = (
    *("bytes_sent", "bytes_received", "messages_sent", "messages_received"),
    *("repairs_sent", "turned_away", "refused"),
)
_SUMS = ("unacknowledged_bytes", "unsent_bytes", "rate_bytes_per_s", "connections")
_GREATEST = ("round_trip_s",)

#: A link's name, and what this program is on it: `connect`, `accept`, `listen` or `group`.
_Name = tuple[str, str]


class LinkSeries:
    """Adds up what links of the same name and role count. May be shared between threads."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        #: What each link had counted when it was looked at last.
        self._last: dict[tuple[_Name, str], Mapping[str, float]] = {}
        self._totals: dict[_Name, dict[str, float]] = {}

    def rows(self, links: Iterable[Mapping[str, Any]]) -> list[tuple[dict[str, str], dict[str, float]]]:
        """Labels and values of each series, from the links of a status."""
        with self._lock:
            now: dict[tuple[_Name, str], Mapping[str, float]] = {}
            gauges: dict[_Name, dict[str, float]] = {}
            for link in links:
                role = str(link.get("role") or "group")
                name = self._series_of((str(link["name"]), role))
                _look(gauges.setdefault(name, {}), link, shows_up=role != "accept" and name[0] != OTHER)
                own = (name, f"{link['name']} {link.get('peer') or ''} {link.get('address') or ''}")
                counted = {key: float(link[key]) for key in COUNTERS if link.get(key) is not None}
                self._count(name, counted, self._last.get(own, {}))
                now[own] = counted
            self._last = now
            return [
                ({"link": name[0], "role": name[1]}, {**totals, **gauges.get(name, {})})
                for name, totals in self._totals.items()
            ]

    def _series_of(self, name: _Name) -> _Name:
        if name not in self._totals and len(self._totals) >= SERIES_MAX:
            name = (OTHER, "")
        self._totals.setdefault(name, {})
        return name

    def _count(self, name: _Name, counted: Mapping[str, float], last: Mapping[str, float]) -> None:
        totals = self._totals[name]
        for key, value in counted.items():
            before = last.get(key, 0.0)
            # One that counts less than before is a new one under the same address.
            totals[key] = totals.get(key, 0.0) + (value - before if value >= before else value)


def _look(found: dict[str, float], link: Mapping[str, Any], *, shows_up: bool) -> None:
    """What a link is at this moment."""
    for key in _SUMS:
        if link.get(key) is not None:
            found[key] = found.get(key, 0.0) + float(link[key])
    for key in _GREATEST:
        if link.get(key) is not None:
            found[key] = max(found.get(key, 0.0), float(link[key]))
    if shows_up and link.get("up") is not None:
        found["up"] = max(found.get("up", 0.0), float(link["up"]))
