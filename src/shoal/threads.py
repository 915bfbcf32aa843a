"""Starts threads, or says why there can be none.

`threading.Thread.start` waits for its thread to begin, and waits for ever if there is no memory for that. So
this looks first whether there is.
"""

import mmap
import threading

from shoal.errors import LinkError
from shoal.system import stack_bytes

#: What the system takes for a thread's stack where the program chose no size and there is no limit.
_STACK_BYTES = 8 << 20
#: What a thread needs beside its stack before it can say that it runs.
_BESIDE_BYTES = 2 << 20


def start(thread: threading.Thread) -> None:
    """Start a thread.

    Raises:
        LinkError: there is no memory for it, or this process may have no more threads.
    """
    check_room(1)
    try:
        thread.start()
    except RuntimeError as error:
        raise LinkError(
            f"the thread {thread.name!r} cannot be started: this process may have no more of them "
            "(see ulimit -u, and the limit of its container)"
        ) from error


def check_room(threads: int) -> None:
    """Look whether there is memory for a number of threads more.

    Raises:
        LinkError: there is not.
    """
    room = threads * (_stack_bytes() + _BESIDE_BYTES)
    try:
        mmap.mmap(-1, room).close()
    except (OSError, MemoryError) as error:
        raise LinkError(
            f"there is no memory for {threads} more of Shoal's threads ({room >> 20} MB of addresses): see "
            "ulimit -v, and what else the process holds"
        ) from error


def _stack_bytes() -> int:
    chosen = threading.stack_size() or stack_bytes()
    return chosen if 0 < chosen < 1 << 40 else _STACK_BYTES
