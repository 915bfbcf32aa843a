"""Priorities: an urgent message overtakes what waits, nothing starves, and switches see the class."""

import itertools
import json
import shutil
import statistics
import subprocess
import sys
import threading
import time
from collections.abc import Callable
from typing import Any

import lab as laboratory
import pytest
from lab import LAN, Host, Lab
from programs import Peer, unique_group

#: Says how late each urgent message came, and how many bytes of each topic came within three seconds.
READER = """
import json, sys, time
import shoal
with shoal.connect(sys.argv[1]) as bus, bus.subscribe("t/>", queue_bytes_max=64 << 20) as messages:
    print(flush=True)
    late, read, began = [], {}, None
    while (message := messages.receive(30)).topic != "t/end":
        now = time.monotonic()
        began = began or now
        if message.topic == "t/urgent":
            late.append(now - float(message.body))
        if now < began + 3:
            read[message.topic] = read.get(message.topic, 0) + len(message.body)
    print(json.dumps({"late": late, "read": read}), flush=True)
"""

#: Publishes as fast as it can at the priorities given, one thread each; and beside 0 alone, a 9 now and then.
WRITER = """
import sys, threading, time
import shoal
url, *priorities = sys.argv[1:]
with shoal.connect(url) as bus:
    bus.wait_for_subscribers("t/x", timeout_s=30)
    until = time.monotonic() + 4
    def flood(priority):
        while time.monotonic() < until:
            bus.publish(f"t/{priority}", bytes(1000), priority=priority)
    threads = [threading.Thread(target=flood, args=(int(priority),)) for priority in priorities]
    for thread in threads:
        thread.start()
    while time.monotonic() < until:
        if priorities == ["0"]:
            bus.publish("t/urgent", str(time.monotonic()), priority=9)
        time.sleep(0.02)
    for thread in threads:
        thread.join()
    bus.publish("t/end", b"", priority=0)
    bus.flush(timeout_s=60)
"""


def flood(one: Host, two: Host, url: str, *priorities: int) -> dict[str, Any]:
    """What a program on the second host got of one on the first."""
    command = [*two.prefix, sys.executable, "-c", READER, url]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as reading:
        assert reading.stdout is not None
        try:
            reading.stdout.readline()
            laboratory.run(*one.prefix, sys.executable, "-c", WRITER, url, *map(str, priorities))
            told: dict[str, Any] = json.loads(reading.stdout.readline())
        finally:
            reading.kill()
    return told


def narrow(host: Host) -> None:
    """A cable of 100 Mbit/s with a short queue."""
    shape = ("root", "tbf", "rate", "100mbit", "burst", "64kb", "latency", "5ms")
    laboratory.run(*host.prefix, "tc", "qdisc", "add", "dev", "eth0", *shape)


def test_an_urgent_message_overtakes_those_that_block(lan: LAN) -> None:
    one, two = lan(2).hosts
    narrow(one)
    told = flood(one, two, f"norm://{unique_group()}", 0)
    assert told["read"]["t/0"] > 10e6, "the cable was full"
    assert len(told["late"]) > 20
    assert statistics.median(told["late"]) < 0.05, told["late"]


@pytest.mark.parametrize("scheme", ["norm", "udp"])
def test_a_flood_of_urgent_messages_leaves_others_their_part(lan: LAN, scheme: str) -> None:
    one, two = lan(2).hosts
    told = flood(one, two, f"{scheme}://{unique_group()}?rate_bytes_per_s=2000000", 9, 5, 0)
    high, normal, low = (told["read"][f"t/{priority}"] for priority in (9, 5, 0))
    total = high + normal + low
    assert high > 0.5 * total, told["read"]
    assert 0.08 * total < normal < 0.4 * total, told["read"]
    # Less than its part of 4.8 % only by what came before the flood was one.
    assert 0.03 * total < low < 0.15 * total, told["read"]


def vlan(host: Host, number: int) -> None:
    """Everything of a host goes through a VLAN, which takes the priority of a packet for its own."""
    host.ip("addr", "flush", "dev", "eth0")
    host.ip("link", "add", "link", "eth0", "name", "lan", "type", "vlan", "id", "7")
    host.ip("link", "set", "lan", "type", "vlan", "egress-qos-map", "4:4", "6:6")
    host.ip("addr", "add", f"10.77.0.{number}/24", "dev", "lan")
    host.ip("link", "set", "lan", "up")
    host.ip("route", "add", "224.0.0.0/4", "dev", "lan")


class Wire:
    """What a host hears, as tshark understands it."""

    def __init__(self, host: Host, port: int) -> None:
        command = ["tshark", "-n", "-l", "-Q", "-i", "eth0", "-Y", f"udp.port == {port}", "-T", "fields"]
        for field in ("frame.len", "ip.dsfield.dscp", "vlan.priority", "ip.dst"):
            command += ["-e", field]
        self._process = subprocess.Popen(
            [*host.prefix, *command], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
        )

    def read(self) -> tuple[int, int, int, str]:
        """The next datagram: its length, DSCP, VLAN priority (0 without a VLAN) and destination."""
        assert self._process.stdout is not None
        length, dscp, priority, to = self._process.stdout.readline().rstrip("\n").split("\t")
        return int(length), int(dscp), int(priority or 0), to

    def close(self) -> None:
        """Stop to listen."""
        self._process.terminate()
        self._process.communicate(timeout=20)


#: Bytes of bodies by priority. They tell classes apart: longer than what nodes say, and no two fit into a
#: datagram.
LENGTHS = {9: 600, 4: 900, 0: 1200}
MARKED = [
    ("norm", "&mark=true", {9: (46, 6), 4: (34, 4), 0: (0, 0)}),
    ("udp", "&mark=true", {9: (46, 6), 4: (34, 4), 0: (0, 0)}),
    ("norm", "&mark=true&marks=10:4,12:6,8:0", {9: (10, 4), 4: (12, 6), 0: (8, 0)}),
    ("norm", "", {9: (0, 0), 4: (0, 0), 0: (0, 0)}),
]


@pytest.fixture
def two(peers: list[Peer], lan: LAN) -> Callable[..., tuple[Lab, str, Callable[[], None]]]:
    """`two(scheme, options)`: a publisher and a subscriber, and what publishes once at each priority."""

    def start(scheme: str, more: str, *, tagged: bool = False) -> tuple[Lab, str, Callable[[], None]]:
        built, group, numbers = lan(2), unique_group(), itertools.count()
        if tagged:
            for number, host in enumerate(built.hosts, 1):
                vlan(host, number)
        url = f"{scheme}://{group}?interface={'lan' if tagged else 'eth0'}{more}"
        publisher, subscriber = (Peer(url, prefix=host.prefix) for host in built.hosts)
        peers.extend((publisher, subscriber))
        for peer in peers:
            peer.connected()
        subscriber.ask("subscribe", pattern="t/>")
        publisher.ask("wait_for_subscribers", topic="t/x", count=1)

        def publish() -> None:
            number = next(numbers)
            for priority, length in LENGTHS.items():
                options = {"start": number, "priority": priority, "source": priority}
                publisher.ask("publish", topic="t/x", count=1, sizes=[length], **options)
                publisher.ask("flush", timeout_s=30)

        return built, group, publish

    return start


@pytest.mark.skipif(shutil.which("tshark") is None, reason="tshark is not installed")
@pytest.mark.parametrize("tagged", [False, True], ids=["", "vlan"])
@pytest.mark.parametrize(("scheme", "more", "expected"), MARKED)
def test_switches_see_the_class_of_every_datagram(
    two: Callable[..., Any], scheme: str, more: str, expected: dict[int, tuple[int, int]], tagged: bool
) -> None:
    try:
        built, group, publish = two(scheme, more, tagged=tagged)
    except RuntimeError as error:
        if tagged and "Unknown device type" in str(error):
            pytest.skip("this kernel has no VLANs")
        raise
    address, _, port = group.rpartition(":")
    wire = Wire(built.hosts[1], int(port))
    seen: dict[int, set[tuple[int, int]]] = {}
    try:
        stop, publishing = threading.Event(), threading.Thread(target=lambda: repeat(publish, stop))
        publishing.start()
        deadline = time.monotonic() + 60
        while len(seen) < 3 and time.monotonic() < deadline:
            size, dscp, pcp, to = wire.read()
            for priority, length in LENGTHS.items():
                if to == address and length < size < length + 250:
                    seen.setdefault(priority, set()).add((dscp, pcp))
        stop.set()
        publishing.join()
    finally:
        wire.close()
    wanted = {priority: {(dscp, pcp if tagged else 0)} for priority, (dscp, pcp) in expected.items()}
    assert seen == wanted


def repeat(publish: Callable[[], None], stop: threading.Event) -> None:
    """Publish until told to stop: before tshark listens it sees nothing."""
    while not stop.wait(0.1):
        publish()


@pytest.mark.skipif(shutil.which("nft") is None, reason="nftables is not installed")
@pytest.mark.parametrize(("scheme", "more", "expected"), MARKED)
def test_the_queues_of_this_machine_see_the_class_of_every_datagram(
    two: Callable[..., Any], scheme: str, more: str, expected: dict[int, tuple[int, int]]
) -> None:
    built, group, publish = two(scheme, more)
    host, port = built.hosts[0], group.rpartition(":")[2]
    rules = "\n".join(
        f"udp dport {port} meta length {LENGTHS[priority]}-{LENGTHS[priority] + 250} ip dscp {dscp} "
        f"meta priority 0:{queue} counter"
        for priority, (dscp, queue) in expected.items()
    )
    table = f"table inet t {{ chain c {{ type filter hook output priority 0; {rules}\n }}; }}"
    laboratory.run(*host.prefix, "nft", table)
    for _ in range(10):
        publish()
    listed = json.loads(laboratory.run(*host.prefix, "nft", "-j", "list", "chain", "inet", "t", "c"))
    parts = [part for entry in listed["nftables"] if "rule" in entry for part in entry["rule"]["expr"]]
    counts = [part["counter"]["packets"] for part in parts if "counter" in part]
    assert len(counts) == 3
    assert min(counts) >= 10, counts
