"""A registry over HTTP, as daemons and clients speak with it."""

import http.client
import json
import socket
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from shoal import _core
from shoal.cli.token import new
from shoal.config.tokens import read_token
from shoal.errors import ConfigError, LinkError, LinkRefusedError
from shoal.link.directory import STAMP_BYTES, Endpoint, Load, Record, open_stamp
from shoal.link.registry_client import RegistryClient
from shoal.registry.app import BODY_BYTES_MAX, LOCATES_PER_S
from shoal.registry.config import RegistryConfig
from shoal.registry.service import Registry


@pytest.fixture
def registry() -> Iterator[Registry]:
    with Registry(RegistryConfig(listen="127.0.0.1:0")) as one:
        yield one


@pytest.fixture
def client(registry: Registry) -> RegistryClient:
    return RegistryClient(registry.url, "plant")


@pytest.fixture
def door() -> Iterator[socket.socket]:
    """A port at which connections are accepted."""
    with socket.create_server(("127.0.0.1", 0)) as listening:
        yield listening


def record(number: int, port: int = 1, **options: Any) -> Record:
    endpoints = (Endpoint("tcp", "127.0.0.1", port),)
    version = _core.__version__
    return Record(f"{number:016x}", f"d{number}", endpoints, connections_max=9, version=version, **options)


def ask(
    registry: Registry, method: str, path: str, body: object = None, **headers: str
) -> tuple[int, dict[str, Any]]:
    host, port = registry.url.removeprefix("http://").split(":")
    connection = http.client.HTTPConnection(host, int(port), timeout=10)
    try:
        content = body if isinstance(body, str | None) else json.dumps(body)
        connection.request(method, path, content, headers)
        response = connection.getresponse()
        text = response.read()
        return response.status, json.loads(text) if text else {}
    finally:
        connection.close()


def test_daemons_register_find_each_other_and_leave(client: RegistryClient) -> None:
    first = client.register(record(1), None, None)
    second = client.register(record(2), None, None)
    assert second.stamp > first.stamp
    listing = client.listing()
    assert listing is not None
    assert [each.name for each in listing.records] == ["d1", "d2"]
    assert listing.settling
    assert client.listing(listing.stamp) is None
    client.leave(record(1).publisher)
    client.leave(record(1).publisher)
    listing = client.listing(listing.stamp)
    assert listing is not None
    assert [each.name for each in listing.records] == ["d2"]


def test_a_question_waits_for_a_change(client: RegistryClient, registry: Registry) -> None:
    stamp = client.register(record(1), None, None).stamp
    answers: list[object] = []
    waiting = threading.Thread(target=lambda: answers.append(client.listing(stamp, 20)))
    waiting.start()
    RegistryClient(registry.url, "other").register(record(3), None, None)
    RegistryClient(registry.url, "plant").register(record(2), None, None)
    waiting.join(10)
    assert len(answers) == 1
    assert {each.name for each in answers[0].records} == {"d1", "d2"}  # type: ignore[attr-defined]


def test_the_stamp_comes_by_datagram(client: RegistryClient) -> None:
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as udp:
        udp.bind(("127.0.0.1", 0))
        udp.settimeout(10)
        answer = client.register(record(1), udp.getsockname()[1], None)
        heard = open_stamp(udp.recv(STAMP_BYTES + 1), "plant", answer.key)
        assert heard is not None
        assert heard.stamp == answer.stamp
        client.register(record(1), udp.getsockname()[1], heard.echo)
        newer = client.register(record(2), None, None).stamp
        while (heard := open_stamp(udp.recv(STAMP_BYTES + 1), "plant", answer.key)) is None or (
            heard.stamp != newer
        ):
            pass


def test_clients_are_sent_only_where_a_connection_is_accepted(
    client: RegistryClient, door: socket.socket
) -> None:
    with socket.create_server(("127.0.0.1", 0)) as closed:
        dead = closed.getsockname()[1]
    client.register(record(1, dead), None, None)
    with pytest.raises(LinkError, match=r"503.*None of the 1 daemons"):
        client.locate()
    client.register(record(2, door.getsockname()[1]), None, None)
    found = client.locate()
    assert [each.publisher for each in found] == [record(2).publisher]
    assert found[0].endpoint.target.url == f"tcp://127.0.0.1:{door.getsockname()[1]}"
    assert "connections" in found[0].why
    with pytest.raises(LinkError, match="503"):
        client.locate(transport="tls")


def test_full_daemons_and_unknown_domains_say_so(registry: Registry, door: socket.socket) -> None:
    client = RegistryClient(registry.url, "full")
    with pytest.raises(LinkError, match="No daemon of domain 'full' is registered"):
        client.locate()
    client.register(record(1, door.getsockname()[1], load=Load(9)), None, None)
    with pytest.raises(LinkError, match="free connection"):
        client.locate()


def test_an_address_that_asks_too_often_is_told(registry: Registry) -> None:
    path = "/v1/domains/plant/locate"
    statuses = [ask(registry, "GET", path)[0] for _ in range(2 * LOCATES_PER_S)]
    assert 429 in statuses


@pytest.mark.parametrize(
    ("method", "path", "body", "status"),
    [
        ("PUT", "/v1/domains/plant/daemons/0000000000000001", {}, 422),
        (
            "PUT",
            "/v1/domains/plant/daemons/nonsense",
            {"name": "x", "connections_max": 1, "version": "1"},
            422,
        ),
        ("PUT", "/v1/domains/plant/daemons/0000000000000001", "{", 422),
        ("PUT", "/v1/domains/plant/daemons/0000000000000001", {"name": "x" * BODY_BYTES_MAX}, 413),
        ("GET", "/v1/domains/plant/daemons?since=-1", None, 422),
        ("GET", "/v1/domains/plant/daemons?since=1&wait=1e9", None, 422),
        ("GET", "/v1/domains/plant/daemons?since=1&wait=nan", None, 422),
        ("GET", f"/v1/domains/{'x' * 300}/daemons", None, 422),
        ("GET", "/v1/nothing", None, 404),
    ],
)
def test_bad_requests_get_a_clear_answer(
    registry: Registry, method: str, path: str, body: object, status: int
) -> None:
    answer = ask(registry, method, path, body)
    assert answer[0] == status
    assert answer[1]["detail"]


def test_the_interface_is_described(registry: Registry) -> None:
    status, described = ask(registry, "GET", "/openapi.json")
    assert status == 200
    assert "/v1/domains/{domain}/locate" in described["paths"]


def test_events_show_the_list_and_its_changes(registry: Registry, client: RegistryClient) -> None:
    host, port = registry.url.removeprefix("http://").split(":")
    client.register(record(1), None, None)
    connection = http.client.HTTPConnection(host, int(port), timeout=10)
    connection.request("GET", "/v1/domains/plant/events")
    response = connection.getresponse()

    def state() -> dict[str, Any]:
        while not (line := response.readline().decode()).startswith("data: "):
            assert line
        return dict(json.loads(line.removeprefix("data: ")))

    assert len(state()["daemons"]) == 1
    client.register(record(2), None, None)
    assert len(state()["daemons"]) == 2
    connection.close()


def test_tokens_are_asked_for_and_roles_matter(tmp_path: Path) -> None:
    tokens = tmp_path / "tokens"
    for name, role in (("gw", "daemon"), ("app", "client"), ("eye", "viewer")):
        new(name, tokens, tmp_path / name, role)
    with Registry(RegistryConfig(listen="127.0.0.1:0", tokens=tokens)) as registry:

        def known(name: str | None) -> RegistryClient:
            token = None if name is None else read_token(tmp_path / name)
            return RegistryClient(registry.url, "plant", token=token)

        with pytest.raises(LinkRefusedError, match=r"401.*token"):
            known(None).listing()
        with pytest.raises(LinkRefusedError, match=r"403.*'app' is 'client'"):
            known("app").register(record(1), None, None)
        known("gw").register(record(1), None, None)
        listing = known("app").listing()
        assert listing is not None
        assert len(listing.records) == 1
        with pytest.raises(LinkRefusedError, match="403"):
            known("eye").locate()


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"listen": "0.0.0.0:0"}, ["other machines", "tls_cert", "tokens"]),
        ({"listen": "nowhere"}, ["ADDRESS:PORT"]),
        ({"listen": "127.0.0.1:70000"}, ["ADDRESS:PORT"]),
        ({"tls_cert": Path("a.pem")}, ["tls_key"]),
        ({"sites": ("ten",)}, ["'ten'", "10.1.0.0/16"]),
        ({"tls_cert": Path("a.pem"), "tls_key": Path("b.pem"), "listen": "127.0.0.1:0"}, ["a.pem", "used"]),
        ({"tokens": Path("none"), "listen": "127.0.0.1:0"}, ["none"]),
    ],
)
def test_what_cannot_work_is_refused(options: dict[str, Any], words: list[str]) -> None:
    with pytest.raises(ConfigError) as raised:
        Registry(RegistryConfig(**options))
    assert all(word in str(raised.value) for word in words)


def test_a_port_that_is_taken_is_named(registry: Registry) -> None:
    with pytest.raises(ConfigError, match="Address already in use"):
        Registry(RegistryConfig(listen=registry.url.removeprefix("http://")))


def test_closing_does_not_wait_for_questions_that_wait(client: RegistryClient, registry: Registry) -> None:
    stamp = client.register(record(1), None, None).stamp

    def wait() -> None:
        with pytest.raises(LinkError):
            client.listing(stamp, 30)

    waiting = threading.Thread(target=wait)
    waiting.start()
    began = time.monotonic()
    registry.close()
    waiting.join(10)
    assert time.monotonic() - began < 10
