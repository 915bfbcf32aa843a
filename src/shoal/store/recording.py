"""From the bus into the log: one thread per pattern, which runs without Python while messages come."""

import logging
import threading
from collections.abc import Callable, Sequence

from shoal._core import Lanes, Log, Recorder
from shoal.bus.inside import core_of, node_of
from shoal.bus.subscription import Subscription
from shoal.bus.sync import Bus
from shoal.errors import StoreCorruptError, StoreError, StoreFailedError, StoreFullError, StoreRefusedError
from shoal.messages import store as notices

log = logging.getLogger("shoal.store")

#: How long a recorder runs before it looks whether it should end.
TURN_S = 0.5
#: How long to wait before a full disk is tried again, and after how many times nobody is to wait for it.
FULL_RETRY_S, RETRIES_MAX = 0.2, 3
#: Errors after which a log takes nothing more.
_ENDS = (StoreFailedError, StoreCorruptError, StoreRefusedError)


class Recording:
    """The recorders of one store. `failed` is called with what ends one of them.

    Persistent messages of destinations that are `stored` come to the store by themselves.
    """

    def __init__(
        self,
        log_: Log,
        bus: Bus,
        patterns: Sequence[str],
        *,
        queue_bytes_max: int,
        stored: Sequence[str],
        failed: Callable[[BaseException], None],
    ) -> None:
        self._failed = failed
        self._stopping = threading.Event()
        #: Set while there is room; nothing is taken from the bus otherwise.
        self._room = threading.Event()
        self._room.set()
        #: While it records, publishers wait for this member however slow it is.
        self._node = node_of(bus)
        if patterns:
            self._node.set_store(True)
        self._lock = threading.Lock()
        #: Why nothing is recorded, by whoever said so: a recorder, or none for all of them.
        self._refusals: dict[Recorder | None, str] = {}
        self._subscriptions: list[Subscription] = []
        self._recorders: list[Recorder] = []
        self._threads: list[threading.Thread] = []
        # Messages of a publisher that still has them come again; those it has no more are a gap.
        lanes = Lanes(log_, patterns)
        # What the store itself publishes is in the log already.
        for at, pattern in enumerate(patterns):
            subscription = bus.subscribe(pattern, no_local=True, queue_bytes_max=queue_bytes_max)
            self._subscriptions.append(subscription)
            # What an earlier pattern matches too is recorded by that one.
            recorder = Recorder(log_, core_of(subscription), lanes=lanes, at=at, stored=list(stored))
            self._recorders.append(recorder)
            thread = threading.Thread(
                target=self._run, args=(recorder,), name=f"shoal-record-{pattern}", daemon=True
            )
            self._threads.append(thread)

    def start(self) -> None:
        """Begin to record."""
        for thread in self._threads:
            thread.start()

    @property
    def recorded(self) -> tuple[int, int]:
        """Messages and bytes so far."""
        counts = [recorder.recorded for recorder in self._recorders]
        return sum(count[0] for count in counts), sum(count[1] for count in counts)

    @property
    def repeated(self) -> int:
        """Messages that came again, and were not recorded again."""
        return sum(recorder.repeated for recorder in self._recorders)

    @property
    def refused(self) -> str | None:
        """Why nothing is recorded now by all recorders or some, if that is so."""
        with self._lock:
            return next(iter(self._refusals.values()), None)

    def pause(self, why: str) -> None:
        """Record nothing more until `resume`: what comes and cannot be kept is thrown away."""
        self._refuse(None, why)
        self._room.clear()

    def resume(self) -> None:
        """Go on after a `pause`."""
        self._goes_on(None)
        self._room.set()

    def _refuse(self, who: Recorder | None, why: str) -> None:
        with self._lock:
            is_new = not self._refusals
            self._refusals[who] = why
        if is_new:
            notices.RECORDING_STOPPED(why=why).log(log)
            # Whoever cannot record for an unknown time must not stop everybody for as long.
            self._node.set_store(False)

    def _goes_on(self, who: Recorder | None) -> None:
        """There is room for one of them, or for all; it is said when there is for everybody."""
        with self._lock:
            was_refused = self._refusals.pop(who, None) is not None
            is_over = was_refused and not self._refusals
        if is_over:
            notices.RECORDING_RESUMED().log(log)
            self._node.set_store(True)

    def _run(self, recorder: Recorder) -> None:
        refused, is_paused = 0, False
        try:
            while not self._stopping.is_set():
                if not self._room.wait(0.0 if is_paused else TURN_S):
                    is_paused = True
                    recorder.skip(TURN_S)
                    continue
                is_paused = False
                try:
                    if not recorder.run(TURN_S):
                        self._ended()
                        return
                    self._goes_on(recorder)
                    refused = 0
                except _ENDS:
                    raise
                except StoreError as error:
                    # No room, or no descriptor for the next segment: nothing is lost by waiting.
                    self._refuse(recorder, str(error))
                    refused += 1
                    if refused > RETRIES_MAX:
                        # Whoever is alone paces publishers, and would stop them.
                        recorder.skip(FULL_RETRY_S)
                    else:
                        self._stopping.wait(FULL_RETRY_S)
            # What has arrived is recorded, if the disk takes it.
            while recorder.run(TURN_S):
                pass
        except StoreFullError as error:
            notices.ARRIVALS_NOT_RECORDED(why=error).log(log)
        except StoreError as error:
            # A store that takes nothing more is nobody to wait for.
            self._node.set_store(False)
            self._failed(error)

    def _ended(self) -> None:
        """A subscription is over: because the store closes, or because its connection failed."""
        if not self._stopping.is_set():
            self._failed(StoreError("the store's connection ended, and nothing more is recorded"))

    def stop(self) -> None:
        """End the subscriptions, and record what has arrived."""
        self._stopping.set()
        for subscription in self._subscriptions:
            subscription.close()
        self._room.set()
        for thread in self._threads:
            if thread.ident is not None and thread is not threading.current_thread():
                thread.join()
