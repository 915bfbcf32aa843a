"""Programs linked by TCP: processes that die, stop and return, and many of them."""

import contextlib
import random
import re
import select
import socket
import struct
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from programs import Failure, Peer

import shoal

#: Processes start in any order, and the page says to wait for whom you need.
WAIT = 'bus.wait_for_subscribers("prices/ACME")'
#: A peer that is silent for so long is taken for dead.
QUICK = {"heartbeat_s": 0.25, "missed_heartbeats_max": 4, "reconnect_max_s": 0.2}


@pytest.fixture
def port() -> int:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        return int(taken.getsockname()[1])


@pytest.fixture
def start(port: int) -> Iterator[Callable[..., Peer]]:
    """Starts programs: one that listens, or others."""
    peers: list[Peer] = []

    def begin(*, listen: bool = False, **options: object) -> Peer:
        peer = Peer(f"tcp://127.0.0.1:{port}", **{**QUICK, **options}, **({"listen": True} if listen else {}))
        peers.append(peer)
        return peer.connected()

    yield begin
    for peer in peers:
        peer.kill()


def whole(answer: dict, count: int, first: int = 0) -> None:
    tally = answer["received"]["0"]
    assert tally == {"first": first, "next": first + count, "count": count, "skipped": 0, "faults": []}


def events(peer: Peer, kind: str) -> list[dict]:
    return [event for event in peer.ask("told")["events"] if event["event"] == kind]


def wait_for(peer: Peer, kind: str, count: int = 1, timeout_s: float = 20.0) -> list[dict]:
    deadline = time.monotonic() + timeout_s
    while len(found := events(peer, kind)) < count:
        assert time.monotonic() < deadline, f"{kind} did not come"
        time.sleep(0.02)
    return found


def test_everything_arrives_in_order_whoever_listens(start: Callable[..., Peer]) -> None:
    publisher, subscribers = start(listen=True), [start() for _ in range(3)]
    for subscriber in subscribers:
        subscriber.ask("subscribe", pattern="t/>")
    publisher.ask("wait_for_subscribers", topic="t/x", count=3)
    publisher.ask("publish", topic="t/x", count=20_000, sizes=[64, 200, 5000])
    publisher.ask("flush", timeout_s=60)
    for subscriber in subscribers:
        whole(subscriber.ask("wait_received", pattern="t/>", source=0, count=20_000), 20_000)


@pytest.mark.parametrize("stopped", ["publisher", "subscriber"])
def test_a_process_that_stops_for_a_while_loses_nothing(start: Callable[..., Peer], stopped: str) -> None:
    """Its connection is given up meanwhile, and another one goes on."""
    hub = start(listen=True, resume_s=60)
    leaf = start(resume_s=60)
    leaf.ask("subscribe", pattern="t/>")
    hub.ask("wait_for_subscribers", topic="t/x", count=1)
    hub.ask("publish", topic="t/x", count=1000, sizes=[100])
    victim, other = (hub, leaf) if stopped == "publisher" else (leaf, hub)
    victim.freeze()
    if stopped == "subscriber":
        hub.ask("publish", topic="t/x", count=2000, sizes=[100], start=1000)
    wait_for(other, "LinkDown")
    victim.thaw()
    wait_for(leaf, "LinkUp", 2)
    if stopped == "publisher":
        hub.ask("publish", topic="t/x", count=2000, sizes=[100], start=1000)
    hub.ask("flush", timeout_s=60)
    whole(leaf.ask("wait_received", pattern="t/>", source=0, count=3000), 3000)
    assert wait_for(leaf, "LinkUp", 2)[-1]["resumed"]
    assert not events(leaf, "MessagesLost")
    assert not events(leaf, "MemberLeft")


def test_a_listener_that_is_killed_and_starts_again_is_found_again(start: Callable[..., Peer]) -> None:
    hub, leaf = start(listen=True), start()
    leaf.ask("subscribe", pattern="t/>")
    hub.ask("wait_for_subscribers", topic="t/x", count=1)
    hub.ask("publish", topic="t/x", count=100, sizes=[100])
    leaf.ask("wait_received", pattern="t/>", source=0, count=100)
    hub.kill()
    wait_for(leaf, "LinkDown")
    again = start(listen=True)
    again.ask("wait_for_subscribers", topic="t/x", count=1)
    again.ask("publish", topic="t/x", count=100, sizes=[100], start=100)
    whole(leaf.ask("wait_received", pattern="t/>", source=0, count=200), 200)
    assert events(leaf, "LinkReconnecting")
    (left,) = wait_for(leaf, "MemberLeft")
    assert left["failed"]


def test_a_leaf_that_is_killed_is_gone_and_another_takes_its_place(start: Callable[..., Peer]) -> None:
    hub, leaf = start(listen=True, resume_s=0.5), start()
    leaf.ask("subscribe", pattern="t/>")
    hub.ask("wait_for_subscribers", topic="t/x", count=1)
    leaf.kill()
    (left,) = wait_for(hub, "MemberLeft")
    assert left["failed"]
    another = start()
    another.ask("subscribe", pattern="t/>")
    hub.ask("wait_for_subscribers", topic="t/x", count=1)
    hub.ask("publish", topic="t/x", count=100, sizes=[100])
    whole(another.ask("wait_received", pattern="t/>", source=0, count=100), 100)


def test_a_stopped_leaf_does_not_hold_the_others_back(start: Callable[..., Peer]) -> None:
    hub, lively, stopped = start(listen=True, resume_s=60), start(), start(resume_s=60)
    for leaf in (lively, stopped):
        leaf.ask("subscribe", pattern="t/>")
    hub.ask("wait_for_subscribers", topic="t/x", count=2)
    stopped.freeze()
    hub.ask("publish", topic="t/x", count=20_000, sizes=[1000])
    whole(lively.ask("wait_received", pattern="t/>", source=0, count=20_000), 20_000)
    assert events(hub, "MemberSlow")
    # Where all of that takes less than a second, the link is still up.
    wait_for(hub, "LinkDown")
    stopped.thaw()
    wait_for(stopped, "LinkUp", 2)
    hub.ask("publish", topic="t/x", count=1, sizes=[100], start=20_000)
    lost = wait_for(stopped, "MessagesLost")
    answer = stopped.ask("wait_next", pattern="t/>", source=0, number=20_001)
    told = sum(event["last"] - event["first"] + 1 for event in wait_for(stopped, "MessagesLost", len(lost)))
    assert answer["received"]["0"]["count"] + told == 20_001
    with pytest.raises(Failure) as refusal:
        hub.ask("flush", timeout_s=60)
    assert refusal.value.answer["lost_by"] == [stopped.node]
    hub.ask("flush", timeout_s=60)


LEAVES = """
import sys, threading, shoal
url = sys.argv[1]
heard = []
over = threading.Event()
def take(message):
    heard.append(message.body)
    if len(heard) == 100:
        over.set()
with shoal.connect(url) as bus:
    bus.subscribe("t", take)
    print("ready", flush=True)
    assert over.wait(60), len(heard)
    assert heard == list(range(100)), heard
    bus.publish("done", 1)
"""


def test_fifty_leaves_hear_everything() -> None:
    with shoal.listen("tcp://127.0.0.1:0") as hub, hub.subscribe("done") as done:
        command = [sys.executable, "-c", LEAVES, hub.links[-1].url]
        leaves = [subprocess.Popen(command, stdout=subprocess.DEVNULL) for _ in range(50)]
        try:
            assert hub.wait_for_subscribers("t", 50, timeout_s=90)
            for number in range(100):
                hub.publish("t", number)
            for _ in range(50):
                assert done.receive(60).body == 1
            assert all(leaf.wait(60) == 0 for leaf in leaves)
        finally:
            for leaf in leaves:
                leaf.kill()
                leaf.wait()


def test_random_bytes_on_the_port_disturb_nobody(start: Callable[..., Peer], port: int) -> None:
    hub, leaf = start(listen=True), start()
    leaf.ask("subscribe", pattern="t/>")
    hub.ask("wait_for_subscribers", topic="t/x", count=1)
    seed = random.randrange(1 << 30)
    chance = random.Random(seed)
    strangers = []
    for number in range(200):
        stranger = socket.create_connection(("127.0.0.1", port))
        magic = b"SHOAL/\x03" if chance.random() < 0.5 else b""
        # It may be closed by then.
        with contextlib.suppress(OSError):
            stranger.sendall(magic + chance.randbytes(chance.randrange(2000)))
        if number % 4 == 0:
            strangers.append(stranger)
        else:
            stranger.close()
        if number % 50 == 0:
            hub.ask("publish", topic="t/x", count=100, sizes=[100], start=2 * number)
    hub.ask("flush", timeout_s=60)
    whole(leaf.ask("wait_received", pattern="t/>", source=0, count=400), 400)
    assert hub.ask("memory")["bytes"] < 200 << 20, f"seed {seed}"
    for stranger in strangers:
        stranger.close()


def test_a_connection_that_says_nothing_is_closed(start: Callable[..., Peer], port: int) -> None:
    start(listen=True).ask("node")
    with socket.create_connection(("127.0.0.1", port)) as silent:
        silent.settimeout(20)
        began = time.monotonic()
        assert silent.recv(1) == b""
        assert 3 < time.monotonic() - began < 15


def test_nothing_listens_beyond_loopback_unless_asked() -> None:
    with shoal.listen("tcp://:0") as bus:
        assert bus.links[-1].url.startswith("tcp://127.0.0.1:")


class Cutter(threading.Thread):
    """Passes bytes on between two ports, and cuts every connection after a random number of them."""

    def __init__(self, target: int, chance: random.Random) -> None:
        super().__init__(daemon=True)
        self._target, self._chance = target, chance
        self._listener = socket.create_server(("127.0.0.1", 0))
        self.port = int(self._listener.getsockname()[1])
        self.cuts = 0
        self.cutting = True

    def run(self) -> None:
        while True:
            try:
                near, _ = self._listener.accept()
            except OSError:
                return
            # An end that closes may reset the connection.
            far = socket.create_connection(("127.0.0.1", self._target))
            with near, far, contextlib.suppress(ConnectionError):
                self._pass_on(near, far, self._chance.randrange(20, 3_000_000))

    def _pass_on(self, near: socket.socket, far: socket.socket, left: int) -> None:
        while left > 0 or not self.cutting:
            for source in select.select([near, far], [], [], 0.5)[0]:
                piece = source.recv(min(65536, left) if self.cutting else 65536)
                if not piece:
                    return
                left -= len(piece)
                (far if source is near else near).sendall(piece)
        self.cuts += 1
        # Now and then the ends hear of it at once, by a reset.
        if self._chance.random() < 0.5:
            near.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))

    def close(self) -> None:
        self._listener.close()


def test_connections_that_are_cut_anywhere_lose_and_double_nothing(
    start: Callable[..., Peer], port: int
) -> None:
    seed = random.randrange(1 << 30)
    print(f"seed {seed}")
    hub = start(listen=True, resume_s=60)
    cutter = Cutter(port, random.Random(seed))
    cutter.start()
    leaf = Peer(f"tcp://127.0.0.1:{cutter.port}", **QUICK, resume_s=60)
    try:
        leaf.connected()
        leaf.ask("subscribe", pattern="t/>")
        hub.ask("subscribe", pattern="u/>")
        hub.ask("wait_for_subscribers", topic="t/x", count=1)
        leaf.ask("wait_for_subscribers", topic="u/x", count=1)
        for peer, topic in ((hub, "t/x"), (leaf, "u/x")):
            peer.tell("publish", topic=topic, count=30_000, sizes=[10, 300, 3000])
        for peer in (hub, leaf):
            peer.answer()
        cutter.cutting = False
        for peer in (hub, leaf):
            peer.ask("flush", timeout_s=60)
        whole(leaf.ask("wait_received", pattern="t/>", source=0, count=30_000), 30_000)
        whole(hub.ask("wait_received", pattern="u/>", source=0, count=30_000), 30_000)
        assert cutter.cuts > 5
        assert not events(leaf, "MessagesLost")
        assert not events(hub, "MessagesLost")
    finally:
        leaf.kill()
        cutter.close()


def test_the_programs_of_the_page_do_what_it_says(port: int) -> None:
    page = (Path(__file__).parents[2] / "docs/how-to/tcp.md").read_text()
    codes = re.findall(r"^```python\n(.*?)^```", page, re.DOTALL | re.MULTILINE)
    here = [re.sub(r"tcp://[\w.]+:7474", f"tcp://127.0.0.1:{port}", code) for code in codes]
    listens, connects = [code.replace("bus.publish(", f"{WAIT}; bus.publish(") for code in here[:2]]
    with subprocess.Popen(
        [sys.executable, "-u", "-c", listens], stdout=subprocess.PIPE, text=True
    ) as listener:
        try:
            subprocess.run([sys.executable, "-c", connects], check=True, timeout=40)
            assert listener.stdout is not None
            assert listener.stdout.readline() == "prices/ACME {'bid': 10.25}\n"
        finally:
            listener.kill()
