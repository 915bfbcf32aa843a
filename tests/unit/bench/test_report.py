import json
from io import StringIO
from pathlib import Path

import pytest
from rich.console import Console

from shoal_bench import report

RESULT = {
    "shoal": {"gbit_s": 12.3456, "repair_overhead": 0.01, "rounds_gbit_s": [12.0, 12.3456, 13.0]},
    "libnorm": {"gbit_s": 1.0},
    "ratio": 12.3456,
}


def shown(json_to: str | None) -> str:
    written = StringIO()
    report.show("NORM", RESULT, json_to, console=Console(file=written, width=100))
    return written.getvalue()


def test_a_table_has_a_row_for_each_contestant_and_the_single_figures_below() -> None:
    lines = shown(None).splitlines()
    assert any("Shoal" in line and "12.3" in line and "0.01" in line for line in lines)
    assert any("libnorm" in line and "1" in line for line in lines)
    assert any(line.split() == ["ratio", "12.3"] for line in lines)


def test_lists_of_rounds_stay_out_of_the_table() -> None:
    assert "rounds" not in shown(None)


def test_an_experiment_may_show_a_table_of_its_own() -> None:
    written = StringIO()
    own = report.table("Coding", ["block", "encode"], [("1 KiB", "25.0")])
    report.show("Coding", RESULT, None, shown=own, console=Console(file=written, width=100))
    assert "1 KiB" in written.getvalue()
    assert "libnorm" not in written.getvalue()


def test_a_dash_puts_json_and_nothing_else_on_standard_output(capsys: pytest.CaptureFixture[str]) -> None:
    assert shown("-") == ""
    assert json.loads(capsys.readouterr().out) == RESULT


def test_a_file_gets_the_json_and_the_reader_the_table(tmp_path: Path) -> None:
    target = tmp_path / "result.json"
    assert "libnorm" in shown(str(target))
    assert json.loads(target.read_text()) == RESULT


def test_many_figures_are_read_from_top_to_bottom() -> None:
    written = StringIO()
    result = {"store": {f"figure_{n}": n for n in range(report.FIGURES_ABREAST + 1)}, "disk": {"mb_s": 366}}
    report.show("History", result, None, console=Console(file=written, width=40))
    assert "store: figure 6" in written.getvalue()
    assert any("disk: MB/s" in line and "366" in line for line in written.getvalue().splitlines())


@pytest.mark.parametrize(
    ("figure", "words"),
    [
        ("msg_s", "messages/s"),
        ("gbit_s", "Gbit/s"),
        ("p999_us", "p99.9 µs"),
        ("cpu_s_per_million", "CPU s per million"),
        ("cpu_us_per_message", "CPU µs per message"),
        ("publish_max_s", "publish max s"),
        ("sink_published_rows_s", "sink published rows/s"),
        ("rss_most_mb", "rss most MB"),
        ("ratio_to_best_peer", "ratio to best peer"),
    ],
)
def test_a_figure_is_shown_in_words_with_its_unit(figure: str, words: str) -> None:
    assert report.label(figure) == words
