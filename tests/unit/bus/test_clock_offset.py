"""How long something was on its way, by two clocks that do not agree."""

import pytest

from shoal.bus.clock_offset import ClockOffset, clock_us


def test_what_took_longer_than_the_fastest_is_older_by_as_much() -> None:
    offset = ClockOffset()
    # Ours is ten seconds ahead.
    assert offset.age_s(10.105, 100_000) == 0.0, "nothing faster was seen"
    assert offset.age_s(10.201, 200_000) == 0.0
    assert offset.age_s(10.301, 300_000) == pytest.approx(0.0, abs=1e-6)
    assert offset.age_s(11.301, 300_000) == pytest.approx(1.0)
    assert offset.age_s(11.400, 1_400_000) == 0.0, "it cannot come from the future"


def test_a_clock_that_drifts_is_followed() -> None:
    offset = ClockOffset()
    # The other clock goes slower by a thousandth: after ten minutes it is behind by 600 ms.
    for second in range(601):
        offset.age_s(float(second), second * 999_000)
    assert offset.age_s(600.0, 599_400_000) <= 0.12
    assert offset.age_s(601.0, 599_400_000) >= 1.0


@pytest.mark.parametrize("said", [None, "now", True, -1, 1 << 70, 0.5])
def test_what_is_no_time_says_nothing(said: object) -> None:
    offset = ClockOffset()
    offset.age_s(1.0, clock_us(1.0))
    assert offset.age_s(5.0, said) == 0.0
