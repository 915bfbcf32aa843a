"""`shoal bench`: measure Shoal, alone and beside its peers."""

import json
from pathlib import Path

import typer
from rich.console import Console
from rich.table import Table

from shoal.bench import fec as fec_bench
from shoal.cli import bench_selectors

app = typer.Typer(help="Measure Shoal, alone and beside its peers.", no_args_is_help=True)
app.command("selectors")(bench_selectors.selectors)


@app.callback()
def _group() -> None:
    """Keep `bench` a group even while it has one command."""


@app.command()
def fec(
    json_to: str | None = typer.Option(
        None, "--json", help="Write JSON to this file, or to - for standard output."
    ),
    rounds: int = typer.Option(5, min=1, help="Rounds of which the median counts."),
) -> None:
    """Measure Reed-Solomon coding: the thesis's table, and blocks as a stream sends them."""
    result = fec_bench.run(rounds=rounds)
    if json_to is not None:
        text = json.dumps(result, indent=2)
        if json_to == "-":
            typer.echo(text)
        else:
            Path(json_to).write_text(text + "\n")
        return
    table = Table(title=f"Reed-Solomon, kernel {result['shoal']['kernel']}, Gbit/s of source data")
    for heading in ("block", "symbol bytes", "symbols", "encode", "decode", "times scalar"):
        table.add_column(heading, justify="right")
    for row in fec_bench.table_rows(result):
        table.add_row(*row)
    Console().print(table)
