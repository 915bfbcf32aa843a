"""A limit on similar log lines: the limit counts the lines that it suppresses."""

import threading
import time
from collections.abc import Callable, Hashable
from dataclasses import replace

from shoal.messages import Line

#: The period over which lines of one kind are counted.
LOG_EVERY_S = 10.0
#: Kinds whose period is over are forgotten beyond so many.
KINDS_MAX = 1000


class LogLimit:
    """Admits `lines_max` lines of each kind per `LOG_EVERY_S`. May be shared between threads."""

    def __init__(self, lines_max: int = 1, clock: Callable[[], float] = time.monotonic) -> None:
        self._lines_max = lines_max
        self._clock = clock
        self._lock = threading.Lock()
        #: Of each kind: when its period began, and how many lines it had.
        self._periods: dict[Hashable, tuple[float, int]] = {}
        self._held: dict[Hashable, int] = {}

    def admit(self, kind: Hashable, line: Line) -> Line | None:
        """The line, with the number of lines suppressed before it; `None` if this one is suppressed."""
        with self._lock:
            now = self._clock()
            if len(self._periods) >= KINDS_MAX:
                over = [known for known, (began, _) in self._periods.items() if now - began >= LOG_EVERY_S]
                for known in over:
                    del self._periods[known]
            began, lines = self._periods.get(kind, (now, 0))
            if now - began >= LOG_EVERY_S:
                began, lines = now, 0
            if lines >= self._lines_max:
                self._held[kind] = self._held.get(kind, 0) + 1
                return None
            self._periods[kind] = (began, lines + 1)
            held = self._held.pop(kind, 0)
            return replace(line, suppressed=held)

    def take_held(self) -> dict[Hashable, int]:
        """The number of suppressed lines of each kind that no later line reported."""
        with self._lock:
            held, self._held = self._held, {}
            return held
