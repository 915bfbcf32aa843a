"""A STOMP client that blocks, for tests with real processes."""

import itertools
import socket
import time
from collections import deque
from collections.abc import Callable

from shoal.gateway.frames import Frame, FrameReader, encode


class LostError(Exception):
    """The connection is lost, or was refused."""


class StompProgram:
    """One connection; `LostError` when it is over."""

    def __init__(self, url: str, timeout_s: float = 30.0, **headers: str) -> None:
        host, _, port = url.partition("://")[2].rpartition(":")
        self._receipts = itertools.count(1)
        self._reader = FrameReader(16 << 20)
        self._frames: deque[Frame] = deque()
        try:
            self._socket = socket.create_connection((host, int(port)), timeout_s)
        except OSError as error:
            raise LostError(str(error)) from error
        self.send("CONNECT", **{"accept_version": "1.2", "host": "x", **headers})
        self.next(lambda frame: frame.command == "CONNECTED")

    def send(self, command: str, body: bytes = b"", **headers: str) -> None:
        named = [(name.replace("_", "-"), value) for name, value in headers.items()]
        try:
            self._socket.sendall(encode(command, named, body))
        except OSError as error:
            raise LostError(str(error)) from error

    def call(self, command: str, body: bytes = b"", **headers: str) -> None:
        """Send a frame, and return with its receipt."""
        receipt = f"r{next(self._receipts)}"
        self.send(command, body, receipt=receipt, **headers)
        self.next(lambda frame: frame.headers.get("receipt-id") == receipt)

    def message(self, timeout_s: float = 30.0) -> Frame | None:
        """The next message; `None` if none came in time."""
        try:
            return self.next(lambda frame: frame.command == "MESSAGE", timeout_s)
        except TimeoutError:
            return None

    def next(self, wanted: Callable[[Frame], bool], timeout_s: float = 30.0) -> Frame:
        deadline = time.monotonic() + timeout_s
        at = 0
        while True:
            while at < len(self._frames):
                frame = self._frames[at]
                if frame.command == "ERROR":
                    raise LostError(frame.headers["message"])
                if wanted(frame):
                    del self._frames[at]
                    return frame
                at += 1
            left_s = deadline - time.monotonic()
            if left_s <= 0:
                raise TimeoutError
            self._socket.settimeout(left_s)
            try:
                data = self._socket.recv(65_536)
            except TimeoutError:
                raise
            except OSError as error:
                raise LostError(str(error)) from error
            if not data:
                raise LostError("closed")
            self._reader.feed(data)
            while (frame := self._reader.poll_frame()) is not None:  # type: ignore[assignment]
                self._frames.append(frame)

    def close(self) -> None:
        self._socket.close()
