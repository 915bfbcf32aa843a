"""What a daemon or a store says of its own capacity, from its counters, once a second."""

from collections.abc import Callable, Mapping
from dataclasses import asdict
from typing import Any

from shoal.bus.events import CapacityLow, CapacityRegained
from shoal.capacity import Estimator
from shoal.capacity.estimator import Load

EVERY_S = 1.0


class CapacityWatch:
    """Call `turn` as often as you like: it looks at the counters once a second. Not thread-safe.

    Args:
        name: what the daemon or store is called, for its events.
    """

    def __init__(self, name: str) -> None:
        self._name = name
        self._estimator = Estimator()
        self._next_at = float("-inf")
        self._is_low = False

    def turn(
        self, now: float, counted: Callable[[], Mapping[str, Any]]
    ) -> CapacityLow | CapacityRegained | None:
        """Take what was counted, as a status has it, if a second is over: the event, if there is one."""
        if now < self._next_at:
            return None
        self._next_at = now + EVERY_S
        if not self._estimator.take(now, Load.of_status(counted())):
            return None
        before, self._is_low = self._is_low, self._estimator.is_low_on_capacity
        if before == self._is_low or (found := self._estimator.estimate()) is None:
            return None
        if self._is_low:
            return CapacityLow(self._name, found.load, found.received_msg_s)
        return CapacityRegained(self._name, found.load)

    def status(self) -> dict[str, Any] | None:
        """The last estimate, and whether capacity is low; none before there is one."""
        found = self._estimator.estimate()
        return None if found is None else {**asdict(found), "low": self._is_low}
