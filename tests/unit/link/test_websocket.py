"""WebSockets: through proxies, beside another implementation, and against what does not belong there."""

import contextlib
import select
import socket
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest
import websockets.exceptions
import websockets.sync.client
from tls_options import shown, trusting

import shoal
from shoal.errors import LinkRefusedError


class Proxy(threading.Thread):
    """An HTTP proxy that only knows CONNECT; remembers who asked for what."""

    def __init__(self, answer: bytes = b"HTTP/1.1 200 OK\r\n\r\n") -> None:
        super().__init__(daemon=True)
        self._listener = socket.create_server(("127.0.0.1", 0))
        self._answer = answer
        self.url = f"http://user:secret@127.0.0.1:{self._listener.getsockname()[1]}"
        self.asked: list[str] = []

    def run(self) -> None:
        with contextlib.suppress(OSError):
            while True:
                near, _ = self._listener.accept()
                threading.Thread(target=self._serve, args=(near,), daemon=True).start()

    def _serve(self, near: socket.socket) -> None:
        with near, contextlib.suppress(OSError):
            head = b""
            while b"\r\n\r\n" not in head:
                head += near.recv(1000)
            self.asked.append(head.decode())
            near.sendall(self._answer)
            if b" 200 " not in self._answer:
                return
            host, port = head.split()[1].decode().rsplit(":", 1)
            with socket.create_connection((host, int(port))) as far:
                while True:
                    for source in select.select([near, far], [], [])[0]:
                        if not (piece := source.recv(65536)):
                            return
                        (far if source is near else near).sendall(piece)

    def close(self) -> None:
        self._listener.close()


@pytest.fixture
def proxy(monkeypatch: pytest.MonkeyPatch) -> Iterator[Proxy]:
    made = Proxy()
    made.start()
    for name in ("HTTP_PROXY", "HTTPS_PROXY", "http_proxy", "https_proxy"):
        monkeypatch.setenv(name, made.url)
    for name in ("NO_PROXY", "no_proxy"):
        monkeypatch.delenv(name, raising=False)
    yield made
    made.close()


@pytest.mark.parametrize("scheme", ["ws", "wss"])
def test_a_link_goes_through_the_proxy_of_the_environment(scheme: str, proxy: Proxy, certs: Path) -> None:
    listens = shown(certs, "localhost") if scheme == "wss" else {}
    connects = trusting(certs) if scheme == "wss" else {}
    with (
        shoal.listen(f"{scheme}://127.0.0.1:0", **listens) as hub,
        hub.subscribe("a") as heard,
        shoal.connect(hub.links[-1].url, **connects) as leaf,
    ):
        leaf.publish("a", 1)
        assert heard.receive(10).body == 1
        assert f"CONNECT {hub.links[-1].address}" in proxy.asked[0]
        assert "Proxy-Authorization: Basic" in proxy.asked[0]


def test_no_proxy_is_asked_for_hosts_that_the_environment_excepts(
    proxy: Proxy, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("NO_PROXY", "127.0.0.1")
    monkeypatch.setenv("no_proxy", "127.0.0.1")
    with shoal.listen("ws://127.0.0.1:0") as hub, shoal.connect(hub.links[-1].url) as leaf:
        assert leaf.members == [hub.node]
        assert proxy.asked == []


def test_a_proxy_that_refuses_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    proxy = Proxy(b"HTTP/1.1 403 Forbidden\r\n\r\n")
    proxy.start()
    monkeypatch.setenv("HTTP_PROXY", proxy.url)
    monkeypatch.setenv("http_proxy", proxy.url)
    with shoal.connect("ws://10.255.255.1:7474") as bus:
        (link,) = bus.links
        assert "the proxy 127.0.0.1" in link.why
        assert "403" in link.why
    proxy.close()


@pytest.fixture
def hub() -> Iterator[shoal.Bus]:
    with shoal.listen("ws://127.0.0.1:0/links") as bus:
        yield bus


def refusals(hub: shoal.Bus, timeout_s: float = 0.5) -> list[str]:
    return [event.why for event in hub.events(timeout_s=timeout_s) if isinstance(event, shoal.LinkRefused)]


def test_a_page_in_a_browser_is_not_let_in(hub: shoal.Bus) -> None:
    """Browsers say where their page is from; a page must not join a domain because somebody looks at it."""
    url = hub.links[-1].url
    with pytest.raises(websockets.exceptions.InvalidStatus, match="403"):
        websockets.sync.client.connect(url, origin="http://evil.example", subprotocols=["shoal"], proxy=None)
    assert any("origin" in why.lower() for why in refusals(hub))


def test_another_subprotocol_and_another_path_are_refused(hub: shoal.Bus) -> None:
    url = hub.links[-1].url
    with pytest.raises(websockets.exceptions.InvalidStatus, match="400"):
        websockets.sync.client.connect(url, subprotocols=["chat"], proxy=None)
    with pytest.raises(LinkRefusedError, match="404"):
        shoal.connect(url.replace("/links", "/other"))
    assert len(refusals(hub)) == 2


def test_another_implementation_may_speak_and_is_refused_for_what_it_says(hub: shoal.Bus) -> None:
    url = hub.links[-1].url
    with websockets.sync.client.connect(url, subprotocols=["shoal"], proxy=None) as other:
        assert other.subprotocol == "shoal"
        other.send(b"not a greeting of Shoal's")
        with pytest.raises(websockets.exceptions.ConnectionClosed):
            other.recv(timeout=10)
    assert refusals(hub) == ["it does not speak Shoal's protocol"]


@pytest.mark.parametrize(
    "said",
    [
        b"GET / HTTP/1.1\r\nHost: x\r\n\r\n",
        b"GET /links HTTP/1.1\r\n" + b"X: y\r\n" * 1000 + b"\r\n",
        b"SHOAL/\x03\x00\x00\r\n\r\n",
        bytes(range(256)) * 100,
    ],
)
def test_whatever_else_comes_to_the_port_is_refused_and_disturbs_nobody(hub: shoal.Bus, said: bytes) -> None:
    with hub.subscribe("a") as heard, shoal.connect(hub.links[-1].url) as leaf:
        host, port = hub.links[-1].address.split("/")[0].split(":")
        with (
            socket.create_connection((host, int(port)), timeout=10) as stranger,
            contextlib.suppress(OSError),
        ):
            stranger.sendall(said)
            while stranger.recv(1000):
                pass
        leaf.publish("a", 1)
        assert heard.receive(10).body == 1
        assert len(refusals(hub)) == 1


def test_whoever_hangs_up_instead_of_speaking_tls_is_tried_again(certs: Path) -> None:
    hung_up = threading.Semaphore(0)
    with socket.create_server(("127.0.0.1", 0)) as listener:

        def hang_up() -> None:
            with contextlib.suppress(OSError):
                while True:
                    near, _ = listener.accept()
                    with near:
                        near.recv(1 << 16)
                    hung_up.release()

        threading.Thread(target=hang_up, daemon=True).start()
        url = f"wss://127.0.0.1:{listener.getsockname()[1]}"
        with shoal.connect(url, reconnect_max_s=0.05, **trusting(certs)):
            assert all(hung_up.acquire(timeout=30) for _ in range(3))
