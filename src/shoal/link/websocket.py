"""`ws://` and `wss://`: links through HTTP, and so through its proxies and firewalls.

Written against the public interface alone: `shoal.link.transport`. The protocol is that of RFC 6455,
which the library `websockets` knows; sockets and waiting are here. Browsers are refused: a page that a user
looks at must not join a domain.
"""

import base64
import contextlib
import http.client
import socket
import ssl
import struct
import threading
import time
import urllib.request
import weakref
from urllib.parse import unquote, urlsplit

from shoal import _core
from shoal.config import ConnectionConfig
from shoal.config.target import Target
from shoal.descriptors import KEPT_FREE, limit
from shoal.errors import ConfigError, LinkError, LinkRefusedError
from shoal.link import forks
from shoal.link.address import resolve
from shoal.link.certificates import check_listening, context_of
from shoal.link.congestion import tune
from shoal.link.handshakes import Handshakes
from shoal.link.secure_socket import SecureSocket
from shoal.link.transport import Channel, Listening, Transport, TurnedAway

try:
    from websockets.client import ClientProtocol
    from websockets.frames import Frame, Opcode
    from websockets.http11 import Request
    from websockets.protocol import Protocol, State
    from websockets.server import ServerProtocol
    from websockets.typing import Subprotocol
    from websockets.uri import parse_uri
except ImportError as error:
    raise ConfigError("ws:// and wss:// need a library: pip install 'shoal[ws]'") from error

#: What both ends have to agree on.
SUBPROTOCOL = Subprotocol("shoal")
#: The longest frame that is taken.
FRAME_BYTES_MAX = 1 << 20
_READ_BYTES = 256 << 10
#: The same until the other end has greeted, and all that it may say until then. Strangers get no more memory.
_FIRST_BYTES, _HANDSHAKE_BYTES_MAX = 4 << 10, 32 << 10
#: How long the other end is waited for when a channel is closed.
_CLOSE_S = 1.0
#: What OpenSSL calls a certificate that no authority signed whom we trust: none is known, or one of the same
#: name has another key.
_UNTRUSTED = (7, 18, 19, 20, 21)
#: The same for one of another name or address, for one that is over, and for one that has not begun.
_OTHER_NAME, _EXPIRED, _TOO_EARLY = (62, 64), 10, 9
#: What the other end says of our certificate, as OpenSSL calls it.
_ALERTS = {
    "TLSV13_ALERT_CERTIFICATE_REQUIRED": "it asks for a certificate: give tls_cert and tls_key",
    "TLSV1_ALERT_UNKNOWN_CA": (
        "it does not trust who signed our certificate: its tls_ca is of another authority"
    ),
    "SSLV3_ALERT_CERTIFICATE_EXPIRED": "our certificate has expired",
}
#: How a client with tcp:// begins, and what it hears; and how TLS begins.
_GREETING, _NO_REQUEST = b"SHOAL/", b"HTTP/1.1 400 Bad Request\r\nConnection: close\r\n\r\n"
_HANDSHAKE = b"\x16"
#: Connections that wait in the kernel to be accepted.
_BACKLOG = 128

_Socket = socket.socket | SecureSocket


class WebSocket(Channel):
    """One connection."""

    def __init__(self, sock: _Socket, protocol: Protocol, address: str) -> None:
        self.address = address
        self._socket, self._protocol = sock, protocol
        self._lock = threading.Lock()
        # Held while bytes go out, so that they go in order.
        self._sending = threading.Lock()
        self._came: list[bytes] = []
        self._has_greeted, self._is_receiving = False, False
        self._ended = threading.Event()

    def send(self, data: memoryview) -> None:
        """Send bytes as one message."""
        with self._sending:
            with self._lock:
                if self._protocol.state is not State.OPEN:
                    raise LinkError("the other end closed the connection")
                self._protocol.send_binary(data)
                out = self._protocol.data_to_send()
            self._write(out)

    def receive(self) -> bytes:
        """Wait for what comes; where messages begin and end means nothing."""
        self._has_greeted = self._is_receiving = True
        try:
            while not self._came:
                if not self._read():
                    return b""
            came, self._came = b"".join(self._came), []
            return came
        except BaseException:
            self._ended.set()
            raise

    def close(self) -> None:
        """Say that it is over, and give the other end a moment to say it, too."""
        with contextlib.suppress(Exception):
            self._socket.settimeout(_CLOSE_S)
            self._say_close()
            if self._is_receiving:
                self._ended.wait(_CLOSE_S)
        with contextlib.suppress(OSError):
            self._socket.shutdown(socket.SHUT_RDWR)
        self._socket.close()

    def _say_close(self) -> None:
        if not self._sending.acquire(timeout=_CLOSE_S):
            return
        try:
            with self._lock:
                if self._protocol.state is State.OPEN:
                    self._protocol.send_close()
                out = self._protocol.data_to_send()
            self._write(out)
        finally:
            self._sending.release()

    def _read(self) -> bool:
        """Take what the socket brings; false at the end."""
        came = self._socket.recv(_READ_BYTES if self._has_greeted else _FIRST_BYTES)
        if not self._has_greeted:
            self._look_at(came)
        with self._lock:
            if came:
                self._protocol.receive_data(came)
            else:
                self._protocol.receive_eof()
            events, answers = self._protocol.events_received(), self._protocol.data_to_send()
        if answers:
            with self._sending, contextlib.suppress(OSError):
                self._write(answers)
        for event in events:
            self._take(event)
        if came and self._protocol.state is not State.CLOSED:
            return True
        self._ended.set()
        return bool(self._came)

    def _look_at(self, came: bytes) -> None:
        """Something came before the other end greeted."""

    def _take(self, event: object) -> None:
        if isinstance(event, Frame):
            if event.opcode in (Opcode.BINARY, Opcode.CONT):
                self._came.append(bytes(event.data))
            elif event.opcode is Opcode.TEXT:
                raise LinkError("it sends text, and Shoal's links are binary")

    def _write(self, pieces: list[bytes]) -> None:
        for piece in pieces:
            if piece:
                try:
                    self._socket.sendall(piece)
                except BlockingIOError:
                    raise LinkError("it takes no answer to its handshake") from None
            else:
                self._socket.shutdown(socket.SHUT_WR)


class _Client(WebSocket):
    def greet(self, deadline: float) -> None:
        """Ask for the connection to become a WebSocket."""
        protocol = self._protocol
        assert isinstance(protocol, ClientProtocol)
        protocol.send_request(protocol.connect())
        self._write(protocol.data_to_send())
        while protocol.state is State.CONNECTING and protocol.handshake_exc is None:
            self._socket.settimeout(max(deadline - time.monotonic(), 0.001))
            if not self._read():
                break
        failure = protocol.handshake_exc
        if failure is not None and not isinstance(failure.__cause__, EOFError):
            raise LinkRefusedError(f"it does not take WebSockets of Shoal: {failure}")
        if protocol.state is not State.OPEN:
            raise LinkError(
                "the other end closed the connection instead of answering: use ws:// at both ends, or wss://"
            )
        self._socket.settimeout(None)


class _Accepted(WebSocket):
    def __init__(self, sock: socket.socket, address: str, context: ssl.SSLContext | None, path: str) -> None:
        protocol = ServerProtocol(
            # A client that names an origin is a browser.
            origins=[None],
            subprotocols=[SUBPROTOCOL],
            max_size=FRAME_BYTES_MAX,
        )
        super().__init__(
            sock if context is None else SecureSocket(sock, context, name=None), protocol, address
        )
        self._path, self._plain = path, sock
        #: Why it is not let in.
        self.failure: Exception | None = None
        self._is_agreed = context is None
        self._said_bytes = 0

    # --- the handshake, which another thread does for all of them ---

    def fileno(self) -> int:
        """The descriptor of its socket."""
        return self._plain.fileno()

    def advance(self) -> bool:
        """Go on with the handshake as far as bytes have come; true once it is over, whichever way.

        It is over when the other end has greeted inside the WebSocket: Shoal's clients speak first.
        """
        try:
            self._agree()
            while not self._greets():
                self._read()
                if (failure := self._protocol.handshake_exc) is not None:
                    raise LinkRefusedError(f"it is no WebSocket of Shoal: {failure}")
                if self._ended.is_set() and not self._greets():
                    raise LinkError("the other end closed the connection")
        except BlockingIOError:
            return False
        except Exception as error:
            self.failure = error
        else:
            self._plain.setblocking(True)
        return True

    def _greets(self) -> bool:
        self._came = [b"".join(self._came)]
        try:
            return _core.is_greeting_whole(self._came[0])
        except ValueError as error:
            raise LinkRefusedError(str(error)) from None

    def part(self) -> None:
        """Send nothing more."""
        with contextlib.suppress(Exception):
            self._say_close()
        with contextlib.suppress(OSError):
            self._plain.shutdown(socket.SHUT_WR)

    def has_hung_up(self) -> bool:
        """Discard what comes; whether the other end has closed the connection."""
        try:
            return not self._plain.recv(_FIRST_BYTES)
        except BlockingIOError:
            return False
        except OSError:
            return True

    def abort(self) -> None:
        """Close the socket at once."""
        self._plain.close()

    def _agree(self) -> None:
        """Find out whom we talk to, over TLS."""
        if self._is_agreed or not isinstance(self._socket, SecureSocket):
            return
        try:
            self._socket.handshake()
        except ssl.SSLEOFError:
            raise LinkError("the other end closed the connection") from None
        except ssl.SSLError as error:
            raise LinkRefusedError(f"no TLS with it: {error.reason or error}") from None
        self.identity, self._is_agreed = self._socket.identity, True

    def _look_at(self, came: bytes) -> None:
        self._said_bytes += len(came)
        if self._said_bytes > _HANDSHAKE_BYTES_MAX:
            raise LinkRefusedError(f"its handshake is longer than {_HANDSHAKE_BYTES_MAX} bytes")
        if self._protocol.state is not State.CONNECTING:
            return
        # Of neither of them a line would ever come to its end.
        if came.startswith(_GREETING):
            self._write([_NO_REQUEST])
            raise LinkRefusedError("it speaks without HTTP: use ws:// at both ends, or tcp://")
        if came.startswith(_HANDSHAKE):
            raise LinkRefusedError("it speaks TLS, and this end does not: use wss:// at both ends")

    def _take(self, event: object) -> None:
        if not isinstance(event, Request):
            super()._take(event)
            return
        protocol = self._protocol
        assert isinstance(protocol, ServerProtocol)
        with self._lock:
            if self._path and urlsplit(event.path).path != self._path:
                response = protocol.reject(404, f"links are at {self._path}\n")
            else:
                response = protocol.accept(event)
            protocol.send_response(response)
            out = protocol.data_to_send()
        with self._sending:
            self._write(out)
        if response.status_code != 101:
            why = protocol.handshake_exc or f"it asks for {event.path}"
            raise LinkRefusedError(f"it is no WebSocket of Shoal: {why}")


class _Door(Listening):
    def __init__(self, target: Target, context: ssl.SSLContext | None, congestion: str) -> None:
        (address, *_) = resolve(target.host, target.port)
        family = socket.AF_INET6 if ":" in address else socket.AF_INET
        self._socket = socket.create_server((address, target.port), family=family, backlog=_BACKLOG)
        #: What clients are let in with.
        self.context = context
        port = self._socket.getsockname()[1]
        self._place = (address, port)
        forks.note(*self._place)
        self.url = Target(target.scheme, address, port, target.path).url

        def begin(sock: socket.socket, address: tuple[str, int]) -> _Accepted:
            sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            tune(sock, congestion)
            return _Accepted(sock, _text_of(address), self.context, target.path)

        self._handshakes = Handshakes(self._socket, begin, has_room=_has_room)

    def accept(self) -> Channel | TurnedAway | None:
        """Wait until a client connects, and until both ends speak the same protocol."""
        while (accepted := self._handshakes.take()) is not None:
            if accepted.failure is None:
                return accepted
            # One that hung up is no news.
            if isinstance(accepted.failure, LinkRefusedError):
                return TurnedAway(accepted.address, str(accepted.failure))
        return None

    def close(self) -> None:
        """Accept no more connections."""
        forks.forget(*self._place)
        self._handshakes.stop()
        self._socket.close()


class WebSockets(Transport):
    """Links of `ws://` and `wss://`."""

    def __init__(self, config: ConnectionConfig) -> None:
        self._config = config
        self._doors: weakref.WeakSet[_Door] = weakref.WeakSet()

    def connect(self, target: Target, timeout_s: float) -> Channel:
        """Connect, through a proxy where the environment names one."""
        deadline = time.monotonic() + timeout_s
        plain = _reach(target, timeout_s)
        try:
            plain.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            tune(plain, self._config.tcp_congestion)
            address = _text_of(plain.getpeername())
            sock: _Socket = plain
            if target.scheme == "wss":
                sock = self._secure(plain, target, deadline)
            protocol = ClientProtocol(
                parse_uri(target.url), subprotocols=[SUBPROTOCOL], max_size=FRAME_BYTES_MAX
            )
            channel = _Client(sock, protocol, address)
            if isinstance(sock, SecureSocket):
                channel.identity = sock.identity
            channel.greet(deadline)
        except TimeoutError:
            plain.close()
            raise LinkError("the other end did not answer in time") from None
        except ssl.SSLError as error:
            # It has seen our certificate, or that there is none.
            plain.close()
            raise LinkRefusedError(_ALERTS.get(error.reason, f"no TLS with it: {error}")) from None
        except BaseException:
            plain.close()
            raise
        return channel

    def listen(self, target: Target) -> Listening:
        """Let others connect."""
        context = None
        if target.scheme == "wss":
            check_listening(self._config, target.url)
            context = context_of(self._config, listens=True)
        door = _Door(target, context, self._config.tcp_congestion)
        self._doors.add(door)
        return door

    def reload(self) -> None:
        """Read certificates again; dialling connections read them each time."""
        secure = [door for door in self._doors if door.context is not None]
        if secure:
            context = context_of(self._config, listens=True)
            for door in secure:
                door.context = context

    def _secure(self, plain: socket.socket, target: Target, deadline: float) -> SecureSocket:
        context = context_of(self._config, listens=False)
        sock = SecureSocket(plain, context, name=self._config.tls_name or target.host)
        plain.settimeout(max(deadline - time.monotonic(), 0.001))
        try:
            sock.handshake()
        except ssl.SSLCertVerificationError as error:
            raise LinkRefusedError(_why_not(error)) from None
        except ssl.SSLEOFError:
            raise LinkError(
                "the other end closed the connection before TLS began: use wss:// at both ends"
            ) from None
        except ssl.SSLError as error:
            raise LinkRefusedError(f"no TLS with it: {error.reason or error}") from None
        return sock


def _has_room(sock: socket.socket) -> bool:
    """Whether the extension would take a connection that came with this descriptor, and a pipe to it."""
    # The system gives the lowest number that is free.
    return sock.fileno() + 2 + KEPT_FREE < limit()


def _why_not(error: ssl.SSLCertVerificationError) -> str:
    """What is wrong with a certificate, in the words of `tls://`."""
    code = error.verify_code
    if code in _UNTRUSTED:
        return "its certificate is not signed by an authority that we trust (tls_ca)"
    if code in _OTHER_NAME:
        return f"its certificate is not for the name we asked for: {error.verify_message}"
    if code == _EXPIRED:
        return "its certificate has expired"
    if code == _TOO_EARLY:
        return "its certificate is not valid yet: look at the clocks"
    return f"its certificate cannot be accepted: {error.verify_message}"


def _reach(target: Target, timeout_s: float) -> socket.socket:
    """A connection to the target's host, directly or by asking a proxy for it (CONNECT)."""
    proxy = _proxy_of(target)
    if proxy is None:
        made = socket.create_connection((target.host, target.port), timeout=timeout_s)
        if made.getsockname() == made.getpeername():
            # The system may give out the very port that is dialled, and the two ends meet. It is not to be
            # taken for a minute.
            made.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
            made.close()
            raise LinkError("no program listens there: it connected to itself")
        return made
    parts = urlsplit(proxy if "://" in proxy else f"http://{proxy}")
    if parts.scheme != "http" or parts.hostname is None:
        raise LinkRefusedError(f"the proxy {proxy!r} of the environment is none of http://host:port")
    headers = {}
    if parts.username is not None:
        who = f"{unquote(parts.username)}:{unquote(parts.password or '')}"
        headers["Proxy-Authorization"] = "Basic " + base64.b64encode(who.encode()).decode("ascii")
    connection = http.client.HTTPConnection(parts.hostname, parts.port or 80, timeout=timeout_s)
    host = f"[{target.host}]" if ":" in target.host else target.host
    connection.set_tunnel(host, target.port, headers)
    try:
        connection.connect()
    except (OSError, http.client.HTTPException) as error:
        raise LinkError(
            f"the proxy {parts.hostname}:{parts.port or 80} does not connect us: {error}"
        ) from None
    return connection.sock


def _proxy_of(target: Target) -> str | None:
    """What the environment says, as other programs understand it: HTTPS_PROXY, HTTP_PROXY, NO_PROXY."""
    proxies = urllib.request.getproxies()
    kind = "https" if target.scheme == "wss" else "http"
    proxy = proxies.get(kind) or proxies.get("all")
    return None if not proxy or urllib.request.proxy_bypass(target.host) else proxy


def _text_of(address: tuple[str, int]) -> str:
    host, port = address[:2]
    return f"[{host}]:{port}" if ":" in host else f"{host}:{port}"


__all__ = ["WebSocket", "WebSockets"]
