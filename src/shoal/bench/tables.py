"""The tables of the page on performance, as Markdown: `python -m shoal.bench.tables throughput`.

Each runs the experiments behind it anew; nothing in them is typed by hand.
"""

import argparse
import json
import sys
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path
from typing import Any

from shoal.bench import lan, latency, norm, sharing, throughput

#: Percent of loss and parity symbols of each row.
FEC_ROWS = ((0.0, 8), (1.0, 4), (1.0, 8), (5.0, 8), (5.0, 16))
#: Size and subscribers of each row.
ROWS = ((64, 1), (1024, 1), (16_384, 1), (64, 4), (1024, 4), (16_384, 4), (1_000_000, 1))


#: Told each result, as `shoal bench --json` writes it.
Keep = Callable[[dict[str, Any]], None]


def _forget(_result: dict[str, Any]) -> None:
    """Nobody wants the results themselves."""


def throughput_lines(rounds: int, seconds: float, keep: Keep = _forget) -> Iterable[str]:
    """A row for each size and number of subscribers."""
    contestants = ("shoal", "zenoh", "zmq")
    yield from _head("bytes", "to", *(f"{name} msg/s" for name in contestants), "ratio", *contestants)
    for size, subscribers in ROWS:
        options = throughput.ThroughputOptions(
            size=size, subscribers=subscribers, rounds=rounds, seconds=seconds
        )
        result = throughput.run(options, _tell)
        keep(result)
        rates = (f"{result[name]['msg_s']:,.0f}" for name in contestants)
        costs = (f"{result[name]['cpu_s_per_million']:.2f}" for name in contestants)
        yield _row(f"{size:,}", subscribers, *rates, f"{result['ratio_to_best_peer']:.2f}", *costs)


def latency_lines(rounds: int, _seconds: float, keep: Keep = _forget) -> Iterable[str]:
    """A row for each contestant."""
    contestants = ("shoal", "zmq", "zenoh")
    result = latency.run(latency.LatencyOptions(peers=contestants[1:], rounds=rounds), _tell)
    keep(result)
    yield from _head("", "p50 µs", "p99 µs", "p99.9 µs", "p50 ÷ ours", "p99 ÷ ours")
    for name in contestants:
        times = (f"{result[name][part]:.0f}" for part in latency.PERCENTILES)
        ratios = (f"{result[name].get(part, 1):.2f}" for part in ("ratio_p50", "ratio_p99"))
        yield _row(name, *times, *ratios)


def lan_lines(rounds: int, seconds: float, keep: Keep = _forget) -> Iterable[str]:
    """A row for one subscriber, and one for many."""
    options = lan.LanOptions(rounds=rounds, seconds=seconds)
    result = lan.run(options, _tell)
    keep(result)
    yield from _head("to", "Mbit/s", "of the Ethernet payload", "repairs", "CPU s per million")
    for width in (1, options.many):
        figures: dict[str, Any] = result[f"to_{width}"]
        yield _row(
            width,
            f"{figures['goodput_mbit_s']:.1f}",
            f"{figures['share_of_ethernet_payload']:.3f}",
            f"{figures['repairs_share']:.2%}",
            f"{figures['cpu_s_per_million']:.1f}",
        )


def norm_lines(rounds: int, seconds: float, keep: Keep = _forget) -> Iterable[str]:
    """A row for each loss and amount of parity."""
    yield from _head(
        "loss",
        "parity",
        "Gbit/s",
        "without",
        "ratio",
        "libnorm",
        "repairs",
        "without",
        "CPU s per GB",
        "without",
    )
    for loss_percent, parity in FEC_ROWS:
        options = norm.NormOptions(
            loss_percent=loss_percent, fec="rs", parity_symbols=parity, rounds=rounds, seconds=seconds
        )
        result = norm.run(options)
        keep(result)
        coded, plain = result["shoal"], result[norm.NO_CODE]
        yield _row(
            f"{loss_percent:g} %",
            f"64 + {parity}",
            f"{coded['gbit_s']:.2f}",
            f"{plain['gbit_s']:.2f}",
            f"{result['ratio_to_no_code']:.2f}",
            f"{result['libnorm']['gbit_s']:.2f}",
            f"{coded['repair_overhead']:.2%}",
            f"{plain['repair_overhead']:.2%}",
            f"{coded['cpu_s_per_gb']:.2f}",
            f"{plain['cpu_s_per_gb']:.2f}",
        )


def sharing_lines(rounds: int, seconds: float, keep: Keep = _forget) -> Iterable[str]:
    """A row for each contest on the bottleneck; each needs several seconds to mean something."""
    lasting_s = max(seconds, 20.0)
    options = sharing.SharingOptions(rounds=rounds, seconds=lasting_s, warm_up_s=lasting_s / 4)
    result = sharing.run(options, _tell)
    keep(result)
    yield from _head(
        "contest", "Mbit/s", "the other", "ratio", "of the payload", "repairs", "half the rate after"
    )
    for name in options.contests:
        figures: dict[str, Any] = result[name]
        other = figures.get("tcp_mbit_s", figures.get("other_mbit_s"))
        yield _row(
            name,
            f"{figures['goodput_mbit_s']:.1f}",
            "" if other is None else f"{other:.1f}",
            "" if other is None else f"{figures['ratio']:.2f}",
            f"{figures['share_of_payload']:.3f}",
            f"{figures['repairs_share']:.1%}",
            f"{figures['time_to_half_s']:.1f} s",
        )


TABLES: dict[str, Callable[[int, float, Keep], Iterable[str]]] = {
    "throughput": throughput_lines,
    "latency": latency_lines,
    "lan": lan_lines,
    "norm": norm_lines,
    "sharing": sharing_lines,
}


TITLES = {
    "throughput": "Messages a second to each subscriber, from Python, on loopback",
    "latency": "Round trips between two processes, from Python, on loopback (shorter is better)",
}


def _tell(number: int, contestant: str, reached: str) -> None:
    if reached:
        print(f"round {number}, {contestant}: {reached}", file=sys.stderr)


def _head(*names: str) -> Sequence[str]:
    return _row(*names), _row(*("---" for _ in names))


def _row(*cells: object) -> str:
    return f"| {' | '.join(map(str, cells))} |"


def replace_table(page: str, lines: Sequence[str]) -> str:
    """The page with a table in the place of the one that has the same head."""
    rows = page.splitlines()
    if rows.count(lines[0]) != 1:
        raise ValueError(f"the page has no table, or several, with the head {lines[0]!r}")
    first = last = rows.index(lines[0])
    while last < len(rows) and rows[last].startswith("|"):
        last += 1
    return "\n".join([*rows[:first], *lines, *rows[last:], ""])


def main() -> None:
    """Run one table's experiments and print it."""
    parser = argparse.ArgumentParser(prog="python -m shoal.bench.tables", description=__doc__)
    parser.add_argument("table", choices=TABLES)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--seconds", type=float, default=2.0, help="about how long each transfer takes")
    parser.add_argument("--json", type=Path, help="write the results as well, for `shoal.bench.plots`")
    parser.add_argument("--page", type=Path, help="put the table into this page")
    given = parser.parse_args()
    results: list[dict[str, Any]] = []
    lines: list[str] = []
    for line in TABLES[given.table](given.rounds, given.seconds, results.append):
        print(line, flush=True)
        lines.append(line)
    if given.json:
        kept = {"table": given.table, "title": TITLES.get(given.table, given.table), "results": results}
        given.json.write_text(json.dumps(kept, indent=1) + "\n")
    if given.page:
        given.page.write_text(replace_table(given.page.read_text(), lines))


if __name__ == "__main__":
    main()
