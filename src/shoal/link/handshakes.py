"""Handshakes of connections that a listener accepted: one thread for all of them, each with a deadline.

A client that connects and says nothing, or one byte at a time, costs a descriptor until its deadline, and no
thread. So does one that is refused. Beyond `HANDSHAKES_MAX` the oldest one is closed. Knows nothing of
WebSockets: a `Handshake` goes on when its socket has something to read.
"""

import contextlib
import selectors
import socket
import threading
import time
from collections import deque
from collections.abc import Callable
from typing import Generic, Protocol, TypeVar

from shoal.errors import LinkRefusedError

#: Handshakes at once, and as many clients that were refused and have not hung up.
HANDSHAKES_MAX = 256
#: How long one may take, as the extension's do.
HANDSHAKE_S = 5.0
#: How long a client that was refused may read why. A socket that is closed with bytes unread may lose what it
#: sent.
REFUSAL_S = 1.0


class Handshake(Protocol):
    """A connection whose handshake is not over."""

    #: Why its client is not let in, once that is known.
    failure: Exception | None

    def fileno(self) -> int:
        """The descriptor of its socket, which does not block."""

    def advance(self) -> bool:
        """Go on as far as bytes have come; true once it is over, whichever way."""

    def part(self) -> None:
        """Send nothing more: its client was refused."""

    def has_hung_up(self) -> bool:
        """Discard what came after that; whether its client has hung up."""

    def abort(self) -> None:
        """Close the socket at once."""


Connected = TypeVar("Connected", bound=Handshake)


class Handshakes(Generic[Connected]):
    """Accepts connections at a socket, and gives out each whose handshake is over.

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
        # Closing the listening socket does not wake a thread that waits for it.
        self._waker, self._woken = socket.socketpair()
        self._selector.register(self._woken, selectors.EVENT_READ)
        self._lock = threading.Lock()
        self._stopped = self._is_taking = False
        # When each is to be closed, the oldest first, because each has the same time: those under way, and
        # those that were refused.
        self._begun: dict[Connected, float] = {}
        self._refused: dict[Connected, float] = {}
        self._over: deque[Connected] = deque()

    def __len__(self) -> int:
        """Handshakes that are not over."""
        return len(self._begun)

    def take(self) -> Connected | None:
        """Wait for the next connection whose handshake is over; `None` once it was stopped.

        One with a `failure` is refused, and its socket is taken care of here.

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
        for one in (*self._begun, *self._refused):
            one.abort()
        self._begun.clear()
        self._refused.clear()
        self._selector.close()
        self._waker.close()
        self._woken.close()

    def _turn(self) -> None:
        first = [next(iter(ends.values())) for ends in (self._begun, self._refused) if ends]
        ready = self._selector.select(max(min(first) - self._clock(), 0.0) if first else None)
        for key, _ in ready:
            if key.data in self._begun:
                self._advance(key.data)
            elif key.data in self._refused and key.data.has_hung_up():
                self._abort(key.data)
        now = self._clock()
        for one in [one for one, end in self._begun.items() if now >= end]:
            self._give_up(one, f"it did not say who it is within {self._handshake_s:g} s")
        for one in [one for one, end in self._refused.items() if now >= end]:
            self._abort(one)
        if not self._stopped and any(key.fileobj is self._listening for key, _ in ready):
            self._accept()

    def _advance(self, one: Connected) -> None:
        if not one.advance():
            return
        self._over.append(one)
        if one.failure is None:
            self._forget(one)
            return
        one.part()
        del self._begun[one]
        if len(self._refused) >= self._handshakes_max:
            self._abort(next(iter(self._refused)))
        self._refused[one] = self._clock() + REFUSAL_S

    def _accept(self) -> None:
        # A few at a time: clients that are here go on as well.
        for _ in range(16):
            try:
                sock, address = self._listening.accept()
            except (BlockingIOError, ConnectionAbortedError):
                return
            except OSError:
                if self._stopped:
                    return
                raise
            begun = self._begin(sock, address)
            if not self._has_room(sock):
                self._over.append(begun)
                return
            if len(self._begun) >= self._handshakes_max:
                why = "too many connections came at once that said nothing"
                self._give_up(next(iter(self._begun)), why)
            sock.setblocking(False)
            self._begun[begun] = self._clock() + self._handshake_s
            self._selector.register(begun, selectors.EVENT_READ, begun)

    def _give_up(self, one: Connected, why: str) -> None:
        one.failure = LinkRefusedError(why)
        self._over.append(one)
        self._abort(one)

    def _abort(self, one: Connected) -> None:
        self._forget(one)
        one.abort()

    def _forget(self, one: Connected) -> None:
        self._begun.pop(one, None)
        self._refused.pop(one, None)
        with contextlib.suppress(KeyError, ValueError):
            self._selector.unregister(one)
