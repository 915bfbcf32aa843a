"""A page of Markdown over the files of a run: `python -m shoal_bench.seeds.summary FOLDER NAME…`.

The folder has `NAME.json` and `NAME.html` of `shoal bench seeds`, and `capacity.json` and `capacity.html` of
`shoal capacity fit`.
"""

import json
import os
import platform
import sys
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

from shoal_bench.seeds.report import GATE_HEADS, gate_rows, number


def page(
    results: Sequence[tuple[str, Mapping[str, Any]]],
    capacity: Mapping[str, Any] | None,
    has_notes: bool = False,
) -> str:
    """The page; with a link to notes on gates that the run missed, if there are some."""
    cells = sum(result["cells"] for _, result in results)
    invalid = sum(result["invalid"] for _, result in results)
    minutes = sum(result["took_s"] for _, result in results) / 60
    parts = [
        "# Results",
        f"`scripts/results` made this page on {os.cpu_count()} cores ({platform.machine()}): a quick run of "
        "the [published experiments](../how-to/repeat-published-experiments.md), one short run of each cell.",
        f"It took {minutes:.0f} minutes. Of {cells} cells, {invalid} do not count: their figures are "
        "shown with the rule that they broke.",
        *(f"- [{name}: figures and pictures]({name}.html)" for name, _ in results),
    ]
    if any(before := [result["busy_before"] for _, result in results]):
        parts.append(f"**The machine had other work** ({next(filter(None, before))}): no cell counts.")
    parts += ["## What Shoal has to reach", table(GATE_HEADS, _gates(results))]
    if has_notes:
        parts.append("[Gates that the run missed](missed.md), and what the figures show.")
    if capacity is not None:
        parts += ["## The capacity model", _model_words(capacity), _models(capacity)]
    parts.append("Next: [Predict what a node can carry](../how-to/capacity.md).")
    return "\n\n".join(parts) + "\n"


def _gates(results: Sequence[tuple[str, Mapping[str, Any]]]) -> Iterable[tuple[str, ...]]:
    for _, result in results:
        yield from gate_rows(result["gates"])


def _model_words(capacity: Mapping[str, Any]) -> str:
    held_out = sum(cell["held_out"] for cell in capacity["cells"])
    return (
        f"[Tables and pictures](capacity.html). {len(capacity['cells'])} cells, {held_out} of them held out: "
        f"the models have not seen these. {capacity['invalid']} samples broke a rule. The gate: for Shoal a "
        "median error of 5 % at most, the worst 15 %."
    )


def _models(capacity: Mapping[str, Any]) -> str:
    heads = (
        "contestant",
        "filters",
        "form",
        "t_rcv µs",
        "t_fltr or t_eval µs",
        "t_tx µs",
        "median error",
        "worst",
    )
    rows = (
        (
            model["contestant"],
            model["kind"],
            model["form"],
            *(number(seconds * 1e6) for seconds in model["coefficients"][:3]),
            *(_share(model[error]) for error in ("held_out_median", "held_out_worst")),
        )
        for model in capacity["models"]
    )
    return table(heads, rows)


def _share(value: float | None) -> str:
    return "not measured" if value is None else f"{value:.1%}"


def table(heads: Iterable[str], rows: Iterable[Iterable[str]]) -> str:
    """A table of Markdown."""
    names = list(heads)
    lines = [names, ["---"] * len(names), *([cell.replace("|", r"\|") for cell in row] for row in rows)]
    return "\n".join(f"| {' | '.join(line)} |" for line in lines)


def main(folder: Path, names: Sequence[str]) -> None:
    """Write `index.md` into the folder."""

    def read(name: str) -> Any:
        return json.loads((folder / f"{name}.json").read_text(encoding="utf-8"))

    capacity = read("capacity") if (folder / "capacity.json").exists() else None
    found = [(name, read(name)) for name in names if (folder / f"{name}.json").exists()]
    text = page(found, capacity, (folder / "missed.md").exists())
    (folder / "index.md").write_text(text, encoding="utf-8")


if __name__ == "__main__":
    main(Path(sys.argv[1]), sys.argv[2:])
