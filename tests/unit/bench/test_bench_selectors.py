"""`shoal bench selectors`: what it reports, not how fast."""

import json

import pytest
from typer.testing import CliRunner

from shoal._core import SelectorBench
from shoal.cli.app import app
from shoal_bench.selectors import Plan


def test_the_report_has_the_promised_figures() -> None:
    result = CliRunner().invoke(
        app, ["bench", "selectors", "--count", "20", "--messages", "0", "--json", "-"]
    )
    assert result.exit_code == 0, result.output
    report = json.loads(result.stdout)
    assert report["count"] == 20
    assert report["ratio"] == report["scan"]["ns_per_message"] / report["index"]["ns_per_message"]
    for cost in ("add", "remove"):
        assert 0 < report[cost]["p50_us"] <= report[cost]["max_us"]
    assert report["bytes_per_selector"] > 0
    assert set(report["counts"]["20"]) == {"0.01", "0.0001"}
    assert report["identical"]["times_one"] > 0
    assert set(report["and_filters"]) == set(report["or_filters"]) == {"1", "2", "4", "8"}


def test_without_json_it_prints_tables() -> None:
    result = CliRunner().invoke(
        app, ["bench", "selectors", "--count", "10", "--rate", "0.5", "--messages", "0"]
    )
    assert result.exit_code == 0, result.output
    assert "Distinct selectors" in result.stdout
    assert "identical selectors cost" in result.stdout


def test_ten_thousand_identical_selectors_are_looked_at_once() -> None:
    bench = SelectorBench("identical", 10_000, 0.5, 0, messages=50, seed=3)
    _, matched = bench.index_round(50)
    assert 0 < matched <= 50
    assert bench.disagreements(50) == 0
    looked_at, _ = bench.work_per_message()
    assert looked_at <= 1


@pytest.mark.parametrize(
    "wrong", [{"counts": ()}, {"counts": (0,)}, {"rates": (0.0,)}, {"rounds": 4}, {"messages": 1}]
)
def test_a_plan_that_measures_nothing_is_refused(wrong: dict[str, tuple[int, ...]]) -> None:
    with pytest.raises(ValueError, match="must be at least"):
        Plan(**wrong)  # type: ignore[arg-type]
