from pathlib import Path
from typing import Any

import pytest

from shoal.bench import lan, latency, tables, throughput


def test_the_throughput_table_has_a_row_for_each_load(monkeypatch: pytest.MonkeyPatch) -> None:
    def run(options: throughput.ThroughputOptions, _follow: object) -> dict[str, Any]:
        figures = {"msg_s": options.size * 1000.0, "cpu_s_per_million": 0.5}
        return {"shoal": figures, "zenoh": figures, "zmq": figures, "ratio_to_best_peer": 1.0}

    monkeypatch.setattr(throughput, "run", run)
    lines = list(tables.throughput_lines(5, 1.0))
    assert len(lines) == 2 + len(tables.ROWS)
    assert lines[2] == "| 64 | 1 | 64,000 | 64,000 | 64,000 | 1.00 | 0.50 | 0.50 | 0.50 |"


def test_the_latency_table_shows_theirs_divided_by_ours(monkeypatch: pytest.MonkeyPatch) -> None:
    times = {"shoal": 50_000, "zmq": 100_000, "zenoh": 150_000}
    monkeypatch.setattr(latency, "round_trips_ns", lambda name, _options: [times[name]] * 10)
    assert list(tables.latency_lines(1, 1.0))[2:] == [
        "| shoal | 50 | 50 | 50 | 1.00 | 1.00 |",
        "| zmq | 100 | 100 | 100 | 2.00 | 2.00 |",
        "| zenoh | 150 | 150 | 150 | 3.00 | 3.00 |",
    ]


def test_the_lan_table_shows_one_and_many(monkeypatch: pytest.MonkeyPatch) -> None:
    transfer = lan.LanTransfer(goodput_mbit_s=90.0, repairs_share=0.001, cpu_s_per_million=2.0)

    def run(options: lan.LanOptions, _follow: object) -> dict[str, Any]:
        return lan.summary(options, {1: [transfer], 8: [transfer]})

    monkeypatch.setattr(lan, "run", run)
    assert list(tables.lan_lines(1, 1.0))[2:] == [
        "| 1 | 90.0 | 0.908 | 0.10% | 2.0 |",
        "| 8 | 90.0 | 0.908 | 0.10% | 2.0 |",
    ]


def test_a_table_takes_the_place_of_the_one_with_its_head() -> None:
    page = "# Page\n\n| a | b |\n| --- | --- |\n| 1 | 2 |\n| 3 | 4 |\n\nText | with a bar.\n"
    lines = ["| a | b |", "| --- | --- |", "| 5 | 6 |"]
    assert tables.replace_table(page, lines) == (
        "# Page\n\n| a | b |\n| --- | --- |\n| 5 | 6 |\n\nText | with a bar.\n"
    )
    with pytest.raises(ValueError, match="no table, or several"):
        tables.replace_table(page, ["| other |"])


def test_the_page_has_the_table_that_would_be_replaced() -> None:
    page = (Path(__file__).parents[3] / "docs/design/performance.md").read_text()
    head = next(iter(tables.throughput_lines(1, 1.0)))
    assert tables.replace_table(page, [head]).count(head) == 1
