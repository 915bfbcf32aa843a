"""A run: the cells of some experiments, one after the other, their samples kept by a store."""

import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from datetime import UTC, datetime
from functools import partial
from pathlib import Path
from statistics import mean
from typing import Any

import shoal
from shoal.processes.store import StoreProcess
from shoal_bench import availability
from shoal_bench.errors import ExperimentError
from shoal_bench.hosts import AgentHost, Control
from shoal_bench.seeds.frame import Experiment, Reading, Rig, Site, Trial
from shoal_bench.seeds.gates import gates
from shoal_bench.seeds.interval import half_width, is_enough
from shoal_bench.seeds.validity import busy_before

#: What starting a cell's processes takes, for the estimate of the time left.
START_S = 3.0
STORED_S = 60.0
AGENTS_S = 60.0


@dataclass(frozen=True, kw_only=True)
class Plan:
    """How a run is made.

    `quick` takes a part of each grid and one short run a cell. `published` takes the study's durations: three
    runs of a cell or more, until the interval is narrow. `cells_max` limits the cells of each experiment.
    """

    quick: bool = False
    published: bool = False
    seconds: float | None = None
    strict: bool = True
    store: Path
    #: Peers that run beside Shoal; those of an experiment that knows them.
    peers: tuple[str, ...] = ()
    cells_max: int | None = None
    #: Over how long a node is watched that ages.
    hours: float = 0.0
    #: Agents that have a cell's node and its load.
    hosts: tuple[str, ...] = ()
    #: Where agents connect to, and the secret they know.
    control: str = "tcp://0.0.0.0:7490"
    secret: bytes = b""

    def __post_init__(self) -> None:
        if self.quick and self.published:
            raise ValueError("quick and as published exclude each other")

    @property
    def cell_s(self) -> float:
        """How long a cell runs."""
        return self.seconds or (2.0 if self.quick else 100.0 if self.published else 10.0)

    def rig(self) -> Rig:
        """The rig for it."""
        return Rig(seconds=self.cell_s, strict=self.strict, every_s=min(1.0, self.cell_s / 6))


@dataclass
class Result:
    """What one contestant reached in one cell, over its runs."""

    experiment: Experiment[Any]
    trial: Trial
    contestant: str
    runs: list[Reading] = field(default_factory=list)
    #: What went wrong, if something did: a copy that is missing, a process that ended.
    failure: str | None = None

    @property
    def why(self) -> str | None:
        """Why it does not count, if it does not."""
        if self.failure is not None:
            return f"failed: {self.failure}"
        return next((run.why for run in self.runs if run.why is not None), None)

    def reached(self) -> list[float]:
        """The figure that is compared, of each run."""
        return [value for run in self.runs if (value := run.figures[self.experiment.headline]) is not None]

    def figures(self) -> dict[str, Any]:
        """For JSON, the table and the report."""
        reached = self.reached()
        overall = mean(reached) if reached else None
        return {
            "cell": self.trial.name,
            "contestant": self.contestant,
            "series": self.trial.series,
            "x": self.trial.x,
            **{name: self._mean(name) for name in (self.runs[0].figures if self.runs else ())},
            "interval": half_width(reached),
            "published": self.experiment.published(self.trial),
            "factor": None if overall is None else self.experiment.factor(self.trial, overall),
            "valid": self.why is None,
            "why": self.why,
        }

    def _mean(self, name: str) -> float | None:
        values = [value for run in self.runs if (value := run.figures[name]) is not None]
        return mean(values) if values else None

    def bodies(self, run: str, first: int = 0) -> Iterator[dict[str, Any]]:
        """What goes into the store, from a run on: each second of it, or its figures."""
        for rep, reading in enumerate(self.runs[first:], start=first + 1):
            named = {
                "v": 1,
                "run": run,
                "experiment": self.experiment.name,
                "cell": self.trial.name,
                "rep": rep,
                "contestant": self.contestant,
            }
            for sample in reading.samples:
                yield {**named, **sample}
            if not reading.samples:
                yield {**named, **reading.figures, "valid": reading.why is None, "why": reading.why}


@dataclass(frozen=True)
class Job:
    """One cell for one contestant."""

    experiment: Experiment[Any]
    trial: Trial
    contestant: str


#: Told the cell, how many there are and how many are done, and the seconds left.
Follow = Callable[[str, int, int, float], None]
#: Told which experiment or peer cannot run here, and its remedy.
Skipped = Callable[[str, str], object]


def jobs(experiments: list[Experiment[Any]], plan: Plan, skipped: Skipped) -> list[Job]:
    """All cells for all contestants that can run here."""
    found = []
    for experiment in experiments:
        if plan.hosts and not experiment.remote:
            skipped(f"the experiment {experiment.name}", "run it without --hosts")
            continue
        advice = next((need.remedy for need in experiment.needs if not need.is_here()), None)
        if advice is not None:
            skipped(f"the experiment {experiment.name}", advice)
            continue
        # A peer that takes part twice has its name before a dash.
        wanted = [peer for peer in experiment.peers if peer.partition("-")[0] in plan.peers]
        present = availability.present(
            wanted, experiment.peers, partial(_peer_skipped, skipped, experiment.name)
        )
        trials = experiment.cells(plan.quick)[: plan.cells_max]
        own = experiment.remote if plan.hosts else experiment.contestants
        peers = () if plan.hosts else tuple(present)
        at_ends = plan.quick and experiment.peers_at_ends
        for at, trial in enumerate(trials):
            beside = peers if at in (0, len(trials) - 1) or not at_ends else ()
            found += [Job(experiment, trial, contestant) for contestant in (*own, *beside)]
        if plan.quick and plan.cells_max is None:
            found += [Job(experiment, trial, own[0]) for trial in trials] * (experiment.rounds - 1)
    return found


def _peer_skipped(skipped: Skipped, experiment: str, peer: str, advice: str) -> None:
    skipped(f"{peer} in {experiment}", advice)


def run(
    experiments: list[Experiment[Any]],
    plan: Plan,
    follow: Follow = lambda *_: None,
    skipped: Skipped = lambda *_: None,
) -> dict[str, Any]:
    """Run all cells and return their figures; the samples are in the plan's store afterwards."""
    name = f"{datetime.now(UTC):%Y%m%d-%H%M%S}"
    work = jobs(experiments, plan, skipped)
    results: dict[tuple[str, ...], Result] = {}
    began, work_s = time.monotonic(), len(work) * (plan.cell_s + START_S)
    with _store(plan.store) as bus, _agents(plan) as hosts, Site(plan.rig(), hosts, plan.hours) as site:
        if plan.strict and not plan.hosts:
            site.busy_before = busy_before(
                core for core in (site.node_core, site.load_core) if core is not None
            )
        if site.busy_before is not None:
            follow(f"No cell will count ({site.busy_before})", len(work), 0, work_s)
        for done, job in enumerate(work):
            each_s = (time.monotonic() - began) / done if done else plan.cell_s + START_S
            left_s = each_s * (len(work) - done)

            def note(text: str, job: Job = job, done: int = done, left_s: float = left_s) -> None:
                what = f"{job.experiment.name} {job.trial.name}, {job.contestant} {text}"
                follow(what.rstrip(), len(work), done, left_s)

            note("")
            key = (job.experiment.name, job.trial.name, job.contestant)
            result = results.setdefault(key, Result(job.experiment, job.trial, job.contestant))
            before = len(result.runs)
            _run_job(result, plan, site, note)
            _keep(bus, name, result, before)
        was_busy = site.busy_before
    summary = _summary(name, plan, experiments, [*results.values()], time.monotonic() - began)
    judged = [gate.to_dict() for gate in gates(summary["experiments"])]
    return {**summary, "busy_before": was_busy, "gates": judged}


def _run_job(result: Result, plan: Plan, site: Site, note: Callable[[str], None]) -> None:
    while True:
        try:
            reading = result.experiment.measure(result.trial, result.contestant, site, note)
        except (shoal.errors.ProcessFailedError, ExperimentError) as error:
            # The cells after it may still be worth their time.
            result.failure = str(error)
            return
        result.runs.append(reading)
        if not plan.published or is_enough(result.reached()):
            return


@contextmanager
def _agents(plan: Plan) -> Iterator[list[AgentHost]]:
    if not plan.hosts:
        yield []
        return
    with Control(plan.control, plan.hosts, plan.secret) as running:
        running.wait(AGENTS_S)
        yield running.hosts


@contextmanager
def _store(directory: Path) -> Iterator[shoal.Bus]:
    """A store at the directory, and a connection to it."""
    with (
        StoreProcess(directory, record="bench/>") as store,
        shoal.connect(interface="lo", domain=store.domain) as bus,
    ):
        yield bus


def _keep(bus: shoal.Bus, name: str, result: Result, first: int) -> None:
    """Publish a cell's samples, from a run on; they are on disk when this returns."""
    cell = f"{result.experiment.name}-{result.trial.name}".replace("/", "-")
    for body in result.bodies(name, first):
        bus.publish(f"bench/{name}/{cell}/local/{result.contestant}", body, persistent=True, window=100)
    bus.flush(STORED_S)


def _summary(
    name: str, plan: Plan, experiments: list[Experiment[Any]], results: list[Result], took_s: float
) -> dict[str, Any]:
    return {
        "run": name,
        "judged": plan.strict and not plan.quick,
        "seconds_a_cell": plan.cell_s,
        "took_s": took_s,
        "experiments": {
            experiment.name: {
                "source": experiment.source,
                "what": experiment.what,
                "found": experiment.found,
                "headline": experiment.headline,
                "lower_is_better": experiment.lower_is_better,
                "cells": [result.figures() for result in results if result.experiment is experiment],
            }
            for experiment in experiments
            if any(result.experiment is experiment for result in results)
        },
        "cells": len(results),
        "invalid": sum(result.why is not None for result in results),
        "failed": [
            f"{result.experiment.name} {result.trial.name}, {result.contestant}: {result.failure}"
            for result in results
            if result.failure is not None
        ],
    }
