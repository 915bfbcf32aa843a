"""What operating systems do differently: limits, forks, waiting for descriptors, room on a disk.

The rest of Shoal asks here, so that it can be imported where Linux's own modules are missing: `resource` and
`select.poll` on Windows, `/proc` on macOS.
"""

import contextlib
import math
import os
import select
import shutil
import sys
from collections.abc import Callable
from pathlib import Path

try:
    import resource
except ImportError:
    resource = None  # type: ignore[assignment]

#: Where the system shows the descriptors of this process: Linux and macOS.
_DESCRIPTORS = Path("/dev/fd")


def descriptor_limits() -> tuple[float, float]:
    """How many descriptors this process may have, and how many it may ask for; infinite where no limit is."""
    if resource is None:
        return math.inf, math.inf
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    endless = resource.RLIM_INFINITY
    return (math.inf if soft == endless else soft), (math.inf if hard == endless else hard)


def raise_descriptor_limit() -> None:
    """Have as many descriptors as this process may ask for."""
    if resource is None:
        return
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    if soft != hard:
        # macOS names no limit, and refuses it.
        with contextlib.suppress(ValueError, OSError):
            resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))


def descriptors_in_use() -> int:
    """How many descriptors this process has open; 0 where the system does not say."""
    try:
        return sum(1 for _ in _DESCRIPTORS.iterdir())
    except OSError:
        return 0


def stack_bytes() -> int:
    """What the system takes for a thread's stack; 0 where it does not say, or has no limit."""
    if resource is None:
        return 0
    limit = resource.getrlimit(resource.RLIMIT_STACK)[0]
    return 0 if limit == resource.RLIM_INFINITY else limit


def processor_s() -> float:
    """Processor time of this process."""
    times = os.times()
    return times.user + times.system


def memory_bytes() -> int:
    """Memory of this process; the most it ever had, or 0, where the system does not say."""
    with contextlib.suppress(OSError, IndexError, ValueError):
        pages = Path("/proc/self/statm").read_text(encoding="ascii").split()[1]
        return int(pages) * os.sysconf("SC_PAGE_SIZE")
    if resource is None:
        return 0
    most = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    return most if sys.platform == "darwin" else most * 1024


def bytes_read() -> int:
    """Bytes that this process has read from files and sockets; 0 where the system does not say."""
    with contextlib.suppress(OSError, IndexError, ValueError):
        return int(Path("/proc/self/io").read_text(encoding="ascii").split()[1])
    return 0


def free_bytes(path: Path) -> int:
    """Room on the disk of a file or directory, for a process without privileges."""
    return shutil.disk_usage(path).free


def after_fork(call: Callable[[], object]) -> None:
    """Call this in each forked child, where processes fork."""
    if hasattr(os, "register_at_fork"):
        os.register_at_fork(after_in_child=call)


class Readable:
    """Waits until one of some descriptors can be read. For one thread at a time."""

    def __init__(self, *descriptors: int) -> None:
        self._descriptors = list(descriptors)
        self._poll = select.poll() if hasattr(select, "poll") else None
        for descriptor in descriptors if self._poll is not None else ():
            assert self._poll is not None
            self._poll.register(descriptor, select.POLLIN)

    def wait(self, timeout_s: float | None = None) -> bool:
        """Whether one can be read in time; `None` waits without limit."""
        if self._poll is not None:
            # Rounded up: a wait that ends too early would be begun again at once.
            return bool(self._poll.poll(None if timeout_s is None else math.ceil(max(timeout_s, 0.0) * 1000)))
        return bool(select.select(self._descriptors, [], [], timeout_s)[0])
