"""Clients that connect to a WebSocket listener and are slow, or say nothing: they cost no thread, and end."""

import contextlib
import socket
import threading
import time
from collections.abc import Iterator

import pytest

import shoal
from shoal.link.handshakes import REPORT_EVERY_S, Handshakes

REQUEST = b"GET / HTTP/1.1\r\nHost: x\r\nUpgrade: websocket\r\nConnection: Upgrade\r\n"


class Spoken:
    """A handshake that is over with the first byte."""

    def __init__(self, sock: socket.socket) -> None:
        self.sock, self.failure = sock, ""

    def fileno(self) -> int:
        return self.sock.fileno()

    def advance(self) -> bool:
        return bool(self.sock.recv(1))

    def fail(self, error: OSError) -> None:
        self.failure = str(error)

    def abort(self) -> None:
        self.sock.close()


class Clock:
    """Goes on when it is read, so that a wait is over at once."""

    def __init__(self) -> None:
        self.now = 100.0

    def __call__(self) -> float:
        self.now += 0.001
        return self.now


class Place:
    """A listening socket, and those who connected to it."""

    def __init__(self, listening: socket.socket) -> None:
        self.listening = listening
        self.sockets: list[socket.socket] = []

    def connect(self, said: bytes = b"") -> socket.socket:
        client = socket.create_connection(self.listening.getsockname(), timeout=10)
        self.sockets.append(client)
        client.sendall(said)
        return client

    def begin(self, sock: socket.socket, _: object) -> Spoken:
        self.sockets.append(sock)
        return Spoken(sock)


@pytest.fixture
def place() -> Iterator[Place]:
    with socket.create_server(("127.0.0.1", 0), backlog=512) as listening:
        place = Place(listening)
        yield place
        for sock in place.sockets:
            sock.close()


def end(handshakes: Handshakes[Spoken]) -> None:
    handshakes.stop()
    while handshakes.take() is not None:
        pass


def test_who_speaks_is_given_out_before_those_who_came_earlier_and_say_nothing(
    place: Place,
) -> None:
    handshakes = Handshakes(place.listening, place.begin)
    silent = [place.connect() for _ in range(20)]
    speaker = place.connect(b"x")
    taken = handshakes.take()
    assert taken is not None
    assert taken.sock.getpeername() == speaker.getsockname()
    assert len(handshakes) == len(silent)
    handshakes.stop()
    assert handshakes.take() is None
    assert all(client.recv(1) == b"" for client in silent)


def test_of_those_who_are_late_one_is_told_now_and_then_and_the_others_are_closed(
    place: Place,
) -> None:
    clock = Clock()
    handshakes = Handshakes(place.listening, place.begin, clock=clock, handshake_s=0.01)
    clients = [place.connect() for _ in range(5)]
    told = handshakes.take()
    assert told is not None
    assert told.failure == "it did not say who it is within 0.01 s"
    told.abort()
    while len(handshakes):
        handshakes._turn()
    assert [client.recv(1) for client in clients] == [b""] * 5
    clock.now += REPORT_EVERY_S
    place.connect()
    told = handshakes.take()
    assert told is not None
    assert told.failure.endswith(", nor did 4 others before it")
    end(handshakes)


def test_the_oldest_gives_way_to_those_who_come(place: Place) -> None:
    handshakes = Handshakes(place.listening, place.begin, handshakes_max=3)
    clients = [place.connect() for _ in range(4)]
    told = handshakes.take()
    assert told is not None
    assert told.sock.getpeername() == clients[0].getsockname()
    assert (told.failure, len(handshakes)) == ("too many connections came at once that said nothing", 3)
    end(handshakes)


def test_stopping_wakes_whoever_waits(place: Place) -> None:
    handshakes = Handshakes(place.listening, place.begin)
    waiting = threading.Thread(target=handshakes.take, daemon=True)
    waiting.start()
    handshakes.stop()
    place.listening.close()
    waiting.join(10)
    assert not waiting.is_alive()


def test_hundreds_of_slow_websockets_take_no_thread_each_and_disturb_nobody() -> None:
    with shoal.listen("ws://127.0.0.1:0") as hub:
        url = hub.links[0].url
        host, port = url.removeprefix("ws://").split(":")
        threads = threading.active_count()
        slow = [socket.create_connection((host, int(port)), timeout=30) for _ in range(400)]
        try:
            for at, client in enumerate(slow):
                client.sendall(REQUEST[: at % len(REQUEST)])
            with shoal.connect(url) as leaf:
                subscription = leaf.subscribe("t")
                assert hub.wait_for_subscribers("t", timeout_s=20)
                hub.publish("t", "still here")
                message = subscription.receive(timeout_s=20)
                assert message is not None
                # Those of one link and one listener, and of one refusal that is told.
                most = threads + 12
                assert threading.active_count() <= most
                began = time.monotonic()
                for at, client in enumerate(slow):
                    # One byte more keeps nobody here.
                    if at % 2 and time.monotonic() < began + 1:
                        with contextlib.suppress(OSError):
                            client.sendall(b"x")
                assert all(_is_closed(client) for client in slow)
                assert threading.active_count() <= most
        finally:
            for client in slow:
                client.close()


def _is_closed(client: socket.socket) -> bool:
    """Whether the other end hangs up before the socket's time is over."""
    try:
        while client.recv(1000):
            pass
    except ConnectionError:
        return True
    return True


def test_stopping_while_nobody_takes_leaves_no_descriptor_open() -> None:
    with socket.create_server(("127.0.0.1", 0)) as listening:
        handshakes = Handshakes(listening, lambda sock, _: Spoken(sock))
        waker, woken = handshakes._waker, handshakes._woken
        handshakes.stop()
        assert (waker.fileno(), woken.fileno()) == (-1, -1)
        assert handshakes.take() is None
