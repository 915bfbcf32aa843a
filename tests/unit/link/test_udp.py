"""Best effort: datagrams without repair."""

import contextlib
import random
import secrets
import socket
import time
from collections.abc import Callable, Iterator
from typing import Any

import pytest

import shoal
from shoal.errors import ConfigError


def wait_until(met: Callable[[], bool], timeout_s: float = 60.0) -> None:
    deadline = time.monotonic() + timeout_s
    while not met():
        assert time.monotonic() < deadline, "it did not happen in time"
        time.sleep(0.005)


@pytest.fixture
def group() -> dict[str, Any]:
    return {"domain": secrets.token_hex(8), "interface": "lo", "heartbeat_s": 0.2}


@pytest.fixture
def port() -> int:
    with socket.socket(type=socket.SOCK_DGRAM) as taken:
        taken.bind(("127.0.0.1", 0))
        return int(taken.getsockname()[1])


@pytest.fixture
def pair(port: int) -> Iterator[tuple[shoal.Bus, shoal.Bus]]:
    """One that listens, and one that connects."""
    url = f"udp://127.0.0.1:{port}"
    with shoal.listen(url, heartbeat_s=0.2) as hub, shoal.connect(url, heartbeat_s=0.2) as leaf:
        yield hub, leaf


def test_a_group_hears_messages_of_every_size(group: dict[str, Any]) -> None:
    with shoal.connect("udp://", **group) as one, shoal.connect("udp://", **group) as two:
        with two.subscribe("a/>") as heard:
            assert one.wait_for_subscribers("a/b", timeout_s=10)
            bodies = [bytes([size % 256]) * size for size in (0, 1, 100, 1399, 1400, 5000, 40_000)]
            for body in bodies:
                one.publish("a/b", body)
            one.flush(timeout_s=10)
            assert [heard.receive(10).body for _ in bodies] == bodies
        assert one.members == [two.node]
        (link,) = one.links
        assert (link.role, link.reliable, link.connections) == ("group", False, 1)
        assert link.url.startswith("udp://239.193.")
    wait_until(lambda: two.closed)


def test_who_leaves_is_gone_and_who_falls_silent_is_too(group: dict[str, Any]) -> None:
    with shoal.connect("udp://", **group) as one:
        two = shoal.connect("udp://", **group)
        wait_until(lambda: one.members == [two.node])
        two.close()
        wait_until(lambda: one.members == [])
        told = [event for event in one.events(timeout_s=0.1) if isinstance(event, shoal.MemberLeft)]
        assert [event.failed for event in told] == [False]


def test_one_listens_and_others_connect(pair: tuple[shoal.Bus, shoal.Bus]) -> None:
    hub, leaf = pair
    with hub.subscribe("a") as here, leaf.subscribe("b") as there:
        assert leaf.wait_for_subscribers("a", timeout_s=10)
        assert hub.wait_for_subscribers("b", timeout_s=10)
        for number in range(100):
            leaf.publish("a", number)
            hub.publish("b", number)
        assert [here.receive(10).body for _ in range(100)] == list(range(100))
        assert [there.receive(10).body for _ in range(100)] == list(range(100))
    assert [link.role for link in (*hub.links, *leaf.links)] == ["listen", "connect"]


def test_a_listener_sends_nothing_to_an_address_that_did_not_answer_it(
    pair: tuple[shoal.Bus, shoal.Bus], port: int
) -> None:
    """Whoever forges an address must not have others flooded."""
    hub, _ = pair
    hello = None
    with socket.socket(type=socket.SOCK_DGRAM) as spy:
        spy.bind(("127.0.0.1", 0))
        spy.settimeout(0.3)
        with shoal.connect(f"udp://127.0.0.1:{spy.getsockname()[1]}", heartbeat_s=0.2):
            hello, _ = spy.recvfrom(2000)
        spy.sendto(hello, ("127.0.0.1", port))
        heard = []
        hub.publish("a", bytes(1000))
        hub.flush()
        with contextlib.suppress(TimeoutError):
            while True:
                heard.append(spy.recvfrom(2000))
        assert heard
        answers = [data for data, (_, source) in heard if source == port]
        assert answers
        assert all(len(data) <= len(hello) for data in answers)


def test_persistent_messages_are_refused_with_the_reason(group: dict[str, Any]) -> None:
    with (
        shoal.connect("udp://", **group) as bus,
        pytest.raises(ConfigError, match=r"persistent .* udp://.* may lose it"),
    ):
        bus.publish("a", 1, persistent=True)


def test_a_rate_is_kept(group: dict[str, Any]) -> None:
    with shoal.connect("udp://", **group, rate_bytes_per_s=1_000_000) as bus:
        began = time.monotonic()
        for _ in range(300):
            bus.publish("a", bytes(1000))
        bus.flush(timeout_s=10)
        assert time.monotonic() - began > 0.2


def test_a_reader_that_is_full_loses_messages_and_nobody_waits_for_it(group: dict[str, Any]) -> None:
    with (
        shoal.connect("udp://", **group) as one,
        shoal.connect("udp://", **group) as two,
        two.subscribe("a", queue_bytes_max=65536) as heard,
    ):
        assert one.wait_for_subscribers("a", timeout_s=10)
        for number in range(2000):
            one.publish("a", number.to_bytes(4, "big") + bytes(1000))
        one.flush(timeout_s=10)
        wait_until(lambda: two.stats()["dropped"] > 0)
        wait_until(lambda: heard.pending > 0)
        numbers = [int.from_bytes(heard.receive(1).body[:4], "big") for _ in range(heard.pending)]
        assert numbers == sorted(set(numbers))
        # One that comes while the reader is still full is lost, too.
        wait_until(
            lambda: one.publish("a", b"later") and any(m.body == b"later" for m in heard.receive_nowait())
        )


def test_whatever_else_comes_is_counted_and_disturbs_nobody(
    pair: tuple[shoal.Bus, shoal.Bus], port: int
) -> None:
    hub, leaf = pair
    seed = random.randrange(1 << 30)
    print(f"seed {seed}")
    chance = random.Random(seed)
    with hub.subscribe("a") as heard, socket.socket(type=socket.SOCK_DGRAM) as stranger:
        assert leaf.wait_for_subscribers("a", timeout_s=10)
        for number in range(2000):
            kind = chance.randrange(4)
            head = b"" if kind == 0 else b"SHU\x03" if kind < 3 else b"SHU\x63"
            said = head + bytes([chance.randrange(7)]) + chance.randbytes(chance.randrange(100))
            if kind == 2:
                # One of our domain: everything but what it says is right.
                said = head + bytes([chance.randrange(1, 6)]) + hub.config.domain_number().to_bytes(8, "big")
                said += chance.randbytes(chance.randrange(12, 200))
            stranger.sendto(said, ("127.0.0.1", port))
            if number % 100 == 0:
                leaf.publish("a", number)
        assert [heard.receive(10).body for _ in range(20)] == [100 * number for number in range(20)]
        stats = hub.stats()
        assert stats["malformed"] > 100
        assert stats["other_version"] > 100
        told = [event for event in hub.events(timeout_s=0.1) if isinstance(event, shoal.Unreadable)]
        assert any("speaks version 99" in event.why for event in told)


@pytest.mark.parametrize("option", ["slow_after_s=1", "window_bytes=70000", "key_file=a", "resume_s=1"])
def test_what_means_nothing_without_repair_is_refused(option: str) -> None:
    with pytest.raises(ConfigError, match=option.partition("=")[0]):
        shoal.connect(f"udp://?{option}")
