"""How long something was on its way, by two clocks that do not agree; as `clock_offset.rs` does it for links.

What the other side's clock showed, and when that arrived by ours, differ by how far the clocks are apart plus
how long it was on its way. The least difference seen lately stands for something that was not held up;
whatever arrives with a greater one is older by as much. Clocks drift, so differences are forgotten in time.
Neither clock may jump.
"""

#: Differences are forgotten after one to two of these.
PERIOD_S = 60.0


def clock_us(now: float) -> int:
    """What a clock of seconds shows, as it is said to the other side."""
    return int(now * 1e6)


class ClockOffset:
    """The difference between the clock of the other side and ours. For one thread at a time."""

    __slots__ = ("_before", "_least", "_period_end")

    def __init__(self) -> None:
        #: The least difference of this period and of the one before.
        self._least: float | None = None
        self._before: float | None = None
        self._period_end = 0.0

    def age_s(self, now: float, at_us: object) -> float:
        """How old something is that happened when the other clock showed `at_us`; 0 where it said nothing."""
        if not isinstance(at_us, int) or isinstance(at_us, bool) or not 0 <= at_us < 1 << 62:
            return 0.0
        difference = now - at_us / 1e6
        if self._least is None or now >= self._period_end:
            self._before = self._least
            self._least, self._period_end = difference, now + PERIOD_S
        self._least = min(self._least, difference)
        least = self._least if self._before is None else min(self._least, self._before)
        return difference - least
