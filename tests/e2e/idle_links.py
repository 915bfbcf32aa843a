"""What idle TCP connections cost a router: `python tests/e2e/idle_links.py --connections 5 500 --rounds 5`.

A router listens in a process of its own. A publisher sends through it to a subscriber. Idle clients stay
connected. Prints, for each number of idle clients, the router's CPU time for one message, and its CPU share
while nothing is published: medians of rounds that alternate between the numbers.
"""

import argparse
import json
import multiprocessing
import statistics
import time
from dataclasses import asdict, dataclass
from multiprocessing.connection import Connection
from multiprocessing.process import BaseProcess
from pathlib import Path

import shoal

#: Messages in a second: so slow that the router handles each one by itself.
RATE = 2000
#: How long the router is watched while nothing is published.
IDLE_S = 5.0
#: Clients in one process, each with a thread.
CLIENTS_MAX = 250


@dataclass(frozen=True)
class Cost:
    """What the router used."""

    connections: int
    cpu_us_per_message: float
    idle_cpu_percent: float


def cpu_s(pid: int) -> float:
    """CPU time of all threads of a process."""
    tasks = Path(f"/proc/{pid}/task").iterdir()
    return sum(int((task / "schedstat").read_text().split()[0]) for task in tasks) / 1e9


def route(pipe: Connection) -> None:
    """Forward between clients until told to end."""
    with shoal.listen("tcp://127.0.0.1:0", router=True) as bus:
        pipe.send(bus.links[0].url)
        pipe.recv()


def stay(pipe: Connection, url: str, count: int) -> None:
    """Be connected clients that do nothing."""
    buses = [shoal.connect(url) for _ in range(count)]
    pipe.send(count)
    pipe.recv()
    for bus in buses:
        bus.close(0)


class Child:
    """A process that answers on a pipe, and ends when asked."""

    def __init__(self, target: object, *arguments: object) -> None:
        context = multiprocessing.get_context("spawn")
        self.pipe, far = context.Pipe()
        self.process: BaseProcess = context.Process(target=target, args=(far, *arguments))  # type: ignore[arg-type]
        self.process.start()
        far.close()

    def answer(self, timeout_s: float = 120.0) -> object:
        """What it says next."""
        if not self.pipe.poll(timeout_s):
            raise TimeoutError(f"{self.process.name} said nothing for {timeout_s:g} s")
        return self.pipe.recv()

    def end(self) -> None:
        """Have it end."""
        self.pipe.send(None)
        self.process.join(30)
        if self.process.is_alive():
            self.process.kill()


def measure(connections: int, messages: int, idle_s: float = IDLE_S) -> Cost:
    """Start a router with so many idle clients, publish through it, and then do nothing."""
    router = Child(route)
    idle: list[Child] = []
    try:
        url, pid = str(router.answer()), router.process.pid
        assert pid is not None
        for first in range(0, connections, CLIENTS_MAX):
            idle.append(Child(stay, url, min(CLIENTS_MAX, connections - first)))
        for child in idle:
            child.answer()
        with shoal.connect(url) as publisher, shoal.connect(url) as reader:
            subscription = reader.subscribe("load")
            publisher.wait_for_subscribers("load", timeout_s=30)
            publisher.publish("load", b"warm")
            assert subscription.receive(timeout_s=30) is not None
            before, began = cpu_s(pid), time.monotonic()
            for number in range(messages):
                publisher.publish("load", b"x" * 100)
                time.sleep(max(began + number / RATE - time.monotonic(), 0))
            for _ in range(messages):
                assert subscription.receive(timeout_s=30) is not None
            busy = cpu_s(pid) - before
            time.sleep(0.2)
            before, began = cpu_s(pid), time.monotonic()
            time.sleep(idle_s)
            share = (cpu_s(pid) - before) / (time.monotonic() - began)
        return Cost(connections, busy / messages * 1e6, share * 100)
    finally:
        for child in (*idle, router):
            child.end()


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--connections", type=int, nargs="+", default=[5, 500])
    parser.add_argument("--messages", type=int, default=10_000)
    parser.add_argument("--rounds", type=int, default=5)
    chosen = parser.parse_args()
    costs = [measure(count, chosen.messages) for _ in range(chosen.rounds) for count in chosen.connections]
    for count in chosen.connections:
        of_count = [cost for cost in costs if cost.connections == count]
        cpu = statistics.median(cost.cpu_us_per_message for cost in of_count)
        share = statistics.median(cost.idle_cpu_percent for cost in of_count)
        print(json.dumps(asdict(Cost(count, round(cpu, 1), round(share, 2)))))
