"""Goodput on a switched LAN: one publisher and one subscriber, then one publisher and eight, a host each."""

import contextlib
from collections.abc import Callable
from dataclasses import asdict, dataclass
from statistics import median
from typing import Any

from shoal.processes.worker import Worker
from shoal_bench.bodies import SIZE_MIN
from shoal_bench.contestant import Load, Place
from shoal_bench.experiment import check_options, machine
from shoal_bench.lab import Lab
from shoal_bench.rounds import Follow

SIDES = "shoal_bench.pubsub_sides"
PORT = 7474
#: What a full frame spends on its own header, of what the shaped cable carries.
FRAME_HEADER_BYTES, FRAME_PAYLOAD_BYTES = 14, 1500
PATIENCE_S = 60.0


@dataclass(frozen=True, kw_only=True)
class LanOptions:
    """One run of the benchmark."""

    size: int = 1024
    rate_mbit_s: int = 100
    #: Subscribers of the second measurement.
    many: int = 8
    rounds: int = 5
    #: About how long each transfer takes.
    seconds: float = 5.0

    def __post_init__(self) -> None:
        checks = [
            (SIZE_MIN <= self.size <= 1 << 20, "size", f"from {SIZE_MIN} to {1 << 20}"),
            (1 <= self.rate_mbit_s <= 10_000, "rate_mbit_s", "from 1 to 10000"),
            (2 <= self.many <= 60, "many", "from 2 to 60"),
            (self.rounds >= 1, "rounds", "at least 1"),
            (0 < self.seconds <= 600, "seconds", "more than 0 and at most 600"),
        ]
        check_options(self, checks)


@dataclass(frozen=True)
class LanTransfer:
    """What one transfer showed."""

    #: Of the slowest subscriber.
    goodput_mbit_s: float
    #: Segments sent again, as a share of the segments sent.
    repairs_share: float
    cpu_s_per_million: float


def run(options: LanOptions, follow: Follow = lambda *_: None) -> dict[str, Any]:
    """Run all rounds and return the medians."""
    widths = (1, options.many)
    results: dict[int, list[LanTransfer]] = {width: [] for width in widths}
    with Lab(1 + options.many, rate_mbit_s=options.rate_mbit_s) as lab:
        for number in range(1, options.rounds + 1):
            for width in widths:
                follow(number, f"1 to {width}", "")
                results[width].append(transfer(lab, options, width))
                follow(number, f"1 to {width}", f"{results[width][-1].goodput_mbit_s:.1f} Mbit/s")
    return summary(options, results)


def transfer(lab: Lab, options: LanOptions, subscribers: int) -> LanTransfer:
    """One transfer from the first host to the next ones."""
    count = max(2, int(options.rate_mbit_s * 1e6 / 8 * options.seconds / options.size))
    load = Load(size=options.size, count=count, subscribers=subscribers)
    with contextlib.ExitStack() as stack:

        def start(role: str, host: int) -> Worker:
            place = Place(port=PORT, interface="eth0", number=host)
            common: dict[str, Any] = {
                "contestant": "shoal_loop",
                "place": asdict(place),
                "load": asdict(load),
            }
            return stack.enter_context(Worker(SIDES, role, within=lab.within(host), **common))

        publisher = start("publish", 0)
        receiving = [start("subscribe", 1 + number) for number in range(subscribers)]
        received = [each.result(PATIENCE_S + 10 * options.seconds) for each in receiving]
        publisher.tell()
        sent = publisher.result(PATIENCE_S)
    slowest_s = max(each["seconds"] for each in received)
    stats = sent["stats"]
    cpu_s = sent["cpu_s"] + sum(each["cpu_s"] for each in received)
    return LanTransfer(
        goodput_mbit_s=(count - 1) * options.size * 8 / slowest_s / 1e6,
        repairs_share=stats["repairs_sent"] / max(1, stats["segments_sent"]),
        cpu_s_per_million=cpu_s / (count * subscribers) * 1e6,
    )


def summary(options: LanOptions, results: dict[int, list[LanTransfer]]) -> dict[str, Any]:
    """Medians, what share of the cable they are, and what eight subscribers cost against one."""
    payload_mbit_s = options.rate_mbit_s * FRAME_PAYLOAD_BYTES / (FRAME_PAYLOAD_BYTES + FRAME_HEADER_BYTES)

    def middle(width: int, figure: Callable[[LanTransfer], float]) -> float:
        return median(figure(each) for each in results[width])

    result: dict[str, Any] = {}
    for width, transfers in results.items():
        goodput_mbit_s = middle(width, lambda each: each.goodput_mbit_s)
        result[f"to_{width}"] = {
            "goodput_mbit_s": goodput_mbit_s,
            "share_of_ethernet_payload": goodput_mbit_s / payload_mbit_s,
            "repairs_share": middle(width, lambda each: each.repairs_share),
            "cpu_s_per_million": middle(width, lambda each: each.cpu_s_per_million),
            "rounds_goodput_mbit_s": [each.goodput_mbit_s for each in transfers],
        }
    few, many = result["to_1"], result[f"to_{options.many}"]
    return result | {
        "goodput_mbit_s": many["goodput_mbit_s"],
        "share_of_ethernet_payload": many["share_of_ethernet_payload"],
        f"ratio_{options.many}_to_1": many["goodput_mbit_s"] / few["goodput_mbit_s"],
        "repairs_share": max(few["repairs_share"], many["repairs_share"]),
        "ethernet_payload_mbit_s": payload_mbit_s,
        "size": options.size,
        "rounds": options.rounds,
        **machine(),
    }
