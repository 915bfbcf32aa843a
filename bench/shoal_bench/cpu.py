"""Processor time of this process, and of others."""

import os
import resource
from pathlib import Path


def process_cpu_s(pid: int) -> float:
    """Processor time of a process so far, user and system."""
    fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


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
