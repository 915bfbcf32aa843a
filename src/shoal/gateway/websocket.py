"""STOMP in messages of a WebSocket (RFC 6455), which the library `websockets` knows. No sockets.

A message carries one or more whole frames, or heart-beats. The gateway sends binary messages, and takes text
ones as well.
"""

from collections.abc import Sequence

from shoal.errors import ConfigError
from shoal.gateway.carriers import Carrier

try:
    from websockets.exceptions import NegotiationError
    from websockets.frames import Frame, Opcode
    from websockets.http11 import Request
    from websockets.protocol import State
    from websockets.server import ServerProtocol
    from websockets.typing import Origin, Subprotocol
except ImportError as error:
    raise ConfigError("ws:// and wss:// need a library: pip install 'shoal[ws]'") from error

#: What a client asks for that speaks STOMP 1.2 over WebSocket.
SUBPROTOCOL = Subprotocol("v12.stomp")
#: A handshake is no longer.
HANDSHAKE_BYTES_MAX = 16_384

_DATA = (Opcode.BINARY, Opcode.TEXT, Opcode.CONT)


class WebSocket(Carrier):
    """STOMP in messages of a WebSocket.

    Args:
        path: where it is served, such as `/stomp`.
        origins: pages that may connect; a program that is no browser names none.
        message_bytes_max: the longest message that is taken.
    """

    def __init__(self, path: str, origins: Sequence[str], message_bytes_max: int) -> None:
        self._path = path
        self._began = 0
        self._protocol = ServerProtocol(
            origins=[None, *map(Origin, origins)],
            select_subprotocol=_select,
            max_size=message_bytes_max,
        )

    @property
    def is_open(self) -> bool:
        """Whether the handshake is done."""
        return self._protocol.state is State.OPEN

    @property
    def is_over(self) -> bool:
        """Whether the client closed it, or its handshake was refused."""
        protocol = self._protocol
        return protocol.state in (State.CLOSING, State.CLOSED) or protocol.handshake_exc is not None

    def receive(self, data: bytes) -> bytes:
        """The payload of messages."""
        protocol = self._protocol
        if protocol.state is State.CONNECTING:
            self._began += len(data)
            if self._began > HANDSHAKE_BYTES_MAX:
                protocol.handshake_exc = protocol.handshake_exc or ValueError("the handshake is too long")
                return b""
        protocol.receive_data(data)
        parts = []
        for event in protocol.events_received():
            if isinstance(event, Request):
                self._answer(event)
            elif isinstance(event, Frame) and event.opcode in _DATA:
                parts.append(bytes(event.data))
        return b"".join(parts)

    def _answer(self, request: Request) -> None:
        protocol = self._protocol
        if request.path.partition("?")[0] == self._path:
            # Refuses an origin that is not listed (403), and what is no WebSocket (426).
            protocol.send_response(protocol.accept(request))
        else:
            protocol.send_response(protocol.reject(404, f"STOMP is served at {self._path}\n"))
            protocol.handshake_exc = protocol.handshake_exc or ValueError("another path")

    def carry(self, data: bytes) -> bytes:
        """One message."""
        if not self.is_open:
            return b""
        self._protocol.send_binary(data)
        return self.poll_answer()

    def poll_answer(self) -> bytes:
        """The handshake's answer, pongs, the answer to a close."""
        return b"".join(self._protocol.data_to_send())

    def finish(self) -> bytes:
        """A close, which says that everything was said."""
        if self.is_open:
            self._protocol.send_close(1000)
        return self.poll_answer()


def _select(protocol: ServerProtocol, offered: Sequence[Subprotocol]) -> Subprotocol | None:
    """STOMP 1.2 if the client offers protocols; a client that offers none says in CONNECT what it speaks."""
    if not offered:
        return None
    if SUBPROTOCOL not in offered:
        raise NegotiationError(f"this gateway speaks {SUBPROTOCOL} alone")
    return SUBPROTOCOL
