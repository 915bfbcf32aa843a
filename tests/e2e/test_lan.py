"""Hosts of their own: a switch, cables that are cut, hosts that freeze and die, links that lose packets."""

import signal
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import lab as laboratory
import pytest
from lab import LAN, Host
from programs import HERE, Failure, Peer, Program, run_script, unique_group
from test_delivery import meet, whole

OnHost = Callable[..., Peer]


@pytest.fixture
def on(peers: list[Peer]) -> OnHost:
    """`on(host)`: a program on that host, connected; the interface is left to Shoal unless given."""
    group = unique_group()

    def start(host: Host, query: str = "", at: str = group, **options: Any) -> Peer:
        peer = Peer(f"norm://{at}{query}", prefix=host.prefix, **options)
        peers.append(peer)
        return peer.connected()

    return start


def test_two_hosts_get_everything_from_a_third(lan: LAN, on: OnHost) -> None:
    publisher, *subscribers = [on(host) for host in lan(3).hosts]
    meet([publisher], subscribers)
    publisher.ask("publish", topic="t/x", count=5000, sizes=[64, 1000, 30_000])
    publisher.ask("flush", timeout_s=60)
    for subscriber in subscribers:
        whole(subscriber.ask("wait_received", pattern="t/>", source=0, count=5000), 0, 5000)


def test_eight_hosts_get_everything_on_a_slow_network(lan: LAN, on: OnHost) -> None:
    hosts = lan(9, rate="100mbit").hosts
    publisher, *subscribers = [on(host) for host in hosts]
    meet([publisher], subscribers)
    before = hosts[0].sent_bytes
    publisher.ask("publish", topic="t/x", count=15_000, sizes=[1000])
    publisher.ask("flush", timeout_s=60)
    sent = hosts[0].sent_bytes - before
    for subscriber in subscribers:
        whole(subscriber.ask("wait_received", pattern="t/>", source=0, count=15_000), 0, 15_000)
    # Once over the wire, with repairs where the machine is busy; not eight times.
    assert 15_000_000 <= sent < 60_000_000
    for peer in (publisher, *subscribers):
        assert not [e for e in peer.ask("told")["events"] if e["event"] in ("MessagesLost", "MemberSlow")]


@pytest.mark.parametrize("query", ["", "?groups=8"])
def test_a_frozen_host_a_killed_host_and_the_rest_goes_on(lan: LAN, on: OnHost, query: str) -> None:
    hosts = lan(3, rate="100mbit").hosts
    publisher, awake = on(hosts[0], query), on(hosts[1], query)
    for number in (signal.SIGSTOP, signal.SIGKILL):
        victim = on(hosts[2], query, heartbeat_s=0.2, missed_heartbeats_max=3)
        meet([publisher], [awake, victim])
        victim.signal(number)
        did = publisher.ask("publish", topic="t/x", count=3000, sizes=[2000], source=number)
        assert did["longest_s"] < 30
        whole(awake.ask("wait_received", pattern="t/>", source=number, count=3000), number, 3000)
        left = publisher.ask("wait_event", event="MemberLeft", node=victim.node, timeout_s=60)
        assert left["failed"] is True
        victim.kill()


@pytest.mark.parametrize("query", ["", "?groups=8"])
def test_a_cable_that_is_cut_and_mended(lan: LAN, on: OnHost, query: str) -> None:
    hosts = lan(3).hosts
    publisher, whole_time, cut_off = (
        on(host, query, heartbeat_s=0.2, missed_heartbeats_max=6) for host in hosts
    )
    meet([publisher], [whole_time, cut_off])
    publisher.ask("publish", topic="t/x", count=100, sizes=[1000])
    cut_off.ask("wait_received", pattern="t/>", source=0, count=100)
    hosts[2].cut()
    publisher.ask("publish", topic="t/x", count=1000, sizes=[1000], start=100)
    whole(whole_time.ask("wait_received", pattern="t/>", source=0, count=1100), 0, 1100)
    assert publisher.ask("wait_event", event="MemberLeft", node=cut_off.node, timeout_s=60)["failed"]
    hosts[2].mend()
    publisher.ask("wait_for_subscribers", topic="t/x", count=2, timeout_s=60)
    publisher.ask("publish", topic="t/x", count=100, sizes=[1000], start=1100)
    tally = cut_off.ask("wait_next", pattern="t/>", source=0, number=1200)["received"]["0"]
    assert not [fault for fault in tally["faults"] if "missing" not in fault]
    assert tally["count"] + tally["skipped"] == 1200
    whole(whole_time.ask("wait_received", pattern="t/>", source=0, count=1200), 0, 1200)
    down = cut_off.ask("wait_event", event="LinkDown", timeout_s=60)
    assert (down["why"], down["left"]) == ("the interface eth0 has no carrier", False)


@pytest.mark.parametrize("query", ["", "?groups=8"])
def test_an_interface_that_goes_and_comes_back_as_another_one(lan: LAN, on: OnHost, query: str) -> None:
    hosts = lan(2).hosts
    publisher, subscriber = (on(host, query, heartbeat_s=0.2, missed_heartbeats_max=6) for host in hosts)
    meet([publisher], [subscriber])
    publisher.ask("publish", topic="t/x", count=100, sizes=[1000])
    whole(subscriber.ask("wait_received", pattern="t/>", source=0, count=100), 0, 100)
    both = (publisher, subscriber)
    for one, other in zip(both, reversed(both), strict=True):
        one.ask("wait_event", event="MemberJoined", node=other.node)
    for host in hosts:
        host.unplug()
    for gone, other in zip(both, reversed(both), strict=True):
        down = gone.ask("wait_event", event="LinkDown", timeout_s=60)
        assert (down["node"], down["why"], down["left"]) == (0, "the interface eth0 is gone", False)
        gone.ask("wait_event", event="MemberLeft", node=other.node, timeout_s=60)
    for number, (host, back) in enumerate(zip(hosts, both, strict=True), 51):
        host.plug_in(f"10.74.0.{number}")
        up = back.ask("wait_event", event="LinkUp", resumed=True, timeout_s=60)
        assert up["address"].startswith(f"10.74.0.{number}:")
        assert up["link"].startswith("norm://")
    publisher.ask("wait_for_subscribers", topic="t/x", count=1, timeout_s=60)
    publisher.ask("publish", topic="t/x", count=100, sizes=[1000], start=100)
    tally = subscriber.ask("wait_next", pattern="t/>", source=0, number=200)["received"]["0"]
    assert not [fault for fault in tally["faults"] if "missing" not in fault]
    assert tally["count"] + tally["skipped"] == 200


def test_an_idle_link_is_told_at_once_that_its_interface_is_gone_and_back(lan: LAN, on: OnHost) -> None:
    (host,) = lan(1).hosts
    # What its start began, which wakes it too, is over after a second; then nothing does for many.
    idle = on(host, heartbeat_s=60)
    time.sleep(1.5)
    for event, change in (("LinkDown", host.unplug), ("LinkUp", lambda: host.plug_in(host.address))):
        began = time.monotonic()
        change()
        idle.ask("wait_event", event=event, **({"resumed": True} if event == "LinkUp" else {}))
        assert time.monotonic() - began < 1.5, event


def test_a_best_effort_link_survives_its_interface(lan: LAN, peers: list[Peer]) -> None:
    hosts = lan(2).hosts
    group = unique_group()
    publisher, subscriber = (
        Peer(f"udp://{group}", prefix=host.prefix, heartbeat_s=0.2, missed_heartbeats_max=6) for host in hosts
    )
    peers += [publisher, subscriber]
    for peer in peers:
        peer.connected()
    subscriber.ask("subscribe", pattern="t/>")
    publisher.ask("wait_for_subscribers", topic="t/x", count=1)
    publisher.ask("publish", topic="t/x", count=10, sizes=[100])
    subscriber.ask("wait_received", pattern="t/>", source=0, count=10)
    hosts[1].unplug()
    down = subscriber.ask("wait_event", event="LinkDown")
    assert (down["why"], down["left"]) == ("the interface eth0 is gone", False)
    publisher.ask("wait_event", event="MemberLeft", node=subscriber.node)
    hosts[1].plug_in("10.74.0.52")
    up = subscriber.ask("wait_event", event="LinkUp", resumed=True)
    assert up["address"].startswith("10.74.0.52:")
    publisher.ask("wait_for_subscribers", topic="t/x", count=1)
    publisher.ask("publish", topic="t/x", count=10, sizes=[100], source=1)
    subscriber.ask("wait_received", pattern="t/>", source=1, count=10)


@pytest.mark.parametrize("scheme", ["tcp", "ws"])
def test_a_dead_port_is_not_connected_to_itself_and_stays_free(
    lan: LAN, peers: list[Peer], scheme: str
) -> None:
    (host,) = lan(1).hosts
    # There is no other port to connect from.
    laboratory.run(*host.prefix, "sysctl", "-qw", "net.ipv4.ip_local_port_range=40000 40000")
    url = f"{scheme}://127.0.0.1:40000"
    caller = Peer(url, prefix=host.prefix, reconnect_max_s=0.05)
    peers.append(caller)
    caller.connected()
    why = "no program listens there: it connected to itself"
    assert caller.ask("wait_event", event="LinkReconnecting", why=why)
    laboratory.run(*host.prefix, "sysctl", "-qw", "net.ipv4.ip_local_port_range=41000 42000")
    called = Peer(url, prefix=host.prefix, listen=True)
    peers.append(called)
    called.connected()
    caller.ask("wait_event", event="LinkUp", node=called.node)


def test_a_cable_that_is_cut_for_a_moment_costs_nothing(lan: LAN, on: OnHost) -> None:
    hosts = lan(2).hosts
    publisher, subscriber = (on(host) for host in hosts)
    meet([publisher], [subscriber])
    publisher.ask("publish_aside", source=0, topic="t/x", count=2000, sizes=[1000], every_s=0.0005)
    time.sleep(0.3)
    hosts[1].cut()
    time.sleep(0.2)
    hosts[1].mend()
    publisher.ask("wait_published", source=0)
    whole(subscriber.ask("wait_received", pattern="t/>", source=0, count=2000), 0, 2000)


@pytest.mark.parametrize("query", ["", "?interface=eth0", "?interface=10.74.0.{number}"])
def test_the_interface_is_found_by_itself_by_name_and_by_address(lan: LAN, on: OnHost, query: str) -> None:
    hosts = lan(2).hosts
    one, two = (on(host, query.format(number=number)) for number, host in enumerate(hosts, 1))
    assert one.ask("node")["link"]["interface"] == "eth0"
    meet([one], [two])
    one.ask("publish", topic="t/x", count=10, sizes=[100])
    whole(two.ask("wait_received", pattern="t/>", source=0, count=10), 0, 10)


def test_a_host_with_nothing_but_loopback_uses_that(lan: LAN, on: OnHost) -> None:
    (host,) = lan(1).hosts
    host.ip("link", "set", "eth0", "down")
    one, two = on(host), on(host)
    assert one.ask("node")["link"]["interface"] == "lo"
    meet([one], [two])
    one.ask("publish", topic="t/x", count=10, sizes=[100])
    whole(two.ask("wait_received", pattern="t/>", source=0, count=10), 0, 10)


def test_a_group_of_ipv6_works_as_well(lan: LAN, on: OnHost) -> None:
    group = unique_group(ipv6=True)
    publisher, *subscribers = [on(host, at=group) for host in lan(3).hosts]
    meet([publisher], subscribers)
    publisher.ask("publish", topic="t/x", count=2000, sizes=[64, 5000])
    for subscriber in subscribers:
        whole(subscriber.ask("wait_received", pattern="t/>", source=0, count=2000), 0, 2000)


@pytest.mark.parametrize("interface", ["wlan7", "10.9.9.9"])
def test_an_interface_that_is_not_there_is_named_with_those_that_are(lan: LAN, interface: str) -> None:
    (host,) = lan(1).hosts
    peer = Program(
        [str(HERE / "peer.py"), f"norm://{unique_group()}?interface={interface}", "{}"], prefix=host.prefix
    )
    try:
        with pytest.raises(Failure, match=r"lo \(127\.0\.0\.1.*eth0 \(10\.74\.0\.1") as refusal:
            peer.answer()
        assert refusal.value.name == "LinkError"
        assert interface in str(refusal.value)
    finally:
        peer.kill()


@pytest.mark.parametrize(
    ("loss", "delay_s", "count"), [(0.01, 0.002, 2000), (0.05, 0.002, 2000), (0.2, 0.005, 1000)]
)
def test_a_link_that_loses_and_delays_packets_loses_no_message(
    lan: LAN, on: OnHost, loss: float, delay_s: float, count: int
) -> None:
    seed = 20_240_715
    print(f"seed {seed}")
    built = lan(2)
    near, far = built.hosts
    # The cable between the switch and the far host is replaced by the relay.
    laboratory.run("ip", "link", "set", far.port, "nomaster")
    laboratory.run("ip", "link", "set", near.port, "nomaster")
    relay = Program(["-m", "shoal_bench.relay", near.port, far.port, str(loss), str(delay_s), str(seed)])
    try:
        assert relay.answer()["ready"]
        # Segmentation offload would put 64 KB through the relay at once, which no wire does.
        for host in (near, far):
            host.ip("link", "set", "eth0", "gso_max_segs", "1")
        publisher, subscriber = (on(host) for host in (near, far))
        meet([publisher], [subscriber])
        publisher.ask("publish", topic="t/x", count=count, sizes=[100, 1400, 5000])
        whole(subscriber.ask("wait_received", pattern="t/>", source=0, count=count), 0, count)
        relay.signal(signal.SIGTERM)
        counts = relay.answer()
        assert counts["dropped"] > 0.5 * loss * counts["seen"] > 0
    finally:
        relay.kill()


def test_a_lab_that_crashed_is_swept_away_by_the_next(lan: LAN) -> None:
    ran = run_script("import os; from lab import Lab; lab = Lab(1); print(lab.name, flush=True); os._exit(1)")
    left = ran.stdout.strip()
    bridge, namespace = Path("/sys/class/net", left), Path("/run/netns", f"{left}h1")
    assert bridge.exists()
    assert namespace.exists()
    lan(1)
    assert not bridge.exists()
    assert not namespace.exists()
