"""Plots of the documentation's tables, as SVG: bars, from what the experiments returned."""

from collections.abc import Callable, Iterable, Mapping, Sequence

from shoal_bench.tables import TROUBLES, Result

COLOURS = {
    "shoal": "#2a7f76",
    "shoal, no parity": "#7fb5af",
    "zmq": "#b7791f",
    "zenoh": "#7a6fb0",
    "nats": "#8a5a44",
    "libnorm": "#8a5a44",
    "Parquet": "#b7791f",
    "TCP": "#b7791f",
    "the disk": "#9aa5a5",
}
OTHER_COLOUR = "#7fb5af"
WIDTH, BAR, GAP, LEFT, RIGHT = 760, 18, 16, 250, 210

#: A group of bars: what it is of, and for each contestant its value and how to write it.
Group = tuple[str, dict[str, tuple[float, str]]]
Groups = Callable[[Sequence[Result]], Iterable[Group]]


def _bars(result: Result, names: Mapping[str, str], figure: str, form: str) -> dict[str, tuple[float, str]]:
    """The bar of each contestant that took part: what it is called in the result, and in the plot."""
    return {
        shown: (result[name][figure], form.format(result[name][figure]))
        for name, shown in names.items()
        if name in result
    }


PEERS = {name: name for name in ("shoal", "zmq", "zenoh", "nats")}


def throughput_groups(results: Sequence[Result]) -> Iterable[Group]:
    """Messages a second, a group for each size and number of subscribers."""
    for result in results:
        yield f"{result['size']:,} B to {result['subscribers']}", _bars(result, PEERS, "msg_s", "{:,.0f}/s")


def latency_groups(results: Sequence[Result]) -> Iterable[Group]:
    """Round trips, a group for each percentile."""
    for result in results:
        for part in ("p50_us", "p99_us"):
            yield f"round trip, {part.removesuffix('_us')}", _bars(result, PEERS, part, "{:.0f} µs")


def norm_groups(results: Sequence[Result]) -> Iterable[Group]:
    """Goodput, a group for each loss."""
    names = {"shoal": "shoal", "shoal_no_code": "shoal, no parity", "libnorm": "libnorm"}
    for result in results:
        yield f"{result['loss_percent']:g} % loss", _bars(result, names, "gbit_s", "{:.1f} Gbit/s")


def slow_groups(results: Sequence[Result]) -> Iterable[Group]:
    """What the others get, a group for each trouble that one has."""
    for result in results:
        for trouble, words in TROUBLES.items():
            yield words, _bars({"shoal": result[trouble]}, PEERS, "msg_s", "{:,.0f}/s")


def lan_groups(results: Sequence[Result]) -> Iterable[Group]:
    """Goodput, a group for each number of subscribers."""
    for result in results:
        for name, figures in result.items():
            if isinstance(figures, Mapping):
                rate = figures["goodput_mbit_s"]
                yield f"to {name.removeprefix('to_')}", {"shoal": (rate, f"{rate:.1f} Mbit/s")}


def sharing_groups(results: Sequence[Result]) -> Iterable[Group]:
    """Who gets how much of the bottleneck, a group for each contest."""
    for result in results:
        for name, figures in result.items():
            if isinstance(figures, Mapping):
                others = {"TCP": figures.get("tcp_mbit_s"), "the other": figures.get("other_mbit_s")}
                rates = {"shoal": figures["goodput_mbit_s"], **others}
                yield name, {who: (rate, f"{rate:.1f} Mbit/s") for who, rate in rates.items() if rate}


def history_groups(results: Sequence[Result]) -> Iterable[Group]:
    """Recording beside what the disk takes, and reading."""
    for result in results:
        rates = {
            "1,024 B": result["recording_1024"]["gbit_s"],
            "64 B": result["recording_64"]["gbit_s"],
            "the disk": result["disk"]["gbit_s"],
        }
        yield "recording", {name: (rate, f"{rate:.2f} Gbit/s") for name, rate in rates.items()}
        rows = {"four columns": result["reading"], "all columns": result["reading_all_columns"]}
        yield (
            "reading",
            {name: (figures["rows_s"], f"{figures['rows_s']:,.0f} rows/s") for name, figures in rows.items()},
        )


def spark_groups(results: Sequence[Result]) -> Iterable[Group]:
    """Rows a second, beside Parquet."""
    names = {"shoal": "shoal", "parquet": "Parquet"}
    for result in results:
        for part in ("batch", "stream"):
            yield part, _bars(result, names, f"{part}_rows_s", "{:,.0f} rows/s")
        sink = {"shoal": result["shoal"]}
        yield "sink, until the commit", _bars(sink, names, "sink_rows_s", "{:,.0f} rows/s")


def draw(title: str, groups: Iterable[Group], *, one_scale: bool = False) -> str:
    """Horizontal bars; each is as long as its share of the largest of its group, or of all."""
    parts: list[str] = []
    y = 48
    groups = list(groups)
    largest_of_all = max((value for _, bars in groups for value, _ in bars.values()), default=0.0)
    for name, bars in groups:
        largest = largest_of_all if one_scale else max(value for value, _ in bars.values())
        middle = y + BAR * len(bars) / 2 + 5
        parts.append(f'<text x="{LEFT - 14}" y="{middle:.0f}" text-anchor="end">{name}</text>')
        for contestant, (value, text) in bars.items():
            length = max((WIDTH - LEFT - RIGHT) * value / largest, 1.0)
            parts.append(
                f'<rect x="{LEFT}" y="{y}" width="{length:.1f}" height="{BAR - 3}" '
                f'fill="{COLOURS.get(contestant, OTHER_COLOUR)}"/>'
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
