"""How often the same thing is logged: now and then, and what is held back is counted."""

import threading
import time
from collections.abc import Callable, Hashable

#: Lines of one kind are counted over so long.
LOG_EVERY_S = 10.0


class LogLimit:
    """Lets so many lines of each kind through in every `LOG_EVERY_S`. May be shared between threads."""

    def __init__(self, lines_max: int = 1, clock: Callable[[], float] = time.monotonic) -> None:
        self._lines_max = lines_max
        self._clock = clock
        self._lock = threading.Lock()
        #: Of each kind: when its period began, and how many lines it had.
        self._periods: dict[Hashable, tuple[float, int]] = {}
        self._held: dict[Hashable, int] = {}

    def admit(self, kind: Hashable) -> str | None:
        """What to add to the line, if it may be logged: how many were held back. `None` holds it back."""
        with self._lock:
            now = self._clock()
            began, lines = self._periods.get(kind, (now, 0))
            if now - began >= LOG_EVERY_S:
                began, lines = now, 0
            if lines >= self._lines_max:
                self._held[kind] = self._held.get(kind, 0) + 1
                return None
            self._periods[kind] = (began, lines + 1)
            held = self._held.pop(kind, 0)
            return f" ({held} more since the last one)" if held else ""

    def take_held(self) -> dict[Hashable, int]:
        """How many of each kind were held back and not mentioned since."""
        with self._lock:
            held, self._held = self._held, {}
            return held
