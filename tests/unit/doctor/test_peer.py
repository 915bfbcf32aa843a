"""What two machines measure, and an answerer on the loopback interface."""

import contextlib
import datetime
import json
import socket
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest
from machines import ETH0, Lab

from shoal.config import parse_url
from shoal.doctor import Answerer, Machine
from shoal.doctor.domain import Heard
from shoal.doctor.machine import PROBE_GROUP
from shoal.doctor.peer import Count, clocks, goodput, measure, packets, paths, unjoined
from shoal.doctor.report import Finding, ordered
from shoal.doctor.services import services


def count(mbit_s: float) -> Count:
    return Count(datagrams=1000, bytes=int(mbit_s * 1e6 / 8), seconds=1.0, longest=1400)


@pytest.fixture
def answerer() -> Iterator[Answerer]:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = probe.getsockname()[1]
    made = Answerer(parse_url(f"norm://?interface=lo&port={port}"), 0)
    thread = threading.Thread(target=made.run)
    thread.start()
    yield made
    made.close()
    thread.join()


def test_multicast_that_is_much_slower_than_unicast_is_limited_by_a_switch() -> None:
    assert goodput("b", count(900), count(800), 10).verdict == "ok"
    limited = goodput("b", count(900), count(10), 10)
    assert (limited.id, limited.verdict) == ("D12", "warn")
    assert limited.text.startswith("a switch limits multicast to 10 Mbit/s")


def test_multicast_that_does_not_arrive_while_unicast_does() -> None:
    assert goodput("b", count(900), Count(), 10).verdict == "FAIL"
    assert goodput("b", count(900), count(900), 0).verdict == "FAIL"
    assert goodput("b", Count(), Count(), 0).verdict == "skip"


def test_udp_that_does_not_pass_while_tcp_does_is_a_firewall() -> None:
    assert paths("b", 7474, 10, {"unicast": 10, "multicast": 0}).verdict == "ok"
    assert paths("b", 7474, 0, {"unicast": 10, "multicast": 10}).verdict == "FAIL"
    assert paths("b", 7474, 10, {"unicast": 0, "multicast": 10}).verdict == "FAIL"


def test_packets_that_are_too_long_for_the_way() -> None:
    assert packets("b", ETH0, 1500, count(1)).verdict == "ok"
    assert packets("b", ETH0, 9000, count(1)).verdict == "warn"
    assert packets("b", ETH0, 1400, Count()).verdict == "FAIL"


def test_clocks_that_are_apart() -> None:
    assert clocks("b", 0.4) == []
    assert [(each.id, each.verdict) for each in clocks("b", 3)] == [("D14", "warn")]


def test_a_group_that_nobody_joined_costs_something_only_if_it_arrives() -> None:
    assert unjoined(0.5, 10).verdict == "ok"
    assert unjoined(0.05, 5000).verdict == "ok"
    assert unjoined(0.3, 5000).verdict == "warn"


def test_a_peer_that_does_not_answer() -> None:
    with socket.socket() as closed:
        closed.bind(("127.0.0.1", 0))
        found = measure(Lab(), ETH0, closed.getsockname(), (PROBE_GROUP, 7474))
    assert [f"{each.verdict} {each.id}" for each in found] == ["FAIL D11", "skip D12", "skip D13"]


def test_two_doctors_measure_with_each_other(answerer: Answerer) -> None:
    machine = Machine()
    lo = next(each for each in machine.interfaces() if each.loopback)
    found = measure(machine, lo, answerer.address, (PROBE_GROUP, answerer._port))
    told = {each.id: each for each in ordered(found).findings}
    assert set(told) == {"D10", "D11", "D12", "D13"}, "clocks of one machine are equal"
    assert {told[each].verdict for each in ("D10", "D11")} == {"ok"}
    assert told["D12"].verdict != "FAIL"


@pytest.mark.parametrize(
    "line",
    [
        b"nonsense\n",
        b"[]\n",
        b"{}\n",
        b'{"ask": "flood", "seconds": 1e9}\n',
        b'{"ask": "flood", "seconds": NaN}\n',
        b'{"ask": "send", "how": "unicast", "port": 99999999, "word": "00", "seconds": 0.1}\n',
        b'{"ask": "send", "how": "unicast", "port": "x", "word": 7}\n',
        b"x" * 100_000,
        b"[" * 60_000 + b"\n",
    ],
)
def test_an_answerer_survives_what_makes_no_sense(answerer: Answerer, line: bytes) -> None:
    # It closes the connection, and answers the next one.
    with socket.create_connection(answerer.address, 10) as bad, contextlib.suppress(OSError):
        bad.sendall(line)
        bad.shutdown(socket.SHUT_WR)
        while bad.recv(4096):
            pass
    with socket.create_connection(answerer.address, 10) as good:
        good.sendall(b'{"ask": "hello"}\n')
        assert json.loads(good.makefile().readline())["mtu"] == 65_536


def certificate(path: Path, days: int) -> str:
    x509 = pytest.importorskip("cryptography.x509")
    from cryptography.hazmat.primitives import hashes
    from cryptography.hazmat.primitives.asymmetric import ec

    key = ec.generate_private_key(ec.SECP256R1())
    name = x509.Name([x509.NameAttribute(x509.NameOID.COMMON_NAME, "b")])
    now = datetime.datetime(2026, 1, 1, tzinfo=datetime.UTC)
    made = (
        x509.CertificateBuilder()
        .subject_name(name)
        .issuer_name(name)
        .public_key(key.public_key())
        .serial_number(7)
        .not_valid_before(now - datetime.timedelta(days=400))
        .not_valid_after(now + datetime.timedelta(days=days))
        .sign(key, hashes.SHA256())
    )
    from cryptography.hazmat.primitives.serialization import Encoding

    path.write_bytes(made.public_bytes(Encoding.PEM))
    return str(path)


@pytest.mark.parametrize(("days", "verdict"), [(300, "ok"), (10, "warn"), (-1, "FAIL"), (None, "FAIL")])
def test_a_certificate_that_ends_soon_or_ended(tmp_path: Path, days: int | None, verdict: str) -> None:
    path = tmp_path / "cert.pem"
    if days is None:
        path.write_text("no certificate")
    else:
        certificate(path, days)
    config = parse_url("tls://b", tls_cert=str(path), tls_key=str(path))
    now = datetime.datetime(2026, 1, 1, tzinfo=datetime.UTC)
    found: Finding = services(Lab(), config, Heard(), now)
    assert (found.id, found.verdict) == ("D17", verdict)
