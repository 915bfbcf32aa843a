"""How results are shown: nested JSON for programs, a table for people. Knows nothing of any experiment."""

import json
import sys
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

from rich.console import Console
from rich.table import Table

#: More figures than these make columns too narrow to read on a terminal.
FIGURES_ABREAST = 6


def show(
    title: str,
    result: Mapping[str, Any],
    json_to: str | None,
    *,
    shown: Table | None = None,
    console: Console | None = None,
) -> None:
    """Write the result as JSON to a file, or show it as a table, or with `-` as JSON and nothing else.

    The table compares the contestants, unless `shown` is another.
    """
    if json_to == "-":
        json.dump(result, sys.stdout, indent=2)
        sys.stdout.write("\n")
        return
    if json_to is not None:
        Path(json_to).write_text(json.dumps(result, indent=2) + "\n")
    console = console or Console()
    console.print(shown or comparison(title, result))
    for name, value in result.items():
        if not isinstance(value, Mapping):
            console.print(f"  {name:<18} {_text(value)}", highlight=False)


def comparison(title: str, result: Mapping[str, Any]) -> Table:
    """A row for each contestant, a column for each single figure; a row for each figure if they are many."""
    contestants = {
        name: {figure: value for figure, value in figures.items() if not isinstance(value, list | Mapping)}
        for name, figures in result.items()
        if isinstance(figures, Mapping)
    }
    columns = list(dict.fromkeys(name for figures in contestants.values() for name in figures))
    rows: Iterable[Sequence[str]]
    if len(columns) > FIGURES_ABREAST:
        rows = (
            (f"{name} {figure}", _text(value))
            for name, figures in contestants.items()
            for figure, value in figures.items()
        )
        return table(title, ["", ""], rows)
    rows = (
        (name, *(_text(figures.get(column)) for column in columns)) for name, figures in contestants.items()
    )
    return table(title, ["", *columns], rows)


def table(title: str, headings: Sequence[str], rows: Iterable[Sequence[str]]) -> Table:
    """A table of which all columns but the first hold figures."""
    made = Table(title=title, title_justify="left")
    for place, heading in enumerate(headings):
        made.add_column(heading, justify="right" if place else "left")
    for row in rows:
        made.add_row(*row)
    return made


def _text(value: object) -> str:
    if value is None:
        return ""
    if isinstance(value, float):
        return f"{value:,.0f}" if abs(value) >= 1000 else f"{value:.3g}"
    return f"{value:,}" if isinstance(value, int) and abs(value) >= 10_000 else str(value)
