"""Search for seeds that fail: `python -m shoal.testing.search --seeds 1000`.

Without a scenario every seed makes up its own (`chaos`). A failing seed is printed with the command that
repeats it; that run is the same, byte for byte.
"""

from __future__ import annotations

import argparse
import os
import sys
import traceback
from collections.abc import Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor
from typing import NamedTuple

from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn

from shoal.testing import (  # noqa: F401  they register their scenarios
    chaos,
    crowds,
    domain_chaos,
    domain_graphs,
    domain_routers,
    domain_scenarios,
    objects,
)
from shoal.testing.domain_scenarios import DomainScenario
from shoal.testing.scenarios import SCENARIOS, Run


class Task(NamedTuple):
    """One run."""

    scenario: str
    seed: int
    #: With the strict checkers of routers.
    strict: bool = False


class Outcome(NamedTuple):
    """What became of one seed."""

    scenario: str
    seed: int
    error: str | None
    virtual_s: float


def _prepare(task: Task, *, trace: bool = False) -> Run:
    scenario = SCENARIOS[task.scenario]
    # Sessions have no routers to be strict about.
    if task.strict and isinstance(scenario, DomainScenario):
        return scenario.prepare(task.seed, trace=trace, strict=True)
    return scenario.prepare(task.seed, trace=trace)


def run_seed(task: Task) -> Outcome:
    """Run one scenario with one seed."""
    name, seed, _ = task
    try:
        simulation = _prepare(task)
        SCENARIOS[name].play(simulation)
    # A panic in the engine is no Exception; to the search it is one more failing seed.
    except BaseException as error:
        if isinstance(error, KeyboardInterrupt):
            raise
        return Outcome(name, seed, "".join(traceback.format_exception_only(error)).strip(), 0.0)
    return Outcome(name, seed, None, simulation.now_s)


def _outcomes(tasks: Sequence[Task], jobs: int) -> Iterator[Outcome]:
    if jobs == 1 or len(tasks) == 1:
        yield from map(run_seed, tasks)
        return
    with ProcessPoolExecutor(jobs) as pool:
        yield from pool.map(run_seed, tasks, chunksize=max(1, min(50, len(tasks) // (4 * jobs))))


def _print_trace(task: Task) -> int:
    """Run once more and print every datagram that arrives; a failure ends the trace where it happened."""
    simulation = _prepare(task, trace=True)
    error: AssertionError | None = None
    try:
        SCENARIOS[task.scenario].play(simulation)
    except AssertionError as raised:
        error = raised
    for datagram in simulation.trace:
        head = datagram.content[:40].hex(" ", 4)
        size = len(datagram.content)
        print(f"{datagram.at_s:12.6f} {datagram.source:5} > {datagram.target:<5} {size:5} {head}")
    print(f"digest {simulation.digest:016x}: {error or 'passed'}")
    return 0 if error is None else 1


def _parse(arguments: Sequence[str] | None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m shoal.testing.search", description=__doc__)
    parser.add_argument("--seeds", type=int, default=100, metavar="N", help="how many seeds to try")
    parser.add_argument("--seed", type=int, metavar="S", help="try this seed only")
    parser.add_argument("--first", type=int, default=0, metavar="S", help="the first seed to try")
    parser.add_argument("--scenario", default="chaos", choices=["every", *sorted(SCENARIOS)], metavar="NAME")
    parser.add_argument("--jobs", type=int, default=os.cpu_count() or 1, metavar="N", help="processes to use")
    parser.add_argument(
        "--strict", action="store_true", help="ask routers for more: every number accounted, no needless loss"
    )
    parser.add_argument("--trace", action="store_true", help="with --seed: print every datagram that arrives")
    parser.add_argument("--list", action="store_true", help="print the names of the scenarios")
    options = parser.parse_args(arguments)
    if options.trace and options.seed is None:
        parser.error("--trace needs --seed")
    if options.trace and options.scenario == "every":
        parser.error("--trace needs one scenario")
    if options.strict and not isinstance(SCENARIOS.get(options.scenario), DomainScenario | None):
        parser.error(f"--strict is for scenarios of whole nodes, and {options.scenario} is none")
    return options


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the search; the exit status says whether any seed failed."""
    options = _parse(arguments)
    console = Console(stderr=True)
    if options.list:
        for name, scenario in sorted(SCENARIOS.items()):
            print(f"{name:28} {scenario.summary}")
        return 0
    if options.trace:
        return _print_trace(Task(options.scenario, options.seed, options.strict))
    names = sorted(SCENARIOS) if options.scenario == "every" else [options.scenario]
    seeds = range(options.first, options.first + options.seeds) if options.seed is None else [options.seed]
    tasks = [Task(name, seed, options.strict) for seed in seeds for name in names]
    failed, virtual_s = 0, 0.0
    columns = (TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn(), TimeRemainingColumn())
    with Progress(*columns, console=console) as progress:
        bar = progress.add_task("searching", total=len(tasks))
        for outcome in _outcomes(tasks, options.jobs):
            virtual_s += outcome.virtual_s
            if outcome.error is not None:
                failed += 1
                again = SCENARIOS[outcome.scenario].repeat_command(outcome.seed)
                progress.console.print(f"FAILED {outcome.error}", markup=False, highlight=False)
                again += " --strict" if options.strict else ""
                progress.console.print(f"  {again} --trace", markup=False, highlight=False)
            progress.update(
                bar, advance=1, description=f"{failed} failed, {virtual_s / 3600:.1f} h simulated"
            )
    print(f"{len(tasks)} runs, {failed} failed, {virtual_s:.0f} s of virtual time")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
