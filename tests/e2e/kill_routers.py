"""Kills, stops and cuts off routers under load, and looks for messages that nobody accounts for.

    python tests/e2e/kill_routers.py --cycles 200 [--topology lans] [--fault kill] [--load flood] [--seed N]

Each cycle starts routers and programs, lets one fault happen, and compares what publishers say they published
with what readers got and were told. It looks for four things:

| finding | is |
|---|---|
| silent | a number that a reader neither got nor was told as lost, first and last ones included |
| doubled | a number that a reader got twice |
| disordered | a number that came after a later one of the same publisher |
| false success | `flush()` or `close()` said that everybody has everything, and the reader lacks a message |

Needs root for network namespaces. Ends with status 1 if there was a finding, and prints its cycle and seed.
"""

import argparse
import contextlib
import json
import random
import secrets
import signal
import socket
import sys
import time
from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import Any

import lab
from programs import HERE, Program

STOP_S = 6.0
CUT_S = 3.0
#: A router that was killed returns after a while between these.
RETURN_S = (1.3, 2.2)
#: A fault begins so long after the load, and the load goes on for so long after the fault.
BEFORE_S, AFTER_S = 2.0, 3.0
#: Readers have everything that they will get when nothing came for so long.
QUIET_S = 3.0


@dataclass(frozen=True)
class Place:
    """Where a program runs, and its links."""

    spec: dict[str, list[str]]
    prefix: tuple[str, ...] = ()

    def start(self, role: str) -> Program:
        """Start it, and wait until it has its links."""
        program = Program([str(HERE / "router_program.py"), role, json.dumps(self.spec)], prefix=self.prefix)
        program.answer()
        return program


@dataclass
class Network:
    """Routers, and the places of the publishers and of the readers."""

    routers: list[Place]
    publishers: Place
    readers: Place
    #: Pulls the cable of a router, and plugs it in again.
    cables: list[tuple[Callable[[], None], Callable[[], None]]] = field(default_factory=list)


# --- topologies ---


@contextlib.contextmanager
def two_lans() -> Iterator[Network]:
    """Two LANs with two routers between them, publishers on the one and readers on the other."""
    near, far = lab.Lab(3), lab.Lab(1)
    try:
        publisher, *routers = near.hosts
        (reader,) = far.hosts
        for number, host in enumerate(routers, 2):
            cable = f"{far.name}v{number}"
            lab.run(
                "ip", "link", "add", cable, "type", "veth", "peer", "name", "eth1", "netns", host.namespace
            )
            lab.run("ip", "link", "set", cable, "master", far.name, "up")
            host.ip("addr", "add", f"10.75.0.{number}/24", "dev", "eth1")
            host.ip("link", "set", "eth1", "up")
        both = {"connect": ["norm://?interface=eth0", "norm://?interface=eth1"]}
        one = {"connect": ["norm://?interface=eth0"]}
        yield Network(
            routers=[Place(both, host.prefix) for host in routers],
            publishers=Place(one, publisher.prefix),
            readers=Place(one, reader.prefix),
            cables=[(host.cut, host.mend) for host in routers],
        )
    finally:
        far.close()
        near.close()


def _free_ports(count: int) -> list[int]:
    with contextlib.ExitStack() as stack:
        sockets = [stack.enter_context(socket.socket()) for _ in range(count)]
        for each in sockets:
            each.bind(("127.0.0.1", 0))
        return [each.getsockname()[1] for each in sockets]


@contextlib.contextmanager
def ring() -> Iterator[Network]:
    """Three TCP routers, each linked with the next; publishers at the first and readers at the second."""
    urls = [f"tcp://127.0.0.1:{port}" for port in _free_ports(3)]
    routers = [Place({"listen": [url], "connect": [urls[(at + 1) % 3]]}) for at, url in enumerate(urls)]
    yield Network(routers, Place({"connect": [urls[0]]}), Place({"connect": [urls[1]]}))


@contextlib.contextmanager
def two_links() -> Iterator[Network]:
    """Two TCP routers that do not know each other, and programs with a link to each."""
    urls = [f"tcp://127.0.0.1:{port}" for port in _free_ports(2)]
    yield Network(
        [Place({"listen": [url]}) for url in urls], Place({"connect": urls}), Place({"connect": urls})
    )


TOPOLOGIES = {"lans": two_lans, "ring": ring, "links": two_links}
FAULTS = ("kill", "stop", "cut")
LOADS = ("steady", "flood")


# --- one cycle ---


@dataclass(frozen=True)
class Plan:
    """What happens in a cycle."""

    topology: str
    fault: str
    load: str
    #: Publishers that say three messages and leave.
    short: bool = True
    #: Readers that come, with a selector, while a router is away.
    late: bool = True

    @staticmethod
    def draw(chance: random.Random, **chosen: str | None) -> "Plan":
        """One of all, as far as it is not chosen."""
        topology = chosen.get("topology") or chance.choice(list(TOPOLOGIES))
        faults = FAULTS if topology == "lans" else ("kill", "stop")
        return Plan(
            topology=topology,
            fault=chosen.get("fault") or chance.choice(faults),
            load=chosen.get("load") or chance.choice(LOADS),
        )


@dataclass
class Findings:
    """What a cycle showed; each a line for people."""

    silent: list[str] = field(default_factory=list)
    doubled: list[str] = field(default_factory=list)
    disordered: list[str] = field(default_factory=list)
    false_success: list[str] = field(default_factory=list)
    #: Not a finding: how many messages were read, and how many publishers there were.
    read: int = 0
    publishers: int = 0

    @property
    def kinds(self) -> list[str]:
        """Those that there are."""
        return [kind for kind in ("silent", "doubled", "disordered", "false_success") if getattr(self, kind)]


def cycle(plan: Plan, seed: int) -> Findings:
    """Start everything, let one fault happen, and look."""
    chance = random.Random(seed)
    with contextlib.ExitStack() as stack, TOPOLOGIES[plan.topology]() as network:
        programs: list[Program] = []
        stack.callback(lambda: [program.kill() for program in programs])

        def start(place: Place, role: str) -> Program:
            programs.append(place.start(role))
            return programs[-1]

        routers = [start(place, "route") for place in network.routers]
        reader, publisher = start(network.readers, "read"), start(network.publishers, "publish")
        # Routers have to know of each other, and of the reader, before anything may be missing.
        time.sleep(BEFORE_S)
        publisher.ask("begin", flood=plan.load == "flood", short=plan.short)
        time.sleep(BEFORE_S)
        victim = chance.randrange(len(routers))
        _break(plan, network, routers, victim, reader, chance, start)
        time.sleep(AFTER_S)
        records = publisher.ask("end")["records"]
        _wait_quiet(reader)
        readings = reader.ask("end")["readings"]
    return judge(records, readings)


def _break(
    plan: Plan,
    network: Network,
    routers: list[Program],
    victim: int,
    reader: Program,
    chance: random.Random,
    start: Callable[[Place, str], Program],
) -> None:
    """One fault, from its beginning to its end."""

    def come_late() -> None:
        if plan.late:
            time.sleep(chance.random())
            reader.ask("late")

    if plan.fault == "kill":
        routers[victim].kill()
        come_late()
        time.sleep(chance.uniform(*RETURN_S))
        start(network.routers[victim], "route")
    elif plan.fault == "stop":
        routers[victim].signal(signal.SIGSTOP)
        come_late()
        time.sleep(STOP_S)
        routers[victim].signal(signal.SIGCONT)
    else:
        cut, mend = network.cables[victim]
        cut()
        come_late()
        time.sleep(CUT_S)
        mend()


def _wait_quiet(reader: Program) -> None:
    count, since = -1, time.monotonic()
    while time.monotonic() < since + QUIET_S:
        if (now := reader.ask("count")["count"]) != count:
            count, since = now, time.monotonic()
        time.sleep(0.1)


# --- the checkers ---


def missing(wanted: range, runs: list[list[int]]) -> set[int]:
    """The numbers of a range that are in none of the runs."""
    left = set(wanted)
    for first, last in runs:
        left.difference_update(range(first, last + 1))
    return left


def judge(records: list[dict[str, Any]], readings: list[dict[str, Any]]) -> Findings:
    """Compare what publishers say with what readers got; the first reader was there before them."""
    found = Findings(publishers=len(records))
    for at, reading in enumerate(readings):
        who = "the reader" if at == 0 else f"late reader {at} ({reading['selector']})"
        for publisher, number in reading["doubled"]:
            found.doubled.append(f"{who} got {number} of {publisher:x} twice")
        for publisher, number in reading["disordered"]:
            found.disordered.append(f"{who} got {number} of {publisher:x} after a later one")
        found.read += sum(last - first + 1 for runs in reading["runs"].values() for first, last in runs)
        for record in records:
            _judge_one(found, who, reading, record, is_first=at == 0)
    return found


def _judge_one(
    found: Findings, who: str, reading: dict[str, Any], record: dict[str, Any], *, is_first: bool
) -> None:
    publisher = record["publisher"]
    runs = reading["runs"].get(str(publisher), [])
    if is_first:
        wanted = range(1, record["sent"] + 1)
    elif runs:
        # Nobody knows with which number it began. With the selector it gets every other one.
        wanted = range(runs[0][0], runs[-1][1] + 1, 2)
    else:
        return
    lacks = missing(wanted, runs)
    name = f"{record['kind']} publisher {publisher:x}, {record['sent']} published"
    if lacks and is_first and record["confirmed"]:
        found.false_success.append(f"{name}: confirmed, and {who} lacks {_text(lacks)}")
    for told, first, last in reading["told"]:
        if told == publisher:
            # Which ones, it may not know.
            lacks -= set(range(first, last + 1)) if first else lacks
    if lacks:
        found.silent.append(f"{name}: {who} lacks {_text(lacks)}, and was not told")


def _text(numbers: set[int]) -> str:
    return f"{len(numbers)} of {min(numbers)} to {max(numbers)}"


# --- all of them ---


def run(plans: list[Plan], seed: int) -> list[Findings]:
    """One cycle for each plan; a line for each."""
    results = []
    for number, plan in enumerate(plans):
        found = cycle(plan, seed + number)
        results.append(found)
        line = {
            "cycle": number, "seed": seed + number, "topology": plan.topology, "fault": plan.fault,
            "load": plan.load, "read": found.read, "publishers": found.publishers,
        }  # fmt: skip
        line |= {kind: getattr(found, kind)[:5] for kind in found.kinds}
        print(json.dumps(line), flush=True)
    return results


def main() -> int:
    """The command line."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--cycles", type=int, default=200)
    parser.add_argument("--seed", type=int, default=None)
    parser.add_argument("--topology", choices=TOPOLOGIES)
    parser.add_argument("--fault", choices=FAULTS)
    parser.add_argument("--load", choices=LOADS)
    chosen = parser.parse_args()
    if (problem := lab.problem()) is not None:
        parser.error(problem)
    if chosen.fault == "cut" and chosen.topology not in (None, "lans"):
        parser.error("cables are cut between LANs: --topology lans")
    topology = "lans" if chosen.fault == "cut" else chosen.topology
    seed = secrets.randbits(31) if chosen.seed is None else chosen.seed
    plans = [
        Plan.draw(random.Random(seed + number), topology=topology, fault=chosen.fault, load=chosen.load)
        for number in range(chosen.cycles)
    ]
    results = run(plans, seed)
    kinds = Counter(kind for found in results for kind in found.kinds)
    read = sum(found.read for found in results)
    print(f"{len(results)} faults, {read:,} messages read; cycles with findings: {dict(kinds) or 'none'}")
    return 1 if kinds else 0


if __name__ == "__main__":
    sys.exit(main())
