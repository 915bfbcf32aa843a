"""Runs cells of the FioranoMQ study: a node on one core, its load on the other, judged by the study's rules.

If the load is busier than the rules allow, the cell is repeated against a node with half a core, then a
quarter: what a message costs the node does not depend on how much of a core it may use.

| contestant | the node is | t_tx is paid |
|---|---|---|
| routed | a router between TCP connections, as the study's server was | for each copy |
| multicast | the publishers' own process | once |
| artemis | ActiveMQ Artemis, through its Java client | for each copy |
"""

import itertools
import time
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from math import isnan
from typing import Any

from shoal.processes.worker import Worker
from shoal_bench.errors import ExperimentError
from shoal_bench.norm import free_port
from shoal_bench.seeds.cell import Cell
from shoal_bench.seeds.frame import NOT_JUDGED, Note, Reading, Rig, Site
from shoal_bench.seeds.quota import limited
from shoal_bench.seeds.validity import Core, broken_rule, memory_used

SIDES = "shoal_bench.seeds.sides"
#: What the node may use of its core, tried in turn.
SHARES = (1.0, 0.5, 0.25)
#: The share of a run that is cut at both ends.
CUT = 0.05
START_S, END_S = 120.0, 180.0
#: For how long Artemis runs before its first cell.
WARM_S = 10.0


@dataclass(frozen=True)
class Measured:
    """What one run of a cell showed."""

    cell: Cell
    contestant: str
    #: Counts of each second.
    samples: tuple[dict[str, float], ...]
    #: The share of a core that the node was given.
    share: float
    #: The rule that it broke, if any.
    why: str | None

    @property
    def processing_s(self) -> float:
        """What a message cost the node in the middle of the run: processor time over messages received."""
        middle = _middle(self.samples)
        received = sum(sample["received"] for sample in middle)
        return sum(sample["cpu_s"] for sample in middle) / received if received else float("nan")

    @property
    def counts_filters(self) -> bool:
        """Whether the contestant tells how many filters it looked at."""
        return bool(self.samples) and self.contestant != "artemis"

    @property
    def overall_msg_s(self) -> float:
        """Messages received and sent in a second of a whole core."""
        return (self.cell.r + 1) / self.processing_s

    def reading(self) -> Reading:
        """The same as every experiment tells it."""
        evaluated = sum(sample["evaluated"] for sample in self.samples)
        received = sum(sample["received"] for sample in self.samples)
        figures: dict[str, float | None] = {
            "processing_us": self.processing_s * 1e6,
            "evaluated_per_message": evaluated / received if self.counts_filters else None,
            "overall_msg_s": self.overall_msg_s,
            "goodput_mbit_s": self.overall_msg_s * self.cell.size * 8 / 1e6,
            "share_of_core": self.share,
            "softirq_share": self._softirq_share(),
        }
        # A cell that is too short has no cost.
        told = {name: None if value is None or isnan(value) else value for name, value in figures.items()}
        return Reading(figures=told, why=self.why, samples=tuple(self._bodies()))

    def _softirq_share(self) -> float | None:
        """The share of the node's core that went to packets. Loopback charges some of it to the sender's."""
        took_s = sum(sample["took_s"] for sample in self.samples)
        told = [sample["softirq_s"] for sample in self.samples if "softirq_s" in sample]
        return sum(told) / took_s if told and took_s else None

    def _bodies(self) -> Iterator[Mapping[str, Any]]:
        for sample in self.samples:
            yield {
                "v": 1,
                "kind": self.cell.kind,
                "equal": self.cell.equal,
                "n": self.cell.n,
                "r": self.cell.r,
                "size": self.cell.size,
                "t_s": sample["t_s"],
                "received": int(sample["received"]),
                "dispatched": int(sample["dispatched"]),
                "evaluated": int(sample["evaluated"]),
                "matched": int(sample.get("matched", 0)),
                "bytes": int(sample.get("bytes", 0)),
                "cpu_s": sample["cpu_s"],
                "softirq_s": sample.get("softirq_s", 0.0),
                "quota": self.share,
                "valid": self.why is None,
                "why": self.why,
            }


def measure(cell: Cell, contestant: str, site: Site, note: Note) -> Reading:
    """Run a cell once, with as much of a core for the node as keeps the load below its limit."""
    learned = f"share of {contestant}"
    shares = SHARES if site.rig.strict and not site.hosts else SHARES[:1]
    measured: Measured | None = None
    for share in shares[shares.index(site.learned.get(learned, 1.0)) :]:
        note("" if share == 1.0 else f"with {share:g} of a core")
        try:
            measured = _run(cell, contestant, site, share)
        except PermissionError:
            if measured is None:
                raise
            break
        if measured.why is None or not measured.why.startswith("load"):
            break
        # The next cell's load will be as busy.
        site.learned[learned] = shares[min(shares.index(share) + 1, len(shares) - 1)]
    assert measured is not None
    return measured.reading()


def _run(cell: Cell, contestant: str, site: Site, share: float) -> Measured:
    busy = _Watch(site)
    samples = CONTESTANTS[contestant](cell, site, share, busy)
    seconds = deltas(samples)
    why: str | None = NOT_JUDGED
    if site.rig.strict:
        # What the kernel does for the node's packets is the node's work.
        own = [
            (sample["cpu_s"] + sample.get("softirq_s", 0.0)) / sample["took_s"] / share
            for sample in _middle(seconds)
        ]
        why = broken_rule(own, busy.shares[1:-1] or busy.shares, memory_used()) or site.busy_before
    return Measured(cell, contestant, tuple(seconds), share, why)


class _Watch:
    """How busy the load's core is, from sample to sample of the run."""

    def __init__(self, site: Site) -> None:
        self._site = site
        self.shares: list[float] = []

    def follow(self, wait: Callable[[float], object]) -> None:
        """Watch until the cell is over; `wait` takes seconds."""
        rig, core = self._site.rig, self._site.load_core
        if core is None:
            return
        began, before = time.monotonic(), Core.read(core)
        for number in range(1, int(rig.seconds / rig.every_s) + 1):
            wait(max(0.0, began + number * rig.every_s - time.monotonic()))
            now = Core.read(core)
            self.shares.append(now.busy_since(before))
            before = now


def _between_hosts(cell: Cell, site: Site, watch: _Watch) -> list[dict[str, float]]:
    """The same between hosts of agents. A load says itself how busy it was; there is no quota."""
    rig, server, clients = site.rig, site.hosts[0], site.hosts[-1]
    with server.start("node", every_s=rig.every_s, address=server.address) as node:
        node.wait_progress()
        urls = [f"tcp://{server.address}:{node.progress}"]
        with clients.start("load", cell=cell.to_json(), urls=urls, seconds=rig.seconds) as load:
            load.wait_progress(START_S)
            load.tell()
            watch.shares.append(load.result(rig.seconds + END_S)["busy"])
        node.tell()
        return list(node.result(30.0)["samples"])


def _routed(cell: Cell, site: Site, share: float, watch: _Watch) -> list[dict[str, float]]:
    rig = site.rig
    if site.hosts:
        return _between_hosts(cell, site, watch)
    with Worker(SIDES, "node", core=site.node_core, every_s=rig.every_s) as node:
        node.wait_progress()
        told: dict[str, Any] = {
            "cell": cell.to_json(),
            "urls": [f"tcp://127.0.0.1:{node.progress}"],
            "seconds": rig.seconds,
        }
        with limited(node.pid, share), Worker(SIDES, "load", core=site.load_core, **told) as load:
            load.wait_progress(START_S)
            load.tell()
            watch.follow(load.wait)
            load.result(rig.seconds + END_S)
        node.tell()
        return list(node.result(30.0)["samples"])


def _multicast(cell: Cell, site: Site, share: float, watch: _Watch) -> list[dict[str, float]]:
    rig = site.rig
    told: dict[str, Any] = {"cell": cell.to_json(), "port": free_port()}
    publishing: dict[str, Any] = {"core": site.node_core, "every_s": rig.every_s, "seconds": rig.seconds}
    with (
        Worker(SIDES, "receivers", core=site.load_core, **told) as receivers,
        Worker(SIDES, "publishers", **publishing, **told) as publishers,
    ):
        for side in (receivers, publishers):
            side.wait_progress(START_S)
        with limited(publishers.pid, share):
            publishers.tell()
            watch.follow(publishers.wait)
            sent = publishers.result(rig.seconds + END_S)
        receivers.tell()
        received = receivers.result(END_S)["received"]
    if received != sent["sent"] * cell.r:
        raise ExperimentError(
            f"{sent['sent']} messages were sent, and {received} of {sent['sent'] * cell.r} copies arrived"
        )
    return list(sent["samples"])


def _artemis(cell: Cell, site: Site, share: float, watch: _Watch) -> list[dict[str, float]]:
    from shoal_bench.peers.artemis_load import ArtemisLoad

    broker, rig = site.artemis, site.rig
    if "artemis is warm" not in site.learned:
        # The virtual machine compiles what it runs.
        site.learned["artemis is warm"] = True
        with ArtemisLoad(broker.port, cell, WARM_S, WARM_S, core=site.load_core) as load:
            load.wait_ready()
            load.begin(broker.cpu_s)
            load.samples(WARM_S + END_S)
    with ArtemisLoad(broker.port, cell, rig.seconds, rig.every_s, core=site.load_core) as load:
        load.wait_ready()
        with limited(broker.pid, share):
            load.begin(broker.cpu_s)
            watch.follow(load.wait)
            return load.samples(rig.seconds + END_S)


CONTESTANTS: Mapping[str, Callable[[Cell, Site, float, _Watch], list[dict[str, float]]]] = {
    "routed": _routed,
    "multicast": _multicast,
    "artemis": _artemis,
}


def deltas(samples: list[dict[str, float]]) -> list[dict[str, float]]:
    """What each second of traffic added; the seconds before and after it are left out."""
    moving = [
        {key: after[key] - before[key] for key in before if key != "at_s"}
        | {"took_s": after["at_s"] - before["at_s"]}
        for before, after in itertools.pairwise(samples)
    ]
    active = [sample for sample in moving if sample["received"] > 0]
    # The first and the last have traffic in a part of them only.
    whole = active[1:-1] if len(active) > 2 else active
    return [{**sample, "t_s": float(number)} for number, sample in enumerate(whole)]


def _middle(samples: tuple[dict[str, float], ...] | list[dict[str, float]]) -> list[dict[str, float]]:
    cut = int(len(samples) * CUT)
    return list(samples[cut : len(samples) - cut])


__all__ = ["CONTESTANTS", "Measured", "Rig", "deltas", "measure"]
