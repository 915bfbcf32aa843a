"""Processor time of this process."""

import resource


class CpuClock:
    """Processor time since it was made, user and system: without the interpreter's start."""

    def __init__(self) -> None:
        self._began_s = self._now_s()

    def elapsed_s(self) -> float:
        """So much since then, of all threads."""
        return self._now_s() - self._began_s

    @staticmethod
    def _now_s() -> float:
        used = resource.getrusage(resource.RUSAGE_SELF)
        return used.ru_utime + used.ru_stime
