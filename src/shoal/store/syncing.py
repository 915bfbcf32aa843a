"""Makes durable what recorders append: one sync for all of them, and not more often than asked."""

import threading
import time
from collections.abc import Callable

from shoal._core import Log
from shoal.errors import StoreError, StoreFullError

#: How long to wait for something to sync before looking whether to end.
TURN_S = 0.5


class Syncing:
    """The thread that syncs a log."""

    def __init__(self, log: Log, every_s: float, failed: Callable[[BaseException], None]) -> None:
        self._log = log
        self._every_s = every_s
        self._failed = failed
        self._stopping = threading.Event()
        self._thread = threading.Thread(target=self._run, name="shoal-sync", daemon=True)
        self._thread.start()

    def _run(self) -> None:
        try:
            while not self._stopping.is_set():
                began = time.monotonic()
                if self._log.sync_next(TURN_S):
                    self._stopping.wait(max(0.0, self._every_s - (time.monotonic() - began)))
                else:
                    self._mark()
        except StoreError as error:
            if not self._stopping.is_set():
                self._failed(error)

    def _mark(self) -> None:
        """Nothing came for a while: prove that what is there was durable."""
        try:
            self._log.mark()
        except StoreFullError:
            # It only makes damage easier to tell, and there is no room for that now.
            return

    def stop(self) -> None:
        """End the thread; the log syncs the rest when it is closed."""
        self._stopping.set()
        if self._thread is not threading.current_thread():
            self._thread.join()
