"""The figures of the documentation: measured, written into its pages as tables, and drawn.

`python -m shoal_bench.figures latency` measures a table and prints it. With `--docs docs` it also writes the
results to `design/figures/latency.json`, draws them beside that, and puts table and plot into the page that
shows them, between the comments that mark their place. Without a name all of them follow each other, each in
a process of its own, until `--limit` seconds are over; what was not measured by then stays as it was.
"""

import argparse
import json
import os
import re
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from importlib.util import find_spec
from pathlib import Path

from shoal_bench import plots, tables
from shoal_bench.tables import Result

#: Where results and plots are, in the documentation.
FOLDER = Path("design/figures")
END = "<!-- end of figures -->"


def _needs_root() -> str | None:
    return None if os.geteuid() == 0 else "it makes network namespaces, which needs root"


def _needs(module: str) -> Callable[[], str | None]:
    return lambda: None if find_spec(module) else f"it needs {module}, which is not installed"


@dataclass(frozen=True)
class Figure:
    """One table with its plot."""

    title: str
    #: The page that shows it.
    page: str
    measure: tables.Measure
    lines: tables.Lines
    groups: plots.Groups
    #: Bars of different groups can be compared.
    one_scale: bool = False
    #: Why it cannot be measured here, if it cannot.
    problem: Callable[[], str | None] = lambda: None


FIGURES = {
    "throughput": Figure(
        "Messages a second to each subscriber, from Python, on loopback",
        "design/performance.md",
        tables.measure_throughput,
        tables.throughput_lines,
        plots.throughput_groups,
    ),
    "latency": Figure(
        "Round trips between two processes, from Python, on loopback (shorter is better)",
        "design/performance.md",
        tables.measure_latency,
        tables.latency_lines,
        plots.latency_groups,
    ),
    "norm": Figure(
        "One NORM stream between two processes on loopback, segments of 1400 bytes",
        "how-to/benchmark.md",
        tables.measure_norm,
        tables.norm_lines,
        plots.norm_groups,
    ),
    "parity": Figure(
        "The same with eight parity symbols after each 64 segments, and without",
        "design/norm-fec.md",
        tables.measure_fec,
        tables.fec_lines,
        plots.norm_groups,
    ),
    "slow": Figure(
        "Eight subscribers, one of them in trouble: what the others get",
        "design/performance.md",
        tables.measure_slow,
        tables.slow_lines,
        plots.slow_groups,
        one_scale=True,
    ),
    "lan": Figure(
        "Goodput to each host on a LAN of 100 Mbit/s",
        "design/performance.md",
        tables.measure_lan,
        tables.lan_lines,
        plots.lan_groups,
        one_scale=True,
        problem=_needs_root,
    ),
    "history": Figure(
        "A store that records, and is read over Arrow Flight",
        "design/performance.md",
        tables.measure_history,
        tables.history_lines,
        plots.history_groups,
        problem=_needs("pyarrow"),
    ),
    "spark": Figure(
        "Spark over a store's history, and over Parquet files",
        "design/performance.md",
        tables.measure_spark,
        tables.spark_lines,
        plots.spark_groups,
        problem=_needs("pyspark"),
    ),
    "sharing": Figure(
        "Flows on a bottleneck of 30 Mbit/s",
        "how-to/rate-control.md",
        tables.measure_sharing,
        tables.sharing_lines,
        plots.sharing_groups,
        one_scale=True,
        problem=_needs_root,
    ),
}


def block(name: str, results: Sequence[Result]) -> list[str]:
    """What a page shows: the table, and the plot."""
    figure = FIGURES[name]
    folder = os.path.relpath(FOLDER, Path(figure.page).parent)
    return [*figure.lines(results), "", f"![{figure.title}]({folder}/{name}.svg)"]


def plot(name: str, results: Sequence[Result]) -> str:
    """The drawing of a table."""
    figure = FIGURES[name]
    return plots.draw(figure.title, figure.groups(results), one_scale=figure.one_scale)


def marker(name: str) -> str:
    """The comment in a page after which a table stands."""
    return f"<!-- figures: {name} -->"


def replace(page: str, name: str, lines: Sequence[str]) -> str:
    """The page with other lines at the place of a table."""
    place = re.compile(rf"({re.escape(marker(name))}\n).*?({re.escape(END)})", re.DOTALL)
    text = "".join(f"{line}\n" for line in lines)
    replaced, count = place.subn(lambda found: f"{found[1]}{text}{found[2]}", page)
    if count != 1:
        raise ValueError(f"the page has {count} places for {name}, and must have one: {marker(name)} … {END}")
    return replaced


def write(docs: Path, name: str, results: Sequence[Result]) -> None:
    """Write results, plot and table into the documentation."""
    figure, at = FIGURES[name], docs / FOLDER / name
    page = docs / figure.page
    text = replace(page.read_text(), name, block(name, results))
    at.with_suffix(".json").write_text(json.dumps(results, indent=1) + "\n")
    at.with_suffix(".svg").write_text(plot(name, results))
    page.write_text(text)


def measure(name: str, rounds: int, seconds: float, docs: Path | None) -> None:
    """Measure one table, print it, and write it if there is somewhere to."""
    figure = FIGURES[name]
    results = list(figure.measure(rounds, seconds))
    print("\n".join(figure.lines(results)), flush=True)
    if docs is not None:
        write(docs, name, results)


def measure_all(arguments: Sequence[str], limit_s: float) -> int:
    """Measure every table in a process of its own, as long as there is time. The number that failed."""
    until, failed = time.monotonic() + limit_s, []
    for name, figure in FIGURES.items():
        began = time.monotonic()
        why = figure.problem() or (None if began < until else "the time is over")
        why = why or run(name, arguments, until - began)
        took = f"{time.monotonic() - began:.0f} s"
        print(f"=== {name}: {why or f'measured in {took}'}", flush=True)
        if why:
            failed.append(name)
    return len(failed)


def run(name: str, arguments: Sequence[str], limit_s: float) -> str | None:
    """Measure one table in a process group of its own. Why it was not, if it was not."""
    command = [sys.executable, "-m", "shoal_bench.figures", name, *arguments]
    with subprocess.Popen(command, start_new_session=True) as running:
        try:
            status = running.wait(limit_s)
        except BaseException as error:
            os.killpg(running.pid, signal.SIGKILL)
            if isinstance(error, subprocess.TimeoutExpired):
                return f"ended after {limit_s:.0f} s, when the time was over"
            raise
    return None if status == 0 else f"failed with status {status}"


def main() -> None:
    """The command."""
    parser = argparse.ArgumentParser(prog="python -m shoal_bench.figures", description=__doc__)
    parser.add_argument("name", nargs="?", choices=FIGURES, help="the table; all of them if left out")
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--seconds", type=float, default=1.0, help="about how long each transfer takes")
    parser.add_argument("--docs", type=Path, help="the documentation to write into")
    parser.add_argument("--limit", type=float, default=3600.0, help="seconds for all of them together")
    parser.add_argument("--draw", action="store_true", help="measure nothing: write what was measured again")
    given = parser.parse_args()
    if given.draw:
        docs = given.docs or Path("docs")
        for name in [given.name] if given.name else FIGURES:
            if (kept := docs / FOLDER / f"{name}.json").exists():
                write(docs, name, json.loads(kept.read_text()))
    elif given.name:
        measure(given.name, given.rounds, given.seconds, given.docs)
    else:
        arguments = [f"--rounds={given.rounds}", f"--seconds={given.seconds}"]
        arguments += [f"--docs={given.docs}"] if given.docs else []
        sys.exit(min(measure_all(arguments, given.limit), 1))


if __name__ == "__main__":
    main()
