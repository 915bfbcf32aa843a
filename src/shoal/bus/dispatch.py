"""Threads that call back: one for each subscription with a callback, or one that several share."""

import threading
from collections.abc import Callable
from typing import TYPE_CHECKING

from shoal import _core
from shoal._core import Message
from shoal.system import Readable
from shoal.threads import start

if TYPE_CHECKING:
    from shoal.bus.retained import Source

Callback = Callable[[Message], object]
#: Called with the message whose callback raised, and what it raised.
Failed = Callable[[Message, BaseException], None]

#: Messages of one subscription that are handed over before another of the same thread has its turn.
_TURN_MAX = 100


def call(callback: Callback, message: Message, failed: Failed) -> bool:
    """Call back with one message, or `failed` with what it raises. False when this thread is to end."""
    try:
        callback(message)
    except BaseException as error:
        if _core.is_abandoned():
            return False
        failed(message, error)
    return True


class OwnThread:
    """The thread of one subscription's callback."""

    def __init__(self, subscription: "Source", callback: Callback, failed: Failed) -> None:
        self._subscription = subscription
        name = f"shoal-{subscription.pattern}"
        self.thread = threading.Thread(
            target=_run_own, args=(subscription, callback, failed), name=name, daemon=True
        )
        start(self.thread)

    def stop(self) -> None:
        """Call back no more; what is under way goes on."""
        self._subscription.stop()

    def close(self) -> None:
        """End the subscription, and the thread once everything was handed over."""
        self._subscription.close()


def _run_own(subscription: "Source", callback: Callback, failed: Failed) -> None:
    # In Python, where a thread may be ended when the interpreter exits.
    subscription.mark_callback_thread()
    for message in subscription:
        if not call(callback, message, failed):
            return


class SharedThread:
    """One thread for the callbacks of several subscriptions, which take turns; it ends with the last."""

    def __init__(self, name: str) -> None:
        #: `None` once the thread has ended.
        self._bell: _core.Bell | None = _core.Bell()
        self._lock = threading.Lock()
        self._served: dict[int, tuple[Source, Callback, Failed]] = {}
        self._next = 1
        self._stopped = False
        self._ended = False
        self.thread = threading.Thread(
            target=self._run, args=(self._bell,), name=f"shoal-{name}", daemon=True
        )

    def add(self, subscription: "Source", callback: Callback, failed: Failed) -> bool:
        """Serve one more subscription; false if the thread has ended."""
        with self._lock:
            bell = self._bell
            if self._ended or bell is None:
                return False
            source, self._next = self._next, self._next + 1
            self._served[source] = (subscription, callback, failed)
        subscription.attach_bell(bell, source)
        if source == 1:
            start(self.thread)
        return True

    def stop(self) -> None:
        """Call back no more; what is under way goes on."""
        self._stopped = True
        bell = self._bell
        if bell is not None:
            bell.ring(0)

    def close(self) -> None:
        """End the subscriptions, and the thread."""
        for subscription, _, _ in list(self._served.values()):
            subscription.close()
        self.stop()

    def _run(self, bell: _core.Bell) -> None:
        bell_rings = Readable(bell.fileno())
        ready: set[int] = set()
        while not (self._stopped or self._ended):
            if not ready:
                bell_rings.wait()
            ready.update(bell.take())
            for source in sorted(ready):
                if self._stopped or not self._serve(source, ready):
                    break
        # Its descriptor goes with the last reference.
        self._bell = None

    def _serve(self, source: int, ready: set[int]) -> bool:
        """Hand over some messages of one subscription; false when this thread is to end."""
        served = self._served.get(source)
        if served is None:
            ready.discard(source)
            return True
        subscription, callback, failed = served
        messages = subscription.receive_nowait(_TURN_MAX)
        if not messages:
            ready.discard(source)
            if messages is None:
                with self._lock:
                    del self._served[source]
                    self._ended = not self._served
            return not self._ended
        subscription.mark_callback_thread()
        for message in messages:
            if not self._stopped and not call(callback, message, failed):
                self._stopped = True
        return not self._stopped
