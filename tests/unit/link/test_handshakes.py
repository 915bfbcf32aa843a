"""Clients that connect to a WebSocket listener and are slow, or say nothing: they cost no thread, and end."""

import contextlib
import socket
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from strangers import Stranger, hello

import shoal
from shoal.link import LinkState
from shoal.link.handshakes import REFUSAL_S, Handshakes

REQUEST = b"GET / HTTP/1.1\r\nHost: x\r\nUpgrade: websocket\r\nConnection: Upgrade\r\n"


class Spoken:
    """A handshake that is over with the first byte, and fails if that is a question mark."""

    def __init__(self, sock: socket.socket) -> None:
        self.sock = sock
        self.failure: Exception | None = None

    def fileno(self) -> int:
        return self.sock.fileno()

    def advance(self) -> bool:
        said = self.sock.recv(1)
        if said == b"?":
            self.failure = ValueError("no questions")
        return bool(said)

    def part(self) -> None:
        self.sock.sendall(b"no")
        self.sock.shutdown(socket.SHUT_WR)

    def has_hung_up(self) -> bool:
        return not self.sock.recv(1000)

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


def test_each_client_that_is_late_is_closed_and_told(place: Place) -> None:
    handshakes = Handshakes(place.listening, place.begin, clock=Clock(), handshake_s=0.01)
    clients = [place.connect() for _ in range(5)]
    told = [handshakes.take() for _ in clients]
    assert [str(one.failure) for one in told if one] == ["it did not say who it is within 0.01 s"] * 5
    assert [client.recv(1) for client in clients] == [b""] * 5
    assert len(handshakes) == 0
    end(handshakes)


def test_a_client_that_is_refused_reads_why_and_is_closed_when_it_hangs_up(place: Place) -> None:
    handshakes = Handshakes(place.listening, place.begin)
    client = place.connect(b"? and more that nobody reads")
    refused = handshakes.take()
    assert refused is not None
    assert str(refused.failure) == "no questions"
    assert (client.recv(10), client.recv(10), refused.fileno() >= 0) == (b"no", b"", True)
    client.close()
    while refused.fileno() >= 0:
        handshakes._turn()
    end(handshakes)


def test_clients_that_were_refused_and_stay_are_closed_after_a_while_and_are_bounded(place: Place) -> None:
    clock = Clock()
    handshakes = Handshakes(place.listening, place.begin, clock=clock, handshakes_max=3)
    clients = [place.connect(b"?") for _ in range(5)]
    refused = [one for _ in clients if (one := handshakes.take()) is not None]
    assert len(refused) == 5
    assert sum(one.fileno() >= 0 for one in refused) == 3, "the oldest gave way"
    clock.now += REFUSAL_S
    handshakes._turn()
    assert [one.fileno() for one in refused] == [-1] * 5
    end(handshakes)


def test_the_oldest_gives_way_to_those_who_come(place: Place) -> None:
    handshakes = Handshakes(place.listening, place.begin, handshakes_max=3)
    clients = [place.connect() for _ in range(4)]
    told = handshakes.take()
    assert told is not None
    assert clients[0].recv(1) == b""
    assert str(told.failure) == "too many connections came at once that said nothing"
    assert len(handshakes) == 3
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


@pytest.mark.parametrize(
    "say",
    [
        pytest.param(
            lambda stranger: stranger.send(hello(1)[:-1]), id="all but the last byte of its greeting"
        ),
        pytest.param(lambda stranger: stranger.send(b"nothing of Shoal's"), id="nonsense"),
        pytest.param(lambda stranger: stranger.send(b"SHOAL/" + bytes(100_000)), id="too much"),
    ],
)
def test_clients_that_do_not_greet_inside_the_websocket_take_no_threads_and_are_counted(
    say: Callable[[Stranger], None], tmp_path: Path
) -> None:
    with shoal.listen("ws://127.0.0.1:0") as hub, shoal.connect(hub.links[0].url) as leaf:
        threads = threading.active_count()
        strangers = [Stranger(hub.links[0].url, tmp_path) for _ in range(40)]
        most = threads
        for stranger in strangers:
            say(stranger)
            most = max(most, threading.active_count())
        with hub.subscribe("t") as heard:
            assert leaf.wait_for_subscribers("t", timeout_s=20)
            leaf.publish("t", "still here")
            assert heard.receive(timeout_s=20).body == "still here"
        assert [stranger.receive_all() for stranger in strangers] == [b""] * 40
        assert max(most, threading.active_count()) <= threads + 1, "the test's own"
        deadline = time.monotonic() + 20
        while _listener(hub).refused < 40 and time.monotonic() < deadline:
            time.sleep(0.01)
        assert _listener(hub).refused == 40
        for stranger in strangers:
            stranger.close()


def test_a_client_beyond_connections_max_holds_up_nobody_who_comes_after_it() -> None:
    with shoal.listen("ws://127.0.0.1:0", connections_max=1) as hub, shoal.connect(hub.links[0].url):
        began = time.monotonic()
        strangers = [Stranger(hub.links[0].url, Path()) for _ in range(20)]
        for number, stranger in enumerate(strangers):
            stranger.send(hello(number + 1))
            assert stranger.receive_all() == b""
            stranger.close()
        assert time.monotonic() < began + 10, "each was waited for"
        assert _listener(hub).turned_away == 20


def _listener(hub: shoal.Bus) -> LinkState:
    return next(link for link in hub.links if link.role == "listen")


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
