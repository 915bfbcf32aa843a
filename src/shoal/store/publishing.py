"""Publishes what was committed, in order; after a crash from where members may lack something.

And the last messages of publishers that went without a word: a live subscriber that missed a packet gets it
from the publisher again, as long as that one lives, and then from here. Whoever has a message drops it.
"""

import contextlib
import logging
import threading
import time
from collections import deque
from collections.abc import Callable

from shoal._core import Bell, Log, pass_on, publish_rows
from shoal.bus.inside import node_of
from shoal.bus.store_protocol import BATCH_BYTES_MAX
from shoal.bus.sync import Bus
from shoal.errors import ClosedError, FullError, ShoalError, StoreError
from shoal.messages import store as notices
from shoal.store.committed import Committed
from shoal.store.machine import Silent
from shoal.system import Readable

log = logging.getLogger("shoal.store")

#: How long to wait for members that take no more, before looking whether to end.
TURN_S = 0.5
#: How long to wait at the end for members that have not acknowledged what was published.
STOP_S = 2.0
#: What a publisher sent so long before it was heard of last may be missing somewhere: repairs take less.
AGAIN_S = 10.0
#: Chains of publishers that went and wait to be looked at; of more the oldest are forgotten.
AGAIN_MAX = 10_000
#: What rings the bell.
WANTED = 0


class Publishing:
    """The thread that publishes commits."""

    def __init__(self, log_: Log, bus: Bus, failed: Callable[[BaseException], None]) -> None:
        self._log = log_
        self._bus = bus
        self._node = node_of(bus)
        self._failed = failed
        self._committed = Committed(log_)
        self._silent: deque[Silent] = deque(maxlen=AGAIN_MAX)
        self._stopping = threading.Event()
        self._bell = Bell()
        self._thread = threading.Thread(target=self._run, name="shoal-publish", daemon=True)
        self._thread.start()

    def wake(self) -> None:
        """Something was committed."""
        self._bell.ring(WANTED)

    def publish_again(self, silent: Silent) -> None:
        """A publisher went without a word."""
        self._silent.append(silent)
        self._bell.ring(WANTED)

    def _run(self) -> None:
        try:
            while not self._stopping.is_set():
                self._publish_commits()
                while self._silent and not self._stopping.is_set():
                    self._publish_last_of(self._silent.popleft())
                self._rest(TURN_S)
            until = time.monotonic() + STOP_S
            while self._committed.is_out and (left_s := until - time.monotonic()) > 0:
                self._rest(left_s)
        except ClosedError:
            if not self._stopping.is_set():
                notices.CLOSED_BEFORE_PUBLISHED().log(log)
        except StoreError as error:
            if not self._stopping.is_set():
                self._failed(error)
        except ShoalError as error:
            self._failed(error)
        finally:
            for flush in self._committed.awaited:
                self._node.end_flush(flush)

    def _rest(self, timeout_s: float) -> None:
        """Wait until something is to be published, or arrived."""
        arrival = Bell()
        if self._committed.awaited:
            self._node.attach_bell(arrival)
            # What arrived before the bell was there.
            self._note_arrived()
        Readable(self._bell.fileno(), arrival.fileno()).wait(timeout_s)
        self._bell.take()
        self._note_arrived()

    def _publish_commits(self) -> None:
        for piece in self._committed.pieces():
            if self._stopping.is_set():
                return
            reached, refused = publish_rows(
                self._log, self._node, *piece, self._committed.redelivered_before, TURN_S
            )
            if refused is not None:
                notices.ROW_NOT_PUBLISHED(offset=reached, why=refused).log(log)
                reached += 1
            self._committed.published(piece, reached)
            self._note_arrived()

    def _note_arrived(self) -> None:
        """Note what every member has, and ask for what is out since."""
        # Who went is waited for no more: what is left are members that have it.
        for flush in self._committed.awaited:
            if self._node.poll_flush(flush) is None:
                break
            self._node.end_flush(flush)
            self._committed.arrived()
        if self._committed.is_asking_due:
            self._committed.asked(self._node.begin_flush())

    def _publish_last_of(self, silent: Silent) -> None:
        chain = (silent.publisher, silent.chain)
        try:
            at: int | None = self._log.offset_at(max(0, silent.heard_us - int(AGAIN_S * 1e6)))
            while at is not None and not self._stopping.is_set():
                rows, following = self._log.rows_of_chain(chain, at, BATCH_BYTES_MAX)
                # Members that take no more are waited for; what they have they drop.
                with contextlib.suppress(FullError):
                    pass_on(self._node, rows, TURN_S, redelivered=True)
                    at = following
        except ClosedError:
            raise
        except ShoalError as error:
            notices.REPUBLISH_INCOMPLETE(publisher=chain[0], why=error).log(log)

    def stop(self) -> None:
        """End the thread; what members may lack is published by the next start."""
        self._stopping.set()
        self._bell.ring(WANTED)
        if self._thread is not threading.current_thread():
            self._thread.join()
