"""Rows of tables, from what experiments return."""

from typing import Any

import pytest

from shoal_bench import lan, latency, tables, throughput


def test_the_throughput_table_has_a_row_for_each_load(monkeypatch: pytest.MonkeyPatch) -> None:
    def run(options: throughput.ThroughputOptions, _follow: object) -> dict[str, Any]:
        figures = {"msg_s": options.size * 1000.0, "cpu_s_per_million": 0.5}
        sides = {"shoal": figures, "zenoh": figures, "zmq": figures}
        return {**sides, "ratio_to_best_peer": 1.0, "size": options.size, "subscribers": options.subscribers}

    monkeypatch.setattr(throughput, "run", run)
    lines = list(tables.throughput_lines(list(tables.measure_throughput(5, 1.0))))
    assert len(lines) == 2 + len(tables.THROUGHPUT_ROWS)
    assert lines[2] == "| 64 | 1 | 64,000 | 64,000 | 64,000 | 1.00 | 0.50 | 0.50 | 0.50 |"


def test_the_latency_table_shows_theirs_divided_by_ours(monkeypatch: pytest.MonkeyPatch) -> None:
    times = {"shoal": 50_000, "zmq": 100_000, "zenoh": 150_000}
    monkeypatch.setattr(latency, "round_trips_ns", lambda name, _options: [times[name]] * 10)
    assert list(tables.latency_lines(list(tables.measure_latency(1, 1.0))))[2:] == [
        "| shoal | 50 | 50 | 50 | 1.00 | 1.00 |",
        "| zmq | 100 | 100 | 100 | 2.00 | 2.00 |",
        "| zenoh | 150 | 150 | 150 | 3.00 | 3.00 |",
    ]


def test_the_lan_table_shows_one_and_many(monkeypatch: pytest.MonkeyPatch) -> None:
    transfer = lan.LanTransfer(goodput_mbit_s=90.0, repairs_share=0.001, cpu_s_per_million=2.0)

    def run(options: lan.LanOptions, _follow: object) -> dict[str, Any]:
        return lan.summary(options, {1: [transfer], 8: [transfer]})

    monkeypatch.setattr(lan, "run", run)
    assert list(tables.lan_lines(list(tables.measure_lan(1, 1.0))))[2:] == [
        "| 1 | 90.0 | 0.908 | 0.10% | 2.0 |",
        "| 8 | 90.0 | 0.908 | 0.10% | 2.0 |",
    ]


def test_the_table_of_slow_subscribers_compares_each_trouble_with_none() -> None:
    figures = {"msg_s": 100_000.0, "share": 0.95, "publish_max_s": 0.5}
    result = dict.fromkeys(("none", "stopped", "tenth", "lossy"), figures)
    lines = list(tables.slow_lines([result]))[2:]
    assert lines[0] == "| no subscriber is in trouble | 100,000 |  | 0.50 |"
    assert lines[1] == "| one is stopped for a while | 100,000 | 0.95 | 0.50 |"
    assert len(lines) == 4


def test_the_table_of_spark_is_beside_parquet() -> None:
    ours = dict.fromkeys(
        ("batch_rows_s", "stream_rows_s", "selector_rows_s", "sink_rows_s", "sink_published_rows_s"), 1e6
    )
    theirs = {"batch_rows_s": 2e6, "stream_rows_s": 4e6}
    lines = list(tables.spark_lines([{"shoal": ours, "parquet": theirs, "selector_speedup": 3.0}]))[2:]
    assert lines[0] == "| batch | 1,000,000 | 2,000,000 | 0.50 |"
    assert lines[1] == "| stream | 1,000,000 | 4,000,000 | 0.25 |"
    assert lines[2] == "| a selector for a tenth | 1,000,000 |  | 3.0 times a filter of Spark's |"


def test_the_table_of_history_says_what_stands_beside_each_figure() -> None:
    reading = {"rows_s": 3e6, "gb_s": 0.5}
    result = {
        "disk": {"gbit_s": 8.0},
        "recording_64": {"msg_s": 1e6, "gbit_s": 0.51},
        "recording_1024": {"msg_s": 2e5, "gbit_s": 1.64},
        "reading": reading,
        "reading_all_columns": reading,
        "selector": {"store_s": 1.0, "pandas_s": 2.5},
        "rare_topic": {"ms": 5.0, "everything_ms": 900.0, "topics": 10_001},
        "recovery": {"seconds": 0.25, "gigabytes": 1.5, "ready_s": 0.4},
        "memory": {"messages": 10_000_000, "rss_anonymous_mb": 60.0},
    }
    lines = list(tables.history_lines([result]))[2:]
    first = "1,000,000 messages/s, 0.51 Gbit/s | the disk takes 8.0 Gbit/s in order"
    assert lines[0] == f"| recording messages of 64 B | {first} |"
    assert "| one topic of 10,001 | 5 ms | reading everything: 900 ms |" in lines
    assert lines[-1] == "| memory with 10,000,000 messages | 60 MB |  |"
