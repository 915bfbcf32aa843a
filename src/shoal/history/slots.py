"""Bounds on what runs at the same time: refused at once, or waited for in turn."""

import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from time import monotonic

from shoal.errors import HistoryError
from shoal.history import faults

#: How often a caller that waits looks whether there is still a reason to.
_LOOK_S = 0.5


class Slots:
    """A number of slots; a further caller is refused. May be shared between threads."""

    def __init__(self, what: str, most: int) -> None:
        self._what, self._most = what, most
        self._free = threading.Semaphore(most)

    def take(self) -> Callable[[], None]:
        """Take a slot; call what is returned to give it back. Calling it twice gives it back once."""
        if not self._free.acquire(blocking=False):
            sentence = f"{self._most} {self._what} are running already; try again later"
            raise HistoryError(faults.FULL, sentence, {"most": self._most})
        taken = [self._free]

        def give_back() -> None:
            while taken:
                taken.pop().release()

        return give_back


class Turns:
    """A number of slots; further callers wait in the order they came. May be shared between threads.

    A caller goes on waiting as long as others get done; after `patience_s` in which none did, it is
    refused.
    """

    def __init__(self, what: str, most: int, patience_s: float) -> None:
        self._what, self._most, self._patience_s = what, most, patience_s
        self._changed = threading.Condition()
        self._line: list[object] = []
        self._done = 0

    @contextmanager
    def turn(self, check: Callable[[], None]) -> Iterator[None]:
        """Wait for a turn, and have it for the block; what `check` raises ends the waiting."""
        ticket = object()
        with self._changed:
            self._line.append(ticket)
        had_turn = False
        try:
            self._wait(ticket, check)
            had_turn = True
            yield
        finally:
            with self._changed:
                self._line.remove(ticket)
                self._done += had_turn
                self._changed.notify_all()

    def _wait(self, ticket: object, check: Callable[[], None]) -> None:
        with self._changed:
            done, deadline = self._done, monotonic() + self._patience_s
            while self._line.index(ticket) >= self._most:
                self._changed.wait(min(_LOOK_S, self._patience_s))
                check()
                if done != self._done:
                    done, deadline = self._done, monotonic() + self._patience_s
                elif monotonic() > deadline:
                    raise HistoryError(
                        faults.FULL,
                        f"{self._most} {self._what} are being read already, and none got done for "
                        f"{self._patience_s:g} s; try again later",
                        {"most": self._most},
                    )
