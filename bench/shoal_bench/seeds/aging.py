"""The FioranoMQ study's 4.10: one node that runs for long, and what a message costs it now and then."""

import itertools
import time
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from statistics import median
from typing import Any

from shoal.processes.worker import Worker
from shoal_bench.errors import ExperimentError
from shoal_bench.seeds.cell import Cell, Group
from shoal_bench.seeds.frame import NOT_JUDGED, Note, Reading, Site, Trial
from shoal_bench.seeds.rig import END_S, SIDES, START_S, deltas

#: How often the node that ran for long and a fresh one are loaded in turns, at the end.
ROUNDS = 3
GAP_SAMPLES = 3


@dataclass(frozen=True, kw_only=True)
class Aging(Trial):
    """How often the node is loaded."""

    repeats: int
    cell: Cell


def aging(quick: bool) -> list[Aging]:
    """4.10: the same load again and again at one node; how much it aged shows beside a fresh node."""
    cell = Cell(experiment="fiorano-aging", name="load", matching=(Group(count=1),))
    repeats = 2 if quick else 13
    return [Aging(experiment="fiorano-aging", name=f"x{repeats}", x=repeats, repeats=repeats, cell=cell)]


def measure(trial: Aging, _contestant: str, site: Site, note: Note) -> Reading:
    """Load one node at equal intervals over the hours that were asked for; then it and a fresh one in turns.

    Hours later the machine may be faster or slower: by turns, both nodes have the same machine.
    """
    rig, every_s = site.rig, site.hours * 3600 / (trial.repeats - 1)
    with _node(site) as old:
        began = time.monotonic()
        for number in range(trial.repeats):
            old.wait(max(0.0, began + number * every_s - time.monotonic()))
            note(f"load {number + 1} of {trial.repeats}")
            _load(old, trial, site)
        with _node(site) as fresh:
            # Its memory and its caches are filled as those of the other one.
            _load(fresh, trial, site)
            for number in range(ROUNDS):
                note(f"old and fresh, {number + 1} of {ROUNDS}")
                _load(fresh, trial, site)
                _load(old, trial, site)
            fresh_us = _costs(fresh)
        old_us = _costs(old)
    if len(old_us) < trial.repeats + ROUNDS or len(fresh_us) < 1 + ROUNDS:
        raise ExperimentError("the samples of a load are missing: a run is too short for them")
    last_us, reference_us = median(old_us[-ROUNDS:]), median(fresh_us[-ROUNDS:])
    figures = {
        "first_us": old_us[0],
        "last_us": last_us,
        "fresh_us": reference_us,
        "drift": last_us / reference_us - 1,
        "overall_msg_s": (trial.cell.r + 1) / last_us * 1e6,
    }
    why = None if rig.strict else NOT_JUDGED
    return Reading(figures=figures, why=why or site.busy_before)


def _node(site: Site) -> Worker:
    return Worker(SIDES, "node", core=site.node_core, every_s=site.rig.every_s)


def _load(node: Worker, trial: Aging, site: Site) -> None:
    if not node.progress:
        node.wait_progress()
    # Samples without traffic part this load from the one before it.
    node.wait(GAP_SAMPLES * site.rig.every_s)
    told: dict[str, Any] = {
        "cell": trial.cell.to_json(),
        "urls": [f"tcp://127.0.0.1:{node.progress}"],
        "seconds": site.rig.seconds,
        "core": site.load_core,
    }
    with Worker(SIDES, "load", **told) as load:
        load.wait_progress(START_S)
        load.tell()
        load.result(site.rig.seconds + END_S)


def _costs(node: Worker) -> list[float]:
    """What a message cost in each load of a node, which ends."""
    node.tell()
    return [cost for cost in processing_us(node.result(30.0)["samples"]) if cost is not None]


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
