"""`shoal bench seeds`: the published experiments that Shoal is measured by."""

import json as json_text
import time
from pathlib import Path
from typing import Annotated, Any

import typer
from rich.console import Console
from rich.table import Table

from shoal.errors import ShoalError
from shoal_bench.seeds import catalogue
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
    store: Annotated[Path, typer.Option(help="Where a store keeps the samples.")] = Path("runs"),
    json: Annotated[
        str | None,
        typer.Option("--json", metavar="FILE", help="Write the result as JSON; - is standard output."),
    ] = None,
) -> None:
    """Repeat published experiments with filters, subscribers, topics and sizes through a router."""
    if name == "list":
        _list()
        return
    try:
        plan = Plan(quick=quick, published=as_published, seconds=seconds, strict=strict, store=store)
        plan.rig()
        experiments = catalogue.chosen(name)
    except ValueError as error:
        raise typer.BadParameter(str(error)) from error
    try:
        result = _followed(experiments, plan)
    except (ShoalError, OSError) as error:
        typer.echo(f"shoal bench seeds: {error}", err=True)
        raise typer.Exit(1) from error
    except KeyboardInterrupt:
        raise typer.Exit(130) from None
    if json == "-":
        typer.echo(json_text.dumps(result, indent=2))
        return
    if json is not None:
        Path(json).write_text(json_text.dumps(result, indent=2) + "\n", encoding="utf-8")
    _show(result, store)


def _list() -> None:
    table = Table("name", "published in", "what varies", "what its authors found", box=None)
    for experiment in catalogue.EXPERIMENTS.values():
        table.add_row(experiment.name, experiment.source, experiment.what, experiment.found)
    console = Console(highlight=False)
    (console if console.is_terminal else Console(highlight=False, width=160)).print(table)


def _followed(experiments: list[catalogue.Experiment], plan: Plan) -> dict[str, Any]:
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

        return run(experiments, plan, follow)


def _duration(seconds: float) -> str:
    return f"{seconds:.0f} s" if seconds < 120 else f"{seconds / 60:.0f} min"


def _show(result: dict[str, Any], store: Path) -> None:
    console = Console(highlight=False)
    if not console.is_terminal:
        console = Console(highlight=False, width=140)
    for name, experiment in result["experiments"].items():
        table = Table(
            "cell",
            "µs a message",
            "filters looked at",
            "messages/s",
            "theirs",
            "factor",
            "counts",
            title=f"{name} ({experiment['source']}: {experiment['found']})",
            title_justify="left",
        )
        for cell in experiment["cells"]:
            table.add_row(
                cell["cell"],
                f"{cell['processing_us']:.3g}",
                "" if cell["evaluated_per_message"] is None else f"{cell['evaluated_per_message']:.2g}",
                f"{cell['overall_msg_s']:,.0f}",
                "" if cell["published_msg_s"] is None else f"{cell['published_msg_s']:,.0f}",
                "" if cell["factor"] is None else f"{cell['factor']:,.0f}",
                "yes" if cell["valid"] else f"no: {cell['why']}",
            )
        console.print(table)
    console.print(f"{result['cells']} cells, {result['invalid']} invalid; run {result['run']} in {store}")
    console.print(f"Fit the capacity model: shoal capacity fit {result['run']} --store {store}")
