"""`shoal bench selectors`: many selectors at once, beside evaluating each of them."""

import json
from pathlib import Path
from typing import Annotated, Any

import typer
from rich.console import Console
from rich.table import Table

from shoal.errors import ProcessFailedError
from shoal_bench.selectors import COUNTS, RATES, ROUNDS_MIN, Plan, run


def selectors(
    count: Annotated[
        list[int] | None,
        typer.Option(help=f"How many selectors; repeatable. Without it: {', '.join(map(str, COUNTS))}."),
    ] = None,
    rate: Annotated[
        list[float] | None,
        typer.Option(
            help="The share of messages that a selector matches; repeatable. Without it: 0.0001 and 0.01."
        ),
    ] = None,
    rounds: Annotated[int, typer.Option(help="How often each contestant runs.", min=ROUNDS_MIN)] = ROUNDS_MIN,
    seed: Annotated[int, typer.Option(help="Makes the same selectors and messages again.")] = 1,
    messages: Annotated[
        int,
        typer.Option(help="Messages of a round through a node, with one selector and with none; 0: none."),
    ] = 600_000,
    json_path: Annotated[
        str | None, typer.Option("--json", metavar="PATH", help="Write JSON there; - is standard output.")
    ] = None,
) -> None:
    """Match messages against many selectors, and send them through a node with one."""
    progress = Console(stderr=True, highlight=False)
    try:
        plan = Plan(
            counts=tuple(count or COUNTS),
            rates=tuple(rate or RATES),
            rounds=rounds,
            seed=seed,
            messages=messages,
        )
    except ValueError as error:
        raise typer.BadParameter(str(error)) from None
    try:
        result = run(plan, report=lambda step: progress.print(f"[dim]{step}[/]"))
    except ProcessFailedError as error:
        typer.echo(f"shoal bench: {error}", err=True)
        raise typer.Exit(1) from error
    if json_path is None:
        _print_tables(result)
    elif json_path == "-":
        typer.echo(json.dumps(result, indent=2))
    else:
        Path(json_path).write_text(json.dumps(result, indent=2) + "\n")


def _contest_columns(table: Table) -> None:
    for heading in ("index µs", "scan µs", "ratio"):
        table.add_column(heading, justify="right")


def _contest_cells(figures: dict[str, Any]) -> list[str]:
    index_us, scan_us = (figures[side]["ns_per_message"] / 1e3 for side in ("index", "scan"))
    return [f"{index_us:,.2f}", f"{scan_us:,.1f}", f"{figures['ratio']:,.0f}x"]


def _print_tables(result: dict[str, Any]) -> None:
    console = Console(highlight=False)
    distinct = Table("selectors", "match rate", title="Distinct selectors, one message")
    _contest_columns(distinct)
    for heading in ("matches", "looked at", "add µs", "remove µs", "bytes"):
        distinct.add_column(heading, justify="right")
    for count, rates in result["counts"].items():
        for rate, figures in rates.items():
            distinct.add_row(
                f"{int(count):,}",
                f"{float(rate):.2%}",
                *_contest_cells(figures),
                f"{figures['index']['matches_per_message']:,.1f}",
                f"{figures['index']['filters_looked_at']:,.1f}",
                f"{figures['add']['p50_us']:.2f}",
                f"{figures['remove']['p50_us']:.2f}",
                f"{figures['bytes_per_selector']:,.0f}",
            )
    console.print(distinct)
    same = result["identical"]
    console.print(
        f"{same['count']:,} identical selectors cost {same['times_one']:.2f} times what one costs "
        f"({same['one']['ns_per_message']:,.0f} ns a message)"
    )
    joined = Table("filters", "terms", title="Filters of several terms")
    _contest_columns(joined)
    for kind in ("and", "or"):
        for terms, figures in result[f"{kind}_filters"].items():
            joined.add_row(kind.upper(), terms, *_contest_cells(figures))
    console.print(joined)
    if "node" in result:
        _print_node(console, result["node"])


def _print_node(console: Console, result: dict[str, Any]) -> None:
    table = Table("properties", "selectors", title=f"Through a node, {result['size']}-byte messages")
    for heading in ("messages/s", "µs of processor", "more with one"):
        table.add_column(heading, justify="right")
    for number, figures in result["properties"].items():
        for side, more in (("none", ""), ("one", f"{figures['one_selector_overhead']:.1%}")):
            rate, cpu_us = (figures[side][name] for name in ("msg_s", "cpu_us_per_message"))
            table.add_row(number, side, f"{rate:,.0f}", f"{cpu_us:.3f}", more)
    console.print(table)
