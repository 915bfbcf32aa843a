"""What JMS costs: the same messages through `bus` and through `shoal.jms`, and through Artemis's Java client.

Messages have a correlation id, a type, where answers go, a priority, a life time and five properties.
"""

import tempfile
from collections.abc import Callable
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path
from statistics import median
from typing import Any

from shoal.processes.store import StoreProcess
from shoal.processes.worker import Worker
from shoal_bench import availability, shaped
from shoal_bench.bodies import SIZE_MIN
from shoal_bench.contestant import Load
from shoal_bench.experiment import check_options, machine
from shoal_bench.norm import free_port
from shoal_bench.rounds import Follow, alternate
from shoal_bench.shaped import PROPERTIES_MAX, Shape, ShapedTransfer

SHAPES = {
    "plain": Shape(),
    "bus": Shape(properties=PROPERTIES_MAX, headers=True),
    "bus_read": Shape(properties=PROPERTIES_MAX, headers=True, reads=True),
    "jms_plain": Shape(api="jms"),
    "jms": Shape(properties=PROPERTIES_MAX, headers=True, api="jms"),
    "jms_read": Shape(properties=PROPERTIES_MAX, headers=True, reads=True, api="jms"),
}
ARTEMIS = "artemis"
NEEDS: availability.Needs = {ARTEMIS: (availability.ARTEMIS, availability.JAVAC)}
#: Messages of one transaction.
BATCH = 100
#: Artemis moves fewer in the same time.
ARTEMIS_SHARE = 5
PATIENCE_S = 120.0


@dataclass(frozen=True, kw_only=True)
class JmsOptions:
    """One run of the benchmark."""

    size: int = 64
    rounds: int = 5
    #: Messages of each transfer.
    count: int = 500_000
    #: `artemis`, or nobody.
    peers: tuple[str, ...] = (ARTEMIS,)

    def __post_init__(self) -> None:
        checks = [
            (SIZE_MIN <= self.size <= 1 << 20, "size", f"from {SIZE_MIN} to {1 << 20}"),
            (self.rounds >= 1, "rounds", "at least 1"),
            (self.count >= 2 * ARTEMIS_SHARE, "count", f"at least {2 * ARTEMIS_SHARE}"),
        ]
        check_options(self, checks)
        availability.check_peers(self.peers, NEEDS)


def run(options: JmsOptions, follow: Follow = lambda *_: None) -> dict[str, Any]:
    """Run all rounds and return the medians."""
    with ExitStack() as running:
        artemis = _artemis(options, running) if options.peers else None

        def measure(name: str) -> ShapedTransfer:
            if name == ARTEMIS:
                assert artemis is not None
                return artemis()
            return shaped.transfer(SHAPES[name], Load(size=options.size, count=options.count))

        def told(reached: ShapedTransfer) -> str:
            return f"{reached.msg_s:,.0f} messages/s, {reached.both_us:.3f} µs of processor each"

        results = alternate([*SHAPES, *options.peers], options.rounds, measure, told, follow)
    return summary(options, results) | {"transaction": transactions(options)}


def _artemis(options: JmsOptions, running: ExitStack) -> Callable[[], ShapedTransfer]:
    """A server for the whole run, so that what it runs is compiled."""
    from shoal_bench.peers import artemis, artemis_jms

    port = free_port()
    directory = Path(running.enter_context(tempfile.TemporaryDirectory(prefix="shoal-bench-")))
    # It journals nothing of these messages: the time it would collect writes for does not matter.
    running.enter_context(artemis.server(port, directory, 0.001))
    return lambda: artemis_jms.transfer(port, options.size, options.count // ARTEMIS_SHARE)


def summary(options: JmsOptions, results: dict[str, list[ShapedTransfer]]) -> dict[str, Any]:
    """Medians of each contestant, and how many times what another costs."""
    result: dict[str, Any] = {name: shaped.figures(transfers) for name, transfers in results.items()}
    for name in SHAPES:
        result[name]["times_plain_cpu"] = _times(results, name, "plain")
        result[name]["times_plain_time"] = median(
            plain.msg_s / other.msg_s for plain, other in zip(results["plain"], results[name], strict=True)
        )
    result["cost_ratio"] = _times(results, "jms", "bus")
    result["read_ratio"] = _times(results, "jms_read", "jms_plain")
    if ARTEMIS in results:
        result["ratio_artemis"] = result["jms"]["msg_s"] / result[ARTEMIS]["msg_s"]
    return result | {
        "size": options.size,
        "messages": options.count,
        "rounds": options.rounds,
        **machine(),
    }


def _times(results: dict[str, list[ShapedTransfer]], name: str, other: str) -> float:
    """How many times the processor time of another's a message takes, on both sides together."""
    return median(one.both_us / two.both_us for one, two in zip(results[name], results[other], strict=True))


def transactions(options: JmsOptions) -> dict[str, float]:
    """Persistent messages one by one, and the same in one transaction."""
    with (
        tempfile.TemporaryDirectory(prefix="shoal-bench-") as made,
        StoreProcess(Path(made) / "data", record="bench-records-nothing") as store,
        Worker(
            "shoal_bench.jms_sides",
            "transact",
            domain=store.domain,
            size=options.size,
            count=BATCH,
            rounds=options.rounds,
        ) as worker,
    ):
        took = worker.result(PATIENCE_S)
    pairs = list(zip(took["single_s"], took["batch_s"], strict=True))
    return {
        "messages": BATCH,
        "single_msg_s": median(BATCH / single for single, _ in pairs),
        "batch_msg_s": median(BATCH / batch for _, batch in pairs),
        "batch_ratio": median(single / batch for single, batch in pairs),
    }
