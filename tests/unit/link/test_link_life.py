"""What happens around links: in which order it is told, and what others keep of them."""

import contextlib
import multiprocessing
import os
import socket
import subprocess
import sys
import time

import pytest

import shoal
from shoal.bus.events import EventLog

DOMAIN = "link-life"


def _names(bus: shoal.Bus) -> list[str]:
    return [type(event).__name__ for event in bus.events(timeout_s=0)]


def test_a_link_is_told_to_be_up_before_whoever_is_behind_it_joins() -> None:
    events = EventLog()
    up = shoal.LinkUp("tcp://a:1", 7, "b:2", False, "")
    down = shoal.LinkDown("tcp://a:1", 7, "b:2", "it closed", True)
    hub = [("joined", 7, {}), ("gone", 7, {"failed": False})]
    members = [[hub[1]], [hub[0]]]
    links = [[up, down]]
    assert events.refill(lambda: members.pop() if members else [], lambda: links.pop() if links else [])
    told = [events.take() for _ in range(4)]
    assert told == [up, shoal.MemberJoined(7), shoal.MemberLeft(7, False), down]


def test_events_of_a_peer_that_came_and_went_are_in_order() -> None:
    with shoal.listen("tcp://127.0.0.1:0", domain=DOMAIN) as here:
        for _ in range(3):
            with shoal.connect(here.links[0].url, domain=DOMAIN):
                pass
        deadline = time.monotonic() + 30
        told: list[str] = []
        while told.count("LinkDown") < 3 or told.count("MemberLeft") < 3:
            assert time.monotonic() < deadline, told
            told += [type(event).__name__ for event in here.events(timeout_s=0.05)]
    for number in range(3):
        at = [index for index, name in enumerate(told) if name == "LinkUp"][number]
        assert [name for name in told[:at] if name == "MemberJoined"] == ["MemberJoined"] * number


def test_two_that_connect_to_each_other_are_not_warned() -> None:
    with (
        shoal.listen("tcp://127.0.0.1:0", domain=DOMAIN) as one,
        shoal.listen("tcp://127.0.0.1:0", domain=DOMAIN) as other,
    ):
        first, second = one.links[0].url, other.links[0].url
        one.connect(second)
        other.connect(first)
        assert {"LinkRefused", "LinkReconnecting", "LinkDown"}.isdisjoint(_names(one) + _names(other))
        assert "standby" in [link.state for link in other.links]


def test_whoever_accepts_and_says_nothing_is_not_waited_for_longer_than_asked() -> None:
    with socket.create_server(("127.0.0.1", 0)) as silent:
        url = f"tcp://127.0.0.1:{silent.getsockname()[1]}"
        began = time.monotonic()
        with shoal.connect(url, domain=DOMAIN, connect_timeout_s=0.2) as bus:
            assert time.monotonic() - began < 4.5
            assert [link.why for link in bus.links] == [
                "it did not say who it is in time (connect_timeout_s)"
            ]


def _wait(ready: int, release: int) -> None:
    os.write(ready, b"x")
    os.read(release, 1)


@pytest.mark.parametrize("scheme", ["tcp", "ws"])
def test_a_forked_child_does_not_keep_a_port(scheme: str) -> None:
    bus = shoal.listen(f"{scheme}://127.0.0.1:0", domain=DOMAIN)
    port = int(bus.links[0].url.rpartition(":")[2])
    (here, ready), (release, told) = os.pipe(), os.pipe()
    child = multiprocessing.get_context("fork").Process(target=_wait, args=(ready, release))
    child.start()
    try:
        # It gives the port up when it begins.
        os.read(here, 1)
        bus.close()
        shoal.listen(f"{scheme}://127.0.0.1:{port}", domain=DOMAIN).close()
    finally:
        os.write(told, b"x")
        child.join()
        for descriptor in (here, ready, release, told):
            os.close(descriptor)


def _listens(server: socket.socket, told: int) -> None:
    os.write(told, b"%d" % server.getsockopt(socket.SOL_SOCKET, socket.SO_ACCEPTCONN))


@pytest.mark.parametrize("scheme", ["tcp", "ws"])
def test_a_forked_child_keeps_what_others_listen_with_where_a_link_once_was(scheme: str) -> None:
    with shoal.listen(f"{scheme}://127.0.0.1:0", domain=DOMAIN) as bus:
        port = int(bus.links[0].url.rpartition(":")[2])
    here, told = os.pipe()
    with socket.create_server(("127.0.0.1", port)) as server:
        child = multiprocessing.get_context("fork").Process(target=_listens, args=(server, told))
        child.start()
        assert os.read(here, 1) == b"1"
        child.join()
    os.close(here)
    os.close(told)


STARVED = """
import io, logging, os, resource, socket, shoal
logging.basicConfig(stream=(warned := io.StringIO()))
shoal.connect("inproc://first").close()
resource.setrlimit(resource.RLIMIT_NOFILE, (48, 48))
kept = []
try:
    while True:
        kept.append(os.open(os.devnull, os.O_RDONLY))
except OSError:
    pass
for url in (None, "tcp://127.0.0.1:1", "norm://?interface=lo", "udp://?interface=lo"):
    try:
        shoal.connect(url, domain="starved")
    except shoal.ShoalError as error:
        print("ulimit -n" in str(error))
for descriptor in kept:
    os.close(descriptor)
listens = shoal.listen("tcp://127.0.0.1:0", domain="starved")
print("may open 48 descriptors" in warned.getvalue())
print(listens.links[0].url.rpartition(":")[2], flush=True)
while not listens.links[-1].turned_away:
    for _ in listens.events(timeout_s=0.05):
        pass
os.close(os.open(os.devnull, os.O_RDONLY))
listens.close()
"""


def test_a_process_without_descriptors_says_what_to_do_and_keeps_some() -> None:
    with subprocess.Popen([sys.executable, "-c", STARVED], stdout=subprocess.PIPE, text=True) as starved:
        assert starved.stdout is not None
        assert [starved.stdout.readline() for _ in range(5)] == ["True\n"] * 5
        place = ("127.0.0.1", int(starved.stdout.readline()))
        guests = []
        # It may have turned away enough of them, and be over.
        with contextlib.suppress(ConnectionError):
            guests.extend(socket.create_connection(place) for _ in range(48))
        assert starved.wait(60) == 0
        for guest in guests:
            guest.close()


CROWDED = """
import logging, os, resource, shoal
logging.disable(logging.CRITICAL)
resource.setrlimit(resource.RLIMIT_NOFILE, (64, 64))
bus = shoal.listen("tcp://127.0.0.1:0", domain="crowded")
bus.listen("tcp://127.0.0.1:0")
bus.listen("ws://127.0.0.1:0")
listeners = lambda: [link for link in bus.links if link.role == "listen"]
print(" ".join(link.url for link in listeners()), flush=True)
while not all(link.turned_away for link in listeners()):
    list(bus.events(timeout_s=0.05))
for descriptor in [os.open(os.devnull, os.O_RDONLY) for _ in range(4)]:
    os.close(descriptor)
print("full", flush=True)
while len(bus.members) < 3:
    list(bus.events(timeout_s=0.05))
bus.close()
"""


def test_listeners_of_a_process_without_descriptors_turn_away_and_let_in_again_each() -> None:
    with contextlib.ExitStack() as stack:
        crowded = stack.enter_context(
            subprocess.Popen([sys.executable, "-c", CROWDED], stdout=subprocess.PIPE, text=True)
        )
        assert crowded.stdout is not None
        urls = crowded.stdout.readline().split()
        with contextlib.ExitStack() as guests:
            for number in range(64 * len(urls)):
                place = ("127.0.0.1", int(urls[number % len(urls)].rpartition(":")[2]))
                guests.enter_context(socket.create_connection(place))
            assert crowded.stdout.readline() == "full\n"
        for url in urls:
            stack.enter_context(shoal.connect(url, domain="crowded", reconnect_max_s=0.1))
        assert crowded.wait(60) == 0
