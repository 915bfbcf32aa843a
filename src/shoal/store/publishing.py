"""Publishes what was committed, in order; after a crash from where that stopped."""

import logging
import threading
from collections.abc import Callable

from shoal._core import Log, publish_rows
from shoal.bus.inside import node_of
from shoal.bus.sync import Bus
from shoal.errors import ClosedError, ShoalError, StoreError

log = logging.getLogger("shoal.store")

#: Rows that are published before it is durable how far that got: a crash lets so many be published twice.
ROWS_MAX = 10_000
#: How long to wait for members that take no more, before looking whether to end.
TURN_S = 0.5


class Publishing:
    """The thread that publishes commits."""

    def __init__(self, log_: Log, bus: Bus, failed: Callable[[BaseException], None]) -> None:
        self._log = log_
        self._bus = bus
        self._failed = failed
        #: Below, rows may have been published before a crash.
        self._redelivered_before = next((first + ROWS_MAX for first, _ in log_.unpublished()), 0)
        self._stopping = threading.Event()
        self._wanted = threading.Event()
        self._wanted.set()
        self._thread = threading.Thread(target=self._run, name="shoal-publish", daemon=True)
        self._thread.start()

    def wake(self) -> None:
        """Something was committed."""
        self._wanted.set()

    def _run(self) -> None:
        try:
            while not self._stopping.is_set():
                self._wanted.wait(TURN_S)
                self._wanted.clear()
                for first, end in self._log.unpublished():
                    self._publish(first, end)
        except ClosedError:
            if not self._stopping.is_set():
                log.error("the connection is closed: what was committed is published by the next start")
        except StoreError as error:
            if not self._stopping.is_set():
                self._failed(error)
        except ShoalError as error:
            self._failed(error)

    def _publish(self, first: int, end: int) -> None:
        at, node = first, node_of(self._bus)
        while at < end and not self._stopping.is_set():
            reached, refused = publish_rows(
                self._log, node, at, end, ROWS_MAX, self._redelivered_before, TURN_S
            )
            if refused is not None:
                log.error("the row at offset %d is not published, only kept: %s", reached, refused)
                reached += 1
            if reached > at:
                at = reached
                self._log.set_published(at)
                self._log.sync()

    def stop(self) -> None:
        """End the thread; what is not published is published by the next start."""
        self._stopping.set()
        self._wanted.set()
        if self._thread is not threading.current_thread():
            self._thread.join()
