"""Publishes what was committed, in order; after a crash from where that stopped.

And the last messages of publishers that went without a word: a live subscriber that missed a packet gets it
from the publisher again, as long as that one lives, and then from here. Whoever has a message drops it.
"""

import contextlib
import logging
import threading
from collections import deque
from collections.abc import Callable

from shoal._core import Log, pass_on, publish_rows
from shoal.bus.inside import node_of
from shoal.bus.store_protocol import BATCH_BYTES_MAX
from shoal.bus.sync import Bus
from shoal.errors import ClosedError, FullError, ShoalError, StoreError
from shoal.store.machine import Silent

log = logging.getLogger("shoal.store")

#: Rows that are published before it is durable how far that got: a crash lets so many be published twice.
ROWS_MAX = 10_000
#: How long to wait for members that take no more, before looking whether to end.
TURN_S = 0.5
#: What a publisher sent so long before it was heard of last may be missing somewhere: repairs take less.
AGAIN_S = 10.0
#: Chains of publishers that went and wait to be looked at; of more the oldest are forgotten.
AGAIN_MAX = 10_000


class Publishing:
    """The thread that publishes commits."""

    def __init__(self, log_: Log, bus: Bus, failed: Callable[[BaseException], None]) -> None:
        self._log = log_
        self._bus = bus
        self._failed = failed
        #: Below, rows may have been published before a crash.
        self._redelivered_before = next((first + ROWS_MAX for first, _ in log_.unpublished()), 0)
        self._silent: deque[Silent] = deque(maxlen=AGAIN_MAX)
        self._stopping = threading.Event()
        self._wanted = threading.Event()
        self._wanted.set()
        self._thread = threading.Thread(target=self._run, name="shoal-publish", daemon=True)
        self._thread.start()

    def wake(self) -> None:
        """Something was committed."""
        self._wanted.set()

    def publish_again(self, silent: Silent) -> None:
        """A publisher went without a word."""
        self._silent.append(silent)
        self._wanted.set()

    def _run(self) -> None:
        try:
            while not self._stopping.is_set():
                self._wanted.wait(TURN_S)
                self._wanted.clear()
                for first, end in self._log.unpublished():
                    self._publish(first, end)
                while self._silent and not self._stopping.is_set():
                    self._publish_last_of(self._silent.popleft())
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

    def _publish_last_of(self, silent: Silent) -> None:
        chain, node = (silent.publisher, silent.chain), node_of(self._bus)
        try:
            at: int | None = self._log.offset_at(max(0, silent.heard_us - int(AGAIN_S * 1e6)))
            while at is not None and not self._stopping.is_set():
                rows, following = self._log.rows_of_chain(chain, at, BATCH_BYTES_MAX)
                # Members that take no more are waited for; what they have they drop.
                with contextlib.suppress(FullError):
                    pass_on(node, rows, TURN_S, redelivered=True)
                    at = following
        except ClosedError:
            raise
        except ShoalError as error:
            log.error("not all messages of the publisher %016x are published again: %s", chain[0], error)

    def stop(self) -> None:
        """End the thread; what is not published is published by the next start."""
        self._stopping.set()
        self._wanted.set()
        if self._thread is not threading.current_thread():
            self._thread.join()
