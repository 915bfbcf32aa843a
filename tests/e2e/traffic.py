"""Messages that can be checked where they arrive: source, number, and content that follows from both.

Shared by the tests and the programs they start; knows nothing of connections.
"""

import struct
from collections import Counter
from dataclasses import dataclass, field
from typing import Any

HEAD = struct.Struct(">IQI")


def make_body(source: int, number: int, size: int) -> bytes:
    """Message `number` of `source`, of `size` bytes but never shorter than its head."""
    length = max(size - HEAD.size, 0)
    step = bytes((number + at) & 0xFF for at in range(min(length, 256)))
    return HEAD.pack(source, number, length) + (step * (length // 256 + 1))[:length]


@dataclass
class Tally:
    """What came from one source: the first number, the one expected next, and everything that was wrong."""

    first: int | None = None
    next: int = 0
    count: int = 0
    skipped: int = 0
    faults: list[str] = field(default_factory=list)

    def take(self, number: int) -> None:
        """Count one message."""
        if self.first is None:
            self.first = self.next = number
        if number < self.next:
            self.faults.append(f"{number} came again, or late: {self.next} was expected")
            return
        if number > self.next:
            self.skipped += number - self.next
            self.faults.append(f"{self.next} to {number - 1} are missing")
        self.next = number + 1
        self.count += 1


class Audit:
    """Everything one subscription received, by source."""

    def __init__(self) -> None:
        self.tallies: dict[int, Tally] = {}
        self.senders: Counter[int] = Counter()

    def take(self, message: Any) -> None:
        """Check one message."""
        body = message.body
        source, number, _ = HEAD.unpack_from(body)
        tally = self.tallies.setdefault(source, Tally())
        tally.take(number)
        if body != make_body(source, number, len(body)):
            tally.faults.append(f"{number} has the wrong content")
        self.senders[message.sender] += 1

    def count(self) -> int:
        """Messages of all sources."""
        return sum(tally.count for tally in self.tallies.values())

    def report(self) -> dict[str, Any]:
        """For JSON."""
        return {
            str(source): {
                "first": tally.first,
                "next": tally.next,
                "count": tally.count,
                "skipped": tally.skipped,
                "faults": tally.faults[:10],
            }
            for source, tally in self.tallies.items()
        }
