"""Daemons with the files under `examples`, on hosts of their own: two LANs and a path between them."""

import contextlib
import itertools
import os
import re
import signal
import subprocess
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from programs import Failure, Peer

from shoal.processes.daemon import DaemonProcess
from shoal_bench.tunnel_lab import FAR, FAR_PROGRAM, NEAR, NEAR_PROGRAM, WAN, TunnelLab
from shoal_bench.tunnel_lab import Path as Between

EXAMPLES = Path(__file__).parents[2] / "examples/daemon"
pytestmark = pytest.mark.skipif(os.geteuid() != 0, reason="network namespaces need root")

OnHost = Callable[..., Peer]

#: How long the path is dead: as long as links wait, and no longer, unless `make dead-path` says so.
DEAD_S = float(os.environ.get("SHOAL_DEAD_PATH_S", "0"))
#: Links give up sooner than they usually do.
QUICK = "\n[connection]\nresume_s = 1\nheartbeat_s = 0.5\nreconnect_max_s = 0.5\n"


@pytest.fixture
def lab() -> Iterator[TunnelLab]:
    """Two LANs, and a path of 100 Mbit/s and 4 ms between their gateways."""
    with TunnelLab(Between(rate_mbit_s=100, round_trip_s=0.004, loss=0.0)) as made:
        yield made


@pytest.fixture
def on(lab: TunnelLab) -> Iterator[OnHost]:
    """`on(host)`: a program there, connected to its LAN, or to what it is told."""
    peers: list[Peer] = []

    def start(host: int, url: str = "norm://?interface=eth0", **options: Any) -> Peer:
        peer = Peer(url, prefix=lab.within(host), heartbeat_s=0.5, **options)
        peers.append(peer)
        return peer.connected()

    yield start
    for peer in peers:
        peer.kill()


def example(name: str) -> str:
    """An example's text for the lab: its addresses, and the LAN's interface."""
    text = (EXAMPLES / f"{name}.toml").read_text()
    text = text.replace("192.0.2.7", WAN[FAR]).replace("198.51.100.7", WAN[NEAR])
    return re.sub(r'url = "norm://"', 'url = "norm://?interface=eth0"\nheartbeat_s = 0.5', text)


def with_heartbeats(name: str, end: str) -> str:
    """An example whose NORM link says more often that it is there."""
    return example(f"{name}.{end}").replace("backoff_factor", "heartbeat_s = 0.5\nbackoff_factor")


def crosses(publisher: Peer, *subscribers: Peer, topic: str, source: int, count: int = 300) -> None:
    """What one publishes the others get, once and in order."""
    publisher.ask("publish", topic=topic, count=count, sizes=[100, 3000], source=source)
    for subscriber in subscribers:
        pattern = f"{topic.partition('/')[0]}/>"
        answer = subscriber.ask("wait_received", pattern=pattern, source=source, count=count, timeout_s=60)
        assert answer["received"][str(source)] == {
            "first": 0, "next": count, "count": count, "skipped": 0, "faults": [],
        }  # fmt: skip


#: Numbers what is published to see whether it gets there.
tries = itertools.count(1000)


def joined(publisher: Peer, *subscribers: Peer, topic: str, within_s: float = 60) -> None:
    """Wait until what one publishes reaches the others."""
    pattern, deadline = f"{topic.partition('/')[0]}/>", time.monotonic() + within_s
    waiting = list(subscribers)
    while waiting:
        assert time.monotonic() < deadline, f"nothing reached {len(waiting)} of them"
        source = next(tries)
        publisher.ask("publish", topic=topic, count=1, sizes=[100], source=source)
        for subscriber in list(waiting):
            with contextlib.suppress(Failure):
                order = {"pattern": pattern, "source": source, "count": 1, "timeout_s": 0.3}
                subscriber.ask("wait_received", **order)
                waiting.remove(subscriber)


@pytest.mark.parametrize("name", ["join-two-lans", "lossy-path"])
def test_two_lans_are_joined_and_what_nobody_wants_never_crosses_and_the_gap_of_a_dead_path_is_told(
    lab: TunnelLab, on: OnHost, name: str
) -> None:
    quick = "" if DEAD_S else QUICK
    far_file, near_file = [
        (example(f"{name}.{end}") if DEAD_S else with_heartbeats(name, end)) + quick
        for end in ("far", "near")
    ]
    with (
        DaemonProcess(far_file, within=lab.within(FAR)),
        DaemonProcess(near_file, within=lab.within(NEAR)) as near,
    ):
        one, other = on(NEAR_PROGRAM), on(FAR_PROGRAM)
        other.ask("subscribe", pattern="t/>")
        one.ask("subscribe", pattern="u/>")
        joined(one, other, topic="t/x")
        joined(other, one, topic="u/x")
        crosses(one, other, topic="t/x", source=0)
        crosses(other, one, topic="u/x", source=1)
        # Until it was heard what is wanted behind a link, everything is sent there.
        deadline = time.monotonic() + 60
        while crossing(lab, one, count=100) > 30_000:
            assert time.monotonic() < deadline, "what nobody wants crosses for ever"
        before = lab.path_counts(NEAR)
        one.ask("publish", topic="unwanted/x", count=3000, sizes=[1000])
        one.ask("flush", timeout_s=60)
        crosses(one, other, topic="t/x", count=10, source=2)
        assert lab.path_counts(NEAR) - before < 1_000_000, "three megabytes were not wanted there"
        dies_and_comes_back(lab, near, one, other)
        assert near.end() == 0, near.said


def crossing(lab: TunnelLab, publisher: Peer, count: int) -> int:
    """Bytes that go into the path while so many messages of a kilobyte are published that nobody wants."""
    before = lab.path_counts(NEAR)
    publisher.ask("publish", topic="unwanted/x", count=count, sizes=[1000])
    publisher.ask("flush", timeout_s=60)
    return lab.path_counts(NEAR) - before


def dies_and_comes_back(lab: TunnelLab, near: DaemonProcess, one: Peer, other: Peer) -> None:
    """The path is away for longer than links wait: memory is bounded, it goes on, and the gap is told."""
    before_mb = near.resident_mb()
    lab.cut(NEAR)
    cut_at, count = time.monotonic(), 0
    # Forty megabytes, or as many as often: publishing waits until the link is given up, and then for nobody.
    while not count or time.monotonic() < cut_at + DEAD_S:
        one.ask("publish", topic="t/x", count=4000, sizes=[10_000], source=3, start=count)
        count += 4000
        assert near.resident_mb() < before_mb + 64
    lab.mend(NEAR)
    joined(one, other, topic="t/x")
    crosses(one, other, topic="t/x", source=4)
    lost = [event for event in other.ask("told")["events"] if event["event"] == "MessagesLost"]
    told = sum(event["last"] - event["first"] + 1 for event in lost)
    came = other.ask("received", pattern="t/>")["received"].get("3", {"count": 0})["count"]
    assert came < count <= came + told, "what was published meanwhile is told as lost"


def test_clients_without_multicast_meet_at_a_broker_and_hear_the_lan(lab: TunnelLab, on: OnHost) -> None:
    with DaemonProcess(example("broker"), within=lab.within(FAR)):
        url = f"tcp://{WAN[FAR]}:7474"
        first, second, native = on(NEAR, url), on(NEAR, url), on(FAR_PROGRAM)
        for subscriber in (second, native):
            subscriber.ask("subscribe", pattern="t/>")
        joined(first, second, native, topic="t/x")
        crosses(first, second, native, topic="t/x", source=0)


def test_a_lan_behind_nat_connects_out_and_nothing_listens_there(lab: TunnelLab, on: OnHost) -> None:
    with DaemonProcess(example("behind-nat"), within=lab.within(NEAR)):
        with DaemonProcess(example("join-two-lans.far"), within=lab.within(FAR)) as far:
            listening = subprocess.run(
                [*lab.within(NEAR), "cat", "/proc/net/tcp"], capture_output=True, text=True, check=True
            ).stdout
            assert " 0A " not in listening, "a TCP port listens"
            one, other = on(NEAR_PROGRAM), on(FAR_PROGRAM)
            other.ask("subscribe", pattern="t/>")
            joined(one, other, topic="t/x")
            crosses(one, other, topic="t/x", source=0)
            far.signal(signal.SIGKILL)
        # The far daemon is back: the near one connects again by itself.
        with DaemonProcess(example("join-two-lans.far"), within=lab.within(FAR)):
            joined(one, other, topic="t/x")
            crosses(one, other, topic="t/x", source=1)
