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
#: How people know the contestants.
CONTESTANTS = {
    "shoal": "Shoal",
    "shoal_loop": "Shoal, for loop",
    "shoal_callback": "Shoal, callback",
    "shoal_no_code": "Shoal, no parity",
    "shoal_no_key": "Shoal, not encrypted",
    "shoal_selectors": "Shoal, with selectors",
    "zmq": "pyzmq",
    "nats": "nats-server",
    "artemis": "Artemis",
    "kernel": "kernel, no protocol",
    "parquet": "Parquet",
}
#: Words of a figure's name that are written differently for people.
WORDS = {"cpu": "CPU", "jms": "JMS", "tcp": "TCP", "norm": "NORM", "msg": "messages", "p999": "p99.9"}
#: Units at the end of a figure's name, or before `per`.
UNITS = {
    "us": "µs",
    "gb": "GB",
    "mb": "MB",
    "gbit": "Gbit",
    "mbit": "Mbit",
    "kib": "KiB",
    "percent": "%",
}
#: What a figure's name may count per second: `msg_s` is messages per second, `publish_max_s` is seconds.
COUNTED = ("msg", "rows", "gbit", "mbit", "gb", "mb", "fdatasync")


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
            console.print(f"  {label(name):<22} {_text(value)}", highlight=False)


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
            (f"{contestant(name)}: {label(figure)}", _text(value))
            for name, figures in contestants.items()
            for figure, value in figures.items()
        )
        return table(title, ["", ""], rows)
    rows = (
        (contestant(name), *(_text(figures.get(column)) for column in columns))
        for name, figures in contestants.items()
    )
    return table(title, ["", *map(label, columns)], rows)


def contestant(name: str) -> str:
    """A contestant, or a part of an experiment, as people call it."""
    return CONTESTANTS.get(name) or label(name)


def label(figure: str) -> str:
    """A figure's name in words, with its unit: `cpu_s_per_million` becomes `CPU s per million`."""
    words = figure.split("_")
    per_second = len(words) > 1 and words[-1] == "s" and words[-2] in COUNTED
    if per_second:
        words.pop()
    last = len(words) - 1
    told = [
        UNITS[word] if word in UNITS and (at == last or words[at + 1] == "per") else WORDS.get(word, word)
        for at, word in enumerate(words)
    ]
    return " ".join(told) + ("/s" if per_second else "")


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
