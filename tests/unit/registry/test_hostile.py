"""What a registry, and those who ask one, do with slow, forged and excessive input."""

import contextlib
import http.server
import json
import os
import socket
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from shoal.errors import LinkError
from shoal.link.authority import make_authority, make_node
from shoal.link.directory import DAEMONS_MAX, Endpoint, Record
from shoal.link.registry_client import CANDIDATES_MAX, RegistryClient
from shoal.registry.config import RegistryConfig
from shoal.registry.service import Registry
from shoal.web import server


def until(true: Callable[[], object], patience_s: float = 20.0) -> None:
    deadline = time.monotonic() + patience_s
    while not true():
        assert time.monotonic() < deadline
        time.sleep(0.02)


@contextlib.contextmanager
def answering(body: bytes, status: int = 200) -> Iterator[RegistryClient]:
    """A registry that answers everything with this."""

    class Handler(http.server.BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            self.send_response(status)
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            with contextlib.suppress(OSError):
                self.wfile.write(body)

        def log_message(self, *_: object) -> None:
            pass

    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler) as made:
        thread = threading.Thread(target=made.serve_forever)
        thread.start()
        try:
            yield RegistryClient(f"http://127.0.0.1:{made.server_port}", "plant")
        finally:
            made.shutdown()
            thread.join()


def listing(count: int) -> bytes:
    one = Record(f"{1:016x}", "d", (Endpoint("tcp", "10.0.0.1", 1),)).as_json()
    return json.dumps({"stamp": 1, "settling": False, "daemons": [one] * count}).encode()


def test_a_list_of_too_many_daemons_is_refused_and_says_how_many() -> None:
    with answering(listing(100_000)) as client, pytest.raises(LinkError, match=r"lists 100000 daemons.*4096"):
        client.listing()
    with answering(listing(DAEMONS_MAX)) as client:
        assert len(client.listing().records) == DAEMONS_MAX  # type: ignore[union-attr]


@pytest.mark.parametrize(
    ("body", "words"),
    [
        (b"[" * 100_000, "no registry"),
        (b"", "no registry"),
        (b"null", "cannot be read"),
        (b'{"candidates": 7, "current": null}', "cannot be read"),
        (json.dumps({"candidates": [{}] * 100, "current": None}).encode(), f"may name {CANDIDATES_MAX}"),
        (os.urandom(5000), "no registry"),
    ],
)
def test_an_answer_that_is_none_is_named(body: bytes, words: str) -> None:
    with answering(body) as client, pytest.raises(LinkError, match=words):
        client.locate()


def test_an_authority_that_did_not_sign_the_certificate_is_named(tmp_path: Path) -> None:
    for name in ("ours", "other"):
        make_authority(tmp_path / name, name, 3)
    cert, key = make_node(tmp_path / "ours", "127.0.0.1", [], 3)
    with Registry(RegistryConfig(listen="127.0.0.1:0", tls_cert=cert, tls_key=key)) as registry:
        right = RegistryClient(registry.url, "plant", ca=tmp_path / "ours" / "ca.pem")
        assert right.listing() is not None
        wrong = RegistryClient(registry.url, "plant", ca=tmp_path / "other" / "ca.pem")
        with pytest.raises(LinkError, match=r"certificate is not trusted .*`ca` names"):
            wrong.listing()
        plain = RegistryClient(registry.url.replace("https", "http"), "plant")
        with pytest.raises(LinkError, match="if it has a certificate, `ca` names"):
            plain.listing()


@pytest.fixture
def hurried(monkeypatch: pytest.MonkeyPatch) -> Iterator[Registry]:
    """A registry that waits for a request for half a second."""
    patient = server.close_slow

    async def close_slow(connections: Any) -> None:
        await patient(connections, 0.5)

    monkeypatch.setattr(server, "close_slow", close_slow)
    with Registry(RegistryConfig(listen="127.0.0.1:0")) as registry:
        yield registry


def is_closed(connection: socket.socket) -> bool:
    try:
        return connection.recv(1000, socket.MSG_DONTWAIT) == b""
    except BlockingIOError:
        return False
    except ConnectionError:
        return True


def test_clients_whose_requests_do_not_come_are_closed_and_others_are_served(hurried: Registry) -> None:
    address = ("127.0.0.1", int(hurried.url.rpartition(":")[2]))
    parts = (
        b"",
        b"GET /v1/domains/plant/da",
        b"PUT /v1/domains/plant/daemons/00000000000000a1 HTTP/1.1\r\nHost: r\r\nContent-Length: 900\r\n\r\n{",
    )
    with contextlib.ExitStack() as stack:
        slow = [stack.enter_context(socket.create_connection(address)) for _ in range(60)]
        for number, each in enumerate(slow):
            each.sendall(parts[number % len(parts)])
        client = RegistryClient(hurried.url, "plant")
        # A question that waits for a change is no slow request.
        waited: list[object] = []
        waiting = threading.Thread(target=lambda: waited.append(client.listing(0, 1.5)))
        waiting.start()
        until(lambda: all(map(is_closed, slow)))
        waiting.join()
        assert waited == [None]
        assert client.listing() is not None


def test_no_part_of_an_answer_waits_for_an_acknowledgement(hurried: Registry) -> None:
    address = ("127.0.0.1", int(hurried.url.rpartition(":")[2]))
    with socket.create_connection(address) as connection:
        connection.sendall(b"GET /openapi.json HTTP/1.1\r\nHost: r\r\n\r\n")
        assert connection.recv(4).startswith(b"HTTP")
        web = hurried._web._server
        assert web is not None
        (mine,) = web.server_state.connections
        accepted = mine.transport.get_extra_info("socket")
        assert accepted.getsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY)
