"""TLS on a socket that two threads use, one sending and one receiving; `ssl.SSLSocket` is for one."""

import socket
import ssl
import threading
from typing import Any

from shoal.errors import LinkError

#: Read from the socket at once.
_READ_BYTES = 256 << 10
#: The same before it is known whom we talk to.
_HANDSHAKE_BYTES = 16 << 10
#: What a client without TLS hears of an end with TLS: an alert, fatal, `protocol_version` (RFC 8446).
_ALERT = bytes([0x15, 3, 3, 0, 2, 2, 70])


class SecureSocket:
    """A socket with TLS. Looks like the part of `socket.socket` that a channel needs."""

    def __init__(self, plain: socket.socket, context: ssl.SSLContext, *, name: str | None) -> None:
        self._plain = plain
        self._in, self._out = ssl.MemoryBIO(), ssl.MemoryBIO()
        listens = name is None
        self._tls = context.wrap_bio(self._in, self._out, server_side=listens, server_hostname=name)
        self._lock = threading.Lock()
        # Held while what was encrypted goes out, so that it goes in order.
        self._sending = threading.Lock()

    @property
    def identity(self) -> str:
        """The first name in the other end's certificate; empty if it showed none."""
        shown: Any = self._tls.getpeercert() or {}
        return next((str(name) for kind, name in shown.get("subjectAltName", ()) if kind == "DNS"), "")

    def handshake(self) -> None:
        """Find out whom we talk to."""
        while True:
            try:
                self._tls.do_handshake()
                return self._flush()
            except ssl.SSLWantReadError:
                self._flush()
                self._read_more(_HANDSHAKE_BYTES)
            except ssl.SSLError as error:
                # The other end hears why; for one that does not speak TLS, OpenSSL says nothing.
                self._flush()
                if error.reason == "WRONG_VERSION_NUMBER" and self._tls.server_side:
                    self._plain.sendall(_ALERT)
                raise

    def recv(self, count: int) -> bytes:
        """Wait for bytes; nothing at the end."""
        while True:
            with self._lock:
                try:
                    return self._tls.read(count)
                except ssl.SSLWantReadError:
                    pass
                except (ssl.SSLZeroReturnError, ssl.SSLEOFError):
                    return b""
                answers = self._out.pending > 0
            if answers:
                self._flush()
            self._read_more()

    def sendall(self, data: bytes | memoryview) -> None:
        """Encrypt and send everything."""
        with self._sending:
            with self._lock:
                self._tls.write(data)
                out = self._out.read()
            self._plain.sendall(out)

    def settimeout(self, timeout_s: float | None) -> None:
        """Bound how long the socket is waited for."""
        self._plain.settimeout(timeout_s)

    def shutdown(self, how: int) -> None:
        """As of the socket itself."""
        self._plain.shutdown(how)

    def close(self) -> None:
        """As of the socket itself."""
        self._plain.close()

    def _flush(self) -> None:
        with self._sending:
            with self._lock:
                out = self._out.read()
            if out:
                try:
                    self._plain.sendall(out)
                except BlockingIOError:
                    raise LinkError("it takes no answer to its handshake") from None

    def _read_more(self, count: int = _READ_BYTES) -> None:
        came = self._plain.recv(count)
        with self._lock:
            if came:
                self._in.write(came)
            else:
                self._in.write_eof()
