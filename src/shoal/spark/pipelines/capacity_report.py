"""A fitted capacity model as one page of HTML with its pictures inside."""

import html
import io
from collections.abc import Iterable
from pathlib import Path
from typing import TYPE_CHECKING, Any

from shoal.capacity import Model, Workload
from shoal.errors import ConfigError
from shoal.spark.pipelines.capacity import Capacity, Cell

if TYPE_CHECKING:
    from matplotlib.figure import Figure

STYLE = """
body { font: 16px/1.5 system-ui, sans-serif; color: #1b1f24; }
body { max-width: 60rem; margin: 2rem auto; padding: 0 1rem; }
table { border-collapse: collapse; margin: 1rem 0; }
th, td { padding: .3rem .8rem; border-bottom: 1px solid #d0d7de; text-align: right; }
th:first-child, td:first-child { text-align: left; }
svg { max-width: 100%; height: auto; }
"""


def write(found: Capacity, path: str | Path) -> None:
    """Write the page.

    Raises:
        ConfigError: matplotlib is not installed.
    """
    Path(path).write_text(page(found), encoding="utf-8")


def page(found: Capacity) -> str:
    """The whole page, which loads nothing from elsewhere."""
    parts = [
        f"<h1>Capacity of the run {html.escape(found.run)}</h1>",
        f"<p>{len(found.cells)} cells; {found.invalid} samples were invalid, {found.dropped} incomplete.</p>",
        "<p>A message costs B. A node receives at most 1/B messages in a second, and receives and sends "
        "(r + 1)/B.</p>",
        _table(
            ("model", "t_rcv µs", "t_fltr or t_eval µs", "t_tx µs", "t_byte ns", "held out: median", "worst"),
            (_row(model) for model in found.models),
        ),
    ]
    for contestant, kind in sorted({(cell.contestant, cell.kind) for cell in found.cells}):
        both = [cell for cell in found.cells if (cell.contestant, cell.kind) == (contestant, kind)]
        cells = [cell for cell in both if not cell.equal]
        models = [model for model in found.models if (model.contestant, model.kind) == (contestant, kind)]
        parts.append(f"<h2>{html.escape(contestant)}, {html.escape(kind)}</h2>")
        parts.append(_svg(_picture(cells, models[0] if models else None)))
        if rows := list(_equal_rows(both)):
            heads = ("filters, copies", "B µs, different", "B µs, equal", "equal / different")
            parts += ["<p>The study found no difference between equal and different filters.</p>"]
            parts.append(_table(heads, rows))
    body = "\n".join(parts)
    title = f"Capacity of {html.escape(found.run)}"
    return (
        f'<!doctype html>\n<html lang="en"><head><meta charset="utf-8"><title>{title}</title>'
        f"<style>{STYLE}</style></head>\n<body>\n{body}\n</body></html>\n"
    )


def _equal_rows(cells: list[Cell]) -> Iterable[tuple[str, ...]]:
    """Of each cell that was measured with equal filters, too: both costs."""
    different = {(cell.n, cell.r): cell.processing_s for cell in cells if not cell.equal}
    for cell in cells:
        if cell.equal and (cell.n, cell.r) in different:
            one, two = different[cell.n, cell.r], cell.processing_s
            yield f"n = {cell.n}, r = {cell.r}", f"{one * 1e6:.3g}", f"{two * 1e6:.3g}", f"{two / one:.2f}"


def _row(model: Model) -> tuple[str, ...]:
    names = f"{model.contestant}, {model.kind}, by {model.form}"
    times = [f"{seconds * 1e6:.4g}" for seconds in model.coefficients[:3]]
    per_byte = f"{model.coefficients[3] * 1e9:.3g}" if len(model.coefficients) > 3 else ""
    return names, *times, per_byte, _share(model.held_out_median), _share(model.held_out_worst)


def _share(value: float | None) -> str:
    return "not measured" if value is None else f"{value:.1%}"


def _table(headings: Iterable[str], rows: Iterable[Iterable[str]]) -> str:
    head = "".join(f"<th>{html.escape(heading)}</th>" for heading in headings)
    lines = ("".join(f"<td>{html.escape(value)}</td>" for value in row) for row in rows)
    return f"<table><tr>{head}</tr>{''.join(f'<tr>{line}</tr>' for line in lines)}</table>"


def _picture(cells: list[Cell], model: Model | None) -> "Figure":
    """Figures 13 and 14 of the study: overall throughput by filters, a line for each replication grade."""
    figure, axes = _axes()
    for r in sorted({cell.r for cell in cells}):
        own = sorted((cell for cell in cells if cell.r == r), key=lambda cell: cell.n)
        filters = [cell.n + cell.r for cell in own]
        (line,) = axes.plot(filters, [cell.overall_msg_s for cell in own], "o-", label=f"r = {r}")
        if model is not None:
            told = [
                model.overall_msg_s(Workload(filters=cell.n + cell.r, replication=cell.r, size=cell.size))
                for cell in own
            ]
            axes.plot(filters, told, "--", color=line.get_color())
    axes.set_xlabel("filters installed")
    axes.set_ylabel("messages received and sent in a second")
    axes.set_title("measured (solid) and modelled (dashed)")
    axes.set_ylim(bottom=0)
    axes.legend()
    return figure


def _axes() -> "tuple[Figure, Any]":
    try:
        from matplotlib.figure import Figure
    except ImportError:
        raise ConfigError("pictures need matplotlib. Install it: pip install 'shoal[plot]'") from None
    figure = Figure(figsize=(8, 4.5), layout="constrained")
    return figure, figure.add_subplot()


def _svg(figure: "Figure") -> str:
    from matplotlib import rc_context

    text = io.StringIO()
    # Letters stay text: as paths they are most of the page.
    with rc_context({"svg.fonttype": "none"}):
        figure.savefig(text, format="svg", metadata={"Date": None})
    return text.getvalue()[text.getvalue().index("<svg") :]
