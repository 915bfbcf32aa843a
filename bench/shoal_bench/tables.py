"""The tables of the documentation, as Markdown, from what the experiments behind them returned.

What measures a table is here too. Nothing in a table is typed by hand; `shoal_bench.figures` is the command.
"""

import sys
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

from shoal_bench import lan, latency, norm, sharing, slow, throughput

#: What one experiment returned, as `shoal bench --json` writes it.
Result = Mapping[str, Any]
#: Rounds, and about how long each transfer takes, to results.
Measure = Callable[[int, float], Iterable[Result]]
Lines = Callable[[Sequence[Result]], Iterable[str]]

#: Size and subscribers of each row: those that there are aims for.
THROUGHPUT_ROWS = ((64, 1), (1024, 1), (64, 4), (16_384, 4))
#: Percent of loss.
NORM_ROWS, FEC_ROWS = (0.0, 1.0), (1.0, 5.0)


def measure_throughput(rounds: int, seconds: float) -> Iterable[Result]:
    """A result for each size and number of subscribers."""
    for size, subscribers in THROUGHPUT_ROWS:
        options = throughput.ThroughputOptions(
            size=size, subscribers=subscribers, rounds=rounds, seconds=seconds
        )
        yield throughput.run(options, tell)


def throughput_lines(results: Sequence[Result]) -> Iterable[str]:
    """A row for each size and number of subscribers."""
    contestants = ("shoal", "zenoh", "zmq")
    yield from _head("bytes", "to", *(f"{name} msg/s" for name in contestants), "ratio", *contestants)
    for result in results:
        rates = (f"{result[name]['msg_s']:,.0f}" for name in contestants)
        costs = (f"{result[name]['cpu_s_per_million']:.2f}" for name in contestants)
        ratio = f"{result['ratio_to_best_peer']:.2f}"
        yield _row(f"{result['size']:,}", result["subscribers"], *rates, ratio, *costs)


def measure_latency(rounds: int, _seconds: float) -> Iterable[Result]:
    """Round trips of all contestants."""
    yield latency.run(latency.LatencyOptions(peers=("zmq", "zenoh"), rounds=rounds), tell)


def latency_lines(results: Sequence[Result]) -> Iterable[str]:
    """A row for each contestant."""
    yield from _head("", "p50 µs", "p99 µs", "p99.9 µs", "p50 ÷ ours", "p99 ÷ ours")
    for result in results:
        for name in ("shoal", "zmq", "zenoh"):
            times = (f"{result[name][part]:.0f}" for part in latency.PERCENTILES)
            ratios = (f"{result[name].get(part, 1):.2f}" for part in ("ratio_p50", "ratio_p99"))
            yield _row(name, *times, *ratios)


def measure_lan(rounds: int, seconds: float) -> Iterable[Result]:
    """One subscriber, and many."""
    yield lan.run(lan.LanOptions(rounds=rounds, seconds=max(seconds, 3.0)), tell)


def lan_lines(results: Sequence[Result]) -> Iterable[str]:
    """A row for one subscriber, and one for many."""
    yield from _head("to", "Mbit/s", "of the Ethernet payload", "repairs", "CPU s per million")
    for result in results:
        for name, figures in result.items():
            if isinstance(figures, Mapping):
                yield _row(
                    name.removeprefix("to_"),
                    f"{figures['goodput_mbit_s']:.1f}",
                    f"{figures['share_of_ethernet_payload']:.3f}",
                    f"{figures['repairs_share']:.2%}",
                    f"{figures['cpu_s_per_million']:.1f}",
                )


def measure_norm(rounds: int, seconds: float) -> Iterable[Result]:
    """Streams without and with loss."""
    for loss_percent in NORM_ROWS:
        yield norm.run(norm.NormOptions(loss_percent=loss_percent, rounds=rounds, seconds=seconds))


def norm_lines(results: Sequence[Result]) -> Iterable[str]:
    """A row for each loss."""
    yield from _head(
        "loss",
        "Shoal, Gbit/s",
        "libnorm",
        "ratio",
        "kernel, no protocol",
        "Shoal, CPU s per GB",
        "libnorm",
        "repairs",
    )
    for result in results:
        ours, theirs = result["shoal"], result["libnorm"]
        yield _row(
            f"{result['loss_percent']:g} %",
            f"{ours['gbit_s']:.1f}",
            f"{theirs['gbit_s']:.2f}",
            f"{result['ratio']:.1f}",
            f"{result['kernel']['gbit_s']:.0f}",
            f"{ours['cpu_s_per_gb']:.2f}",
            f"{theirs['cpu_s_per_gb']:.1f}",
            f"{ours['repair_overhead']:.2%}",
        )


def measure_fec(rounds: int, seconds: float) -> Iterable[Result]:
    """Streams with parity, and without."""
    for loss_percent in FEC_ROWS:
        options = norm.NormOptions(loss_percent=loss_percent, fec="rs", rounds=rounds, seconds=seconds)
        yield norm.run(options)


def fec_lines(results: Sequence[Result]) -> Iterable[str]:
    """A row for each loss."""
    yield from _head(
        "loss",
        "with parity, Gbit/s",
        "without",
        "libnorm with as much",
        "CPU s per GB, with",
        "without",
        "repairs, with",
        "without",
    )
    for result in results:
        coded, plain = result["shoal"], result[norm.NO_CODE]
        yield _row(
            f"{result['loss_percent']:g} %",
            f"{coded['gbit_s']:.1f}",
            f"{plain['gbit_s']:.1f}",
            f"{result['libnorm']['gbit_s']:.2f}",
            f"{coded['cpu_s_per_gb']:.2f}",
            f"{plain['cpu_s_per_gb']:.2f}",
            f"{coded['repair_overhead']:.2%}",
            f"{plain['repair_overhead']:.2%}",
        )


#: What happens to one subscriber, in words.
TROUBLES = {
    "none": "no subscriber is in trouble",
    "stopped": "one is stopped for a while",
    "tenth": "one reads a tenth of the rate",
    "lossy": "one loses a fifth of its datagrams",
}


def measure_slow(rounds: int, _seconds: float) -> Iterable[Result]:
    """One subscriber in trouble, among others that are not."""
    yield slow.run(slow.SlowOptions(rounds=rounds), tell)


def slow_lines(results: Sequence[Result]) -> Iterable[str]:
    """A row for each trouble."""
    yield from _head("", "messages/s to the others", "of what they get without", "longest publish, s")
    for result in results:
        for trouble, words in TROUBLES.items():
            figures = result[trouble]
            share = f"{figures['share']:.2f}" if trouble != "none" else ""
            yield _row(words, f"{figures['msg_s']:,.0f}", share, f"{figures['publish_max_s']:.2f}")


def measure_sharing(rounds: int, seconds: float) -> Iterable[Result]:
    """All contests on the bottleneck; each needs several seconds to mean something."""
    lasting_s = max(seconds, 20.0)
    options = sharing.SharingOptions(rounds=rounds, seconds=lasting_s, warm_up_s=lasting_s / 4)
    yield sharing.run(options, tell)


def sharing_lines(results: Sequence[Result]) -> Iterable[str]:
    """A row for each contest."""
    yield from _head(
        "contest", "Mbit/s", "the other", "ratio", "of the payload", "repairs", "half the rate after"
    )
    for result in results:
        for name, figures in result.items():
            if not isinstance(figures, Mapping):
                continue
            other = figures.get("tcp_mbit_s", figures.get("other_mbit_s"))
            yield _row(
                f"`{name}`",
                f"{figures['goodput_mbit_s']:.1f}",
                "" if other is None else f"{other:.1f}",
                "" if other is None else f"{figures['ratio']:.2f}",
                f"{figures['share_of_payload']:.3f}",
                f"{figures['repairs_share']:.1%}",
                f"{figures['time_to_half_s']:.1f} s",
            )


def measure_history(rounds: int, _seconds: float) -> Iterable[Result]:
    """A store that records, and is read."""
    # It needs pyarrow.
    from shoal_bench import history

    yield history.run(history.HistoryOptions(rounds=rounds), tell)


def history_lines(results: Sequence[Result]) -> Iterable[str]:
    """A row for each thing that a store does."""
    yield from _head("what", "reached", "beside")
    for result in results:
        disk = f"the disk takes {result['disk']['gbit_s']:.1f} Gbit/s in order"
        for size in (64, 1024):
            recorded = result[f"recording_{size}"]
            rate = f"{recorded['msg_s']:,.0f} messages/s, {recorded['gbit_s']:.2f} Gbit/s"
            yield _row(f"recording messages of {size:,} B", rate, disk)
        for name, what in (("reading", "four columns"), ("reading_all_columns", "all columns")):
            rate = f"{result[name]['rows_s']:,.0f} rows/s, {result[name]['gb_s']:.2f} GB/s"
            yield _row(f"reading {what} of rows of 100 B", rate, "")
        selector, rare = result["selector"], result["rare_topic"]
        everything = f"reading all and selecting in pandas: {selector['pandas_s']:.1f} s"
        yield _row("a selector for a tenth of the rows", f"{selector['store_s']:.1f} s", everything)
        all_rows = f"reading everything: {rare['everything_ms']:,.0f} ms"
        yield _row(f"one topic of {rare['topics']:,}", f"{rare['ms']:.0f} ms", all_rows)
        recovery = result["recovery"]
        found = f"{recovery['seconds']:.2f} s for {recovery['gigabytes']:.1f} GB"
        yield _row("opening the log after a kill", found, f"answers after {recovery['ready_s']:.1f} s")
        memory = result["memory"]
        yield _row(
            f"memory with {memory['messages']:,} messages", f"{memory['rss_anonymous_mb']:,.0f} MB", ""
        )


def measure_spark(rounds: int, _seconds: float) -> Iterable[Result]:
    """Spark over a store and over Parquet."""
    # It needs pyspark.
    from shoal_bench import spark

    yield spark.run(spark.SparkOptions(rounds=rounds), tell)


def spark_lines(results: Sequence[Result]) -> Iterable[str]:
    """A row for each way to read and write."""
    yield from _head("", "format `shoal`, rows/s", "Parquet, rows/s", "ratio")
    for result in results:
        ours, theirs = result["shoal"], result["parquet"]
        for part, what in (("batch_rows_s", "batch"), ("stream_rows_s", "stream")):
            ratio = f"{ours[part] / theirs[part]:.2f}"
            yield _row(what, f"{ours[part]:,.0f}", f"{theirs[part]:,.0f}", ratio)
        speedup = f"{result['selector_speedup']:.1f} times a filter of Spark's"
        yield _row("a selector for a tenth", f"{ours['selector_rows_s']:,.0f}", "", speedup)
        yield _row("sink, until the commit", f"{ours['sink_rows_s']:,.0f}", "", "")
        yield _row("sink, until published", f"{ours['sink_published_rows_s']:,.0f}", "", "")


def tell(number: int, contestant: str, reached: str) -> None:
    """Say how far it is."""
    if reached:
        print(f"round {number}, {contestant}: {reached}", file=sys.stderr, flush=True)


def _head(*names: str) -> Sequence[str]:
    return _row(*names), _row(*("---" for _ in names))


def _row(*cells: object) -> str:
    return f"| {' | '.join(map(str, cells))} |"
