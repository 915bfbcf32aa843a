"""What a daemon says of its own capacity, from its counters, once a second."""

from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass
from typing import Any

from shoal.capacity import Estimate, Estimator
from shoal.capacity.estimator import Load

EVERY_S = 1.0


@dataclass(frozen=True, slots=True)
class CapacityLow:
    """The process used more than 80 % of a core for 30 s."""

    #: The share of a core in the last second.
    load: float
    #: Messages received in the last second.
    received_msg_s: float


@dataclass(frozen=True, slots=True)
class CapacityRegained:
    """The load is lower again."""

    #: The share of a core in the last second.
    load: float


class CapacityWatch:
    """Call `turn` as often as you like: it looks at the counters once a second. Not thread-safe."""

    def __init__(self) -> None:
        self._estimator = Estimator()
        self._next_at = float("-inf")
        self._last: Estimate | None = None
        self._is_low = False

    def turn(
        self, now: float, counted: Callable[[], Mapping[str, Any]]
    ) -> CapacityLow | CapacityRegained | None:
        """Take what was counted, as a status has it, if a second is over: the event, if there is one."""
        if now < self._next_at:
            return None
        self._next_at = now + EVERY_S
        found = self._estimator.update(now, Load.of_status(counted()))
        if found is None:
            return None
        self._last = found
        before, self._is_low = self._is_low, self._estimator.is_low_on_capacity
        if self._is_low and not before:
            return CapacityLow(found.load, found.received_msg_s)
        return CapacityRegained(found.load) if before and not self._is_low else None

    def status(self) -> dict[str, Any] | None:
        """The last estimate, and whether capacity is low; none before there is one."""
        return None if self._last is None else {**asdict(self._last), "low": self._is_low}
