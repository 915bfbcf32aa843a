"""Handshakes of connections that a listener accepted: one thread for all of them, each with a deadline.

A client that connects and says nothing, or one byte at a time, costs a descriptor until its deadline, and no
thread. Beyond `HANDSHAKES_MAX` the oldest one is closed. Knows nothing of WebSockets: a `Handshake` goes on
when its socket has something to read.
"""

import contextlib
import selectors
import socket
import threading
import time
from collections import deque
from collections.abc import Callable
from typing import Generic, Protocol, TypeVar

from shoal.errors import LinkError, LinkRefusedError

#: Handshakes at once.
HANDSHAKES_MAX = 256
#: How long one may take, as the extension's do.
HANDSHAKE_S = 5.0
#: Late clients are reported one by one no more often than this.
REPORT_EVERY_S = 10.0


class Handshake(Protocol):
    """A connection whose handshake is not over."""

    def fileno(self) -> int:
        """The descriptor of its socket, which does not block."""

    def advance(self) -> bool:
        """Go on as far as bytes have come; true once it is over, whichever way."""

    def fail(self, error: OSError) -> None:
        """It failed: why. Whoever opens the connection is told."""

    def abort(self) -> None:
        """Close the socket at once."""


Connected = TypeVar("Connected", bound=Handshake)


class Handshakes(Generic[Connected]):
    """Accepts connections at a socket, and gives those whose handshakes are over.

    One thread calls `take`; any may call `stop`.
    """

    def __init__(
        self,
        listening: socket.socket,
        begin: Callable[[socket.socket, tuple[str, int]], Connected],
        *,
        has_room: Callable[[socket.socket], bool] = lambda _: True,
        clock: Callable[[], float] = time.monotonic,
        handshakes_max: int = HANDSHAKES_MAX,
        handshake_s: float = HANDSHAKE_S,
    ) -> None:
        self._listening, self._begin, self._clock = listening, begin, clock
        # Whether a connection may wait here. One that may not is given out at once, to be turned away.
        self._has_room = has_room
        self._handshakes_max, self._handshake_s = handshakes_max, handshake_s
        listening.setblocking(False)
        self._selector = selectors.DefaultSelector()
        self._selector.register(listening, selectors.EVENT_READ)
        # Closing the listening socket does not wake whoever waits for it.
        self._waker, self._woken = socket.socketpair()
        self._selector.register(self._woken, selectors.EVENT_READ)
        self._lock = threading.Lock()
        self._stopped = self._is_taking = False
        # By age, because each has the same time.
        self._begun: dict[Connected, float] = {}
        self._over: deque[Connected] = deque()
        self._late, self._report_at = 0, 0.0

    def __len__(self) -> int:
        """Handshakes that are not over."""
        return len(self._begun)

    def take(self) -> Connected | None:
        """Wait for the next connection whose handshake is over; `None` once it was stopped.

        Raises:
            OSError: a connection cannot be accepted, for want of descriptors say.
        """
        with self._lock:
            self._is_taking = not self._stopped
        try:
            while not self._over and not self._stopped:
                self._turn()
        finally:
            with self._lock:
                self._is_taking = False
                if self._stopped:
                    self._close()
        return self._over.popleft() if self._over else None

    def stop(self) -> None:
        """End all of them, and have `take` return."""
        with self._lock:
            self._stopped = True
            if self._is_taking:
                self._waker.send(b"\0")
            else:
                self._close()

    def _close(self) -> None:
        """Close everything. A `take` under way does it: no other thread may touch the selector then."""
        for one in self._begun:
            one.abort()
        self._begun.clear()
        self._selector.close()
        self._waker.close()
        self._woken.close()

    def _turn(self) -> None:
        now = self._clock()
        first = next(iter(self._begun.values()), None)
        wait_s = None if first is None else max(first + self._handshake_s - now, 0.0)
        ready = self._selector.select(wait_s)
        for key, _ in ready:
            if key.data is not None and key.data.advance():
                self._end(key.data)
                self._over.append(key.data)
        self._end_late(self._clock())
        if not self._stopped and any(key.fileobj is self._listening for key, _ in ready):
            self._accept()

    def _accept(self) -> None:
        # A few at a time: those who are here go on as well.
        for _ in range(16):
            try:
                sock, address = self._listening.accept()
            except (BlockingIOError, ConnectionAbortedError):
                return
            except OSError:
                if self._stopped:
                    return
                raise
            if not self._has_room(sock):
                begun = self._begin(sock, address)
                begun.fail(LinkError("there is no room for more connections"))
                self._over.append(begun)
                return
            if len(self._begun) >= self._handshakes_max:
                oldest = next(iter(self._begun))
                self._end(oldest)
                self._report(oldest, self._clock(), "too many connections came at once that said nothing")
            sock.setblocking(False)
            begun = self._begin(sock, address)
            self._begun[begun] = self._clock()
            self._selector.register(begun, selectors.EVENT_READ, begun)

    def _end_late(self, now: float) -> None:
        while self._begun:
            oldest, since = next(iter(self._begun.items()))
            if now < since + self._handshake_s:
                return
            self._end(oldest)
            self._report(oldest, now, f"it did not say who it is within {self._handshake_s:g} s")

    def _end(self, one: Connected) -> None:
        del self._begun[one]
        with contextlib.suppress(KeyError, ValueError):
            self._selector.unregister(one)

    def _report(self, one: Connected, now: float, why: str) -> None:
        """Close a connection that is late; now and then one of them says so where refusals are told."""
        if now < self._report_at:
            self._late += 1
            return one.abort()
        others = f", nor did {self._late} others before it" if self._late else ""
        self._late, self._report_at = 0, now + REPORT_EVERY_S
        one.fail(LinkRefusedError(why + others))
        self._over.append(one)
        return None
