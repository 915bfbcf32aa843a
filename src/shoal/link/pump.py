"""Moves bytes between the engine and a channel: two threads, one for each direction.

The engine has one end of a pipe. Its credit is the pipe's: what a channel does not take stays there, and the
engine waits. Nothing here looks at a byte.
"""

import contextlib
import socket
import threading
from collections.abc import Callable

from shoal.errors import LinkError, LinkRefusedError
from shoal.link.transport import Channel
from shoal.threads import start

#: Given to a channel at once.
PIECE_BYTES = 256 << 10


class Pump:
    """One channel, until either end is over. Its threads keep it; no other object has to."""

    def __init__(
        self,
        channel: Channel,
        pipe: socket.socket,
        *,
        accepted: bool,
        opened: Callable[[str], object],
        broken: Callable[[str, bool], object],
    ) -> None:
        self._channel, self._pipe = channel, pipe
        # How to tell the engine who is there, and why it ends if not by itself.
        self._opened, self._broken = opened, broken
        # Why nothing can be sent any more; told after what has come, which may be a goodbye.
        self._unsent: Exception | None = None
        self._is_open = threading.Event()
        if not accepted:
            self._is_open.set()
        self._inward = threading.Thread(target=self._receive, name="shoal-link-in", daemon=True)
        self._outward = threading.Thread(target=self._send, name="shoal-link-out", daemon=True)
        try:
            start(self._inward)
            start(self._outward)
        except LinkError:
            # The maker of the channel closes it, and that ends the thread that is there.
            pipe.shutdown(socket.SHUT_RDWR)
            raise

    def _receive(self) -> None:
        try:
            if not self._is_open.is_set():
                self._channel.open()
                self._opened(self._channel.identity)
                self._is_open.set()
            while data := self._channel.receive():
                self._pipe.sendall(data)
            if self._unsent is not None:
                self._break(self._unsent)
        except Exception as error:
            # What code of others raises ends its channel, and nothing else.
            self._break(self._unsent or error)
        finally:
            self._is_open.set()
            with contextlib.suppress(OSError):
                self._pipe.shutdown(socket.SHUT_WR)

    def _send(self) -> None:
        try:
            # A client that connects and says nothing gets no memory: the engine answers only the others.
            self._pipe.recv(1, socket.MSG_PEEK)
            piece = memoryview(bytearray(PIECE_BYTES))
            while count := self._pipe.recv_into(piece):
                self._is_open.wait()
                self._channel.send(piece[:count])
        except Exception as error:
            self._unsent = error
        with contextlib.suppress(Exception):
            self._channel.close()
        self._inward.join()
        self._pipe.close()

    def _break(self, error: Exception) -> None:
        if isinstance(error, OSError) and error.filename is None and not str(error):
            why = type(error).__name__
        else:
            why = str(error) or type(error).__name__
        self._broken(why, isinstance(error, LinkRefusedError))
