"""Tables and plots of the documentation are those of the results beside them, and can be measured again."""

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from shoal_bench import figures

DOCS = Path(__file__).parents[3] / "docs"


@pytest.mark.parametrize("kept", sorted((DOCS / figures.FOLDER).glob("*.json")), ids=lambda path: path.stem)
def test_table_and_plot_of_the_documentation_are_of_their_results(kept: Path) -> None:
    results = json.loads(kept.read_text())
    assert kept.with_suffix(".svg").read_text() == figures.plot(kept.stem, results)
    page = (DOCS / figures.FIGURES[kept.stem].page).read_text()
    assert figures.replace(page, kept.stem, figures.block(kept.stem, results)) == page


@pytest.mark.parametrize("name", figures.FIGURES)
def test_every_table_has_a_place_in_its_page(name: str) -> None:
    page = (DOCS / figures.FIGURES[name].page).read_text()
    assert "\n| new |\n" in figures.replace(page, name, ["| new |"])


def test_only_what_is_between_the_comments_of_a_table_is_replaced() -> None:
    other = f"{figures.marker('lan')}\n| b |\n{figures.END}\n"
    page = f"# Page\n\n{figures.marker('norm')}\n| a |\n\n![old](a.svg)\n{figures.END}\n\nText.\n{other}"
    replaced = figures.replace(page, "norm", ["| 1 |", "| 2 |"])
    assert replaced == f"# Page\n\n{figures.marker('norm')}\n| 1 |\n| 2 |\n{figures.END}\n\nText.\n{other}"
    with pytest.raises(ValueError, match="the page has 0 places for latency"):
        figures.replace(page, "latency", [])


def test_results_table_and_plot_are_written_where_the_page_shows_them(tmp_path: Path) -> None:
    (tmp_path / figures.FOLDER).mkdir(parents=True)
    (tmp_path / "how-to").mkdir()
    page = tmp_path / "how-to/benchmark.md"
    page.write_text(f"{figures.marker('norm')}\n{figures.END}\n")
    side: dict[str, Any] = {"gbit_s": 8.0, "cpu_s_per_gb": 1.0, "repair_overhead": 0.01}
    result = {"loss_percent": 1.0, "shoal": side, "libnorm": side, "kernel": side, "ratio": 1.0}
    figures.write(tmp_path, "norm", [result])
    assert "| 1 % | 8.0 | 8.00 | 1.0 | 8 | 1.00 | 1.0 | 1.00% |" in page.read_text()
    assert "](../design/figures/norm.svg)" in page.read_text()
    assert json.loads((tmp_path / figures.FOLDER / "norm.json").read_text()) == [result]
    assert "shoal 8.0 Gbit/s" in (tmp_path / figures.FOLDER / "norm.svg").read_text()


def test_a_measurement_that_takes_too_long_is_ended_with_all_its_processes(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    child = "import time; time.sleep(600)"
    parent = f"import subprocess, sys; subprocess.run([sys.executable, '-c', {child!r}])"
    started = subprocess.Popen
    # All of them hold the writing end, so reading ends with the last of them.
    read, written = os.pipe()

    def start(_command: list[str], **options: Any) -> Any:
        return started([sys.executable, "-c", parent], stdout=written, **options)

    monkeypatch.setattr(subprocess, "Popen", start)
    assert figures.run("norm", [], 1.0) == "ended after 1 s, when the time was over"
    os.close(written)
    with os.fdopen(read, "rb") as left:
        assert left.read() == b""


def test_what_cannot_be_measured_and_what_there_is_no_time_for_is_said(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(figures, "run", lambda *_: None)
    monkeypatch.setattr(figures.os, "geteuid", lambda: 1000)
    assert figures.measure_all([], 3600.0) == 2
    said = capsys.readouterr().out
    assert "=== throughput: measured in 0 s\n" in said
    assert "=== lan: it makes network namespaces, which needs root\n" in said
    assert figures.measure_all([], -1.0) == len(figures.FIGURES)
    assert "=== throughput: the time is over\n" in capsys.readouterr().out
