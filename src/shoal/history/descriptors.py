"""File descriptors: each client's connection takes one, and the log must not be left without.

A server that has none left cannot even take a connection to refuse it; so some are kept back, and a client
that connects then hears why.
"""

import threading
from collections.abc import Callable

from shoal.errors import HistoryError
from shoal.history import faults
from shoal.system import descriptor_limits, descriptors_in_use

#: Descriptors that new clients leave to the log, and to clients that hear that there are no more.
RESERVED = 8
#: Connections that are remembered as admitted.
_KNOWN_MAX = 4096


def limit() -> float:
    """How many this process may have."""
    return descriptor_limits()[0]


class Admission:
    """Lets connections in as long as descriptors are left. May be shared between threads."""

    def __init__(
        self, used: Callable[[], int] = descriptors_in_use, most: Callable[[], float] = limit
    ) -> None:
        self._used, self._most = used, most
        self._lock = threading.Lock()
        #: Those that were let in, the latest last.
        self._known: dict[str, None] = {}

    def admit(self, peer: str) -> None:
        """Refuse a new connection if it leaves too few descriptors."""
        with self._lock:
            if peer in self._known:
                return
            used, most = self._used(), self._most()
            if used + RESERVED > most:
                raise HistoryError(
                    faults.FULL,
                    f"the store has {used} of {most} file descriptors in use, and needs the rest itself: "
                    "close other readers, or raise its limit (ulimit -n)",
                    {"descriptors": most},
                )
            self._known[peer] = None
            if len(self._known) > _KNOWN_MAX:
                del self._known[next(iter(self._known))]
