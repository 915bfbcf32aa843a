"""Failover: what is counted, and how rounds are put together."""

from typing import Any

import pytest

from shoal_bench import failover_sides
from shoal_bench.failover import FailoverOptions, Outcome, judge, summary
from shoal_bench.failover_sides import Pace, Tally


class Clock:
    """Stands in for `time` in the module under test."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.now_s = 100.0
        monkeypatch.setattr(failover_sides.time, "monotonic", lambda: self.now_s)


@pytest.mark.parametrize(
    ("field", "value"),
    [("size", 1), ("rate", 0), ("rounds", 0), ("kills", 0), ("seconds", 0.5)],
)
def test_an_option_that_cannot_work_is_refused_by_name(field: str, value: Any) -> None:
    with pytest.raises(ValueError, match=f"{field} must be .*, not "):
        FailoverOptions(**{field: value, "peers": ()})


def test_a_publisher_that_was_held_up_publishes_what_is_due(monkeypatch: pytest.MonkeyPatch) -> None:
    clock = Clock(monkeypatch)
    pace = Pace(rate=1000, size=16)
    assert pace.due() == [], "connecting took its time, and the clock starts now"
    clock.now_s += 0.0025
    bodies = pace.due()
    assert [body[:8] for body in bodies] == [number.to_bytes(8, "big") for number in (1, 2)]
    assert {len(body) for body in bodies} == {16}
    clock.now_s += 0.5
    assert len(pace.due()) == 500
    assert (pace.sent, pace.held_up_s) == (502, pytest.approx(0.5))


def tally(*numbers: int) -> dict[str, Any]:
    made = Tally()
    for number in numbers:
        made.take(number.to_bytes(8, "big"))
    return made.result()


@pytest.mark.parametrize(
    ("numbers", "missing", "doubled", "out_of_order"),
    [
        ((3, 4, 5), 0, 0, 0),
        ((1, 2, 5), 2, 0, 0),
        ((1, 2, 2, 3, 1), 0, 2, 0),
        ((1, 3, 2), 0, 0, 1),
        ((1, 3, 2, 2), 0, 1, 1),
    ],
)
def test_what_came_is_counted(
    numbers: tuple[int, ...], missing: int, doubled: int, out_of_order: int
) -> None:
    found = tally(*numbers)
    assert (found["missing"], found["doubled"], found["out_of_order"]) == (missing, doubled, out_of_order)


def test_a_silence_belongs_to_the_kill_that_it_follows(monkeypatch: pytest.MonkeyPatch) -> None:
    clock, made = Clock(monkeypatch), Tally()
    for number, after_s in enumerate((0.0, 0.5, 0.005, 2.0, 0.005), 1):
        clock.now_s += after_s
        made.take(number.to_bytes(8, "big"))
    clock.now_s += 0.02
    received = {**made.result(), "told": 0}
    # Kills at 100.3 and 100.6 s, and one after the last message.
    sent = {"sent": 5, "held_up_s": 0.1}
    outcome = judge(sent, received, [100.3, 100.6, 102.52], window_s=0.3)
    assert outcome.silences_s == pytest.approx((2.0, 2.0, 0.02))
    assert judge(sent, received, [100.3], window_s=0.1).silences_s == pytest.approx((0.5,))
    assert outcome.lost == 0


def test_what_never_came_is_lost_up_to_the_last_that_was_published() -> None:
    received = {**tally(3, 4, 7), "told": 2}
    outcome = judge({"sent": 10, "held_up_s": 0.0}, received, [], window_s=1.0)
    assert (outcome.messages, outcome.lost, outcome.told_lost) == (8, 5, 2)


def test_losses_are_added_up_and_the_silence_is_compared_with_the_best_peer() -> None:
    def outcome(lost: int, *silences_s: float) -> Outcome:
        return Outcome(100, lost, 0, 0, 0, 0.1, silences_s)

    options = FailoverOptions(peers=(), rounds=2)
    object.__setattr__(options, "peers", ("zenoh", "nats"))
    result = summary(
        options,
        {
            "shoal": [outcome(0, 1.0, 0.5), outcome(0, 0.6)],
            "zenoh": [outcome(5, 4.0)],
            "nats": [outcome(7, 2.0), outcome(1, 3.0)],
        },
    )
    assert (result["shoal"]["lost"], result["nats"]["lost"]) == (0, 8)
    assert (result["shoal"]["silence_p50_s"], result["shoal"]["silence_p95_s"]) == (0.6, 1.0)
    assert result["nats"]["silence_p95_s"] == 3.0
    assert result["ratio_to_best_peer"] == pytest.approx(3.0)
