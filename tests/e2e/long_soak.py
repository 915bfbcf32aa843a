"""What takes too long for every run: two minutes of overload, ten seconds without a cable, a small MTU.

`make soak` runs it, after `soak.py`.
"""

import time

import lab as laboratory
import pytest
from conftest import StartPeers
from programs import Peer
from test_delivery import meet, whole
from test_lan import LAN, OnHost, lan, on  # noqa: F401  fixtures

OVERLOAD_S = 120
#: What a program may grow by once it is warm, though it is offered far more than anybody can take.
GROWTH_BYTES_MAX = 24 << 20


def memory(peer: Peer) -> int:
    return int(peer.ask("memory")["bytes"])


@pytest.mark.parametrize("when_full", ["block", "drop"])
def test_two_minutes_of_overload_leave_memory_flat(start: StartPeers, when_full: str) -> None:
    (publisher,) = start(1, when_full=when_full)
    reader, slow = start(2)
    meet([publisher], [reader])
    # One that takes a thousand a second, of ten times as many and more.
    slow.ask("subscribe", pattern="t/>", read=False)
    slow.ask("read", pattern="t/>", pause_s=0.001)
    load = {"topic": "t/x", "count": 10**12, "sizes": [100, 2000, 30_000], "for_s": OVERLOAD_S}
    publisher.ask("publish_aside", source=0, **load)
    peers, warm = [publisher, reader, slow], []
    until = time.monotonic() + OVERLOAD_S - 5
    time.sleep(20)
    warm = [memory(peer) for peer in peers]
    most = list(warm)
    while time.monotonic() < until:
        time.sleep(1)
        most = [max(before, memory(peer)) for before, peer in zip(most, peers, strict=True)]
    did = publisher.ask("wait_published", source=0)
    print(f"{did['published']} messages, warm {warm}, most {most}")
    assert all(after - before < GROWTH_BYTES_MAX for before, after in zip(warm, most, strict=True))
    assert did["published"] > 10_000


def test_a_cable_that_is_cut_for_ten_seconds_costs_nothing_that_is_kept(lan: LAN, on: OnHost) -> None:  # noqa: F811
    hosts = lan(3).hosts
    publisher, whole_time, cut_off = (on(host) for host in hosts)
    meet([publisher], [whole_time, cut_off])
    publisher.ask("publish_aside", source=0, topic="t/x", count=1500, sizes=[500], every_s=0.01)
    time.sleep(2)
    hosts[2].cut()
    # Less than heartbeats last, and no more than the publisher keeps.
    time.sleep(10)
    hosts[2].mend()
    publisher.ask("wait_published", source=0, timeout_s=35)
    for peer in (whole_time, cut_off):
        whole(peer.ask("wait_received", pattern="t/>", source=0, count=1500), 0, 1500)
    for peer in (publisher, whole_time, cut_off):
        assert not [e for e in peer.ask("told")["events"] if e["event"] in ("MessagesLost", "MemberLeft")]


def test_segments_fit_into_packets_of_an_mtu_of_1280(lan: LAN, on: OnHost) -> None:  # noqa: F811
    built = lan(3)
    for host in built.hosts:
        host.ip("link", "set", "eth0", "mtu", "1280")
        laboratory.run("ip", "link", "set", host.port, "mtu", "1280")
    publisher, *subscribers = [on(host) for host in built.hosts]
    meet([publisher], subscribers)
    publisher.ask("publish", topic="t/x", count=20_000, sizes=[64, 1000, 1180, 20_000])
    publisher.ask("flush", timeout_s=30)
    for subscriber in subscribers:
        whole(subscriber.ask("wait_received", pattern="t/>", source=0, count=20_000), 0, 20_000)
