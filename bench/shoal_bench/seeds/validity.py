"""When a cell counts: the study's rules. A cell that breaks one is marked, and left out of the fit."""

import os
import time
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path

#: Jiffies in a second.
TICKS = os.sysconf("SC_CLK_TCK")
#: The node is the bottleneck: it is this busy at least, as a share of what it may use.
BUSY_MIN = 0.98
#: The load is not: its core is at most this busy.
LOAD_MAX = 0.75
#: Memory is not: at most this share of it is in use.
MEMORY_MAX = 0.75
#: Before the first cell a core is at most this busy. The quietest of some looks counts.
BEFORE_MAX, LOOKS, LOOK_S = 0.02, 5, 1.0


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


def memory_used(meminfo: str | None = None) -> float:
    """The share of this machine's memory that is in use."""
    text = Path("/proc/meminfo").read_text(encoding="ascii") if meminfo is None else meminfo
    found = {
        name: int(rest.split()[0]) for name, _, rest in (line.partition(":") for line in text.splitlines())
    }
    return 1 - found["MemAvailable"] / found["MemTotal"]


def busy_before(cores: Iterable[int], look_s: float = LOOK_S) -> str | None:
    """The rule that this machine breaks before anything is measured, or none: it has other work."""
    for core in cores:
        shares = []
        for _ in range(LOOKS):
            before = Core.read(core)
            time.sleep(look_s)
            shares.append(Core.read(core).busy_since(before))
            if shares[-1] <= BEFORE_MAX:
                break
        else:
            return f"core {core} was {min(shares):.0%} busy before the run, at most {BEFORE_MAX:.0%}"
    return None


def broken_rule(busy: Sequence[float], load: Sequence[float], memory: float = 0.0) -> str | None:
    """The rule that a cell broke, or none: shares of the seconds in its middle, and of memory."""
    if not busy or not load:
        return "too short"
    if memory > MEMORY_MAX:
        return f"memory {memory:.0%} in use, at most {MEMORY_MAX:.0%}"
    node, other = sum(busy) / len(busy), sum(load) / len(load)
    if other > LOAD_MAX:
        return f"load core {other:.0%} busy, at most {LOAD_MAX:.0%}"
    if node < BUSY_MIN:
        return f"node {node:.0%} busy, at least {BUSY_MIN:.0%}"
    return None
