"""Ends of links that Shoal did not write: bytes on a connection of any kind, and what they mean."""

import contextlib
import socket
import ssl
import struct
from pathlib import Path

from websockets.client import ClientProtocol
from websockets.exceptions import WebSocketException
from websockets.frames import Frame, Opcode
from websockets.protocol import State
from websockets.typing import Subprotocol
from websockets.uri import parse_uri

from shoal.config.target import target_of

VERSION = 3
#: Kinds of blocks; those of lanes follow `LANES`.
CONFIRM, ACK, LANES = 1, 2, 16
_PIECE_BYTES = 60_000


class Stranger:
    """A connection to a listener; inside TLS and WebSockets where its URL says so. For one thread."""

    def __init__(self, url: str, certs: Path) -> None:
        target = target_of(url, 0)
        self._sock = socket.create_connection((target.host, target.port), timeout=60)
        if target.scheme in ("tls", "wss"):
            context = ssl.create_default_context(cafile=certs / "ca.pem")
            context.load_cert_chain(certs / "leaf.pem", certs / "leaf.key")
            self._sock = context.wrap_socket(self._sock, server_hostname="localhost")
        self._web: ClientProtocol | None = None
        if target.scheme in ("ws", "wss"):
            self._web = ClientProtocol(parse_uri(url), subprotocols=[Subprotocol("shoal")], max_size=None)
            self._web.send_request(self._web.connect())
            self._flush(self._web)
            while self._web.state is State.CONNECTING:
                heard = self._sock.recv(1 << 16)
                if not heard:
                    raise EOFError
                self._web.receive_data(heard)
                self._web.events_received()

    def send(self, said: bytes) -> None:
        """Say something; that the other end has hung up is no error."""
        with contextlib.suppress(OSError, WebSocketException):
            if self._web is None:
                self._sock.sendall(said)
            else:
                self._web.send_binary(said)
                self._flush(self._web)

    def receive(self) -> bytes:
        """What it says next; nothing once it has hung up."""
        try:
            while heard := self._sock.recv(1 << 16):
                if self._web is None:
                    return heard
                self._web.receive_data(heard)
                frames = [event for event in self._web.events_received() if isinstance(event, Frame)]
                if said := b"".join(bytes(one.data) for one in frames if one.opcode is Opcode.BINARY):
                    return said
                self._flush(self._web)
        except TimeoutError:
            # It has not hung up.
            raise
        except OSError:
            pass
        return b""

    def receive_all(self) -> bytes:
        """Everything it says until it hangs up."""
        heard = b""
        while piece := self.receive():
            heard += piece
        return heard

    def shut(self) -> None:
        """Send nothing more, and stay."""
        with contextlib.suppress(OSError):
            self._sock.shutdown(socket.SHUT_WR)

    def close(self) -> None:
        """Go without a word."""
        self._sock.close()

    def _flush(self, web: ClientProtocol) -> None:
        for piece in web.data_to_send():
            if piece:
                self._sock.sendall(piece)


def _text(text: str) -> bytes:
    return bytes([len(text)]) + text.encode()


def hello(publisher: int, *, version: int = VERSION, heartbeat_ms: int = 1000) -> bytes:
    """The greeting of whoever connects."""
    content = _text("stranger 9.9") + b"\x01" + _text("default")
    content += struct.pack(">QIIQB", publisher, publisher & 0xFFFF, heartbeat_ms, publisher, 0)
    return b"SHOAL/" + bytes([version]) + struct.pack(">H", len(content)) + content


def block(kind: int, content: bytes) -> bytes:
    """What follows greetings."""
    return bytes([kind]) + len(content).to_bytes(3, "big") + content


def confirmation() -> bytes:
    """It has nothing of any lane, and room for nothing."""
    return block(CONFIRM, b"\x04" + bytes(64))


def begin_message(length: int) -> bytes:
    """How the frame of a message begins."""
    head = b""
    while length >= 0x80:
        head, length = head + bytes([length & 0x7F | 0x80]), length >> 7
    return head + bytes([length])


class Greeted:
    """A session of a stranger that keeps to the credit it has, and may stop anywhere."""

    def __init__(self, stranger: Stranger, publisher: int) -> None:
        self._stranger, self._heard = stranger, b""
        self._sent = 0
        stranger.send(hello(publisher))
        head = self._take(9)
        welcome = self._take(int.from_bytes(head[7:9], "big"))
        at = 1 + welcome[0] + 1
        at += 1 + welcome[at] + 24 + 1 + 1
        self._limits = {
            lane: struct.unpack_from(">Q", welcome, at + 16 * lane - 8)[0] for lane in range(1, 5)
        }
        stranger.send(confirmation())

    def send(self, lane: int, said: bytes) -> bool:
        """Say something on a lane; false if the other end hung up first."""
        try:
            for at in range(0, len(said), _PIECE_BYTES):
                piece = said[at : at + _PIECE_BYTES]
                while self._sent + len(piece) > self._limits[lane]:
                    self._read_block()
                self._stranger.send(block(LANES + lane, piece))
                self._sent += len(piece)
        except EOFError:
            return False
        return True

    def _read_block(self) -> None:
        head = self._take(4)
        content = self._take(int.from_bytes(head[1:], "big"))
        if head[0] == ACK:
            lane, _, limit = struct.unpack(">BQQ", content)
            self._limits[lane] = limit

    def _take(self, count: int) -> bytes:
        while len(self._heard) < count:
            piece = self._stranger.receive()
            if not piece:
                raise EOFError
            self._heard += piece
        taken, self._heard = self._heard[:count], self._heard[count:]
        return taken
