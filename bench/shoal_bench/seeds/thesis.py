"""The experiments of the thesis on FJM2 (its chapters 4 and 5): UDP, JMS, the LAN, the WAN and the code."""

import contextlib
import shutil
import subprocess
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import product
from pathlib import Path
from typing import Any

from shoal.processes.worker import Worker
from shoal_bench import fec as coding
from shoal_bench import tunnel
from shoal_bench.bodies import SIZE_MIN
from shoal_bench.errors import ExperimentError
from shoal_bench.lab import Lab
from shoal_bench.norm import free_port
from shoal_bench.seeds.frame import NOT_JUDGED, Note, Reading, Site, Trial

SIDES = "shoal_bench.seeds.thesis_sides"
NATIVE = Path(__file__).parents[1] / "peers" / "udp_native.c"
GROUP = "239.192.74.208"
#: 64 B to 64 KB. UDP carries at most 65,507 bytes.
SIZES = (64, 256, 1024, 2048, 4096, 8192, 16384, 32768, 65507)
QUICK_SIZES = (64, 1024, 16384)
LAN_MBIT_S = 100
PATIENCE_S = 120.0
#: Milliseconds of the thesis's table (4.2), by the block's KiB and the symbol's bytes. It has no decimals:
#: blocks that took 0 ms are left out.
FEC_MS = {
    (16, 512): 1.0,
    (32, 512): 6.0,
    (32, 1024): 2.0,
    (32, 1440): 1.0,
    (64, 512): 35.0,
    (64, 1024): 11.0,
    (64, 1440): 7.0,
}


@dataclass(frozen=True, kw_only=True)
class Transfer(Trial):
    """Messages of one size from one program to some."""

    size: int
    subscribers: int = 1
    #: `unicast` or `multicast`.
    route: str = "multicast"
    #: Whether hosts of a LAN are between them, or loopback.
    lan: bool = False


def udp_loop(quick: bool) -> list[Transfer]:
    """5.2: bare UDP on loopback by size, unicast and multicast, from Python and from C, and Shoal."""
    return list(_udp("udp-loop", quick, lan=False))


def udp_lan(quick: bool) -> list[Transfer]:
    """5.3: the same between two hosts of a 100 Mbit/s LAN."""
    return list(_udp("udp-lan", quick, lan=True))


def _udp(experiment: str, quick: bool, *, lan: bool) -> Iterator[Transfer]:
    for route, size in product(("unicast", "multicast"), QUICK_SIZES if quick else SIZES):
        yield Transfer(
            experiment=experiment,
            name=f"{route}-{size}",
            series=route,
            x=size,
            size=size,
            route=route,
            lan=lan,
        )


def jms_loop(quick: bool) -> list[Transfer]:
    """5.4: JMS with a listener on loopback, by size."""
    sizes = QUICK_SIZES if quick else SIZES
    return [Transfer(experiment="jms-loop", name=f"b{size}", x=size, size=size) for size in sizes]


def jms_lan(quick: bool) -> list[Transfer]:
    """5.5.1-2: JMS from one host to one, two and eight on a 100 Mbit/s LAN, by size."""
    grid = list(product((1, 2, 8), (64, 512, 1024, 4096, 16384, 65507)))
    if quick:
        grid = [(1, 4096), (2, 1024), (2, 4096)]
    return [
        Transfer(
            experiment="jms-lan",
            name=f"1to{width}-{size}",
            series=f"1 to {width}",
            x=size,
            size=size,
            subscribers=width,
            lan=True,
        )
        for width, size in grid
    ]


def measure_udp(trial: Transfer, contestant: str, site: Site, note: Note) -> Reading:
    """One transfer by Python's sockets, by C's, or by Shoal."""
    if contestant == "shoal":
        return measure_jms(trial, "bus", site, note)
    with contextlib.ExitStack() as stack:
        hosts = _hosts(stack, site, trial)
        native = _compiled(stack) if contestant == "native" else ""
        address = GROUP if trial.route == "multicast" else hosts.address(1)
        common = {
            "address": address,
            "port": free_port(),
            "size": trial.size,
            "multicast": trial.route == "multicast",
            "native": native,
        }

        def start(role: str, host: int) -> Worker:
            return stack.enter_context(
                Worker(SIDES, role, within=hosts.within(host), **common, **_timed(site, hosts, host))
            )

        receiver = start("udp receive", 1)
        receiver.wait_progress(PATIENCE_S)
        sender = start("udp send", 0)
        sender.wait_progress(PATIENCE_S)
        sender.tell()
        sent, got = sender.result(PATIENCE_S + site.rig.seconds), receiver.result(PATIENCE_S)
    figures = {
        "goodput_mbit_s": _mbit_s(got, trial.size),
        "messages_s": got["received"] / max(got["seconds"], 1e-9),
        "lost_share": 1 - got["received"] / max(1, sent["sent"]),
    }
    return Reading(figures=figures, why=_judged(site))


def _timed(site: Site, hosts: "_Hosts", host: int) -> dict[str, Any]:
    return {"seconds": site.rig.seconds, "interface": hosts.address(host)}


def measure_jms(trial: Transfer, contestant: str, site: Site, _note: Note) -> Reading:
    """One transfer through `shoal.jms`, through the bus, or through Artemis on one of the hosts."""
    if contestant.startswith("artemis"):
        return _measure_artemis(trial, contestant, site)
    with contextlib.ExitStack() as stack:
        hosts = _hosts(stack, site, trial)
        api = "bus" if contestant == "bus" else "jms"
        common: dict[str, Any] = {
            "api": api,
            "size": max(trial.size, SIZE_MIN),
            "seconds": site.rig.seconds,
            "subscribers": trial.subscribers,
        }
        port = free_port()
        if trial.route == "multicast":
            common |= {
                "url": f"norm://{GROUP}:{port}",
                "connection": {"interface": hosts.interface, "when_slow": "wait"},
            }
        else:
            common |= {"url": f"tcp://{hosts.address(0)}:{port}"}

        def start(role: str, host: int) -> Worker:
            more = {"listens": host == 0 and trial.route == "unicast"}
            return stack.enter_context(Worker(SIDES, role, within=hosts.within(host), **common, **more))

        publisher = start("publish", 0)
        listeners = [start("listen", 1 + number) for number in range(trial.subscribers)]
        for side in (*listeners, publisher):
            side.wait_progress(PATIENCE_S)
        publisher.tell()
        sent = publisher.result(PATIENCE_S + 2 * site.rig.seconds)
        for listener in listeners:
            listener.tell()
        got = [listener.result(PATIENCE_S) for listener in listeners]
    for each in got:
        if each["received"] != sent["sent"] or each["bad"]:
            raise ExperimentError(
                f"{sent['sent']} messages were sent: {each['received']} arrived, {each['bad']} out of order, "
                f"{each['lost']} reported as lost"
            )
    figures = {
        "goodput_mbit_s": min(_mbit_s(each, trial.size) for each in got),
        "messages_s": min(each["received"] / max(each["seconds"], 1e-9) for each in got),
        "rss_growth_mb": sent["rss_growth_mb"],
        "lost_share": 0.0,
    }
    return Reading(figures=figures, why=_judged(site))


def _measure_artemis(trial: Transfer, contestant: str, site: Site) -> Reading:
    from shoal_bench.peers import artemis_jms
    from shoal_bench.peers.artemis import Broker

    size = max(trial.size, SIZE_MIN)
    # As many as take about the time asked for.
    count = max(200, int(site.rig.seconds * min(60_000, 100e6 / 8 / size if trial.lan else 2e9 / 8 / size)))
    with contextlib.ExitStack() as stack:
        if not trial.lan:
            broker, hosts = site.artemis, _hosts(stack, site, trial)
        else:
            hosts = _hosts(stack, site, trial, spare=1)
            host = 0 if contestant == "artemis-near" else 1 + trial.subscribers
            broker = stack.enter_context(Broker(address=hosts.address(host), within=hosts.within(host)))
        reached = artemis_jms.transfer(
            broker.port,
            size,
            count,
            address=broker.address,
            publisher=hosts.within(0),
            subscribers=[hosts.within(1 + number) for number in range(trial.subscribers)],
            warm=min(artemis_jms.WARM, count),
        )
    figures = {
        "goodput_mbit_s": reached.msg_s * trial.size * 8 / 1e6,
        "messages_s": reached.msg_s,
        "rss_growth_mb": None,
        "lost_share": 0.0,
    }
    return Reading(figures=figures, why=_judged(site))


def jms_loop_published(_: Transfer) -> float:
    """The best of the thesis's four systems, SonicMQ: at its best size."""
    return 257.0


def udp_lan_published(trial: Transfer) -> float | None:
    """The peak, from 1 KB on."""
    return 90.0 if trial.size >= 1024 else None


@dataclass(frozen=True, kw_only=True)
class Tunnel(Trial):
    """Messages of one size over a path between two LANs."""

    size: int
    rate_mbit_s: float = 100.0


def wan(quick: bool) -> list[Tunnel]:
    """5.5.3: two LANs joined over a path of 100 Mbit/s, by size."""
    sizes = (1024,) if quick else (256, 1024, 4096, 16384)
    return [Tunnel(experiment="wan", name=f"b{size}", x=size, size=size) for size in sizes]


def measure_wan(trial: Tunnel, contestant: str, site: Site, _note: Note) -> Reading:
    """One tunnel by NORM or TCP."""
    options = tunnel.TunnelOptions(
        rate_mbit_s=trial.rate_mbit_s,
        round_trip_ms=1.0,
        loss_percent=0.0,
        size=trial.size,
        rounds=1,
        seconds=site.rig.seconds,
        warm_up_s=site.rig.seconds / 4,
    )
    found = tunnel.contest(options, contestant)
    figures = {
        "goodput_mbit_s": found["share_of_link"] * trial.rate_mbit_s,
        "share_of_path": found["share_of_link"],
        "daemon_rss_mb": found["rss_mb"],
        "messages_lost": found["messages_lost"],
    }
    return Reading(figures=figures, why=_judged(site))


@dataclass(frozen=True, kw_only=True)
class Coding(Trial):
    """A block of the thesis's table."""

    kib: int
    percent: int
    shape: coding.Shape


def fec(quick: bool) -> list[Coding]:
    """4.2: how long a block takes to encode, by its size and the size of a symbol."""
    every = [
        Coding(
            experiment="fec",
            name=f"{kib}K-{shape.symbol_bytes}-{percent}%",
            series=f"{shape.symbol_bytes} B, {percent} %",
            x=kib,
            kib=kib,
            percent=percent,
            shape=shape,
        )
        for kib, percent, shape in coding.thesis_shapes()
    ]
    return [cell for cell in every if cell.percent == 10 and cell.kib >= 16] if quick else every


def measure_fec(trial: Coding, contestant: str, site: Site, _note: Note) -> Reading:
    """Encode and decode the block, with our code or zfec's."""
    measured = coding.measure if contestant == "shoal" else coding.measure_zfec
    speed = measured(trial.shape, rounds=3, round_s=min(0.05, site.rig.seconds / 20))
    assert speed is not None
    gbit = trial.shape.source_bytes * 8 / 1e9
    figures = {
        "encode_ms": gbit / speed.encode_gbit_s * 1e3,
        "encode_gbit_s": speed.encode_gbit_s,
        "decode_gbit_s": speed.decode_gbit_s,
    }
    return Reading(figures=figures, why=_judged(site))


def fec_published(trial: Coding) -> float | None:
    """The thesis's table."""
    return FEC_MS.get((trial.kib, trial.shape.symbol_bytes))


class _Hosts:
    """Where sides run: in a lab, or all on this machine."""

    def __init__(self, lab: Lab | None) -> None:
        self._lab = lab
        self.interface = "lo" if lab is None else "eth0"

    def within(self, host: int) -> Sequence[str]:
        return () if self._lab is None else self._lab.within(host)

    def address(self, host: int) -> str:
        return "127.0.0.1" if self._lab is None else self._lab.address(host)


def _hosts(stack: contextlib.ExitStack, _site: Site, trial: Transfer, spare: int = 0) -> _Hosts:
    if not trial.lan:
        return _Hosts(None)
    return _Hosts(stack.enter_context(Lab(1 + trial.subscribers + spare, rate_mbit_s=LAN_MBIT_S)))


def _compiled(stack: contextlib.ExitStack) -> str:
    """The native program, compiled for the duration."""
    compiler = shutil.which("cc")
    if compiler is None:
        raise ExperimentError("there is no C compiler: install gcc")
    made = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="shoal-bench-"))) / "udp_native"
    subprocess.run([compiler, "-O2", "-o", str(made), str(NATIVE)], check=True)
    return str(made)


def _mbit_s(got: Mapping[str, Any], size: int) -> float:
    return float(max(0, got["received"] - 1) * size * 8 / max(got["seconds"], 1e-9) / 1e6)


def _judged(site: Site) -> str | None:
    return None if site.rig.strict else NOT_JUDGED
