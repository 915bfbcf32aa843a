"""When a cell counts: the study's rules. A cell that breaks one is marked, and left out of the fit."""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

#: The node is the bottleneck: it is this busy at least, as a share of what it may use.
BUSY_MIN = 0.98
#: The load is not: its core is at most this busy.
LOAD_MAX = 0.75


@dataclass(frozen=True)
class Core:
    """Jiffies of one core since the machine started."""

    total: int
    idle: int
    softirq: int

    @classmethod
    def read(cls, number: int, stat: str | None = None) -> "Core":
        """Of this machine now."""
        text = Path("/proc/stat").read_text(encoding="ascii") if stat is None else stat
        for line in text.splitlines():
            if line.startswith(f"cpu{number} "):
                values = [int(value) for value in line.split()[1:9]]
                return cls(total=sum(values), idle=values[3] + values[4], softirq=values[6])
        raise ValueError(f"there is no core {number}")

    def busy_since(self, before: "Core") -> float:
        """The share of the time since then in which it was not idle."""
        return 1 - (self.idle - before.idle) / max(1, self.total - before.total)

    def softirq_since(self, before: "Core") -> float:
        """The share of the time since then that it spent on packets."""
        return (self.softirq - before.softirq) / max(1, self.total - before.total)


def broken_rule(busy: Sequence[float], load: Sequence[float]) -> str | None:
    """The rule that a cell broke, or none: shares of the seconds in its middle."""
    if not busy or not load:
        return "too short"
    node, other = sum(busy) / len(busy), sum(load) / len(load)
    if other > LOAD_MAX:
        return f"load core {other:.0%} busy, at most {LOAD_MAX:.0%}"
    if node < BUSY_MIN:
        return f"node {node:.0%} busy, at least {BUSY_MIN:.0%}"
    return None
