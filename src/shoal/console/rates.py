"""How fast counters grow: the value of a counter at two looks becomes a rate."""

from collections.abc import Hashable

from shoal.console.look import rounded

#: Counters that are remembered; of more, no rate is known.
COUNTERS_MAX = 200_000


class Rates:
    """The last value of each counter. A counter that was not asked about in a turn is forgotten."""

    def __init__(self) -> None:
        self._before: dict[Hashable, tuple[float, float]] = {}
        self._now: dict[Hashable, tuple[float, float]] = {}

    def turn(self) -> None:
        """The next look begins."""
        self._before, self._now = self._now, {}

    def of(
        self, key: Hashable, at_s: float, value: float | int | None, *, falls: bool = False
    ) -> float | None:
        """How much a value grew in a second since the look before; none at first.

        A counter that fell was started again, and has no rate either, unless it may fall.
        """
        if value is None:
            return None
        if len(self._now) < COUNTERS_MAX:
            self._now[key] = (at_s, float(value))
        last = self._before.get(key)
        if last is None or at_s <= last[0] or (value < last[1] and not falls):
            return None
        return rounded((value - last[1]) / (at_s - last[0]))
