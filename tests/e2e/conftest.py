"""What the tests with real processes share."""

import os
import socket
from collections.abc import Callable, Iterator
from typing import Any

import lab as laboratory
import pytest
from lab import LAN, Lab
from programs import Peer, loopback_url

StartPeers = Callable[..., list[Peer]]


@pytest.fixture
def peers() -> Iterator[list[Peer]]:
    """Every program of a test: killed at its end, whatever happened."""
    started: list[Peer] = []
    yield started
    for peer in started:
        peer.kill()


@pytest.fixture
def url() -> str:
    """A domain on the loopback interface that no other test uses."""
    return loopback_url()


@pytest.fixture
def port() -> int:
    """A port that was free a moment ago: groups are shared, so tests do not share ports."""
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as probe:
        probe.bind(("", 0))
        return int(probe.getsockname()[1])


@pytest.fixture
def start(peers: list[Peer], url: str) -> StartPeers:
    """`start(3, heartbeat_s=0.2)`: so many programs, connected to the test's domain."""

    def start(count: int = 1, *, at: str = url, **options: Any) -> list[Peer]:
        new = [Peer(at, **options) for _ in range(count)]
        peers.extend(new)
        for peer in new:
            peer.connected()
        return new

    return start


@pytest.fixture
def lan() -> Iterator[LAN]:
    """`lan(3, rate="100mbit")`: a lab that is gone after the test."""
    problem = laboratory.problem()
    if problem is not None:
        if os.environ.get("CI") == "true":
            pytest.fail(problem)
        pytest.skip(problem)
    labs: list[Lab] = []

    def build(hosts: int, rate: str | None = None) -> Lab:
        labs.append(Lab(hosts, rate))
        return labs[-1]

    yield build
    for made in labs:
        made.close()
