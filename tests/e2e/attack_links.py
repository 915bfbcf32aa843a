"""Attacks a router's listener with many strangers, and looks whether live traffic beside them loses anything.

    python tests/e2e/attack_links.py [--strangers 1000] [--scheme tcp ws] [--attack silent unread] [--seed N]

| attack | the strangers |
|---|---|
| die | connect, and close or reset the connection at once, or in the middle of their greeting |
| silent | say nothing, or one byte at a time |
| garbage | say random bytes, half of them after a greeting |
| unread | have sessions that want everything, send heartbeats, and read nothing |
| half | have sessions, and close the half of the connection that they send on |
| stop | are Shoal's own subscribers: stopped, and then half of them killed |
| descriptors | are more than the router may have descriptors (`ulimit -n`) |

A publisher sends to a subscriber through the router all the while. Each message has to arrive, once and in
order. After each attack the router may have no more threads and descriptors than before, and has to be idle.
Ends with status 1 if something of that is not so.
"""

import argparse
import contextlib
import json
import logging
import multiprocessing
import os
import random
import secrets
import signal
import socket
import struct
import sys
import threading
import time
from collections.abc import Callable, Iterator
from dataclasses import asdict, dataclass, field
from pathlib import Path

from idle_links import Child, cpu_s
from programs import HERE, Peer

import shoal

sys.path.insert(0, str(HERE.parent / "unit" / "link"))
from strangers import Greeted, Stranger, block, hello

#: The live publisher's.
TOPIC, EVERY_S, MESSAGE_BYTES = "live/x", 0.001, 200
PING = block(4, bytes(8))
#: How long strangers stay once all of them are there.
STAY_S = 3.0
STOP_S = 3.0
#: Descriptors of a router that is to run out of them.
DESCRIPTORS = 150
#: What a router may use once the strangers are gone, for its two connections.
IDLE_CPU_PERCENT_MAX = 3.0
#: A session that reads nothing has a lane's buffer, what is put together for its socket, and a pump with `ws://`.
MEMORY_BYTES_MAX, STRANGER_BYTES_MAX = 100 << 20, 2 << 20
SETTLE_S = 20.0
#: Sessions end soon after their connections.
OPTIONS = {"heartbeat_s": 0.5, "missed_heartbeats_max": 4, "resume_s": 1.0, "connections_max": 2000}


@dataclass
class Outcome:
    """What an attack did."""

    attack: str
    scheme: str
    strangers: int
    published: int = 0
    longest_publish_s: float = 0.0
    threads: int = 0
    threads_most: int = 0
    descriptors: int = 0
    descriptors_most: int = 0
    memory_mb_most: int = 0
    idle_cpu_percent: float = 0.0
    faults: list[str] = field(default_factory=list)


class Watch(threading.Thread):
    """Looks at a process while it is attacked."""

    def __init__(self, pid: int) -> None:
        super().__init__(daemon=True)
        self._folder, self._is_over = Path(f"/proc/{pid}"), threading.Event()
        self.threads_most = self.descriptors_most = self.memory_most = 0

    def threads(self) -> int:
        return len(list((self._folder / "task").iterdir()))

    def descriptors(self) -> int:
        return len(list((self._folder / "fd").iterdir()))

    def run(self) -> None:
        while not self._is_over.wait(0.02):
            with contextlib.suppress(OSError):
                pages = int((self._folder / "statm").read_text().split()[1])
                self.threads_most = max(self.threads_most, self.threads())
                self.descriptors_most = max(self.descriptors_most, self.descriptors())
                self.memory_most = max(self.memory_most, pages * os.sysconf("SC_PAGESIZE"))

    def stop(self) -> None:
        self._is_over.set()
        self.join()


class Traffic(threading.Thread):
    """Live traffic, until it is stopped."""

    def __init__(self, publisher: Peer) -> None:
        super().__init__(daemon=True)
        self._publisher, self._is_over = publisher, threading.Event()
        self.published, self.longest_s, self.failure = 0, 0.0, ""

    def run(self) -> None:
        try:
            while not self._is_over.is_set():
                done = self._publisher.ask(
                    "publish", topic=TOPIC, count=1 << 40, sizes=[MESSAGE_BYTES], every_s=EVERY_S, for_s=0.5,
                    start=self.published,
                )  # fmt: skip
                self.published += done["published"]
                self.longest_s = max(self.longest_s, done["longest_s"])
        except AssertionError as error:
            self.failure = str(error)

    def stop(self) -> None:
        self._is_over.set()
        self.join()


class Attack:
    """Strangers at one listener."""

    def __init__(self, url: str, count: int, chance: random.Random) -> None:
        self.url, self.count, self.chance = url, count, chance
        host, port = url.partition("://")[2].split(":")
        self._place = (host, int(port))
        self._stack = contextlib.ExitStack()
        self._publisher = chance.randrange(1 << 32, 1 << 62)

    def close(self) -> None:
        """Have all of them gone."""
        self._stack.close()

    def run(self, kind: str) -> None:
        getattr(self, f"_{kind}")()

    def _connect(self) -> socket.socket:
        sock = socket.create_connection(self._place, timeout=10)
        self._stack.callback(sock.close)
        return sock

    def _stranger(self) -> Stranger:
        stranger = Stranger(self.url, Path())
        self._stack.callback(stranger.close)
        return stranger

    def _sessions(self) -> Iterator[Stranger]:
        """Sessions of strangers; one that is refused is left out."""
        for _ in range(self.count):
            self._publisher += 1
            with contextlib.suppress(EOFError, OSError):
                stranger = self._stranger()
                Greeted(stranger, self._publisher)
                yield stranger

    def _stay(self, each: Callable[[], None] = lambda: None) -> None:
        until = time.monotonic() + STAY_S
        while time.monotonic() < until:
            each()
            time.sleep(0.2)

    # --- the attacks ---

    def _die(self) -> None:
        for number in range(self.count):
            with contextlib.suppress(OSError):
                sock = socket.create_connection(self._place, timeout=10)
                if number % 3 == 0:
                    sock.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
                if number % 2:
                    greeting = hello(self._publisher + number)
                    sock.sendall(greeting[: self.chance.randrange(len(greeting))])
                sock.close()

    def _silent(self) -> None:
        slow = [self._connect() for _ in range(self.count)]
        said = iter(
            hello(self._publisher) if self.url.startswith("tcp") else b"GET / HTTP/1.1\r\nHost: x\r\n"
        )

        def dribble() -> None:
            byte = next(said, b"")
            for sock in slow[::2]:
                with contextlib.suppress(OSError):
                    sock.sendall(bytes([byte]) if byte else b"")

        self._stay(dribble)

    def _garbage(self) -> None:
        for number in range(self.count):
            with contextlib.suppress(OSError):
                said = self.chance.randbytes(self.chance.randrange(1, 2000))
                if number % 4 == 0:
                    self._connect().sendall(said)
                    continue
                self._publisher += 1
                stranger = self._stranger()
                stranger.send(hello(self._publisher) + said if number % 2 else said)
        self._stay()

    def _unread(self) -> None:
        deaf = []
        for stranger in self._sessions():
            deaf.append(stranger)
            if len(deaf) % 100 == 0:
                for one in deaf:
                    one.send(PING)
        self._stay(lambda: [one.send(PING) for one in deaf] and None)

    def _half(self) -> None:
        for stranger in self._sessions():
            stranger.shut()
        self._stay()

    def _stop(self) -> None:
        processes = [Child(subscribe, self.url, 50) for _ in range(max(self.count // 250, 1))]
        try:
            for child in processes:
                child.answer()
            for child in processes:
                os.kill(child.process.pid or 0, signal.SIGSTOP)
            time.sleep(STOP_S)
            for number, child in enumerate(processes):
                os.kill(child.process.pid or 0, signal.SIGKILL if number % 2 else signal.SIGCONT)
            time.sleep(1)
        finally:
            for child in processes:
                child.process.kill()
                child.process.join()

    def _descriptors(self) -> None:
        there = []
        for stranger in self._sessions():
            there.append(stranger)
            with contextlib.suppress(OSError):
                self._connect()
        self._stay(lambda: [one.send(PING) for one in there] and None)


ATTACKS = ("die", "silent", "garbage", "unread", "half", "stop", "descriptors")


def subscribe(pipe: "multiprocessing.connection.Connection", url: str, count: int) -> None:
    """Be subscribers that read, and that say nothing of links that break."""
    logging.disable()
    buses = [shoal.connect(url, **OPTIONS) for _ in range(count)]
    for bus in buses:
        bus.subscribe("live/>", lambda _: None)
    pipe.send(count)
    pipe.recv()


def free_port() -> int:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        return int(taken.getsockname()[1])


def attack(kind: str, scheme: str, strangers: int, seed: int) -> Outcome:
    """Attack a new router, with live traffic, and say what came of it."""
    outcome = Outcome(kind, scheme, strangers)
    prefix = ("prlimit", f"--nofile={DESCRIPTORS}") if kind == "descriptors" else ()
    url = f"{scheme}://127.0.0.1:{free_port()}"
    with contextlib.ExitStack() as stack:
        router = Peer(url, prefix=prefix, listen=True, router=True, **OPTIONS)
        stack.callback(router.kill)
        router.connected()
        live = [Peer(url, **OPTIONS) for _ in range(2)]
        for peer in live:
            stack.callback(peer.kill)
            peer.connected()
        publisher, reader = live
        reader.ask("subscribe", pattern="live/>")
        publisher.ask("wait_for_subscribers", topic=TOPIC, count=1)
        watch = Watch(router.process.pid)
        outcome.threads, outcome.descriptors = watch.threads(), watch.descriptors()
        watch.start()
        stack.callback(watch.stop)
        traffic = Traffic(publisher)
        traffic.start()
        began = Attack(url, strangers, random.Random(seed))
        stack.callback(began.close)
        began.run(kind)
        began.close()
        time.sleep(1)
        traffic.stop()
        outcome.published, outcome.longest_publish_s = traffic.published, round(traffic.longest_s, 3)
        outcome.faults += [traffic.failure] if traffic.failure else []
        outcome.faults += _faults(publisher, reader, traffic.published)
        outcome.threads_most, outcome.descriptors_most = watch.threads_most, watch.descriptors_most
        outcome.memory_mb_most = watch.memory_most >> 20
        if watch.memory_most > MEMORY_BYTES_MAX + strangers * STRANGER_BYTES_MAX:
            outcome.faults.append(f"the router took {outcome.memory_mb_most} MB")
        outcome.faults += _is_as_before(watch, outcome, router)
        latecomer = Peer(url, **OPTIONS)
        stack.callback(latecomer.kill)
        latecomer.connected()
    return outcome


def _faults(publisher: Peer, reader: Peer, published: int) -> list[str]:
    answer = reader.ask("wait_received", pattern="live/>", source=0, count=published, timeout_s=60)
    tally = answer["received"]["0"]
    whole = {"first": 0, "next": published, "count": published, "skipped": 0, "faults": []}
    faults = [] if tally == whole else [f"of {published} messages came {tally}"]
    told = [event for peer in (publisher, reader) for event in peer.ask("told")["events"]]
    return faults + [f"told: {event}" for event in told if event["event"] in ("MessagesLost", "LinkDown")]


def _is_as_before(watch: Watch, outcome: Outcome, router: Peer) -> list[str]:
    """What the strangers left behind."""
    until = time.monotonic() + SETTLE_S
    while watch.threads() > outcome.threads + 1 or watch.descriptors() > outcome.descriptors + 2:
        if time.monotonic() > until:
            return [f"{watch.threads()} threads and {watch.descriptors()} descriptors stay"]
        time.sleep(0.1)
    pid = router.process.pid
    # What it tells and forgets once they are gone.
    time.sleep(2)
    before, began = cpu_s(pid), time.monotonic()
    time.sleep(2)
    outcome.idle_cpu_percent = round((cpu_s(pid) - before) / (time.monotonic() - began) * 100, 2)
    is_idle = outcome.idle_cpu_percent <= IDLE_CPU_PERCENT_MAX
    return [] if is_idle else [f"it uses {outcome.idle_cpu_percent} % of a core, and does nothing"]


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--strangers", type=int, default=1000)
    parser.add_argument("--scheme", nargs="+", default=["tcp", "ws"], choices=["tcp", "ws"])
    parser.add_argument("--attack", nargs="+", default=list(ATTACKS), choices=ATTACKS)
    parser.add_argument("--seed", type=int, default=secrets.randbelow(1 << 30))
    chosen = parser.parse_args()
    print(f"seed {chosen.seed}")
    is_bad = False
    for scheme in chosen.scheme:
        for kind in chosen.attack:
            outcome = attack(kind, scheme, chosen.strangers, chosen.seed)
            print(json.dumps(asdict(outcome)), flush=True)
            is_bad |= bool(outcome.faults)
    sys.exit(is_bad)


if __name__ == "__main__":
    main()
