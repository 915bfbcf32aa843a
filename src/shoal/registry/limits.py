"""How often an address may ask: a token bucket for each. No clock of its own."""

from collections import OrderedDict

#: Addresses that a limit remembers; it forgets the one that asked longest ago.
ADDRESSES_MAX = 10_000


class RateLimit:
    """Bounds the requests of each address per second. For one thread at a time."""

    def __init__(self, per_s: float, addresses_max: int = ADDRESSES_MAX) -> None:
        self._per_s, self._addresses_max = per_s, addresses_max
        self._left: OrderedDict[str, tuple[float, float]] = OrderedDict()

    def admit(self, now: float, address: str) -> bool:
        """Whether an address may ask now."""
        left, at = self._left.pop(address, (self._per_s, now))
        left = min(self._per_s, left + (now - at) * self._per_s)
        admitted = left >= 1.0
        self._left[address] = (left - admitted, now)
        if len(self._left) > self._addresses_max:
            self._left.popitem(last=False)
        return admitted
