"""Events on their way from a link to their readers, and to callers that wait for something they tell.

Of all threads that wait, one takes from the link; the others wait for it. What it takes is for all of them.
"""

import threading
import time
from collections import deque
from collections.abc import Callable
from typing import Any

from shoal.errors import ClosedError, FullError
from shoal.norm.events import Event
from shoal.norm.ledger import Ledger

#: What may be kept for a reader while a caller waits for something else.
BACKLOG_BYTES_MAX = 64 << 20
#: What an event costs beside its content.
_EVENT_BYTES = 256

Arrivals = list[tuple[str, dict[str, Any]]]


class Inbox:
    """Bounded, and shared between threads."""

    def __init__(self, receive: Callable[[float | None], Arrivals], ledger: Ledger) -> None:
        self._receive = receive
        self._ledger = ledger
        self._events: deque[Event] = deque()
        self._bytes = 0
        self._changed = threading.Condition()
        self._receiving = False
        self._closed = False

    def take(self, timeout_s: float | None) -> Event | None:
        """The next event; `None` if none came in time, `ClosedError` if none ever will."""
        with self._changed:
            self._wait(lambda: bool(self._events), timeout_s)
            if self._events:
                event = self._events.popleft()
                self._bytes -= cost(event)
                return event
            if self._closed:
                raise ClosedError("the session is closed")
            return None

    def wait_until(self, happened: Callable[[], bool], timeout_s: float | None) -> bool:
        """Wait until events made something true; they stay here for their readers."""

        def ready() -> bool:
            if not happened() and self._bytes > BACKLOG_BYTES_MAX:
                raise FullError(
                    f"{self._bytes} bytes of events wait to be received: receive them in another thread"
                )
            return happened()

        with self._changed:
            self._wait(ready, timeout_s)
            if self._closed and not happened():
                raise ClosedError("the session is closed")
            return happened()

    def _wait(self, ready: Callable[[], bool], timeout_s: float | None) -> None:
        deadline = None if timeout_s is None else time.monotonic() + timeout_s
        # What is here already is looked at in any case.
        looked = False
        while not ready() and not self._closed:
            left_s = None if deadline is None else max(deadline - time.monotonic(), 0.0)
            if left_s == 0.0 and looked:
                return
            looked = True
            if self._receiving:
                self._changed.wait(left_s)
            else:
                self._take_from_link(left_s)

    def _take_from_link(self, timeout_s: float | None) -> None:
        self._receiving = True
        self._changed.release()
        arrivals: Arrivals = []
        closed = False
        try:
            arrivals = self._receive(timeout_s)
        except ClosedError:
            closed = True
        finally:
            self._changed.acquire()
            self._receiving = False
            self._closed |= closed
            for kind, fields in arrivals:
                event = self._ledger.enter(kind, fields)
                self._events.append(event)
                self._bytes += cost(event)
            self._changed.notify_all()


def cost(event: Event) -> int:
    """About what an event takes, in bytes."""
    content = getattr(event, "body", None) or getattr(event, "content", None) or b""
    return _EVENT_BYTES + len(content)
