"""A registry over HTTP, as daemons and clients speak with it."""

import contextlib
import http.client
import json
import socket
import ssl
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from door import Door

from shoal import _core
from shoal.cli.token import new
from shoal.config.tokens import TokenSource, read_token
from shoal.errors import ConfigError, LinkError, LinkRefusedError
from shoal.link.authority import make_self_signed
from shoal.link.directory import STAMP_BYTES, Endpoint, Load, Record, open_stamp
from shoal.link.registry_client import RegistryClient
from shoal.registry.app import BODY_BYTES_MAX
from shoal.registry.config import RegistryConfig
from shoal.registry.desk import LOCATES_PER_S, REFUSALS_PER_S
from shoal.registry.service import Registry


@pytest.fixture
def registry() -> Iterator[Registry]:
    with Registry(RegistryConfig(listen="127.0.0.1:0")) as one:
        yield one


@pytest.fixture
def client(registry: Registry) -> RegistryClient:
    return RegistryClient(registry.url, "plant")


@pytest.fixture
def door() -> Iterator[Door]:
    with Door() as one:
        yield one


def proved(client: RegistryClient, one: Record, door: Door) -> None:
    """Register a daemon, and wait until the registry verified its address."""
    client.register(one, None, None, door.secret)
    until(lambda: any(each.publisher == one.publisher and each.endpoints for each in listed(client)))


def unproved(client: RegistryClient, one: Record, secret: bytes) -> dict[str, str]:
    """What the registry says of addresses that it could not verify, once it tried."""
    found: dict[str, str] = {}

    def tried() -> bool:
        # Registrations are bounded.
        with contextlib.suppress(LinkError):
            found.update(client.register(one, None, None, secret).unproved)
        return bool(found)

    until(tried)
    return found


def listed(client: RegistryClient) -> tuple[Record, ...]:
    listing = client.listing()
    return () if listing is None else listing.records


def until(true: Callable[[], object], patience_s: float = 20.0) -> None:
    deadline = time.monotonic() + patience_s
    while not true():
        assert time.monotonic() < deadline
        time.sleep(0.02)


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


def test_clients_are_sent_only_where_a_connection_is_accepted(client: RegistryClient, door: Door) -> None:
    with Door() as dead:
        proved(client, record(1, dead.port), dead)
    with pytest.raises(LinkError, match=r"503.*None of the 1 daemons"):
        client.locate()
    proved(client, record(2, door.port), door)
    found = client.locate().candidates
    assert [each.publisher for each in found] == [record(2).publisher]
    assert found[0].endpoint.target.url == f"tcp://127.0.0.1:{door.port}"
    assert "connections" in found[0].why
    with pytest.raises(LinkError, match="503"):
        client.locate(transport="tls")


def test_full_daemons_and_unknown_domains_say_so(registry: Registry, door: Door) -> None:
    client = RegistryClient(registry.url, "full")
    with pytest.raises(LinkError, match="No daemon of domain 'full' is registered"):
        client.locate()
    proved(client, record(1, door.port, load=Load(9)), door)
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


def test_x_forwarded_for_is_believed_only_from_a_proxy_that_was_named(door: Door) -> None:
    def refused(registry: Registry, *forwarded: str) -> list[int]:
        path = "/v1/domains/plant/locate"
        return [ask(registry, "GET", path, **{"X-Forwarded-For": each})[0] for each in forwarded]

    many = [f"10.0.{number % 200}.1" for number in range(3 * LOCATES_PER_S)]
    with Registry(RegistryConfig(listen="127.0.0.1:0")) as registry:
        assert 429 in refused(registry, *many), "one address asked, whatever it says"
    with Registry(RegistryConfig(listen="127.0.0.1:0", proxies=("127.0.0.1",))) as registry:
        assert 429 not in refused(registry, *many)
        assert 429 in refused(registry, *["10.0.0.1"] * (3 * LOCATES_PER_S))


def test_no_client_is_sent_to_an_address_of_another_program(client: RegistryClient, door: Door) -> None:
    with Door() as victim:
        faults = unproved(client, record(1, victim.port), door.secret)
        assert faults == {f"tcp://127.0.0.1:{victim.port}": "another program listens there"}
        with pytest.raises(LinkError, match="503"):
            client.locate()
        assert listed(client)[0].endpoints == ()


@pytest.mark.parametrize(
    "answer", [b"", b"HTTP/1.1 400 Bad Request\r\n\r\n", b"SHOAL/\x63\0\0", b"SHOAL/\x03\0\2\0\0"]
)
def test_a_listener_that_answers_nonsense_proves_nothing(client: RegistryClient, answer: bytes) -> None:
    secret = bytes(32)
    with socket.create_server(("127.0.0.1", 0)) as listening:
        listening.settimeout(20)
        port = listening.getsockname()[1]
        client.register(record(1, port), None, None, secret)
        guest, _ = listening.accept()
        with guest:
            guest.recv(2048)
            guest.sendall(answer)
        assert unproved(client, record(1, port), secret)


def test_a_daemon_of_another_principal_is_neither_replaced_nor_removed(tmp_path: Path) -> None:
    tokens = tmp_path / "tokens"
    for name, role in (("gw1", "daemon"), ("gw2", "daemon"), ("chief", "operator")):
        new(name, tokens, tmp_path / name, role)
    with Registry(RegistryConfig(listen="127.0.0.1:0", tokens=tokens)) as registry:
        one, other, chief = (
            RegistryClient(registry.url, "plant", token=read_token(tmp_path / name))
            for name in ("gw1", "gw2", "chief")
        )
        one.register(record(1), None, None)
        with pytest.raises(LinkRefusedError, match="registered by 'gw1'"):
            other.register(record(1, 666), None, None)
        with pytest.raises(LinkRefusedError, match="registered by 'gw1'"):
            other.leave(record(1).publisher)
        assert len(listed(one)) == 1
        headers = {"Authorization": f"Bearer {read_token(tmp_path / 'chief').text}"}
        status, entries = ask(registry, "GET", "/v1/audit", **headers)
        assert status == 200
        assert [each["action"] for each in entries["entries"]] == ["refused", "refused", "registered"]
        assert entries["entries"][0]["principal"] == "gw2"
        headers = {"Authorization": f"Bearer {read_token(tmp_path / 'gw1').text}"}
        assert ask(registry, "GET", "/v1/audit", **headers)[0] == 403
        chief.leave(record(1).publisher)
        assert listed(one) == ()


def test_a_token_is_for_its_domains_and_until_its_day(tmp_path: Path) -> None:
    tokens = tmp_path / "tokens"
    new("here", tokens, tmp_path / "here", "client", domain=["plant", "a b,c"])
    new("old", tokens, tmp_path / "old", "client", expires="2199-01-01")
    lines = tokens.read_text().replace("expires=2199-01-01", "expires=2020-02-28")
    tokens.write_text(lines)
    with Registry(RegistryConfig(listen="127.0.0.1:0", tokens=tokens)) as registry:

        def at(name: str, domain: str) -> RegistryClient:
            return RegistryClient(registry.url, domain, token=read_token(tmp_path / name))

        assert at("here", "plant").listing() is not None
        assert at("here", "a b,c").listing() is not None
        with pytest.raises(LinkRefusedError, match=r"403.*for the domains plant, a b,c, not for 'desk'"):
            at("here", "desk").listing()
        with pytest.raises(LinkRefusedError, match=r"401.*expired on 2020-02-28"):
            at("old", "plant").listing()


def test_tokens_are_replaced_without_a_restart(tmp_path: Path) -> None:
    tokens = tmp_path / "tokens"
    new("app", tokens, tmp_path / "app", "client")
    source = TokenSource(tmp_path / "app")
    with Registry(RegistryConfig(listen="127.0.0.1:0", tokens=tokens)) as registry:
        client = RegistryClient(registry.url, "plant", token=source)
        assert client.listing() is not None
        new("app", tokens, tmp_path / "next", "client", replace=True)

        def is_refused() -> bool:
            try:
                client.listing()
            except LinkRefusedError:
                return True
            return False

        until(is_refused)
        (tmp_path / "next").replace(tmp_path / "app")
        assert client.listing() is not None


def test_the_certificate_is_replaced_without_a_restart(tmp_path: Path) -> None:
    cert, key = tmp_path / "cert", tmp_path / "key"
    make_self_signed(cert, key, "127.0.0.1", [], 3)
    config = RegistryConfig(listen="127.0.0.1:0", tls_cert=cert, tls_key=key)
    with Registry(config) as registry:
        port = int(registry.url.rpartition(":")[2])
        shown = ssl.get_server_certificate(("127.0.0.1", port))
        make_self_signed(tmp_path / "next cert", tmp_path / "next key", "127.0.0.1", [], 3)
        (tmp_path / "next key").replace(key)
        (tmp_path / "next cert").replace(cert)
        until(lambda: ssl.get_server_certificate(("127.0.0.1", port)) != shown)


def test_programs_that_show_no_token_are_bounded(tmp_path: Path) -> None:
    tokens = tmp_path / "tokens"
    new("app", tokens, tmp_path / "app", "client")
    with Registry(RegistryConfig(listen="127.0.0.1:0", tokens=tokens)) as registry:
        statuses = [ask(registry, "GET", "/v1/domains/plant/daemons")[0] for _ in range(4 * REFUSALS_PER_S)]
        assert set(statuses) == {401, 429}


def test_the_versions_are_named_if_no_daemon_has_the_clients(
    registry: Registry, client: RegistryClient, door: Door
) -> None:
    proved(client, record(1, door.port), door)
    status, answer = ask(registry, "GET", "/v1/domains/plant/locate?version=9.9")
    assert status == 503
    assert "the client 9.9" in answer["detail"]
    assert _core.__version__ in answer["detail"]
