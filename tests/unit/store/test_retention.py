"""Which segments may go, decided from figures."""

from pathlib import Path

import pytest

from shoal.store.config import Rule, StoreConfig
from shoal.store.retention import Plan, SegmentFacts, plan

DAY_US = 86_400 * 10**6
NOW_US = 100 * DAY_US


def config(*rules: Rule, **options: float | int) -> StoreConfig:
    return StoreConfig(path=Path(), record=rules, **options)  # type: ignore[arg-type]


def segment(number: int, *, days_ago: float, rules: dict[int | None, int]) -> SegmentFacts:
    """Ten messages a segment; segment 1 begins at offset 0."""
    return SegmentFacts(
        number=number,
        first=10 * (number - 1),
        end=10 * number,
        ended_us=int(NOW_US - days_ago * DAY_US),
        bytes=1000,
        rules=rules,
    )


def decide(config: StoreConfig, *segments: SegmentFacts, hold: int | None = None, floor: int = 0) -> Plan:
    return plan(config, segments, floor=floor, hold=hold, now_us=NOW_US)


DAYS = ((1, 9), (2, 5), (3, 1))
THREE = tuple(segment(number, days_ago=days_ago, rules={None: 1000}) for number, days_ago in DAYS)
#: Half of each belongs to the first rule, half to none.
HALVES = tuple(segment(number, days_ago=days_ago, rules={0: 500, None: 500}) for number, days_ago in DAYS)


def test_without_limits_everything_stays() -> None:
    assert decide(config(), *THREE) == Plan(0)


def test_old_segments_go_oldest_first() -> None:
    assert decide(config(keep_s=4 * 86_400.0), *THREE) == Plan(20)
    assert decide(config(keep_s=0.0), *THREE) == Plan(30)


@pytest.mark.parametrize(("keep_bytes", "floor"), [(3000, 0), (2999, 10), (2000, 10), (500, 30)])
def test_what_is_too_much_goes_oldest_first(keep_bytes: int, floor: int) -> None:
    assert decide(config(keep_bytes=keep_bytes), *THREE) == Plan(floor)


def test_nothing_goes_that_somebody_holds() -> None:
    assert decide(config(keep_s=0.0), *THREE, hold=20) == Plan(20)
    assert decide(config(keep_s=0.0), *THREE, hold=19) == Plan(10)
    assert decide(config(keep_s=0.0), *THREE, hold=0) == Plan(0)


def test_a_rule_of_its_own_makes_a_topic_go_before_the_others() -> None:
    short = config(Rule(pattern="a", keep_s=2 * 86_400.0))
    assert decide(short, *HALVES) == Plan(0, ((1, frozenset({0})), (2, frozenset({0}))))


def test_a_rule_of_its_own_makes_a_topic_stay_after_the_others() -> None:
    long = config(Rule(pattern="a", keep_s=30 * 86_400.0), keep_s=4 * 86_400.0)
    assert decide(long, *HALVES) == Plan(0, ((1, frozenset({None})), (2, frozenset({None}))))


def test_bytes_of_a_rule_count_from_the_newest() -> None:
    some = config(Rule(pattern="a", keep_bytes=1000))
    assert decide(some, *HALVES) == Plan(0, ((1, frozenset({0})),))


def test_a_segment_is_not_written_anew_for_a_little() -> None:
    little = segment(1, days_ago=9, rules={0: 10, None: 990})
    short = config(Rule(pattern="a", keep_s=0.0))
    assert decide(short, little) == Plan(0)


def test_a_segment_without_messages_goes_with_those_before_it() -> None:
    old, empty, kept = THREE[0], segment(2, days_ago=8, rules={}), THREE[2]
    assert decide(config(keep_s=4 * 86_400.0), old, empty, kept) == Plan(20)
    assert decide(config(keep_s=4 * 86_400.0), kept, empty) == Plan(0)
