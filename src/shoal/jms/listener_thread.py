"""The thread that calls the listeners of a session, one at a time (section 8.7)."""

import logging
import threading
from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING

from shoal import _core
from shoal.jms.consumer import MessageConsumer
from shoal.jms.feeds import Entry
from shoal.jms.message import Message
from shoal.messages import jms as notices
from shoal.messages import named
from shoal.system import Readable

if TYPE_CHECKING:
    from shoal.jms.delivering import Delivering

log = logging.getLogger("shoal.jms")

#: Messages of one consumer that its listener is given before another consumer of the session has its turn.
TURN_MAX = 100


class ListenerThread:
    """Waits for the bell of a session, and calls its listeners, until nothing more is delivered."""

    def __init__(self, delivering: "Delivering", bell: _core.Bell) -> None:
        self._delivering, self._bell = delivering, bell
        self._thread = threading.Thread(target=self._run, name="shoal-jms-session", daemon=True)
        self._thread.start()

    @property
    def is_caller(self) -> bool:
        """Whether the caller is a listener on this thread."""
        return threading.current_thread() is self._thread

    def join(self) -> None:
        """Wait until it has ended."""
        self._thread.join()

    def _run(self) -> None:
        delivering, bell_rings = self._delivering, Readable(self._bell.fileno())
        while True:
            # Before looking: what comes afterwards rings again.
            self._bell.take()
            if delivering.ended:
                return
            listening = delivering.listening()
            served = [self._serve(consumer) for consumer in listening]
            if not any(served):
                bell_rings.wait(next_due_s(listening))

    def _serve(self, consumer: MessageConsumer) -> bool:
        """Call back with some messages of a consumer; false if there was none."""
        consumer._feed.mark_callback_thread()
        for turn in range(TURN_MAX):
            due = self._delivering.begin_call(consumer)
            if due is None:
                return turn > 0
            try:
                self._call_back(consumer, *due)
            finally:
                self._delivering.end_call()
            if _core.is_abandoned():
                self._delivering.ended = True
        return True

    def _call_back(self, consumer: MessageConsumer, entry: Entry, call: Callable[[Message], object]) -> None:
        failed = False
        try:
            call(consumer._made(entry))
        except BaseException as error:
            if _core.is_abandoned():
                return
            failed = True
            log_failure(entry, error)
        if self._delivering.is_to_settle(consumer, entry):
            self._delivering.settle_call(consumer, entry, failed)


def next_due_s(consumers: Iterable[MessageConsumer]) -> float | None:
    """Seconds until a message of one of these consumers is due; `None` if none is held back."""
    dues = [due_s for each in consumers if (due_s := each._feed.next_due_s) is not None]
    return min(dues, default=None)


def log_failure(entry: Entry, error: BaseException) -> None:
    """A listener raised."""
    notices.LISTENER_FAILED(message=entry.core.message_id, delivery=entry.delivery, why=named(error)).log(
        log, exc_info=error
    )
