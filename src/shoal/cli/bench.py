"""`shoal bench`: measure Shoal, alone and beside its peers. One command per experiment of `shoal.bench`."""

from typing import Annotated

import typer
from rich.console import Console

from shoal.bench import fec as fec_experiment
from shoal.bench import norm as norm_experiment
from shoal.bench import report
from shoal.cli import bench_selectors
from shoal.errors import ExperimentError

app = typer.Typer(help="Measure Shoal, alone and beside its peers.", no_args_is_help=True)

Json = Annotated[
    str | None, typer.Option("--json", metavar="FILE", help="Write the result as JSON; - is standard output.")
]
Rounds = Annotated[int, typer.Option(help="How often each contestant runs; medians are reported.")]


@app.command("list")
def list_experiments() -> None:
    """List the experiments."""
    for command in app.registered_commands:
        if command.callback is not None and command.callback is not list_experiments:
            summary = (command.callback.__doc__ or "").strip().splitlines()[0]
            typer.echo(f"{command.name:<12} {summary}")


@app.command("norm")
def norm(
    segment: Annotated[int, typer.Option(help="Bytes of stream data in a segment.")] = 1400,
    loss: Annotated[float, typer.Option(help="Percent of datagrams dropped at the receiver.")] = 0.0,
    peers: Annotated[str, typer.Option(help="Contestants beside Shoal: libnorm, or nothing.")] = "libnorm",
    rounds: Rounds = 5,
    seconds: Annotated[float, typer.Option(help="About how long each transfer takes.")] = 2.0,
    bytes_: Annotated[
        int | None, typer.Option("--bytes", help="How much each transfer moves instead.")
    ] = None,
    json: Json = None,
) -> None:
    """Goodput of one NORM stream between two processes on loopback multicast."""
    try:
        options = norm_experiment.NormOptions(
            segment_bytes=segment,
            loss_percent=loss,
            peers=_names(peers),
            rounds=rounds,
            seconds=seconds,
            bytes=bytes_,
        )
    except ValueError as error:
        raise typer.BadParameter(str(error)) from error
    console = Console(stderr=True)
    try:
        with console.status("starting") as status:

            def follow(number: int, contestant: str, gbit_s: float | None) -> None:
                at = f"round {number} of {rounds}" if number else "warming up"
                speed = "" if gbit_s is None else f": {gbit_s:.2f} Gbit/s"
                status.update(f"{at}, {contestant}{speed}")

            result = norm_experiment.run(options, follow)
    except ExperimentError as error:
        raise _failed(error) from error
    report.show(f"NORM, {segment}-byte segments, {loss:g} % loss", result, json)


@app.command("fec")
def fec(rounds: Rounds = 5, json: Json = None) -> None:
    """Reed-Solomon coding: the thesis's table, and blocks as a stream sends them."""
    if rounds < 1:
        raise typer.BadParameter(f"rounds must be at least 1, not {rounds}")
    result = fec_experiment.run(rounds=rounds)
    title = f"Reed-Solomon, kernel {result['shoal']['kernel']}, Gbit/s of source data"
    headings = ("block", "symbol bytes", "symbols", "encode", "decode", "times scalar")
    rows = fec_experiment.table_rows(result)
    report.show(title, result, json, shown=report.table(title, headings, rows))


app.command("selectors")(bench_selectors.selectors)


def _names(listed: str) -> tuple[str, ...]:
    return tuple(name.strip() for name in listed.split(",") if name.strip())


def _failed(error: ExperimentError) -> typer.Exit:
    typer.echo(f"shoal bench: {error}", err=True)
    return typer.Exit(1)
