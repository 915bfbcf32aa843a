"""A store in memory: the plainest thing that does what the history server asks of one."""

import threading
import time
from collections.abc import Mapping, Sequence
from typing import Any

from twin import Stored

from shoal._core import columnise
from shoal.errors import StoreRefusedError


class MemoryLog:
    """Rows in a list; the row's index is its offset."""

    incarnation = "0123456789abcdef0123456789abcdef"

    def __init__(self) -> None:
        self.rows: list[Stored] = []
        self.floor = 0
        self.grown = threading.Condition()
        self.staged: dict[str, tuple[int, int, int]] = {}
        self.committed: dict[str, tuple[int, int, int]] = {}
        self.holding: dict[str, int] = {}

    @property
    def durable_end(self) -> int:
        return len(self.rows)

    def append(self, *rows: Stored) -> None:
        with self.grown:
            for row in rows:
                row.offset = len(self.rows)
                self.rows.append(row)
            self.grown.notify_all()

    def wait_for(self, offset: int, timeout_s: float) -> int:
        with self.grown:
            self.grown.wait_for(lambda: len(self.rows) > offset, timeout_s)
            return len(self.rows)

    def matching(self, start: int, end: int, patterns: Sequence[str], selector: Any) -> list[Stored]:
        return [
            row
            for row in self.rows[start:end]
            if (not patterns or any(matches(pattern, row.topic) for pattern in patterns))
            and (selector is None or selector.matches(row.properties, {}))
        ]

    def extent(
        self, start: int, end: int, patterns: Sequence[str], selector: Any, rows_max: int, bytes_max: int
    ) -> tuple[int, int, int]:
        found, count, size = start, 0, 0
        for row in self.matching(start, end, patterns, selector):
            length = len(row.row()[-1])
            if count >= rows_max or (count and size + length > bytes_max):
                break
            found, count, size = row.offset + 1, count + 1, size + length
        return found, count, size

    def split(self, start: int, end: int, patterns: Sequence[str], parts: int) -> list[tuple[int, int]]:
        step = max(1, -(-(end - start) // parts))
        return [(first, min(first + step, end)) for first in range(start, end, step)]

    def offset_at(self, time_us: int, by: str = "stored") -> int:
        key = "stored_us" if by == "stored" else "timestamp_us"
        return next((row.offset for row in self.rows if getattr(row, key) >= time_us), len(self.rows))

    def topics(self, start: int, end: int, patterns: Sequence[str]) -> list[tuple[str, int, int, int]]:
        found: dict[str, list[int]] = {}
        for row in self.matching(start, end, patterns, None):
            found.setdefault(row.topic, []).append(row.offset)
        return [(topic, len(at), at[0], at[-1]) for topic, at in sorted(found.items())]

    def gaps(self, start: int, end: int) -> list[tuple[Any, ...]]:
        return [(start, 0xBEEF, 2, 10, None, 5, 1_000_000, False)] if end > start else []

    def stage(self, id: str, rows: Any) -> None:
        count, size, _ = self.staged.get(id, (0, 0, 0))
        self.staged[id] = (count + rows.count, size + rows.bytes, time.time_ns() // 1000)

    def discard(self, ids: Sequence[str]) -> int:
        return sum(self.staged.pop(id, None) is not None for id in ids)

    def forget(self, scope: str) -> bool:
        return self.committed.pop(scope, None) is not None

    def stagings(self) -> list[tuple[str, int, int, int]]:
        return [(id, *staging) for id, staging in self.staged.items()]


class MemoryScan:
    """The rows of a range, as many at a time as asked for."""

    def __init__(
        self,
        log: MemoryLog,
        start: int,
        end: int,
        patterns: Any,
        selector: Any,
        columns: Any,
        properties: Any,
    ) -> None:
        self.rows = log.matching(start, end, patterns, selector)
        self.columns, self.properties = columns, properties

    def next(self, rows_max: int, bytes_max: int, large: bool = False) -> Any:
        taken, self.rows = self.rows[:rows_max], self.rows[rows_max:]
        if not taken:
            return None
        return len(taken), columnise([row.row() for row in taken], self.columns, self.properties)[1]


class MemoryStore:
    """What `shoal.store` has around a log."""

    name, domain = "memory", "test"

    def __init__(self) -> None:
        self.log = MemoryLog()
        self.committed = self.log.committed
        self.kept: dict[str, int] = {}

    def ask(self, op: str, **fields: Any) -> dict[str, Any]:
        raise StoreRefusedError(f"there are no queues here to {op}")

    def expect(self, staging: str, sizes: Mapping[str, tuple[int, int]], *, more: bool = True) -> None:
        if any(destination.startswith("_") for destination in sizes):
            raise StoreRefusedError("a reserved topic")

    def commit(self, scope: str | None, number: int, stagings: Sequence[str]) -> tuple[int, int, bool]:
        last = self.committed.get(scope or "")
        if scope is not None and last is not None and number <= last[0]:
            return (*last[1:], True) if number == last[0] else (-1, -1, True)
        missing = [id for id in stagings if id not in self.log.staged]
        if missing:
            raise StoreRefusedError(f"there is no staging {missing[0]}")
        first = self.log.durable_end
        for id in stagings:
            rows = self.log.staged.pop(id)[0]
            self.log.append(*(Stored(topic="committed", body=None) for _ in range(rows)))
        end = self.log.durable_end
        if scope is not None:
            self.committed[scope] = (number, first, end)
        return first, end, False

    def lost_before(self, patterns: Sequence[str]) -> int:
        gone = self.log.matching(0, self.log.floor, patterns, None)
        return gone[-1].offset + 1 if gone else 0

    def hold(self, name: str, offset: int) -> None:
        self.kept[name] = offset

    def release(self, name: str) -> bool:
        return self.kept.pop(name, None) is not None

    def holds(self) -> dict[str, int]:
        return self.kept

    def status(self) -> dict[str, Any]:
        return {"topics": len({row.topic for row in self.log.rows})}


def matches(pattern: str, topic: str) -> bool:
    wanted, levels = pattern.split("/"), topic.split("/")
    for index, level in enumerate(wanted):
        if level == ">":
            return len(levels) > index
        if index >= len(levels) or level not in ("*", levels[index]):
            return False
    return len(wanted) == len(levels)
