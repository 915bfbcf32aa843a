"""The plots of the page on performance, drawn from the JSON that `shoal.bench.tables` writes.

`python -m shoal.bench.plots docs/design/figures` draws every `NAME.json` there as `NAME.svg`.
"""

import json
import sys
from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

COLOURS = {"shoal": "#2a7f76", "zmq": "#b7791f", "zenoh": "#7a6fb0", "nats": "#8a5a44", "libnorm": "#8a5a44"}
WIDTH, BAR, GAP, LEFT, RIGHT = 760, 18, 16, 190, 130

Figures = Mapping[str, Any]
#: A group of bars: what it is of, and for each contestant its value and how to write it.
Group = tuple[str, dict[str, tuple[float, str]]]


def throughput_groups(results: Sequence[Figures]) -> Iterable[Group]:
    """Messages a second, a group for each size and number of subscribers."""
    for result in results:
        bars = {
            name: (result[name]["msg_s"], f"{result[name]['msg_s']:,.0f}/s")
            for name in COLOURS
            if name in result
        }
        yield f"{result['size']:,} B to {result['subscribers']}", bars


def latency_groups(results: Sequence[Figures]) -> Iterable[Group]:
    """Round trips, a group for each percentile."""
    for result in results:
        for part in ("p50_us", "p99_us"):
            bars = {
                name: (result[name][part], f"{result[name][part]:.0f} µs")
                for name in COLOURS
                if name in result
            }
            yield f"round trip, {part.removesuffix('_us')}", bars


GROUPS: dict[str, Callable[[Sequence[Figures]], Iterable[Group]]] = {
    "throughput": throughput_groups,
    "latency": latency_groups,
}


def draw(title: str, groups: Iterable[Group]) -> str:
    """Horizontal bars; those of a group are as long as their share of the group's largest."""
    parts: list[str] = []
    y = 48
    for name, bars in groups:
        largest = max(value for value, _ in bars.values())
        middle = y + BAR * len(bars) / 2 + 5
        parts.append(f'<text x="{LEFT - 14}" y="{middle:.0f}" text-anchor="end">{name}</text>')
        for contestant, (value, text) in bars.items():
            length = max((WIDTH - LEFT - RIGHT) * value / largest, 1.0)
            parts.append(
                f'<rect x="{LEFT}" y="{y}" width="{length:.1f}" height="{BAR - 3}" '
                f'fill="{COLOURS[contestant]}"/>'
                f'<text class="s" x="{LEFT + length + 6:.1f}" y="{y + BAR - 6}">{contestant} {text}</text>'
            )
            y += BAR
        y += GAP
    style = "text{font:13px system-ui,sans-serif;fill:#1b2b2b}.s{font-size:11px;fill:#4a5c5c}"
    head = f'<text x="14" y="26" style="font-weight:600">{title}</text>'
    return "\n".join(
        [
            f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {y}" width="{WIDTH}" role="img" '
            f'aria-label="{title}">',
            f"<title>{title}</title><style>{style}</style>",
            f'<rect width="{WIDTH}" height="{y}" fill="#ffffff" rx="10"/>',
            head,
            *parts,
            "</svg>",
            "",
        ]
    )


def plot(path: Path) -> str:
    """The drawing of one file."""
    figures = json.loads(path.read_text())
    return draw(figures["title"], GROUPS[figures["table"]](figures["results"]))


def main() -> None:
    """Draw every file of a directory."""
    for path in sorted(Path(sys.argv[1]).glob("*.json")):
        path.with_suffix(".svg").write_text(plot(path))
        print(path.with_suffix(".svg"))


if __name__ == "__main__":
    main()
