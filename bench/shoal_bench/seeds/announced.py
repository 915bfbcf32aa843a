"""What the FioranoMQ study only announces (its section 5): waiting times, and clusters of servers."""

import contextlib
import socket
from dataclasses import dataclass
from itertools import product
from statistics import mean
from typing import Any

from shoal.capacity import Replication, Waiting
from shoal.processes.daemon import DaemonProcess
from shoal.processes.worker import Worker
from shoal_bench.seeds.cell import Cell, Group
from shoal_bench.seeds.frame import NOT_JUDGED, Note, Reading, Site, Trial
from shoal_bench.seeds.rig import deltas
from shoal_bench.seeds.waiting_sides import SHARE, SUBSCRIBERS, copies_max

SIDES, NODE = "shoal_bench.seeds.waiting_sides", "shoal_bench.seeds.sides"
START_S, END_S = 120.0, 180.0
#: The load at which nothing waits: its delays are the base that is subtracted.
BASE_LOAD = 0.05
CALIBRATION_S = 2.0
#: The share of its rate that a publisher has to reach.
RATE_MIN = 0.95
LAWS = ("fixed", "all-or-none", "binomial")


@dataclass(frozen=True, kw_only=True)
class Wait(Trial):
    """A law of replication and a load."""

    law: str
    load: float


@dataclass(frozen=True)
class _Ran:
    """One run against a node."""

    processing_s: float
    load: float
    delays_s: list[float]
    #: Messages published in a second.
    rate: float


@dataclass(frozen=True)
class _Base:
    """What a law's messages cost, and their delay where nothing waits."""

    fixed_s: float
    send_s: float
    delay_s: float


def waiting(quick: bool) -> list[Wait]:
    """5, announced: how long messages wait, by load, with three laws of replication."""
    loads = (0.5, 0.8) if quick else (0.3, 0.5, 0.6, 0.7, 0.8, 0.9)
    return [
        Wait(experiment="fiorano-waiting", name=f"{law}-{load:g}", series=law, x=load, law=law, load=load)
        for law, load in product(LAWS, loads)
    ]


def measure_waiting(trial: Wait, _contestant: str, site: Site, note: Note) -> Reading:
    """Publish at Poisson times, and compare the waiting time with the model's."""
    key = f"base of {trial.law}"
    if key not in site.learned:
        note("calibrating")
        site.learned[key] = _calibrated(trial.law, site)
    base: _Base = site.learned[key]
    mean_copies = SHARE * SUBSCRIBERS
    rate = trial.load / (base.fixed_s + mean_copies * base.send_s)
    ran = _drive(trial.law, "law", rate, site.rig.seconds, site)
    waits = sorted(max(0.0, delay - base.delay_s) for delay in ran.delays_s)
    law = {
        "fixed": Replication.fixed(mean_copies),
        "all-or-none": Replication.all_or_none(mean_copies, SHARE),
        "binomial": Replication.binomial(mean_copies, SHARE),
    }[trial.law]
    told = Waiting.of(base.fixed_s, base.send_s, law, min(ran.load, 0.99))
    measured, p99 = mean(waits), waits[int(len(waits) * 0.99)]
    figures = {
        "load": ran.load,
        "mean_wait_us": measured * 1e6,
        "predicted_mean_us": told.mean_s * 1e6,
        "p99_wait_us": p99 * 1e6,
        "predicted_p99_us": told.quantile_s(0.99) * 1e6,
        "mean_bias": measured / told.mean_s - 1 if told.mean_s else None,
        "p99_bias": p99 / told.quantile_s(0.99) - 1 if told.quantile_s(0.99) else None,
    }
    why = None if site.rig.strict else NOT_JUDGED
    if why is None and ran.rate < RATE_MIN * rate:
        why = f"the publisher reached {ran.rate:,.0f} of {rate:,.0f} messages/s"
    return Reading(figures=figures, why=why or site.busy_before)


def _calibrated(law: str, site: Site) -> _Base:
    """Cost without copies and with as many as can be, from a saturated node; then the delay at a low load."""
    seconds = min(CALIBRATION_S, site.rig.seconds)
    none = _drive(law, "none", None, seconds, site)
    most = _drive(law, "most", None, seconds, site)
    send_s = max(0.0, (most.processing_s - none.processing_s) / copies_max(law))
    mean_s = none.processing_s + SHARE * SUBSCRIBERS * send_s
    quiet = _drive(law, "law", BASE_LOAD / mean_s, seconds, site)
    return _Base(none.processing_s, send_s, mean(quiet.delays_s))


def _drive(law: str, mix: str, rate: float | None, seconds: float, site: Site) -> _Ran:
    with Worker(NODE, "node", core=site.node_core, every_s=min(0.25, seconds / 4)) as node:
        node.wait_progress()
        url = f"tcp://127.0.0.1:{node.progress}"
        told: dict[str, Any] = {"law": law, "mix": mix, "rate": rate, "seconds": seconds, "seed": 1}
        core = site.load_core
        with (
            Worker(SIDES, "subscribe", core=core, url=url, law=law) as subscribers,
            Worker(SIDES, "publish", core=core, url=url, **told) as publisher,
        ):
            subscribers.wait_progress(START_S)
            publisher.wait_progress(START_S)
            publisher.tell()
            published = publisher.result(seconds + END_S)
            subscribers.tell()
            delays = subscribers.result(END_S)["delays_s"]
        node.tell()
        samples = deltas(node.result(END_S)["samples"])
    cpu_s = sum(sample["cpu_s"] for sample in samples)
    received = sum(sample["received"] for sample in samples)
    took_s = sum(sample["took_s"] for sample in samples)
    reached = published["sent"] / published["seconds"]
    return _Ran(cpu_s / max(1.0, received), cpu_s / max(took_s, 1e-9), delays, reached)


@dataclass(frozen=True, kw_only=True)
class Cluster(Trial):
    """Daemons that are all connected, and what passes them."""

    daemons: int
    cell: Cell


def cluster(quick: bool) -> list[Cluster]:
    """5, announced: messages through one, two and four daemons, each with its share of the programs."""
    grades = (4,) if quick else (1, 4, 16)
    return [
        Cluster(
            experiment="fiorano-cluster",
            name=f"d{daemons}-r{r}",
            series=f"r = {r}",
            x=daemons,
            daemons=daemons,
            cell=Cell(
                experiment="fiorano-cluster", name=f"r{r}", matching=(Group(count=r),), publishers=4, r=r
            ),
        )
        for r, daemons in product(grades, (1, 2, 4))
    ]


def measure_cluster(trial: Cluster, _contestant: str, site: Site, _note: Note) -> Reading:
    """Publish through all daemons as fast as they take it; all processes share this machine's cores."""
    ports = _free_ports(trial.daemons)
    seconds = site.rig.seconds
    with contextlib.ExitStack() as stack:
        daemons = [stack.enter_context(DaemonProcess(_file(number, ports))) for number in range(len(ports))]
        urls = [f"tcp://127.0.0.1:{port}" for port in ports]
        told: dict[str, Any] = {"cell": trial.cell.to_json(), "urls": urls, "seconds": seconds, "core": None}
        load = stack.enter_context(Worker(NODE, "load", **told))
        load.wait_progress(START_S)
        before_s = sum(daemon.cpu_s() for daemon in daemons)
        load.tell()
        done = load.result(seconds + END_S)
        used_s = sum(daemon.cpu_s() for daemon in daemons) - before_s
    figures = {
        "overall_msg_s": (done["sent"] + done["received"]) / done["seconds"],
        "processing_us": used_s / max(1, done["sent"]) * 1e6,
    }
    return Reading(figures=figures, why=None if site.rig.strict else NOT_JUDGED)


def _file(number: int, ports: list[int]) -> str:
    """The file of one daemon: it connects to those before it."""
    links = [f'[link.door]\nlisten = "tcp://127.0.0.1:{ports[number]}"\n']
    links += [f'[link.to{other}]\nurl = "tcp://127.0.0.1:{ports[other]}"\n' for other in range(number)]
    # As the study's server did, a daemon waits for a slow receiver.
    return f'name = "cluster-{number}"\n[connection]\nwhen_slow = "wait"\n' + "".join(links)


def _free_ports(count: int) -> list[int]:
    """Ports that nobody listens at, all different."""
    with contextlib.ExitStack() as stack:
        probes = [stack.enter_context(socket.socket()) for _ in range(count)]
        for probe in probes:
            probe.bind(("127.0.0.1", 0))
        return [int(probe.getsockname()[1]) for probe in probes]
