"""Plots are drawn from figures, and those of the documentation from the figures beside them."""

from pathlib import Path

import pytest

from shoal.bench import plots

FIGURES = Path(__file__).parents[3] / "docs/design/figures"
PAGE = FIGURES.parent / "performance.md"


def test_a_bar_is_as_long_as_its_share_of_the_largest() -> None:
    drawn = plots.draw("title", [("64 B to 1", {"shoal": (200.0, "200/s"), "zmq": (100.0, "100/s")})])
    longest = plots.WIDTH - plots.LEFT - plots.RIGHT
    assert f'width="{longest:.1f}"' in drawn
    assert f'width="{longest / 2:.1f}"' in drawn
    assert "shoal 200/s" in drawn


def test_latency_has_a_group_for_each_percentile() -> None:
    result = {"shoal": {"p50_us": 140.0, "p99_us": 276.0}, "zmq": {"p50_us": 141.0, "p99_us": 274.0}}
    groups = list(plots.latency_groups([result]))
    assert [name for name, _ in groups] == ["round trip, p50", "round trip, p99"]
    assert groups[1][1]["zmq"] == (274.0, "274 µs")


@pytest.mark.parametrize("figures", sorted(FIGURES.glob("*.json")), ids=lambda path: path.stem)
def test_the_plots_of_the_documentation_are_of_their_figures(figures: Path) -> None:
    assert figures.with_suffix(".svg").read_text() == plots.plot(figures)
    assert f"figures/{figures.stem}.svg" in PAGE.read_text()


def test_the_figures_are_those_of_the_table() -> None:
    page = PAGE.read_text()
    for _, bars in plots.throughput_groups(
        plots.json.loads((FIGURES / "throughput.json").read_text())["results"]
    ):
        for value, _text in bars.values():
            assert f"{value:,.0f}" in page
