"""Rate control on a real bottleneck: hosts behind one router whose queue drops what it cannot hold.

Every flow goes from a host of its own to one receiving host, and the router stands before that host. The
receivers' counts make the shares; what the senders' control did meanwhile is kept for whoever asks why.
"""

import contextlib
import itertools
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from statistics import median
from typing import Any

from shoal.processes.worker import Worker
from shoal_bench.experiment import check_options, machine
from shoal_bench.lab import Lab
from shoal_bench.rounds import Follow, alternate

SIDES = "shoal_bench.sharing_sides"
GROUP = "239.192.74.207"
PORT = 7476
#: Where all flows end, and where they begin.
RECEIVER, SENDERS = 0, (1, 2)
#: What a full frame spends on its own header.
FRAME_HEADER_BYTES, FRAME_PAYLOAD_BYTES = 14, 1500
#: Fills a frame of 1500 bytes.
SEGMENT_BYTES = 1432
#: Goodput at the start is looked at in steps this long.
STEP_S = 0.1
PATIENCE_S = 30.0

NORM_CC: Mapping[str, Any] = {"congestion": "norm_cc", "cache_bytes": 16 << 20}


def window(receiver_node: int) -> Mapping[str, Any]:
    """A publisher nothing paces but its receiver's window; the bus has the same."""
    return {"ackers": [receiver_node], "window_bytes": 1 << 20, "cache_bytes": 4 << 20, "backoff_factor": 1}


#: What runs beside what: the flows of each contest.
CONTESTS: Mapping[str, Sequence[str]] = {
    "alone": ("norm_cc",),
    "beside_tcp": ("norm_cc", "tcp"),
    "two_norm_cc": ("norm_cc", "norm_cc"),
    "unpaced_alone": ("unpaced",),
    "unpaced_beside_tcp": ("unpaced", "tcp"),
}


@dataclass(frozen=True, kw_only=True)
class SharingOptions:
    """One run of the benchmark."""

    rate_mbit_s: float = 30.0
    #: How long a packet waits in the router's queue when it is full.
    queue_ms: float = 50.0
    rounds: int = 3
    #: How long each flow runs, and how much of its beginning does not count.
    seconds: float = 20.0
    warm_up_s: float = 5.0
    #: What the kernel's TCP does.
    tcp: str = "cubic"
    contests: tuple[str, ...] = tuple(CONTESTS)

    def __post_init__(self) -> None:
        checks = [
            (0.1 <= self.rate_mbit_s <= 1000, "rate_mbit_s", "from 0.1 to 1000"),
            (1 <= self.queue_ms <= 2000, "queue_ms", "from 1 to 2000"),
            (self.rounds >= 1, "rounds", "at least 1"),
            (set(self.contests) <= set(CONTESTS), "contests", f"any of {', '.join(CONTESTS)}"),
            (0 <= self.warm_up_s < self.seconds <= 600, "seconds", "more than the warm-up and at most 600"),
        ]
        check_options(self, checks)

    @property
    def payload_mbit_s(self) -> float:
        """What full frames can carry: IP headers and all above them."""
        return self.rate_mbit_s * FRAME_PAYLOAD_BYTES / (FRAME_PAYLOAD_BYTES + FRAME_HEADER_BYTES)


@dataclass(frozen=True)
class Flow:
    """One sender and its receiver, and how it went."""

    name: str
    began_s: float
    samples: Sequence[Sequence[float]]
    stats: Mapping[str, int] = field(default_factory=dict)
    trace: Sequence[Mapping[str, float]] = ()

    def goodput_mbit_s(self, from_s: float, to_s: float) -> float:
        """What came between two times after the beginning, per second."""
        came = self.came_by(to_s) - self.came_by(from_s)
        return came * 8 / (to_s - from_s) / 1e6

    def came_by(self, after_s: float) -> float:
        """Bytes that had come so long after the beginning."""
        return max((count for at, count in self.samples if at <= self.began_s + after_s), default=0)

    def time_to_mbit_s(self, wanted_mbit_s: float, seconds: float) -> float:
        """When goodput first reached a rate for the length of a step; `seconds` if it never did."""
        steps = int(seconds / STEP_S)
        for step in range(steps):
            if self.goodput_mbit_s(step * STEP_S, (step + 1) * STEP_S) >= wanted_mbit_s:
                return (step + 1) * STEP_S
        return seconds

    @property
    def repairs_share(self) -> float:
        """Segments sent again, as a share of the segments sent."""
        return self.stats["repairs_sent"] / max(1, self.stats["segments_sent"])


def run(options: SharingOptions, follow: Follow = lambda *_: None) -> dict[str, Any]:
    """Run all rounds and return the medians."""
    with Lab(1 + len(SENDERS), rate_mbit_s=None) as lab:
        lab.narrow(RECEIVER, rate_mbit_s=options.rate_mbit_s, queue_s=options.queue_ms / 1000)

        def told(flows: Sequence[Flow]) -> str:
            rates = (flow.goodput_mbit_s(options.warm_up_s, options.seconds) for flow in flows)
            return " and ".join(f"{rate:.1f} Mbit/s" for rate in rates)

        results = alternate(
            options.contests, options.rounds, lambda name: contest(lab, options, CONTESTS[name]), told, follow
        )
    return summary(options, results)


def contest(lab: Lab, options: SharingOptions, kinds: Sequence[str]) -> list[Flow]:
    """Flows that begin at the same time, one from each sending host."""
    with contextlib.ExitStack() as stack:
        pairs = []
        for number, (kind, host) in enumerate(zip(kinds, SENDERS, strict=False)):
            pairs.append(_start(stack, lab, options, kind, host, number))
        for side in itertools.chain(*pairs):
            side.wait_progress()
        for _, sender in pairs:
            sender.tell()
        flows = []
        for kind, (receiver, sender) in zip(kinds, pairs, strict=True):
            sent = sender.result(options.seconds + PATIENCE_S)
            if kind != "tcp":
                receiver.tell()
            received = receiver.result(PATIENCE_S)
            flows.append(
                Flow(
                    kind,
                    sent["began_s"],
                    received["samples"],
                    sent.get("stats", {}),
                    sent.get("trace", ()),
                )
            )
    return flows


def _start(
    stack: contextlib.ExitStack, lab: Lab, options: SharingOptions, kind: str, host: int, number: int
) -> tuple[Worker, Worker]:
    """Both processes of a flow: the receiver first."""
    common: dict[str, Any] = {"port": PORT + number, "seconds": options.seconds}
    sender_node, receiver_node = 10 + number, 20 + number
    if kind == "tcp":
        protocol = "tcp"
        common |= {"to": lab.address(RECEIVER), "control": options.tcp}
    else:
        protocol = "norm"
        norm = NORM_CC if kind == "norm_cc" else window(receiver_node)
        common |= {"group": GROUP, "segment_bytes": SEGMENT_BYTES, "norm": norm}

    def side(role: str, at: int, node: int) -> Worker:
        worker = Worker(SIDES, f"{protocol} {role}", within=lab.within(at), node=node, seed=node, **common)
        return stack.enter_context(worker)

    return side("receive", RECEIVER, receiver_node), side("send", host, sender_node)


def summary(options: SharingOptions, results: Mapping[str, Sequence[Sequence[Flow]]]) -> dict[str, Any]:
    """Medians of what each contest showed."""
    result: dict[str, Any] = {}
    for name, rounds in results.items():
        figures = [_figures(options, flows) for flows in rounds]
        result[name] = {key: median(each[key] for each in figures) for key in figures[0]}
        result[name]["rounds"] = figures
    return result | {
        "rate_mbit_s": options.rate_mbit_s,
        "queue_ms": options.queue_ms,
        "payload_mbit_s": options.payload_mbit_s,
        "segment_bytes": SEGMENT_BYTES,
        "tcp": options.tcp,
        "rounds": options.rounds,
        "seconds": options.seconds,
        **machine(),
    }


def _figures(options: SharingOptions, flows: Sequence[Flow]) -> dict[str, float]:
    """Of one round of one contest."""
    rates = [flow.goodput_mbit_s(options.warm_up_s, options.seconds) for flow in flows]
    first = flows[0]
    figures = {
        "goodput_mbit_s": rates[0],
        "share_of_payload": sum(rates) / options.payload_mbit_s,
        "repairs_share": first.repairs_share,
        "time_to_half_s": first.time_to_mbit_s(options.payload_mbit_s / 2 / len(flows), options.seconds),
    }
    if len(flows) > 1:
        other = "tcp_mbit_s" if flows[1].name == "tcp" else "other_mbit_s"
        figures |= {other: rates[1], "ratio": rates[0] / max(rates[1], 1e-9)}
    return figures
