"""NORM goodput: one stream between two processes on loopback multicast, beside libnorm and the bare kernel.

With parity, Shoal runs without as well, and libnorm has the same blocks and as much parity.
Contestants alternate within a run, and every byte is compared at the receiver. Loss is made at the receiver,
by dropping datagrams at random before the protocol sees them; each contestant does that with its own means.
"""

import socket
from collections.abc import Callable
from dataclasses import dataclass, field
from statistics import median
from typing import Any

from shoal.config.keys import new_key
from shoal.processes.worker import Worker
from shoal_bench.availability import LIBNORM, Needs, check_peers
from shoal_bench.errors import ExperimentError
from shoal_bench.experiment import check_options, machine

SIDES = "shoal_bench.norm_sides"
GROUP = "239.192.74.202"
NEEDS: Needs = {"libnorm": (LIBNORM,)}
PEERS = tuple(NEEDS)
FEC = ("none", "rs")
#: Shoal without parity, beside Shoal with it.
NO_CODE = "shoal_no_code"
#: Shoal without a key, beside Shoal with one.
NO_KEY = "shoal_no_key"
#: Moved before the rounds, to warm up and to learn how much fills the time asked for.
WARM_UP_BYTES = {"shoal": 200_000_000, NO_CODE: 200_000_000, NO_KEY: 200_000_000, "libnorm": 20_000_000}
KERNEL_SECONDS_MAX = 1.0

#: Told which contestant runs in which round, and how fast it was once that is known.
Follow = Callable[[int, str, float | None], None]


@dataclass(frozen=True, kw_only=True)
class NormOptions:
    """One run of the benchmark."""

    segment_bytes: int = 1400
    #: Share of datagrams dropped at the receiver.
    loss_percent: float = 0.0
    #: Whether blocks have Reed-Solomon parity, how much of it follows each unasked, and how long they are.
    fec: str = "none"
    parity_symbols: int = 8
    block_symbols: int = 64
    #: Whether Shoal's datagrams are encrypted; then it runs without as well.
    key: bool = False
    peers: tuple[str, ...] = PEERS
    rounds: int = 5
    #: About how long each transfer takes.
    seconds: float = 2.0
    #: How much each transfer moves; given, it takes as long as it takes.
    bytes: int | None = None

    def __post_init__(self) -> None:
        checks = [
            (16 <= self.segment_bytes <= 60_000, "segment_bytes", "from 16 to 60000"),
            (0 <= self.loss_percent < 100, "loss_percent", "from 0 to less than 100"),
            (self.fec in FEC, "fec", f"one of {', '.join(FEC)}"),
            (1 <= self.block_symbols <= 254, "block_symbols", "from 1 to 254"),
            (
                1 <= self.parity_symbols <= 255 - self.block_symbols,
                "parity_symbols",
                f"from 1 to {255 - self.block_symbols}, so that a block has at most 255 symbols",
            ),
            (self.rounds >= 1, "rounds", "at least 1"),
            (0 < self.seconds <= 600, "seconds", "more than 0 and at most 600"),
            (self.bytes is None or self.bytes > 0, "bytes", "more than 0"),
        ]
        check_options(self, checks)
        check_peers(self.peers, NEEDS)

    @property
    def contestants(self) -> tuple[str, ...]:
        """Who takes turns; Shoal as asked for comes first."""
        plain = (*((NO_CODE,) if self.fec == "rs" else ()), *((NO_KEY,) if self.key else ()))
        return ("shoal", *plain, *self.peers)


@dataclass(frozen=True)
class Transfer:
    """What one transfer showed."""

    bytes: int
    gbit_s: float
    cpu_s: float = 0.0
    repair_overhead: float = 0.0
    #: Parity sent, asked for or not, as a share of the segments sent.
    parity_overhead: float = 0.0


@dataclass
class _Contestant:
    name: str
    bytes: int
    transfers: list[Transfer] = field(default_factory=list)


def run(options: NormOptions, follow: Follow = lambda *_: None) -> dict[str, Any]:
    """Run all rounds and return the medians."""
    contestants = []
    for name in options.contestants:
        follow(0, name, None)
        warm_up = transfer(name, options, options.bytes or WARM_UP_BYTES[name])
        wanted = options.bytes or int(warm_up.gbit_s * 1e9 / 8 * options.seconds)
        contestants.append(_Contestant(name, wanted))
    kernel = []
    for number in range(1, options.rounds + 1):
        follow(number, "kernel", None)
        kernel.append(kernel_gbit_s(options))
        follow(number, "kernel", kernel[-1])
        for contestant in contestants:
            follow(number, contestant.name, None)
            contestant.transfers.append(transfer(contestant.name, options, contestant.bytes))
            follow(number, contestant.name, contestant.transfers[-1].gbit_s)
    return _summary(options, contestants, kernel)


def transfer(
    name: str, options: NormOptions, count: int, watch: Callable[[Worker, Worker], None] = lambda *_: None
) -> Transfer:
    """One transfer of `count` bytes between two processes; `watch` may follow them while they run."""
    common: dict[str, Any] = {
        "group": GROUP,
        "port": free_port(),
        "bytes": count,
        "segment_bytes": options.segment_bytes,
        "loss_percent": options.loss_percent,
        "block_symbols": options.block_symbols,
        "parity_symbols": 0 if options.fec == "none" or name == NO_CODE else options.parity_symbols,
    }
    if options.key and name not in (NO_KEY, *PEERS):
        common["keys"] = new_key()
    side = "shoal" if name in (NO_CODE, NO_KEY) else name
    with Worker(SIDES, f"{side} receive", **common) as receiver:
        receiver.wait_ready()
        with Worker(SIDES, f"{side} send", **common) as sender:
            watch(sender, receiver)
            sent, received = sender.result(), receiver.result()
    if sent["bytes"] != received["bytes"]:
        raise ExperimentError(f"{name}: {sent['bytes']} bytes were sent, {received['bytes']} came")
    segments = sent.get("segments_sent", 0)
    return Transfer(
        bytes=received["bytes"],
        gbit_s=received["bytes"] * 8 / received["seconds"] / 1e9,
        cpu_s=sent["cpu_s"] + received["cpu_s"],
        repair_overhead=sent["repairs_sent"] / segments if segments else 0.0,
        parity_overhead=sent["parity_sent"] / segments if segments else 0.0,
    )


def kernel_gbit_s(options: NormOptions) -> float:
    """How fast the kernel moves datagrams of this size with segmentation offload and no protocol."""
    common: dict[str, Any] = {
        "group": GROUP,
        "port": free_port(),
        "segment_bytes": options.segment_bytes,
        "seconds": min(options.seconds, KERNEL_SECONDS_MAX),
    }
    with Worker(SIDES, "kernel receive", **common) as receiver:
        receiver.wait_ready()
        with Worker(SIDES, "kernel send", **common) as sender:
            sender.result()
            received = receiver.result()
    if not received["bytes"]:
        raise ExperimentError("no multicast arrived on the loopback interface: is `lo` up?")
    return float(received["bytes"] * 8 / received["seconds"] / 1e9)


def free_port() -> int:
    """A port nobody uses, so that a transfer hears nothing of the one before."""
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as probe:
        probe.bind(("", 0))
        return int(probe.getsockname()[1])


def _summary(options: NormOptions, contestants: list[_Contestant], kernel: list[float]) -> dict[str, Any]:
    result: dict[str, Any] = {each.name: _medians(each) for each in contestants}
    for each in contestants:
        if each.name not in PEERS:
            result[each.name] |= {
                "repair_overhead": median(transfer.repair_overhead for transfer in each.transfers),
                "parity_overhead": median(transfer.parity_overhead for transfer in each.transfers),
            }
    result["kernel"] = {"gbit_s": median(kernel), "rounds_gbit_s": kernel}
    shoal_gbit_s = result["shoal"]["gbit_s"]
    if options.peers:
        result["ratio"] = shoal_gbit_s / max(result[peer]["gbit_s"] for peer in options.peers)
    if NO_CODE in result:
        result["ratio_to_no_code"] = shoal_gbit_s / result[NO_CODE]["gbit_s"]
    if NO_KEY in result:
        result["ratio_to_no_key"] = shoal_gbit_s / result[NO_KEY]["gbit_s"]
    result["share_of_kernel"] = shoal_gbit_s / result["kernel"]["gbit_s"]
    result |= {
        "segment_bytes": options.segment_bytes,
        "loss_percent": options.loss_percent,
        "fec": options.fec,
        "key": options.key,
        "block_symbols": options.block_symbols,
        "parity_symbols": options.parity_symbols if options.fec == "rs" else 0,
        "rounds": options.rounds,
        **machine(),
    }
    return result


def _medians(contestant: _Contestant) -> dict[str, Any]:
    transfers = contestant.transfers
    return {
        "gbit_s": median(each.gbit_s for each in transfers),
        "cpu_s_per_gb": median(each.cpu_s / each.bytes * 1e9 for each in transfers),
        "bytes": median(each.bytes for each in transfers),
        "rounds_gbit_s": [each.gbit_s for each in transfers],
    }
