"""Bars are as long as what they stand for, and every table has a plot."""

import pytest

from shoal_bench import plots


def test_a_bar_is_as_long_as_its_share_of_the_largest_of_its_group() -> None:
    drawn = plots.draw("title", [("64 B to 1", {"shoal": (200.0, "200/s"), "zmq": (100.0, "100/s")})])
    longest = plots.WIDTH - plots.LEFT - plots.RIGHT
    assert f'width="{longest:.1f}"' in drawn
    assert f'width="{longest / 2:.1f}"' in drawn
    assert "shoal 200/s" in drawn


@pytest.mark.parametrize(("one_scale", "share"), [(True, 0.25), (False, 1.0)])
def test_groups_are_compared_only_where_they_have_one_scale(one_scale: bool, share: float) -> None:
    groups = [("alone", {"shoal": (100.0, "100")}), ("beside", {"shoal": (25.0, "25")})]
    drawn = plots.draw("title", groups, one_scale=one_scale)
    longest = plots.WIDTH - plots.LEFT - plots.RIGHT
    assert drawn.splitlines()[-2].count(f'width="{longest * share:.1f}"') == 1


def test_latency_has_a_group_for_each_percentile() -> None:
    result = {"shoal": {"p50_us": 140.0, "p99_us": 276.0}, "zmq": {"p50_us": 141.0, "p99_us": 274.0}}
    groups = list(plots.latency_groups([result]))
    assert [name for name, _ in groups] == ["round trip, p50", "round trip, p99"]
    assert groups[1][1]["zmq"] == (274.0, "274 µs")


def test_whoever_did_not_take_part_has_no_bar() -> None:
    result = {"loss_percent": 1.0, "shoal": {"gbit_s": 7.0}, "libnorm": {"gbit_s": 1.5}}
    ((name, bars),) = plots.norm_groups([result])
    assert (name, list(bars)) == ("1 % loss", ["shoal", "libnorm"])


def test_what_one_in_trouble_costs_the_others_is_a_group_for_each_trouble() -> None:
    result = {name: {"msg_s": rate} for rate, name in enumerate(("none", "stopped", "tenth", "lossy"), 1)}
    groups = list(plots.slow_groups([result]))
    assert [bars["shoal"][0] for _, bars in groups] == [1, 2, 3, 4]
    assert groups[0][0] == "no subscriber is in trouble"
