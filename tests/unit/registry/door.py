"""A listener that answers a registry's questions as a daemon does, and nothing else."""

import contextlib
import socket
import struct
import threading
from typing import Self

from shoal import _core
from shoal.link.challenge import new_secret, proof_of, publisher_of


class Door:
    """A port at which a daemon with a secret listens."""

    def __init__(self, secret: bytes | None = None) -> None:
        self.secret = secret or new_secret()
        self._listening = socket.create_server(("127.0.0.1", 0))
        self.port = int(self._listening.getsockname()[1])
        self._thread = threading.Thread(target=self._run, daemon=True)
        self._thread.start()

    def _run(self) -> None:
        with contextlib.suppress(OSError):
            while True:
                guest, _ = self._listening.accept()
                with guest, contextlib.suppress(OSError):
                    guest.settimeout(5)
                    if hello := guest.recv(2048):
                        guest.sendall(refusal(self.reason(hello)))

    def reason(self, hello: bytes) -> str:
        publisher, node = identity_of(hello)
        known = publisher == publisher_of(self.secret, node)
        return proof_of(self.secret, node) if known else "who are you?"

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *error: object) -> None:
        with contextlib.suppress(OSError):
            self._listening.shutdown(socket.SHUT_RDWR)
        self._listening.close()
        self._thread.join(5)


def identity_of(hello: bytes) -> tuple[int, int]:
    """The publisher and the node in a hello."""
    at = 9 + 1 + hello[9] + 1
    at += 1 + hello[at]
    publisher, node = struct.unpack_from("!QI", hello, at)
    return publisher, node


def refusal(why: str) -> bytes:
    """A greeting that refuses."""
    text = why.encode()
    content = b"\x04door" + bytes([3, 1]) + bytes(16) + bytes([len(text)]) + text
    return struct.pack("!6sBH", b"SHOAL/", _core.WIRE_VERSION, len(content)) + content
