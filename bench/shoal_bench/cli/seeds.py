"""`shoal bench seeds`: the published experiments that Shoal is measured by."""

import json as json_text
import time
from importlib.util import find_spec
from pathlib import Path
from typing import Annotated, Any

import typer
from rich.console import Console
from rich.table import Table

from shoal.errors import ShoalError
from shoal_bench.cli.agent import read_secret
from shoal_bench.seeds import catalogue, report
from shoal_bench.seeds.frame import Experiment
from shoal_bench.seeds.run import Plan, run

#: How often progress is printed where no terminal shows it.
SAID_EVERY_S = 5.0


def seeds(
    name: Annotated[str, typer.Argument(help="`list`, `all`, or one of the names that `list` prints.")],
    quick: Annotated[
        bool, typer.Option(help="A part of each grid, three seconds a cell, for a look.")
    ] = False,
    as_published: Annotated[
        bool, typer.Option(help="As the studies did: 100 s a cell, at least three times.")
    ] = False,
    seconds: Annotated[float | None, typer.Option(help="How long a cell runs instead.")] = None,
    strict: Annotated[
        bool, typer.Option(help="Give the node a core of its own, and judge each cell by the study's rules.")
    ] = True,
    peers: Annotated[
        str,
        typer.Option(help="Peers that run beside Shoal where an experiment has them: artemis, native, zfec."),
    ] = "native,zfec",
    cells: Annotated[
        int | None, typer.Option(min=1, help="At most this number of cells of each experiment.")
    ] = None,
    store: Annotated[Path, typer.Option(help="Where a store keeps the samples.")] = Path("runs"),
    hours: Annotated[
        float, typer.Option(min=0.0, max=24 * 28, help="Over how long fiorano-aging loads its node.")
    ] = 0.0,
    hosts: Annotated[
        str, typer.Option(help="Agents (`shoal bench agent`) for the node and the load, with commas.")
    ] = "",
    control: Annotated[str, typer.Option(help="Where agents connect to.")] = "tcp://0.0.0.0:7490",
    secret_file: Annotated[Path | None, typer.Option(help="A file with the secret that agents know.")] = None,
    html: Annotated[
        Path | None, typer.Option(help="Write a page with the published figures redrawn beside ours.")
    ] = None,
    json: Annotated[
        str | None,
        typer.Option("--json", metavar="FILE", help="Write the result as JSON; - is standard output."),
    ] = None,
) -> None:
    """Repeat the experiments of the documents that Shoal grew from, beside what they published."""
    if name == "list":
        _list()
        return
    try:
        plan = Plan(
            quick=quick,
            published=as_published,
            seconds=seconds,
            strict=strict,
            store=store,
            peers=tuple(peer.strip() for peer in peers.split(",") if peer.strip()),
            cells_max=cells,
            hours=hours,
            hosts=tuple(host.strip() for host in hosts.split(",") if host.strip()),
            control=control,
            secret=_secret(hosts, secret_file),
        )
        plan.rig()
        experiments = catalogue.chosen(name)
    except ValueError as error:
        raise typer.BadParameter(str(error)) from error
    if html is not None and find_spec("matplotlib") is None:
        raise typer.BadParameter("pictures need matplotlib: pip install 'shoal-bench[plot]'")
    try:
        result = _followed(experiments, plan)
    except (ShoalError, OSError) as error:
        typer.echo(f"shoal bench seeds: {error}", err=True)
        raise typer.Exit(1) from error
    except KeyboardInterrupt:
        raise typer.Exit(130) from None
    if html is not None:
        html.write_text(report.page(result), encoding="utf-8")
    if json == "-":
        typer.echo(json_text.dumps(result, indent=2))
    else:
        if json is not None:
            Path(json).write_text(json_text.dumps(result, indent=2) + "\n", encoding="utf-8")
        _show(result, store)
    for failure in result["failed"]:
        typer.echo(f"failed: {failure}", err=True)
    if result["failed"]:
        raise typer.Exit(1)


def _secret(hosts: str, path: Path | None) -> bytes:
    if path is not None:
        return read_secret(path)
    if hosts:
        raise ValueError("agents need --secret-file")
    return b""


def _list() -> None:
    table = Table("name", "published in", "what varies", "what its authors found", box=None)
    for experiment in catalogue.EXPERIMENTS.values():
        table.add_row(experiment.name, experiment.source, experiment.what, experiment.found)
    console = Console(highlight=False)
    (console if console.is_terminal else Console(highlight=False, width=160)).print(table)


def _followed(experiments: list[Experiment[Any]], plan: Plan) -> dict[str, Any]:
    console = Console(stderr=True, highlight=False)
    said_at = 0.0
    with console.status("starting a store") as status:

        def follow(what: str, count: int, done: int, left_s: float) -> None:
            nonlocal said_at
            line = f"{what}: cell {done + 1} of {count}, about {_duration(left_s)} left"
            status.update(line)
            if not console.is_terminal and time.monotonic() - said_at >= SAID_EVERY_S:
                said_at = time.monotonic()
                console.print(line, soft_wrap=True)

        return run(experiments, plan, follow, _skipped)


def _skipped(what: str, advice: str) -> None:
    typer.echo(f"Skipping {what}: to have it, {advice}.", err=True)


def _duration(seconds: float) -> str:
    return f"{seconds:.0f} s" if seconds < 120 else f"{seconds / 60:.0f} min"


def _show(result: dict[str, Any], store: Path) -> None:
    console = Console(highlight=False)
    if not console.is_terminal:
        console = Console(highlight=False, width=160)
    for name, experiment in result["experiments"].items():
        every = dict.fromkeys(key for cell in experiment["cells"] for key in cell)
        figures = [key for key in every if key not in report.FACTS]
        table = Table(
            "cell",
            "contestant",
            *(key.replace("_", " ") for key in figures),
            "theirs",
            "factor",
            "counts",
            title=f"{name} ({experiment['source']}: {experiment['found']})",
            title_justify="left",
        )
        for cell in experiment["cells"]:
            table.add_row(
                cell["cell"],
                cell["contestant"],
                *(report.number(cell.get(key)) for key in figures),
                report.number(cell["published"]),
                report.number(cell["factor"]),
                "yes" if cell["valid"] else f"no: {cell['why']}",
            )
        console.print(table)
    if result["gates"]:
        table = Table(*report.GATE_HEADS, title="What Shoal has to reach", title_justify="left")
        for row in report.gate_rows(result["gates"]):
            table.add_row(*row)
        console.print(table)
    console.print(f"{result['cells']} cells, {result['invalid']} invalid; run {result['run']} in {store}")
    console.print(f"Fit the capacity model: shoal capacity fit {result['run']} --store {store}")
