"""Bytes that principals may send in a second. No clock of its own."""


class Budget:
    """What each principal of a token file has left. For one thread at a time."""

    def __init__(self) -> None:
        self._left: dict[str, tuple[float, float]] = {}

    def charge(self, now: float, name: str, size: int, per_s: int) -> float:
        """A principal sends so many bytes, of so many in a second: how long it has to wait after that.

        A second's worth may come at once.
        """
        left, at = self._left.get(name, (float(per_s), now))
        left = min(per_s, left + (now - at) * per_s) - size
        self._left[name] = left, now
        return max(0.0, -left / per_s)
