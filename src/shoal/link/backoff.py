"""How long to wait before the next attempt."""

import random
from collections.abc import Callable

#: The first wait, and how many times longer each one is than the one before.
FIRST_S, FACTOR = 0.05, 2.0


class Backoff:
    """Waits that grow up to a bound, each a random part of its length.

    Many programs that lost the same peer do not return at once.
    """

    def __init__(self, most_s: float, chance: Callable[[], float] = random.random) -> None:
        self._most_s = most_s
        self._chance = chance
        self._next_s = min(FIRST_S, most_s)

    def next_s(self) -> float:
        """The next wait: between half of its length and all of it."""
        length_s = self._next_s
        self._next_s = min(length_s * FACTOR, self._most_s)
        return length_s * (0.5 + 0.5 * self._chance())

    def reset(self) -> None:
        """Begin anew: it worked."""
        self._next_s = min(FIRST_S, self._most_s)
