"""Runs cells: a node on one core, its load on the other, samples judged by the study's rules.

If the load is busier than the rules allow, the cell is repeated against a node with half a core, then a
quarter: what a message costs the node does not depend on how much of a core it may use.
"""

import itertools
import os
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

from shoal.processes.worker import Worker
from shoal_bench.seeds.cell import Cell
from shoal_bench.seeds.quota import limited
from shoal_bench.seeds.validity import Core, broken_rule

SIDES = "shoal_bench.seeds.sides"
#: What the node may use of its core, tried in turn.
SHARES = (1.0, 0.5, 0.25)
#: The share of a run that is cut at both ends.
CUT = 0.05


@dataclass(frozen=True, kw_only=True)
class Rig:
    """How cells are run."""

    seconds: float = 10.0
    every_s: float = 1.0
    #: Whether the node and its load have a core each, and a cell must keep the study's rules.
    strict: bool = True
    node_core: int | None = 1
    load_core: int | None = 0

    def __post_init__(self) -> None:
        if not 0 < self.seconds <= 3600:
            raise ValueError(f"seconds must be more than 0 and at most 3600, not {self.seconds}")
        if self.strict and (os.cpu_count() or 1) < 2:
            raise ValueError("the node and its load need a core each, and this machine has one core")


@dataclass(frozen=True)
class Measured:
    """What one run of a cell showed."""

    cell: Cell
    rep: int
    #: Counts of each second.
    samples: tuple[dict[str, float], ...]
    #: The share of a core that the node was given.
    share: float
    #: The rule that it broke, if any.
    why: str | None

    @property
    def processing_s(self) -> float:
        """What a message cost the node in the middle of the run: processor time over messages received."""
        middle = _middle(self.samples)
        received = sum(sample["received"] for sample in middle)
        return sum(sample["cpu_s"] for sample in middle) / received if received else float("nan")

    @property
    def overall_msg_s(self) -> float:
        """Messages received and sent in a second of a whole core."""
        return (self.cell.r + 1) / self.processing_s

    def bodies(self, run: str) -> Iterator[dict[str, Any]]:
        """The samples as `shoal capacity fit` reads them."""
        for sample in self.samples:
            yield {
                "v": 1,
                "run": run,
                "experiment": self.cell.experiment,
                "cell": self.cell.name,
                "rep": self.rep,
                "contestant": "routed",
                "kind": self.cell.kind,
                "n": self.cell.n,
                "r": self.cell.r,
                "size": self.cell.size,
                "t_s": sample["t_s"],
                "received": int(sample["received"]),
                "dispatched": int(sample["dispatched"]),
                "evaluated": int(sample["evaluated"]),
                "cpu_s": sample["cpu_s"],
                "quota": self.share,
                "valid": self.why is None,
                "why": self.why,
            }


def run_cell(cell: Cell, rig: Rig, rep: int, follow: Callable[[str], None]) -> Measured:
    """Run a cell once, with as much of a core for the node as keeps the load below its limit."""
    measured = None
    for share in SHARES if rig.strict else SHARES[:1]:
        follow("" if share == 1.0 else f"again with {share:g} of a core")
        try:
            measured = _run(cell, rig, rep, share)
        except PermissionError:
            break
        if measured.why is None or not measured.why.startswith("load"):
            break
    assert measured is not None
    return measured


def _run(cell: Cell, rig: Rig, rep: int, share: float) -> Measured:
    cores = (rig.node_core, rig.load_core) if rig.strict else (None, None)
    with Worker(SIDES, "node", core=cores[0], every_s=rig.every_s) as node:
        node.wait_progress()
        told: dict[str, Any] = {"cell": cell.to_json(), "port": node.progress, "seconds": rig.seconds}
        with limited(node.pid, share), Worker(SIDES, "load", core=cores[1], **told) as load:
            load.wait_progress(120.0)
            began = time.monotonic()
            load.tell()
            busy = list(_watched(load, rig, began)) if rig.strict else []
            load.result(rig.seconds + 180.0)
        node.tell()
        samples = node.result(30.0)["samples"]
    seconds = _deltas(samples, rig.seconds)
    why: str | None = "not judged"
    if rig.strict:
        middle = _middle(seconds)
        own = [sample["cpu_s"] / sample["took_s"] / share for sample in middle]
        why = broken_rule(own, busy[1:-1] or busy)
    return Measured(cell, rep, tuple(seconds), share, why)


def _watched(load: Worker, rig: Rig, began: float) -> Iterator[float]:
    """How busy the load's core is, from sample to sample of the run."""
    assert rig.load_core is not None
    before = Core.read(rig.load_core)
    for number in range(1, int(rig.seconds / rig.every_s) + 1):
        load.wait(max(0.0, began + number * rig.every_s - time.monotonic()))
        now = Core.read(rig.load_core)
        yield now.busy_since(before)
        before = now


def _deltas(samples: list[dict[str, float]], seconds: float) -> list[dict[str, float]]:
    """What each second of traffic added; the seconds before and after it are left out."""
    moving = [
        {key: after[key] - before[key] for key in before if key != "at_s"}
        | {"took_s": after["at_s"] - before["at_s"]}
        for before, after in itertools.pairwise(samples)
    ]
    active = [sample for sample in moving if sample["received"] > 0]
    # The first and the last have traffic in a part of them only.
    whole = active[1:-1] if len(active) > 2 else active
    return [{**sample, "t_s": float(number)} for number, sample in enumerate(whole)]


def _middle(samples: tuple[dict[str, float], ...] | list[dict[str, float]]) -> list[dict[str, float]]:
    cut = int(len(samples) * CUT)
    return list(samples[cut : len(samples) - cut])
