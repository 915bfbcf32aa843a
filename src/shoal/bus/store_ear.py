"""Who hears what a store says: the channel's own thread, or a thread that waits for an answer.

A thread that waits hears for itself if no other does, so that no other thread has to be woken for its
answer. It hears answers only, and only for a while; whatever else there is to do is the matter of the
channel's thread. That one pauses for a moment after a caller heard for itself, as long as nothing else is
expected: a caller that waits for each message waits again soon.
"""

import threading
import time
from collections.abc import Callable

from shoal import _core
from shoal.errors import ShoalError
from shoal.system import Readable

#: Why the bell rings: something is to be done, an answer came, a store said that it is here.
WAKE, REPLIES, HERES = 0, 1, 2
#: How long a thread hears for itself, at the most; then the channel's thread goes on.
HEAR_S = 0.25
#: How long the channel's thread pauses if no caller hears for itself, and how long in all.
REST_S, REST_MAX_S = 0.02, 0.5


class Ear:
    """The bell of a channel, and who answers it. May be shared between threads.

    Args:
        hear: takes the answers that came.
        expects: whether something may come that no caller waits for.
    """

    def __init__(self, hear: Callable[[], None], expects: Callable[[], bool]) -> None:
        self.bell = _core.Bell()
        self._hear, self._expects = hear, expects
        self._bell_rings = Readable(self.bell.fileno())
        #: Held by the thread that hears.
        self._hearing = threading.Lock()
        #: What rang that is the channel's thread's.
        self._left: list[int] = []
        self._called = threading.Event()
        self._is_wanted = False
        self._heard = 0

    def ring(self) -> None:
        """Let the channel's thread look."""
        self.bell.ring(WAKE)
        self._called.set()

    def hear(self, is_over: Callable[[], bool], limit_s: float | None) -> None:
        """Hear on this thread until something is over, if no other thread hears; for a while."""
        self._is_wanted = True
        if not self._hearing.acquire(blocking=False):
            return
        try:
            until = time.monotonic() + min(HEAR_S, HEAR_S if limit_s is None else limit_s)
            while not is_over() and not self._left:
                left_s = until - time.monotonic()
                if left_s <= 0:
                    break
                if self._bell_rings.wait(left_s):
                    self._take()
            self._heard += 1
        finally:
            self._hearing.release()
            if self._left or self._expects():
                self._called.set()

    def _take(self) -> None:
        rang = self.bell.take()
        try:
            self._hear()
        except ShoalError:
            # Closed, or broken: the channel's thread finds out, and mends it.
            self._left.append(WAKE)
        self._left += [source for source in rang if source != REPLIES]

    def run_once(self, sleep_ms: Callable[[], int], turn: Callable[[list[int]], None]) -> None:
        """One turn of the channel's thread: wait for the bell, do what is to be done, rest."""
        with self._hearing:
            if not self._left:
                self._bell_rings.wait(sleep_ms() / 1000)
            rang = self.bell.take() + self._left
            self._left = []
            turn(rang)
        if self._is_wanted and not self._expects():
            self._rest()

    def _rest(self) -> None:
        self._is_wanted = False
        until, heard = time.monotonic() + REST_MAX_S, -1
        while heard != self._heard and time.monotonic() < until:
            heard = self._heard
            if self._called.wait(REST_S):
                break
        self._called.clear()
