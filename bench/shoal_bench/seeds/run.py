"""A run: the cells of some experiments, one after the other, their samples kept by a store."""

import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path
from statistics import mean
from typing import Any

import shoal
from shoal.processes.store import StoreProcess
from shoal_bench.errors import ExperimentError
from shoal_bench.seeds import published
from shoal_bench.seeds.catalogue import Experiment
from shoal_bench.seeds.cell import Cell
from shoal_bench.seeds.interval import half_width, is_enough
from shoal_bench.seeds.rig import Measured, Rig, run_cell

#: What starting a cell's processes takes, for the estimate of the time left.
START_S = 3.0
STORED_S = 60.0


@dataclass(frozen=True, kw_only=True)
class Plan:
    """How a run is made.

    `quick` takes a part of each grid and one short run a cell. `published` takes the study's durations: three
    runs of a cell or more, until the interval is narrow.
    """

    quick: bool = False
    published: bool = False
    seconds: float | None = None
    strict: bool = True
    store: Path

    def __post_init__(self) -> None:
        if self.quick and self.published:
            raise ValueError("quick and as published exclude each other")

    @property
    def cell_s(self) -> float:
        """How long a cell runs."""
        return self.seconds or (3.0 if self.quick else 100.0 if self.published else 10.0)

    def rig(self) -> Rig:
        """The rig for it."""
        return Rig(seconds=self.cell_s, strict=self.strict, every_s=min(1.0, self.cell_s / 6))


@dataclass
class Result:
    """What one cell reached over its runs."""

    cell: Cell
    runs: list[Measured] = field(default_factory=list)

    @property
    def why(self) -> str | None:
        """Why it does not count, if it does not."""
        return next((run.why for run in self.runs if run.why is not None), None)

    def figures(self) -> dict[str, Any]:
        """For JSON and the table."""
        reached = [run.overall_msg_s for run in self.runs]
        theirs = published.overall_msg_s(self.cell)
        evaluated = sum(sample["evaluated"] for run in self.runs for sample in run.samples)
        received = sum(sample["received"] for run in self.runs for sample in run.samples)
        return {
            "cell": self.cell.name,
            "n": self.cell.n,
            "r": self.cell.r,
            "size": self.cell.size,
            "processing_us": mean(run.processing_s for run in self.runs) * 1e6,
            "evaluated_per_message": evaluated / received if received else None,
            "overall_msg_s": mean(reached),
            "interval": half_width(reached),
            "published_msg_s": theirs,
            "factor": None if theirs is None else mean(reached) / theirs,
            "share_of_core": self.runs[-1].share,
            "valid": self.why is None,
            "why": self.why,
        }


#: Told the cell, how many there are and how many are done, and the seconds left.
Follow = Callable[[str, int, int, float], None]


def run(experiments: list[Experiment], plan: Plan, follow: Follow = lambda *_: None) -> dict[str, Any]:
    """Run all cells and return their figures; the samples are in the plan's store afterwards."""
    name = f"{datetime.now(UTC):%Y%m%d-%H%M%S}"
    cells = [cell for experiment in experiments for cell in experiment.cells(plan.quick)]
    results: list[Result] = []
    with _store(plan.store) as bus:
        began = time.monotonic()
        for done, cell in enumerate(cells):
            each_s = (time.monotonic() - began) / done if done else plan.cell_s + START_S
            left_s = each_s * (len(cells) - done)

            def note(text: str, cell: Cell = cell, done: int = done, left_s: float = left_s) -> None:
                follow(f"{cell.experiment} {cell.name} {text}".rstrip(), len(cells), done, left_s)

            note("")
            result = _run_cell(cell, plan, note)
            results.append(result)
            _keep(bus, name, result)
    return _summary(name, experiments, results)


def _run_cell(cell: Cell, plan: Plan, follow: Callable[[str], None]) -> Result:
    result = Result(cell)
    rig = plan.rig()
    while True:
        try:
            result.runs.append(run_cell(cell, rig, len(result.runs) + 1, follow))
        except shoal.errors.ProcessFailedError as error:
            raise ExperimentError(f"{cell.experiment} {cell.name}: {error}") from error
        if not plan.published or is_enough([each.overall_msg_s for each in result.runs]):
            return result


@contextmanager
def _store(directory: Path) -> Iterator[shoal.Bus]:
    """A store at the directory, and a connection to it."""
    with (
        StoreProcess(directory, record="bench/>") as store,
        shoal.connect(interface="lo", domain=store.domain) as bus,
    ):
        yield bus


def _keep(bus: shoal.Bus, name: str, result: Result) -> None:
    """Publish a cell's samples; they are on disk when this returns."""
    topic = f"bench/{name}/{result.cell.experiment}-{result.cell.name}/local/node"
    for measured in result.runs:
        for body in measured.bodies(name):
            bus.publish(topic, body, persistent=True, window=100)
    bus.flush(STORED_S)


def _summary(name: str, experiments: list[Experiment], results: list[Result]) -> dict[str, Any]:
    return {
        "run": name,
        "experiments": {
            experiment.name: {
                "source": experiment.source,
                "found": experiment.found,
                "cells": [
                    result.figures() for result in results if result.cell.experiment == experiment.name
                ],
            }
            for experiment in experiments
        },
        "cells": len(results),
        "invalid": sum(result.why is not None for result in results),
    }
