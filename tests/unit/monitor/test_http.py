"""Health, status and metrics over HTTP, whoever asks and however badly."""

import json
import socket
import threading
import urllib.error
import urllib.request
from collections.abc import Iterator
from typing import Any

import pytest

from shoal.errors import LinkError
from shoal.monitor import http
from shoal.monitor.config import HttpConfig
from shoal.monitor.http import HttpEndpoint

STATUS: dict[str, Any] = {
    "name": 'hall "1"\\',
    "domain": "default",
    "version": "1.2",
    "healthy": True,
    "trouble": "",
    "uptime_s": 1.5,
    "members": 3,
    "links": [
        {"name": "lan", "up": 1, "bytes_sent": 10, "rate_bytes_per_s": None, "peer": ""},
        {"name": "far", "role": "connect", "up": 0, "bytes_sent": 7, "peer": "42", "round_trip_s": 0.04},
    ],
}


@pytest.fixture
def endpoint() -> Iterator[HttpEndpoint]:
    opened = HttpEndpoint(HttpConfig(listen="127.0.0.1:0"), lambda: STATUS)
    yield opened
    opened.close()


def get(endpoint: HttpEndpoint, path: str) -> tuple[int, str, str]:
    try:
        with urllib.request.urlopen(endpoint.url + path, timeout=10) as answer:
            return answer.status, answer.headers["Content-Type"], answer.read().decode()
    except urllib.error.HTTPError as error:
        return error.code, error.headers["Content-Type"], error.read().decode()


def test_health_is_ok_or_says_why_not(endpoint: HttpEndpoint, monkeypatch: pytest.MonkeyPatch) -> None:
    assert get(endpoint, "/health") == (200, "text/plain; charset=utf-8", "ok\n")
    monkeypatch.setitem(STATUS, "healthy", False)
    monkeypatch.setitem(STATUS, "trouble", "link lan: no such interface")
    assert get(endpoint, "/health")[::2] == (503, "link lan: no such interface\n")


def test_status_is_json_and_anything_else_names_what_there_is(endpoint: HttpEndpoint) -> None:
    assert json.loads(get(endpoint, "/status")[2]) == STATUS
    assert get(endpoint, "/")[0] == 404
    assert "/metrics" in get(endpoint, "/etc/passwd")[2]


def test_metrics_are_what_prometheus_reads(endpoint: HttpEndpoint) -> None:
    code, kind, text = get(endpoint, "/metrics?x=1")
    assert (code, kind) == (200, "text/plain; version=0.0.4; charset=utf-8")
    lines = text.splitlines()
    assert r'shoal_info{name="hall \"1\"\\",domain="default",version="1.2"} 1' in lines
    assert "shoal_members 3" in lines
    assert 'shoal_link_up{link="lan",role="group"} 1' in lines
    assert 'shoal_link_up{link="far",role="connect"} 0' in lines
    assert 'shoal_link_round_trip_seconds{link="far",role="connect"} 0.04' in lines
    assert not any("rate_bytes" in line for line in lines), "nobody paces the LAN"
    # Each family is described once, and only what is described is there.
    described = [line.split()[2] for line in lines if line.startswith("# TYPE")]
    assert len(set(described)) == len(described)
    assert {line.split("{")[0].split()[0] for line in lines if line[0] != "#"} == set(described)


def test_whoever_asks_nothing_or_nonsense_disturbs_nobody(
    endpoint: HttpEndpoint, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(http._Handler, "timeout", 0.2)
    address = ("127.0.0.1", int(endpoint.url.rpartition(":")[2]))
    silent = [socket.create_connection(address) for _ in range(http.REQUESTS_MAX + 8)]
    try:
        for each in silent[::2]:
            each.sendall(b"\x16\x03\x01\x00 not http at all\r\n\r\n")
        for each in silent:
            each.settimeout(10)
            while each.recv(1000):
                pass
    finally:
        for each in silent:
            each.close()
    assert get(endpoint, "/health")[0] == 200


def test_closing_ends_its_thread_and_gives_back_the_port() -> None:
    opened = HttpEndpoint(HttpConfig(listen="[::1]:0"), lambda: STATUS)
    port = int(opened.url.rpartition(":")[2])
    with pytest.raises(LinkError, match=r"http.listen is '\[::1\]:\d+', which cannot be listened at"):
        HttpEndpoint(HttpConfig(listen=f"[::1]:{port}"), lambda: STATUS)
    opened.close()
    assert not any(thread.name == "shoal-http" for thread in threading.enumerate())
    HttpEndpoint(HttpConfig(listen=f"[::1]:{port}"), lambda: STATUS).close()
