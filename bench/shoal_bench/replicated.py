"""What survives the loss of a disk: three stores with one log, beside one store and JetStream with three.

All servers are on this machine and share its cores and its disk, so the figures say what replication costs
here, and not what three machines do. Every contestant syncs a message to its disk before it counts.
"""

import contextlib
import json
import os
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from statistics import median
from typing import Any

import shoal
from shoal.errors import ShoalError
from shoal.processes.children import ending_with_us
from shoal.processes.store import StoreProcess
from shoal.processes.worker import Worker
from shoal_bench.availability import NATS, NATS_SERVER, Needs, check_peers
from shoal_bench.cpu import process_cpu_s
from shoal_bench.errors import ExperimentError
from shoal_bench.experiment import check_options
from shoal_bench.persistent_sides import PATIENCE_S, QUEUE
from shoal_bench.rounds import Follow, alternate

SIDES = "shoal_bench.persistent_sides"
NEEDS: Needs = {"nats": (NATS, NATS_SERVER)}
PEERS = tuple(NEEDS)
MEMBERS = ("a", "b", "c")
#: A group is founded and has an owner within this time.
FOUNDED_S = 60.0


@dataclass(frozen=True, kw_only=True)
class ReplicatedOptions:
    """One run of the benchmark."""

    peers: tuple[str, ...] = PEERS
    rounds: int = 5
    #: Bytes of a body.
    size: int = 1024
    #: Publishers, a process each.
    publishers: int = 8
    #: No publisher sends for longer.
    seconds: float = 3.0
    #: Messages of each publisher, at the most.
    messages: int = 20_000
    #: How many are on their way, for publishers that do not wait for each.
    window: int = 1000
    #: How often the owner is killed while a publisher waits for each message; 0 leaves that out.
    kills: int = 10
    #: Where everything is, on the disk to be measured; none is the directory for temporary files.
    directory: str | None = None

    def __post_init__(self) -> None:
        counts = ("rounds", "publishers", "messages", "window")
        check_options(self, [(getattr(self, name) >= 1, name, "at least 1") for name in counts])
        check_options(
            self,
            [
                (self.seconds > 0, "seconds", "more than 0"),
                (self.size >= 8, "size", "at least 8"),
                (self.kills >= 0, "kills", "at least 0, which leaves it out"),
            ],
        )
        check_peers(self.peers, NEEDS)


def run(options: ReplicatedOptions, follow: Follow = lambda *_: None) -> dict[str, Any]:
    """Run everything and return the figures."""
    names = ["shoal", "shoal_alone", *options.peers]
    with tempfile.TemporaryDirectory(dir=options.directory, prefix="shoal-bench-") as made:
        path = Path(made)

        def measured(what: str, window: int) -> dict[str, Any]:
            def told(reached: dict[str, float]) -> str:
                return f"{what} {reached['msg_s']:,.0f} messages/s"

            rounds = alternate(
                names, options.rounds, lambda name: _sending(options, name, path, window), told, follow
            )
            return _compared(rounds)

        try:
            result: dict[str, Any] = {
                "waiting": measured("waiting for each:", 0),
                "windowed": measured("windowed:", options.window),
            }
            if options.kills:
                result["owner_killed"] = _killed(options, path)
        except ShoalError as error:
            raise ExperimentError(str(error)) from error
    return result | {"rounds": options.rounds, "cores": os.cpu_count(), "load_1min": os.getloadavg()[0]}


def _compared(rounds: dict[str, list[dict[str, float]]]) -> dict[str, Any]:
    figures: dict[str, Any] = {
        name: {figure: median(one[figure] for one in reached) for figure in reached[0]}
        for name, reached in rounds.items()
    }
    figures["ratio_to_one_store"] = figures["shoal"]["msg_s"] / figures["shoal_alone"]["msg_s"]
    if "nats" in figures:
        figures["ratio_to_nats"] = figures["shoal"]["msg_s"] / figures["nats"]["msg_s"]
    return figures


class Group:
    """Three stores of one group, each a process."""

    def __init__(self, directory: Path) -> None:
        self._directory = directory
        self.domain = f"bench-{os.urandom(4).hex()}"
        self._running: dict[str, subprocess.Popen[bytes]] = {}

    def __enter__(self) -> "Group":
        for name in MEMBERS:
            self.start(name)
        self.owner()
        return self

    def __exit__(self, *_: object) -> None:
        for process in self._running.values():
            process.kill()
            process.wait()

    def start(self, name: str) -> None:
        """Start one of them."""
        command = [sys.executable, "-m", "shoal.cli", "store", "--data", str(self._directory / name)]
        command += ["--domain", self.domain, "--interface", "lo", "--group", "bench", "--name", name]
        command += ["--bootstrap", "3"] if name == MEMBERS[0] else []
        with (self._directory / f"{name}.log").open("ab") as log:
            self._running[name] = subprocess.Popen(ending_with_us(command), stdout=log, stderr=log)

    def kill(self, name: str) -> None:
        """End one as a power cut would."""
        process = self._running.pop(name)
        process.kill()
        process.wait()

    def owner(self) -> str:
        """Which one owns the group, waited for."""
        until = time.monotonic() + FOUNDED_S
        while time.monotonic() < until:
            for name, process in self._running.items():
                with contextlib.suppress(OSError, ValueError):
                    found = json.loads((self._directory / name / "group-status.json").read_text())
                    if found["pid"] == process.pid and found["state"] == "owner":
                        return name
            time.sleep(0.05)
        raise ExperimentError("no store owns the group")

    def cpu_s(self) -> float:
        """Processor time of all."""
        return sum(process_cpu_s(process.pid) for process in self._running.values())


@contextlib.contextmanager
def _contestant(name: str, path: Path) -> Iterator[tuple[dict[str, Any], Callable[[], float]]]:
    """Servers; gives what clients need to know, and their processor time."""
    with tempfile.TemporaryDirectory(dir=path) as made:
        directory = Path(made)
        if name == "shoal":
            with Group(directory) as group:
                yield {"contestant": "shoal", "domain": group.domain}, group.cpu_s
        elif name == "shoal_alone":
            with StoreProcess(directory / "data", record="bench-records-nothing", flight=False) as store:
                yield {"contestant": "shoal", "domain": store.domain}, store.cpu_s
        else:
            from shoal_bench.peers import jetstream

            ports = _free_ports(6)
            with jetstream.cluster(ports[:3], ports[3:], directory) as cpu_s:
                yield {"contestant": "nats", "port": ports[0]}, cpu_s


def _free_ports(count: int) -> list[int]:
    """Ports that no program uses, each another one."""
    with contextlib.ExitStack() as stack:
        sockets = [stack.enter_context(socket.socket()) for _ in range(count)]
        for each in sockets:
            each.bind(("127.0.0.1", 0))
        return [each.getsockname()[1] for each in sockets]


def _sending(options: ReplicatedOptions, name: str, path: Path, window: int) -> dict[str, float]:
    with _contestant(name, path) as (where, cpu_s), contextlib.ExitStack() as stack:
        order = {**where, "count": options.messages, "window": window, "size": options.size, "kind": "queue"}
        order["seconds"] = options.seconds
        workers = [stack.enter_context(Worker(SIDES, "publish", **order)) for _ in range(options.publishers)]
        for worker in workers:
            worker.wait_progress(PATIENCE_S)
        before_s = cpu_s()
        for worker in workers:
            worker.tell()
        spans = [worker.result(PATIENCE_S) for worker in workers]
        seconds = max(span["ended"] for span in spans) - min(span["began"] for span in spans)
        sent = sum(span["sent"] for span in spans)
        server_s = cpu_s() - before_s
        if "domain" in where:
            _check(where["domain"], sent)
    clients_s = sum(span["cpu_s"] for span in spans)
    return {
        "msg_s": sent / seconds,
        "server_cpu_s_per_million": server_s / sent * 1e6,
        "client_cpu_s_per_million": clients_s / sent * 1e6,
    }


def _check(domain: str, count: int) -> None:
    with shoal.connect(domain=domain, interface="lo") as bus:
        found = bus.queue(QUEUE).purge()
    if found != count:
        raise ExperimentError(f"{found} of {count} messages are in the queue")


def _killed(options: ReplicatedOptions, path: Path) -> dict[str, Any]:
    """Kill the owner again and again: how long a publisher that waits for each message hears nothing."""
    silences = []
    with contextlib.ExitStack() as stack:
        made = stack.enter_context(tempfile.TemporaryDirectory(dir=path))
        group = stack.enter_context(Group(Path(made)))
        bus = stack.enter_context(shoal.connect(domain=group.domain, interface="lo"))
        queue, sent = bus.queue(QUEUE), 0

        def send_for(seconds: float) -> float:
            """The longest time without an answer."""
            nonlocal sent
            longest, last = 0.0, time.monotonic()
            until = last + seconds
            while last < until:
                queue.send(bytes(options.size))
                sent += 1
                now = time.monotonic()
                longest, last = max(longest, now - last), now
            return longest

        for _ in range(options.kills):
            owner = group.owner()
            send_for(1.0)
            group.kill(owner)
            silences.append(send_for(2.0))
            group.start(owner)
        _check(group.domain, sent)
    silences.sort()
    return {
        "kills": len(silences),
        "silence_s_median": median(silences),
        "silence_s_max": silences[-1],
        "messages": sent,
        "lost": 0,
    }
