"""What lies between the engine and a channel."""

import socket
import threading

from shoal.link.pump import Pump
from shoal.link.transport import Channel


class Leaving(Channel):
    """Its other end said goodbye and left: the words are still on their way when sending fails."""

    def __init__(self) -> None:
        self._closed = threading.Event()
        self._words = [b"goodbye", b""]

    def send(self, data: memoryview) -> None:
        raise OSError("the other end closed the connection")

    def receive(self) -> bytes:
        assert self._closed.wait(60)
        return self._words.pop(0)

    def close(self) -> None:
        self._closed.set()


def test_what_has_come_is_handed_over_before_it_is_told_that_nothing_can_be_sent() -> None:
    engine, pipe = socket.socketpair()
    told: list[tuple[str, bytes]] = []
    broken = threading.Event()

    def note(why: str, refused: bool) -> None:
        told.append((why, engine.recv(100, socket.MSG_DONTWAIT)))
        broken.set()

    with engine:
        Pump(Leaving(), pipe, accepted=False, opened=lambda identity: None, broken=note)
        engine.sendall(b"something")
        assert broken.wait(60)
        assert told == [("the other end closed the connection", b"goodbye")]
        assert engine.recv(100) == b""
