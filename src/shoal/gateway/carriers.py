"""How STOMP travels: as it is, or in messages of a WebSocket (`websocket`). No sockets."""

from abc import ABC, abstractmethod


class Carrier(ABC):
    """One connection's."""

    @abstractmethod
    def receive(self, data: bytes) -> bytes:
        """What came from the socket: the client's bytes in it."""

    @abstractmethod
    def carry(self, data: bytes) -> bytes:
        """Bytes for the client, as they go to the socket."""

    def poll_answer(self) -> bytes:
        """Bytes that the carrier itself has to say."""
        return b""

    def finish(self) -> bytes:
        """The last bytes, before the connection is closed."""
        return b""

    @property
    def is_open(self) -> bool:
        """Whether bytes can be carried."""
        return True

    @property
    def is_over(self) -> bool:
        """Whether the client has ended it."""
        return False


class Plain(Carrier):
    """STOMP as it is, over TCP or TLS."""

    def receive(self, data: bytes) -> bytes:
        """The same."""
        return data

    def carry(self, data: bytes) -> bytes:
        """The same."""
        return data
