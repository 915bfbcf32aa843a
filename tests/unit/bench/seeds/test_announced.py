"""The laws of replication of the waiting-time experiment, and the cluster's files."""

import random
from statistics import mean

import pytest

import shoal
from shoal_bench.seeds import announced
from shoal_bench.seeds.waiting_sides import SHARE, SUBSCRIBERS, copies_max, properties, selector


def copies(law: str, carried: dict[str, str]) -> int:
    wanted = [shoal.Selector(selector(law, number)) for number in range(SUBSCRIBERS)]
    return sum(bool(each.matches(carried)) for each in wanted)


@pytest.mark.parametrize("law", announced.LAWS)
def test_messages_are_for_as_many_subscribers_as_the_law_says(law: str) -> None:
    draw = random.Random(7)
    assert copies(law, properties(law, "none", draw)) == 0
    assert copies(law, properties(law, "most", draw)) == copies_max(law)
    drawn = [copies(law, properties(law, "law", draw)) for _ in range(400)]
    assert mean(drawn) == pytest.approx(SHARE * SUBSCRIBERS, rel=0.2)
    assert set(drawn) == {10} if law == "fixed" else len(set(drawn)) > 1
    if law == "all-or-none":
        assert set(drawn) == {0, SUBSCRIBERS}


def test_daemons_of_a_cluster_connect_to_those_before_them() -> None:
    assert announced._file(0, [1, 2, 3]).count("url") == 0
    assert 'url = "tcp://127.0.0.1:1"' in announced._file(2, [1, 2, 3])
    assert announced._file(2, [1, 2, 3]).count("url") == 2
