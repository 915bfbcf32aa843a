"""The FioranoMQ study's 4.10: one node that runs for long, and what a message costs it now and then."""

import itertools
import time
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from shoal.processes.worker import Worker
from shoal_bench.seeds.cell import Cell, Group
from shoal_bench.seeds.frame import NOT_JUDGED, Note, Reading, Site, Trial
from shoal_bench.seeds.rig import END_S, SIDES, START_S, deltas


@dataclass(frozen=True, kw_only=True)
class Aging(Trial):
    """How often the node is loaded."""

    repeats: int
    cell: Cell


def aging(quick: bool) -> list[Aging]:
    """4.10: the same load again and again at one node; the last against the first says how much it ages."""
    cell = Cell(experiment="fiorano-aging", name="load", matching=(Group(count=1),))
    repeats = 3 if quick else 13
    return [Aging(experiment="fiorano-aging", name=f"x{repeats}", x=repeats, repeats=repeats, cell=cell)]


def measure(trial: Aging, _contestant: str, site: Site, note: Note) -> Reading:
    """Load one node at equal intervals over the hours that were asked for."""
    rig, every_s = site.rig, site.hours * 3600 / (trial.repeats - 1)
    with Worker(SIDES, "node", core=site.node_core, every_s=rig.every_s) as node:
        node.wait_progress()
        told: dict[str, Any] = {
            "cell": trial.cell.to_json(),
            "urls": [f"tcp://127.0.0.1:{node.progress}"],
            "seconds": rig.seconds,
            "core": site.load_core,
        }
        began = time.monotonic()
        for number in range(trial.repeats):
            node.wait(max(0.0, began + number * every_s - time.monotonic()))
            note(f"load {number + 1} of {trial.repeats}")
            with Worker(SIDES, "load", **told) as load:
                load.wait_progress(START_S)
                load.tell()
                load.result(rig.seconds + END_S)
        node.tell()
        costs = [cost for cost in processing_us(node.result(30.0)["samples"]) if cost is not None]
    figures = {
        "first_us": costs[0],
        "last_us": costs[-1],
        "drift": costs[-1] / costs[0] - 1,
        "overall_msg_s": (trial.cell.r + 1) / costs[-1] * 1e6,
    }
    return Reading(figures=figures, why=None if site.rig.strict else NOT_JUDGED)


def processing_us(samples: list[dict[str, float]]) -> Iterable[float | None]:
    """What a message cost in each period of traffic, in order."""
    pairs = list(itertools.pairwise(samples))
    active = itertools.groupby(pairs, key=lambda pair: pair[1]["received"] > pair[0]["received"])
    for is_active, period in active:
        if is_active:
            yield _cost(list(period))


def _cost(period: list[tuple[Mapping[str, float], Mapping[str, float]]]) -> float | None:
    seconds = deltas([dict(period[0][0]), *(dict(after) for _, after in period)])
    received = sum(second["received"] for second in seconds)
    return sum(second["cpu_s"] for second in seconds) / received * 1e6 if received else None
