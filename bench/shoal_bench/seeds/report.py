"""A run of the published experiments as one page of HTML, with its pictures inside.

A picture shows ours, the peers' and, dashed, the authors' figures that their text or table states.
"""

import html
import io
from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from shoal.errors import ConfigError

if TYPE_CHECKING:
    from matplotlib.figure import Figure

#: The study's figure that an experiment redraws.
FIGURES = {
    "fiorano-publishers": "Figure 5",
    "fiorano-subscribers": "Figure 6",
    "fiorano-size": "Figure 7",
    "fiorano-activation": "Figure 8",
    "fiorano-topics": "Figure 9",
    "fiorano-select": "Figure 10",
    "fiorano-or": "Figure 11",
    "fiorano-and": "Figure 12",
    "fiorano-joint": "Figures 13 and 14",
    "udp-loop": "Figures 5-1 and 5-2",
    "udp-lan": "Figures 5-4 and 5-5",
    "jms-loop": "Figure 5-6",
    "jms-lan": "Figures 5-8 and 5-10",
    "wan": "Figure 5-12",
    "narada": "Figures 3 to 8",
}
STYLE = """
body { font: 16px/1.5 system-ui, sans-serif; color: #1b1f24; }
body { max-width: 66rem; margin: 2rem auto; padding: 0 1rem; }
table { border-collapse: collapse; margin: 1rem 0; font-size: .9rem; }
th, td { padding: .25rem .7rem; border-bottom: 1px solid #d0d7de; text-align: right; }
th:first-child, td:first-child { text-align: left; }
svg { max-width: 100%; height: auto; }
.note { background: #fff8c5; padding: .5rem 1rem; }
"""
#: What a cell says beside its figures.
FACTS = ("cell", "contestant", "series", "x", "interval", "published", "factor", "valid", "why")
PEERS = ("artemis", "artemis-near", "artemis-third", "native", "python", "zfec", "tcp_cubic")

Cells = Sequence[Mapping[str, Any]]


def page(result: Mapping[str, Any]) -> str:
    """The whole page, which loads nothing from elsewhere."""
    run = html.escape(result["run"])
    parts = [
        f"<h1>Published experiments, run {run}</h1>",
        f"<p>{result['cells']} cells of {result['seconds_a_cell']:g} s, {result['invalid']} invalid.</p>",
    ]
    if not result["judged"]:
        parts.append('<p class="note">A quick run, for a look: its figures were not judged.</p>')
    if (before := result.get("busy_before")) is not None:
        parts.append(f'<p class="note">The machine had other work: {html.escape(before)}.</p>')
    parts += ["<h2>Theirs and ours</h2>", _compared(result["experiments"])]
    if result.get("gates"):
        parts += ["<h2>What Shoal has to reach</h2>", table(GATE_HEADS, gate_rows(result["gates"]))]
    if beside := list(_beside(result["experiments"])):
        heads = ("experiment", "cell", "figure", "ours", "peer", "", "times better")
        parts += ["<h2>Ours and peers here</h2>", table(heads, beside)]
    for name, experiment in result["experiments"].items():
        parts.append(f"<h2>{html.escape(name)}</h2>")
        figure = f" ({FIGURES[name]})" if name in FIGURES else ""
        told = (
            f"{experiment['source']}{figure}: {experiment['what']} Its authors found: {experiment['found']}."
        )
        parts.append(f"<p>{html.escape(told)}</p>")
        parts.append(_svg(picture(experiment)))
        parts.append(_cells(experiment))
    body, title = "\n".join(parts), f"Published experiments, {run}"
    return (
        f'<!doctype html>\n<html lang="en"><head><meta charset="utf-8"><title>{title}</title>'
        f"<style>{STYLE}</style></head>\n<body>\n{body}\n</body></html>\n"
    )


GATE_HEADS = ("experiment", "gate", "reached", "limit", "holds", "cells count")


def gate_rows(gates: Iterable[Mapping[str, Any]]) -> Iterable[tuple[str, ...]]:
    """A row for each gate of a run."""
    for gate in gates:
        limit = f"{'at most' if gate['at_most'] else 'at least'} {number(gate['limit'])}"
        told = ("yes" if gate["holds"] else "no", "yes" if gate["valid"] else "no")
        yield gate["experiment"], gate["what"], number(gate["reached"]), limit, *told


def _compared(experiments: Mapping[str, Any]) -> str:
    """Of each cell whose figure the authors state: theirs, ours, the factor."""
    heads = ("experiment", "cell", "contestant", "figure", "theirs", "ours", "factor", "counts")
    rows = [
        (
            name,
            cell["cell"],
            cell["contestant"],
            _words(experiment["headline"]),
            number(cell["published"]),
            number(cell.get(experiment["headline"])),
            number(cell["factor"]),
            "yes" if cell["valid"] else f"no: {cell['why']}",
        )
        for name, experiment in experiments.items()
        for cell in experiment["cells"]
        if cell["published"] is not None and cell["contestant"] not in PEERS
    ]
    return table(heads, rows)


def _beside(experiments: Mapping[str, Any]) -> Iterable[tuple[str, ...]]:
    """Of each cell with a peer: ours, theirs, how many times better."""
    for name, experiment in experiments.items():
        headline = experiment["headline"]
        by_cell: dict[str, dict[str, float]] = {}
        for cell in experiment["cells"]:
            if cell.get(headline):
                by_cell.setdefault(cell["cell"], {})[cell["contestant"]] = cell[headline]
        for cell, reached in by_cell.items():
            ours = {who: value for who, value in reached.items() if who not in PEERS}
            for peer, theirs in ((who, value) for who, value in reached.items() if who in PEERS):
                for who, value in ours.items():
                    times = theirs / value if experiment["lower_is_better"] else value / theirs
                    told = (f"{who} {number(value)}", peer, number(theirs), number(times))
                    yield name, cell, _words(headline), *told


def _cells(experiment: Mapping[str, Any]) -> str:
    every = dict.fromkeys(key for cell in experiment["cells"] for key in cell)
    figures = [key for key in every if key not in FACTS]
    heads = ("cell", "contestant", *(_words(key) for key in figures), "interval", "counts")
    rows = [
        (
            cell["cell"],
            cell["contestant"],
            *(number(cell.get(key)) for key in figures),
            "" if cell["interval"] is None else f"±{cell['interval']:.1%}",
            "yes" if cell["valid"] else f"no: {cell['why']}",
        )
        for cell in experiment["cells"]
    ]
    return table(heads, rows)


def picture(experiment: Mapping[str, Any]) -> "Figure":
    """The figure that is compared, by the parameter that varies: a line for each contestant and series."""
    figure, axes = _axes()
    headline, cells = experiment["headline"], experiment["cells"]
    lines = dict.fromkeys((cell["contestant"], cell["series"]) for cell in cells)
    for contestant, series in lines:
        mine = [cell for cell in cells if (cell["contestant"], cell["series"]) == (contestant, series)]
        axes.plot(*_points(mine, headline), "o-", label=", ".join(filter(None, (contestant, series))))
    for series in dict.fromkeys(cell["series"] for cell in cells):
        theirs = _points([cell for cell in cells if cell["series"] == series], "published")
        if theirs[0]:
            label = ", ".join(filter(None, ("published", series)))
            axes.plot(*theirs, "x--", color="grey", label=label)
    axes.set_yscale("log")
    places = [cell["x"] for cell in cells if cell["x"] > 0]
    if places and max(places) > 50 * min(places):
        axes.set_xscale("symlog")
    axes.set_ylabel(_words(headline))
    axes.legend(fontsize="x-small", ncols=2)
    return figure


def _points(cells: Cells, key: str) -> tuple[list[float], list[float]]:
    """Places and values of cells, each place once."""
    found = {cell["x"]: cell[key] for cell in cells if cell.get(key) is not None}
    return sorted(found), [found[x] for x in sorted(found)]


def number(value: float | None) -> str:
    """A figure with three digits that matter."""
    if value is None:
        return ""
    return f"{value:,.0f}" if abs(value) >= 1000 else f"{value:.3g}"


def table(heads: Iterable[str], rows: Iterable[Iterable[str]]) -> str:
    """A table of HTML."""
    head = "".join(f"<th>{html.escape(each)}</th>" for each in heads)
    lines = ("".join(f"<td>{html.escape(value)}</td>" for value in row) for row in rows)
    return f"<table><tr>{head}</tr>{''.join(f'<tr>{line}</tr>' for line in lines)}</table>"


def _words(name: str) -> str:
    """A figure's name with its unit: `goodput_mbit_s` is goodput in Mbit/s."""
    units = {
        "msg_s": "messages/s",
        "mbit_s": "Mbit/s",
        "gbit_s": "Gbit/s",
        "us": "µs",
        "ms": "ms",
        "mb": "MB",
    }
    for unit, written in units.items():
        if name.endswith(f"_{unit}"):
            return f"{name.removesuffix(f'_{unit}').replace('_', ' ')} ({written})"
    return name.replace("_", " ")


def _axes() -> "tuple[Figure, Any]":
    try:
        from matplotlib.figure import Figure
    except ImportError:
        raise ConfigError("pictures need matplotlib. Install it: pip install 'shoal-bench[plot]'") from None
    figure = Figure(figsize=(8, 4.5), layout="constrained")
    return figure, figure.add_subplot()


def _svg(figure: "Figure") -> str:
    from matplotlib import rc_context

    text = io.StringIO()
    # Letters stay text: as paths they are most of the page.
    with rc_context({"svg.fonttype": "none"}):
        figure.savefig(text, format="svg", metadata={"Date": None})
    return text.getvalue()[text.getvalue().index("<svg") :]
