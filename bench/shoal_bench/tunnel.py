"""Two LANs joined over a long path that loses: how much of it a tunnel uses, and what a gateway costs.

A program of the near LAN publishes more than the path takes, and a program of the far LAN counts what comes.
Between them are two daemons and a relay: see `tunnel_lab`. Every message is checked.
"""

import contextlib
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from statistics import median
from typing import Any

from shoal.processes.daemon import DaemonProcess
from shoal.processes.worker import Worker
from shoal_bench.experiment import check_options, machine
from shoal_bench.rounds import Follow, alternate
from shoal_bench.sharing import Flow
from shoal_bench.tunnel_lab import FAR, FAR_PROGRAM, NEAR, NEAR_PROGRAM, WAN, Path, TunnelLab

SIDES, TCP_SIDES = "shoal_bench.tunnel_sides", "shoal_bench.sharing_sides"
NORM_PORT, TCP_PORT, BESIDE_PORT = 7475, 7476, 7477
PATIENCE_S = 60.0
#: What a tunnel by NORM is told; `docs/how-to/join-two-lans.md` has the same.
NORM_OPTIONS = "congestion=delivery&parity_symbols=16&auto_parity=2&backoff_factor=0&window_bytes=4194304"

_LAN = """\
[link.lan]
url = "norm://?interface=eth0"
"""


def _norm(near: bool) -> str:
    other = WAN[FAR if near else NEAR]
    return f'{_LAN}[link.far]\nurl = "norm://{other}:{NORM_PORT}?interface=wan0&{NORM_OPTIONS}"\n'


def _tcp(control: str) -> Callable[[bool], str]:
    def file(near: bool) -> str:
        word = "url" if near else "listen"
        where = f"tcp://{WAN[FAR]}:{TCP_PORT}"
        return f'{_LAN}[link.far]\n{word} = "{where}"\n[connection]\ntcp_congestion = "{control}"\n'

    return file


#: Kinds of tunnel, each with the file of its near and its far daemon.
TUNNELS: Mapping[str, Callable[[bool], str]] = {
    "norm": _norm,
    "tcp_cubic": _tcp("cubic"),
    "tcp_bbr": _tcp("bbr"),
}
#: Contests: the tunnel, if one runs, and whether a TCP connection of others runs beside it.
CONTESTS: Mapping[str, tuple[str | None, bool]] = {
    **{name: (name, False) for name in TUNNELS},
    "others_alone": (None, True),
    "norm_beside_others": ("norm", True),
}


@dataclass(frozen=True, kw_only=True)
class TunnelOptions:
    """One run of the benchmark."""

    rate_mbit_s: float = 50.0
    round_trip_ms: float = 40.0
    loss_percent: float = 1.0
    queue_ms: float = 50.0
    size: int = 1024
    rounds: int = 3
    #: How long each tunnel is used, and how much of its beginning does not count.
    seconds: float = 12.0
    warm_up_s: float = 3.0
    contests: tuple[str, ...] = tuple(CONTESTS)

    def __post_init__(self) -> None:
        checks = [
            (0.5 <= self.rate_mbit_s <= 200, "rate_mbit_s", "from 0.5 to 200: a relay in Python carries it"),
            (0 <= self.round_trip_ms <= 2000, "round_trip_ms", "from 0 to 2000"),
            (0 <= self.loss_percent <= 50, "loss_percent", "from 0 to 50"),
            (1 <= self.queue_ms <= 2000, "queue_ms", "from 1 to 2000"),
            (8 <= self.size <= 1 << 20, "size", f"from 8 to {1 << 20}"),
            (self.rounds >= 1, "rounds", "at least 1"),
            (set(self.contests) <= set(CONTESTS), "contests", f"any of {', '.join(CONTESTS)}"),
            (0 <= self.warm_up_s < self.seconds <= 600, "seconds", "more than the warm-up and at most 600"),
        ]
        check_options(self, checks)

    @property
    def path(self) -> Path:
        """What lies between."""
        return Path(
            rate_mbit_s=self.rate_mbit_s,
            round_trip_s=self.round_trip_ms / 1e3,
            loss=self.loss_percent / 100,
            queue_s=self.queue_ms / 1e3,
        )


def run(options: TunnelOptions, follow: Follow = lambda *_: None) -> dict[str, Any]:
    """Run all rounds and return the medians."""

    def told(figures: Mapping[str, float]) -> str:
        return ", ".join(f"{name} {value:.3g}" for name, value in figures.items())

    results = alternate(options.contests, options.rounds, lambda name: contest(options, name), told, follow)
    return summary(options, results)


def contest(options: TunnelOptions, name: str) -> dict[str, float]:
    """One tunnel, one connection of others, or both, through a path of their own."""
    tunnel, others = CONTESTS[name]
    with contextlib.ExitStack() as stack:
        lab = stack.enter_context(TunnelLab(options.path))
        daemons: list[DaemonProcess] = []
        programs: list[Worker] = []
        if tunnel is not None:
            for host, near in ((FAR, False), (NEAR, True)):
                daemon = DaemonProcess(TUNNELS[tunnel](near), within=lab.within(host))
                daemons.append(stack.enter_context(daemon))
            common = {"size": options.size, "seconds": options.seconds}
            for role, host in (("subscribe", FAR_PROGRAM), ("publish", NEAR_PROGRAM)):
                programs.append(stack.enter_context(Worker(SIDES, role, within=lab.within(host), **common)))
        beside = _others(stack, lab, options) if others else []
        for each in [*programs, *beside]:
            each.wait_progress(PATIENCE_S)
        cpu_before_s = [daemon.cpu_s() for daemon in daemons]
        for each in [*programs[1:], *beside[1:]]:
            each.tell()
        figures: dict[str, float] = {}
        if programs:
            subscriber, publisher = programs
            sent = publisher.result(options.seconds + PATIENCE_S)
            # While the daemons are still full of what the path did not take.
            resident_mb = max(daemon.resident_mb() for daemon in daemons)
            subscriber.tell()
            received = subscriber.result(PATIENCE_S)
            flow = Flow(name, sent["began_s"], received["samples"])
            mbit = flow.came_by(options.seconds) * 8 / 1e6
            cpu_s = sum(daemon.cpu_s() for daemon in daemons) - sum(cpu_before_s)
            figures |= {
                "share_of_link": _share(options, flow),
                "rss_mb": resident_mb,
                "cpu_per_mbit": cpu_s / max(mbit, 1e-9),
                "messages_lost": received["messages_lost"],
            }
        if beside:
            receiver, sender = beside
            began_s = sender.result(options.seconds + PATIENCE_S)["began_s"]
            flow = Flow("tcp", began_s, receiver.result(PATIENCE_S)["samples"])
            figures["others_share_of_link"] = _share(options, flow)
    return figures


def _share(options: TunnelOptions, flow: Flow) -> float:
    return flow.goodput_mbit_s(options.warm_up_s, options.seconds) / options.rate_mbit_s


def _others(stack: contextlib.ExitStack, lab: TunnelLab, options: TunnelOptions) -> list[Worker]:
    """A TCP connection between the gateways that has nothing to do with us: its receiver first."""
    common: dict[str, Any] = {
        "to": WAN[FAR],
        "port": BESIDE_PORT,
        "seconds": options.seconds,
        "control": "cubic",
    }
    ends = (("tcp receive", FAR), ("tcp send", NEAR))
    return [
        stack.enter_context(Worker(TCP_SIDES, role, within=lab.within(host), **common)) for role, host in ends
    ]


def summary(options: TunnelOptions, results: Mapping[str, list[dict[str, float]]]) -> dict[str, Any]:
    """Medians of what each contest showed."""
    result: dict[str, Any] = {}
    for name, rounds in results.items():
        result[name] = {key: median(each[key] for each in rounds) for key in rounds[0]}
        result[name]["rounds"] = rounds
    if tcp := [result[name] for name in ("tcp_cubic", "tcp_bbr") if name in result]:
        best = max(tcp, key=lambda figures: float(figures["share_of_link"]))
        result["tcp"] = {"share_of_link": best["share_of_link"]}
    if {"others_alone", "norm_beside_others"} <= result.keys():
        alone = result["others_alone"]["others_share_of_link"]
        beside = result["norm_beside_others"]["others_share_of_link"]
        result["others_keep"] = beside / max(alone, 1e-9)
    if "norm" in result:
        result |= {key: result["norm"][key] for key in ("rss_mb", "cpu_per_mbit")}
    return result | {
        "rate_mbit_s": options.rate_mbit_s,
        "round_trip_ms": options.round_trip_ms,
        "loss_percent": options.loss_percent,
        "queue_ms": options.queue_ms,
        "size": options.size,
        "rounds": options.rounds,
        "seconds": options.seconds,
        **machine(),
    }
