"""`shoal doctor` on hosts of a lab: each fault gives the id of its own check, a healthy host gives none."""

import json
import shutil
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import lab as laboratory
import pytest
from lab import LAN, Host
from programs import Peer, run_script, unique_group

#: Two heartbeats of half a second, so that a doctor listens for 1.5 s.
QUICK = "heartbeat_s=0.5"


def url(group: str, more: str = "") -> str:
    return f"norm://{group}?{QUICK}{more}"


def port_of(group: str) -> int:
    return int(group.rpartition(":")[2])


def command(host: Host, *arguments: str) -> list[str]:
    return [*host.prefix, sys.executable, "-m", "shoal.cli", "doctor", *arguments]


def examine(host: Host, *arguments: str, at: str) -> tuple[int, dict[str, dict[str, Any]]]:
    """The status, and what each check found."""
    done = subprocess.run(
        command(host, "--json", "--url", at, *arguments),
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    assert done.stdout, done.stderr
    return done.returncode, {check["id"]: check for check in json.loads(done.stdout)["checks"]}


def problems(checks: dict[str, dict[str, Any]]) -> list[str]:
    """What is wrong, but for the load of this machine and for a container that the tests run in."""
    return [
        f"{check['verdict']} {name}"
        for name, check in checks.items()
        if check["verdict"] in ("warn", "FAIL") and name not in ("D14", "D15")
    ]


@pytest.fixture
def group() -> str:
    return unique_group()


@pytest.fixture
def answering() -> Iterator[Callable[[Host], None]]:
    """`answering(host)`: a doctor there that answers others."""
    started: list[subprocess.Popen[str]] = []

    def start(host: Host) -> None:
        one = subprocess.Popen(command(host, "--answer"), stderr=subprocess.PIPE, text=True)
        started.append(one)
        assert one.stderr is not None
        assert "answers at" in one.stderr.readline()

    yield start
    for one in started:
        one.send_signal(signal.SIGTERM)
        assert one.wait(20) == 143
        assert one.stderr is not None
        one.stderr.close()


def test_a_healthy_host_has_no_problem(lan: LAN, group: str, answering: Callable[[Host], None]) -> None:
    one, two = lan(2).hosts
    answering(two)
    began = time.monotonic()
    status, checks = examine(one, "--peer", two.address, at=url(group))
    assert (status, problems(checks)) == (0, [])
    assert time.monotonic() - began < 15
    assert {name for name, check in checks.items() if check["verdict"] == "skip"} == {"D07"}
    assert "UDP passes" in checks["D11"]["text"]


def test_a_cable_that_is_pulled_and_an_interface_that_is_off(lan: LAN, group: str) -> None:
    (host,) = lan(1).hosts
    host.cut()
    status, checks = examine(host, at=url(group))
    assert (status, problems(checks)) == (1, ["FAIL D01"])
    assert "eth0 has no carrier" in checks["D01"]["text"]
    host.mend()
    host.ip("link", "set", "eth0", "down")
    status, checks = examine(host, at=url(group))
    assert (status, problems(checks)) == (1, ["FAIL D01"])
    assert checks["D01"]["advice"].startswith("ip link set eth0 up")


def test_a_route_that_is_missing(lan: LAN, group: str) -> None:
    (host,) = lan(1).hosts
    host.ip("route", "del", "default")
    status, checks = examine(host, at=url(group))
    assert (status, problems(checks)) == (0, ["warn D03"])
    # The advice works.
    laboratory.run(*host.prefix, *checks["D03"]["advice"].split())
    assert problems(examine(host, at=url(group))[1]) == []


def test_loopback_that_is_off(lan: LAN, group: str) -> None:
    (host,) = lan(1).hosts
    host.ip("link", "set", "lo", "down")
    assert problems(examine(host, at=url(group))[1]) == ["FAIL D04"]


def test_two_networks(lan: LAN, group: str) -> None:
    first, second = lan(2).hosts
    laboratory.run("ip", "link", "del", second.port)
    laboratory.run("ip", "link", "add", second.port, "type", "veth", "peer", "eth1", "netns", first.namespace)
    laboratory.run("ip", "link", "set", second.port, "up")
    first.ip("addr", "add", "10.75.0.1/24", "dev", "eth1")
    first.ip("link", "set", "eth1", "up")
    assert problems(examine(first, at=url(group))[1]) == ["warn D02"]
    assert problems(examine(first, at=url(group, "&interface=eth0"))[1]) == []


def test_a_port_that_another_program_has_for_itself(lan: LAN, group: str) -> None:
    (host,) = lan(1).hosts
    script = f"""
import socket, sys
s = socket.socket(type=socket.SOCK_DGRAM)
s.bind(('', {port_of(group)}))
print(flush=True)
sys.stdin.read()
"""
    with subprocess.Popen(
        [*host.prefix, sys.executable, "-c", script], stdin=subprocess.PIPE, stdout=subprocess.PIPE
    ) as other:
        assert other.stdout is not None
        other.stdout.readline()
        status, checks = examine(host, at=url(group))
        other.kill()
    assert (status, problems(checks)) == (1, ["FAIL D05"])
    assert f"another program has port {port_of(group)}" in checks["D05"]["text"]


def key_file(folder: Path, name: str) -> str:
    path = folder / name
    done = run_script(f"from shoal.cli.app import app; app(['keys', 'new', {str(path)!r}])")
    assert path.exists(), done.stderr
    return str(path)


def test_a_member_with_another_key_or_with_one(
    lan: LAN, group: str, peers: list[Peer], tmp_path: Path
) -> None:
    host, other = lan(2).hosts
    ours, theirs = key_file(tmp_path, "ours"), key_file(tmp_path, "theirs")
    peer = Peer(f"norm://{group}?heartbeat_s=0.2&key_file={theirs}", prefix=other.prefix)
    peers.append(peer)
    peer.connected()
    for more in (f"&key_file={ours}", ""):
        status, checks = examine(host, at=url(group, more))
        assert (status, problems(checks)) == (1, ["FAIL D05"])
        assert "key" in checks["D05"]["text"]
        assert "SHOAL_KEY_FILE" in checks["D05"]["advice"]
    assert problems(examine(host, at=url(group, f"&key_file={theirs}"))[1]) == []


def test_members_are_counted(lan: LAN, group: str, peers: list[Peer]) -> None:
    host, other = lan(2).hosts
    peer = Peer(f"norm://{group}", prefix=other.prefix)
    peers.append(peer)
    peer.connected()
    _, checks = examine(host, at=url(group))
    assert problems(checks) == []
    assert checks["D05"]["text"] == "heard 1 members with our key and version"


def test_datagrams_that_a_program_of_this_host_dropped(lan: LAN, group: str, peers: list[Peer]) -> None:
    host, other = lan(2).hosts
    reader = Peer(f"norm://{group}?receive_buffer_bytes=65536", prefix=host.prefix)
    peers.append(reader)
    reader.connected()
    reader.signal(signal.SIGSTOP)
    flood = (
        "import socket; s = socket.socket(type=socket.SOCK_DGRAM); "
        f"[s.sendto(bytes(1400), ({group.rpartition(':')[0]!r}, {port_of(group)})) for _ in range(2000)]"
    )
    laboratory.run(*other.prefix, sys.executable, "-c", flood)
    _, checks = examine(host, at=url(group))
    assert problems(checks) == ["warn D08"]
    assert "dropped" in checks["D08"]["text"]


def run_in(host: Host, script: str) -> Any:
    """Run Python on a host; what it prints."""
    return json.loads(laboratory.run(*host.prefix, sys.executable, "-c", script))


def test_a_switch_with_snooping_and_without_a_querier(lan: LAN, group: str) -> None:
    built = lan(1)
    (host,) = built.hosts
    laboratory.run("ip", "link", "set", built.name, "type", "bridge", "mcast_snooping", "1")
    script = f"""
from shoal.config import parse_url
from shoal.doctor import Options, examine
print(examine(parse_url({url(group)!r}), Options(querier_s=4)).as_json())
"""
    told = run_in(host, script)
    assert [check for check in told["problems"] if check not in ("D14", "D15")] == ["D07"]
    querier = ("mcast_querier", "1", "mcast_query_interval", "100", "mcast_startup_query_interval", "100")
    laboratory.run("ip", "link", "set", built.name, "type", "bridge", *querier)
    told = run_in(host, script)
    assert [check for check in told["problems"] if check not in ("D14", "D15")] == []


def limit_multicast(one: Host, two: Host) -> None:
    """Multicast goes by `eth0`, which is slow; unicast between the two by a cable of its own."""
    laboratory.run(
        *("ip", "link", "add", "eth1", "netns", one.namespace, "type", "veth"),
        *("peer", "name", "eth1", "netns", two.namespace),
    )
    for host, other in ((one, two), (two, one)):
        host.ip("link", "set", "eth1", "up", "multicast", "off")
        host.ip("route", "add", f"{other.address}/32", "dev", "eth1")
    one.shape("10mbit")


def test_a_switch_that_limits_multicast(lan: LAN, group: str, answering: Callable[[Host], None]) -> None:
    one, two = lan(2).hosts
    limit_multicast(one, two)
    answering(two)
    status, checks = examine(one, "--peer", two.address, at=url(group))
    assert (status, problems(checks)) == (0, ["warn D12"])
    assert "a switch limits multicast to" in checks["D12"]["text"]


def test_packets_that_are_too_long_for_the_peer(
    lan: LAN, group: str, answering: Callable[[Host], None]
) -> None:
    one, two = lan(2).hosts
    two.ip("link", "set", "eth0", "mtu", "1400")
    answering(two)
    _, checks = examine(one, "--peer", two.address, at=url(group))
    assert problems(checks) in (["FAIL D10"], ["warn D10"])


def test_a_peer_without_a_doctor(lan: LAN, group: str) -> None:
    one, two = lan(2).hosts
    status, checks = examine(one, "--peer", two.address, at=url(group))
    assert (status, problems(checks)) == (1, ["FAIL D11"])
    assert "shoal doctor --answer" in checks["D11"]["advice"]


@pytest.mark.skipif(shutil.which("nft") is None, reason="nftables is not installed")
@pytest.mark.parametrize("hook", ["input", "output"])
def test_a_firewall(lan: LAN, group: str, hook: str) -> None:
    (host,) = lan(1).hosts
    side = "iifname" if hook == "input" else "oifname"
    rule = f'{side} "eth0" udp dport {port_of(group)} drop'
    rules = f"table inet t {{ chain c {{ type filter hook {hook} priority 0; {rule}; }}; }}"
    laboratory.run(*host.prefix, "nft", rules)
    status, checks = examine(host, at=url(group))
    assert status == 1
    assert "FAIL D11" in problems(checks)


def test_it_needs_no_root_and_says_what_it_could_not_look_at(lan: LAN, group: str) -> None:
    (host,) = lan(1).hosts
    script = f"""
import fcntl, os, shoal.bus.sync
from shoal.config import parse_url
from shoal.doctor import Options, examine
# The interpreter's own files may be for root alone.
os.setgid(65534); os.setuid(65534)
print(examine(parse_url({url(group)!r}), Options(querier_s=1)).as_json())
"""
    told = run_in(host, script)
    assert [check for check in told["problems"] if check not in ("D14", "D15")] == []
    assert [check["verdict"] for check in told["checks"] if check["id"] == "D07"] == ["skip"]


def test_the_command_prints_a_line_for_each_check_and_the_verdict(lan: LAN, group: str) -> None:
    (host,) = lan(1).hosts
    done = subprocess.run(
        command(host, "--url", url(group)), capture_output=True, text=True, timeout=60, check=False
    )
    *lines, verdict = done.stdout.splitlines()
    assert [line.split()[1] for line in lines] == [f"D{number:02}" for number in range(1, 18)]
    assert verdict.endswith("(14 checks, 3 skipped).")


def test_a_connection_without_multicast_is_refused(group: str) -> None:
    done = subprocess.run(
        [sys.executable, "-m", "shoal.cli", "doctor", "--url", "tcp://127.0.0.1:1"],
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    assert done.returncode == 2
    assert "has no multicast" in done.stderr


def test_the_sockets_of_the_answerer_are_closed() -> None:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = str(probe.getsockname()[1])
    arguments = ["--answer", "--interface", "lo", "--peer-port", port]
    with subprocess.Popen(
        [sys.executable, "-m", "shoal.cli", "doctor", *arguments], stderr=subprocess.PIPE, text=True
    ) as one:
        assert one.stderr is not None
        assert f"127.0.0.1:{port}" in one.stderr.readline()
        one.send_signal(signal.SIGTERM)
        assert one.wait(20) == 143
