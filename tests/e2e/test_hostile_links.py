"""Whatever comes to the port of a listener: nobody else is disturbed, and what it costs is bounded."""

import contextlib
import random
import socket
import ssl
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from programs import Peer

from shoal.link.authority import make_authority, make_node

SCHEMES = ["tcp", "tls", "ws", "wss"]
#: What each kind of port hears first from its own.
BEGINNINGS = {
    "tcp": b"SHOAL/\x03",
    "tls": b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03",
    "ws": b"GET / HTTP/1.1\r\nHost: x\r\nUpgrade: websocket\r\nConnection: Upgrade\r\n"
    b"Sec-WebSocket-Version: 13\r\nSec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\n"
    b"Sec-WebSocket-Protocol: shoal\r\n\r\n",
}


@pytest.fixture(scope="module")
def certs(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("certs")
    make_authority(folder, "test CA", 30)
    make_node(folder, "127.0.0.1", [], 30)
    return folder


@pytest.fixture(params=SCHEMES)
def scheme(request: pytest.FixtureRequest) -> str:
    return str(request.param)


@pytest.fixture
def port() -> int:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        return int(taken.getsockname()[1])


@pytest.fixture
def start(scheme: str, port: int, certs: Path) -> Iterator[Callable[..., Peer]]:
    peers: list[Peer] = []

    def begin(*, listen: bool = False, **options: object) -> Peer:
        if scheme in ("tls", "wss"):
            options |= {"tls_ca": str(certs / "ca.pem")} if not listen else {}
            if listen:
                options |= {
                    "tls_cert": str(certs / "127.0.0.1.pem"),
                    "tls_key": str(certs / "127.0.0.1.key"),
                }
        peer = Peer(f"{scheme}://127.0.0.1:{port}", **options, **({"listen": True} if listen else {}))
        peers.append(peer)
        return peer.connected()

    yield begin
    for peer in peers:
        peer.kill()


@pytest.fixture
def kept() -> Iterator[contextlib.ExitStack]:
    """Connections of strangers that stay open until the test is over."""
    with contextlib.ExitStack() as stack:
        yield stack


def whole(answer: dict, count: int) -> None:
    assert answer["received"]["0"] == {
        "first": 0, "next": count, "count": count, "skipped": 0, "faults": [],
    }  # fmt: skip


def say(scheme: str, port: int, said: bytes, certs: Path, *, inside: bool) -> socket.socket:
    """Say something on a connection; inside TLS, where there is some."""
    sock = socket.create_connection(("127.0.0.1", port), timeout=10)
    with contextlib.suppress(OSError):
        if inside and scheme in ("tls", "wss"):
            context = ssl.create_default_context(cafile=certs / "ca.pem")
            sock = context.wrap_socket(sock, server_hostname="127.0.0.1")
        sock.sendall(said)
    return sock


def test_strangers_of_every_kind_disturb_nobody(
    scheme: str, start: Callable[..., Peer], port: int, certs: Path, kept: contextlib.ExitStack
) -> None:
    hub, leaf = start(listen=True), start()
    leaf.ask("subscribe", pattern="t/>")
    hub.ask("wait_for_subscribers", topic="t/x", count=1)
    seed = random.randrange(1 << 30)
    print(f"seed {seed}")
    chance = random.Random(seed)
    for number in range(80):
        inside = chance.random() < 0.5
        plain = {"tls": "tcp", "wss": "ws"}.get(scheme, scheme) if inside else scheme
        said = BEGINNINGS.get("tls" if plain in ("tls", "wss") else plain, b"")
        if plain == "ws" and inside:
            # Frames: what is in them, and frames that are none.
            said += bytes([0x82, 0x80 | 20]) + bytes(4) + chance.choice([b"SHOAL/\x03", b""])
        said = said[: chance.randrange(len(said) + 1)] if chance.random() < 0.5 else said
        stranger = say(scheme, port, said + chance.randbytes(chance.randrange(1500)), certs, inside=inside)
        if number % 4 == 0:
            kept.enter_context(stranger)
        else:
            stranger.close()
        if number % 20 == 0:
            hub.ask("publish", topic="t/x", count=100, sizes=[100], start=5 * number)
    hub.ask("flush", timeout_s=20)
    whole(leaf.ask("wait_received", pattern="t/>", source=0, count=400), 400)
    assert hub.ask("memory")["bytes"] < 250 << 20, f"seed {seed}"
    # A listener refuses a stranger when the handshake thread has come to it, which may be after the flush.
    hub.ask("wait_event", event="LinkRefused", timeout_s=20)
    told = [event for event in hub.ask("told")["events"] if event["event"] == "LinkRefused"]
    assert all(event["why"] and event["address"] for event in told)
