"""Messages with headers and five properties, as JMS programs send them, beside plain bytes."""

from dataclasses import dataclass
from statistics import median
from typing import Any

from shoal.bench import shaped
from shoal.bench.bodies import SIZE_MIN
from shoal.bench.experiment import check_options, machine
from shoal.bench.rounds import Follow
from shoal.bench.shaped import PROPERTIES_MAX, Shape, ShapedTransfer

SHAPES = {
    "plain": Shape(),
    "jms": Shape(properties=PROPERTIES_MAX, headers=True),
    "jms_read": Shape(properties=PROPERTIES_MAX, headers=True, reads=True),
}


@dataclass(frozen=True, kw_only=True)
class JmsOptions:
    """One run of the benchmark."""

    size: int = 64
    rounds: int = 5
    #: Messages of each transfer.
    count: int = 500_000

    def __post_init__(self) -> None:
        checks = [
            (SIZE_MIN <= self.size <= 1 << 20, "size", f"from {SIZE_MIN} to {1 << 20}"),
            (self.rounds >= 1, "rounds", "at least 1"),
            (self.count >= 2, "count", "at least 2"),
        ]
        check_options(self, checks)


def run(options: JmsOptions, follow: Follow = lambda *_: None) -> dict[str, Any]:
    """Run all rounds and return the medians."""
    return summary(options, shaped.run(SHAPES, options.size, options.count, options.rounds, follow))


def summary(options: JmsOptions, results: dict[str, list[ShapedTransfer]]) -> dict[str, Any]:
    """Medians of each shape, and how many times what plain bytes cost."""
    result: dict[str, Any] = {name: shaped.figures(transfers) for name, transfers in results.items()}
    for name, transfers in results.items():
        pairs = list(zip(results["plain"], transfers, strict=True))
        result[name]["times_plain_cpu"] = median(_both_us(other) / _both_us(plain) for plain, other in pairs)
        result[name]["times_plain_time"] = median(plain.msg_s / other.msg_s for plain, other in pairs)
    return result | {
        "size": options.size,
        "messages": options.count,
        "rounds": options.rounds,
        **machine(),
    }


def _both_us(transfer: ShapedTransfer) -> float:
    return transfer.cpu_us + transfer.publisher_cpu_us
