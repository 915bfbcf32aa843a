"""Alarms: what an operator should know, by message id. Sees no network and no clock.

An alarm of a *condition* is active while the condition holds, and cleared afterwards. An alarm of an *event*
counts how often the event happened. Either stays in the list until an operator acknowledges it; a condition
that holds again is a new alarm.
"""

import logging
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, replace

from shoal.bus.events import Event, MemberLeft, warning
from shoal.console.state import Row
from shoal.messages import Line
from shoal.messages import console as notices
from shoal.messages.language import translated

#: Alarms that are kept; the oldest that is not active gives way.
ALARMS_MAX = 1000
#: How long an alarm that is over and acknowledged stays in the list.
SHOWN_S = 300.0
#: Free space below which a store's disk is low.
DISK_LOW_BYTES = 2_000_000_000
#: The share of a queue's limit that is much, and the share at which it is over.
BACKLOG_HIGH, BACKLOG_OVER = 0.8, 0.6
#: Messages in a queue without a consumer that make an alarm.
UNCONSUMED = 1000


@dataclass(frozen=True, slots=True)
class Alarm:
    """One alarm."""

    key: str
    line: Line
    first_s: float
    last_s: float
    count: int = 1
    active: bool = True
    acknowledged_by: str = ""

    @property
    def row(self) -> Row:
        """The alarm as viewers get it."""
        notice = self.line.notice
        return {
            "id": notice.id,
            "level": logging.getLevelName(notice.level).lower(),
            "text": translated(notice.id, notice.text).format_map(self.line.args),
            "advice": translated(notice.id, notice.advice),
            "first": round(self.first_s),
            "last": round(self.last_s),
            "count": self.count,
            "active": self.active,
            "acknowledged_by": self.acknowledged_by,
        }


class Alarms:
    """The alarms of a domain."""

    def __init__(self) -> None:
        self._alarms: dict[str, Alarm] = {}

    def update(
        self, wall_s: float, conditions: Mapping[str, Line], events: Iterable[tuple[str, Line]]
    ) -> None:
        """Take the conditions that hold now, and events since the last time."""
        for key, line in conditions.items():
            known = self._alarms.get(key)
            if known is None or not known.active:
                self._alarms[key] = Alarm(key, line, wall_s, wall_s)
            elif known.line != line:
                self._alarms[key] = replace(known, line=line, last_s=wall_s)
        for key, alarm in list(self._alarms.items()):
            if alarm.active and not key.startswith("event:") and key not in conditions:
                self._alarms[key] = replace(alarm, active=False, last_s=wall_s)
        for name, line in events:
            self._happened(wall_s, f"event:{name}", line)
        for key, alarm in list(self._alarms.items()):
            if not alarm.active and wall_s - alarm.last_s > SHOWN_S and alarm.acknowledged_by:
                del self._alarms[key]
        self._bound()

    def _happened(self, wall_s: float, key: str, line: Line) -> None:
        known = self._alarms.get(key)
        if known is None or known.acknowledged_by:
            self._alarms[key] = Alarm(key, line, wall_s, wall_s)
        else:
            self._alarms[key] = replace(known, line=line, last_s=wall_s, count=known.count + 1)

    def _bound(self) -> None:
        over = len(self._alarms) - ALARMS_MAX
        if over > 0:
            oldest = sorted(self._alarms.values(), key=lambda alarm: (alarm.active, alarm.last_s))
            for alarm in oldest[:over]:
                del self._alarms[alarm.key]

    def acknowledge(self, wall_s: float, key: str, who: str) -> bool:
        """An operator knows of an alarm; false if there is none of that key."""
        known = self._alarms.get(key)
        if known is None:
            return False
        is_event = key.startswith("event:")
        self._alarms[key] = replace(
            known, acknowledged_by=who, last_s=wall_s, active=known.active and not is_event
        )
        return True

    def rows(self) -> dict[str, Row]:
        """The table `alarms`."""
        return {alarm.key: alarm.row for alarm in self._alarms.values()}

    def is_active(self, key: str) -> bool:
        """Whether an alarm is."""
        return key in self._alarms and self._alarms[key].active

    @property
    def open(self) -> list[Alarm]:
        """Alarms that are active and not acknowledged."""
        return [alarm for alarm in self._alarms.values() if alarm.active and not alarm.acknowledged_by]


def of_events(
    events: Iterable[Event], left_quietly: frozenset[int] = frozenset()
) -> Iterator[tuple[str, Line]]:
    """The alarms of events of the bus: those that are logged as warnings."""
    for event in events:
        if isinstance(event, MemberLeft) and event.node in left_quietly:
            continue
        line = warning(event)
        if line is not None:
            yield f"{type(event).__name__}:{getattr(event, 'node', '') or getattr(event, 'name', '')}", line


def of_nodes(rows: Mapping[str, Row]) -> Iterator[tuple[str, Line]]:
    """The conditions of nodes."""
    for key, row in rows.items():
        name, host = row["name"], row["host"] or "an unknown host"
        if row["state"] in ("silent", "failed"):
            yield f"silent:{key}", notices.NODE_SILENT(name=name, host=host)
        if row["trouble"]:
            yield f"trouble:{key}", notices.NODE_TROUBLE(why=row["trouble"], name=name, host=host)
        if row["lost"]:
            yield f"lost:{key}", notices.NODE_LOST(count=row["lost"], name=name, host=host)
        if row["slow"]:
            yield f"slow:{key}", notices.NODE_SLOW(count=row["slow"], name=name, host=host)
        if row["low"]:
            yield f"busy:{key}", notices.NODE_BUSY(load=row["load"] or 0.0, name=name, host=host)


def of_stores(rows: Mapping[str, Row]) -> Iterator[tuple[str, Line]]:
    """The conditions of stores."""
    for key, row in rows.items():
        if row["state"] in ("failed", "full", "silent"):
            yield f"store:{key}", notices.STORE_TROUBLE(name=key, state=row["state"])
        if 0 < row["free_bytes"] < DISK_LOW_BYTES:
            yield f"disk:{key}", notices.STORE_DISK_LOW(name=key, free=f"{row['free_bytes'] / 1e9:.1f}")


def of_queues(rows: Mapping[str, Row], alarms: Alarms) -> Iterator[tuple[str, Line]]:
    """The conditions of queues."""
    for key, row in rows.items():
        messages, limit = row["messages"], row.get("backlog_max_bytes")
        if not messages:
            continue
        if row["dead"]:
            yield f"dead:{key}", notices.DEAD_LETTERS(messages=messages, name=row["name"])
        elif messages >= UNCONSUMED and not row["consumers"]:
            yield f"unconsumed:{key}", notices.NO_CONSUMER(messages=messages, name=row["name"])
        if limit:
            share = row["bytes"] / limit
            if share >= (BACKLOG_OVER if alarms.is_active(f"backlog:{key}") else BACKLOG_HIGH):
                yield (
                    f"backlog:{key}",
                    notices.BACKLOG_HIGH(name=row["name"], share=round(share, 2), limit=limit),
                )
