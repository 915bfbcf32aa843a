"""Messages that their publisher holds back until their delivery time: one heap and thread for a node."""

import contextlib
import heapq
import itertools
import logging
import threading
import time
from collections.abc import Callable

from shoal.errors import ResourceAllocationError, ShoalError
from shoal.messages import jms as notices
from shoal.messages import named

log = logging.getLogger("shoal.jms")

#: Messages that wait in one node; more are refused.
DELAYED_MAX = 100_000


class DelayLine:
    """Calls that are due later, in the order in which they are due. May be shared between threads."""

    def __init__(self, count_max: int = DELAYED_MAX) -> None:
        self._count_max = count_max
        self._changed = threading.Condition()
        self._due: list[tuple[float, int, Callable[[], object]]] = []
        self._numbers = itertools.count()
        self._thread: threading.Thread | None = None
        self._closed = False

    def add(self, delay_s: float, call: Callable[[], object]) -> None:
        """Make a call so much later.

        Raises:
            ResourceAllocationError: too many wait already.
        """
        with self._changed:
            if len(self._due) >= self._count_max:
                raise ResourceAllocationError(
                    f"{self._count_max} messages with a delivery delay wait already: send persistent ones, "
                    "which a store holds back, or fewer"
                )
            heapq.heappush(self._due, (time.monotonic() + delay_s, next(self._numbers), call))
            if self._thread is None:
                self._thread = threading.Thread(target=self._run, name="shoal-jms-delays", daemon=True)
                self._thread.start()
            self._changed.notify_all()

    def __len__(self) -> int:
        return len(self._due)

    def close(self) -> None:
        """End it. What waits is lost, and a warning says how much."""
        with self._changed:
            self._closed = True
            lost, self._due = len(self._due), []
            self._changed.notify_all()
            thread, self._thread = self._thread, None
        if lost:
            notices.DELAYED_LOST(messages=lost).log(log)
        if thread is not None and thread is not threading.current_thread():
            thread.join()
        with self._changed:
            # Another connection may use the node again.
            self._closed = False

    def _next(self) -> Callable[[], object] | None:
        with self._changed:
            while not self._closed:
                left = self._due[0][0] - time.monotonic() if self._due else None
                if left is not None and left <= 0:
                    return heapq.heappop(self._due)[2]
                self._changed.wait(left)
        return None

    def _run(self) -> None:
        while (call := self._next()) is not None:
            try:
                call()
            except ShoalError as error:
                notices.DELAYED_NOT_SENT(why=error).log(log)
            except Exception as error:
                with contextlib.suppress(Exception):
                    notices.DELAYED_NOT_SENT(why=named(error)).log(log, exc_info=error)
