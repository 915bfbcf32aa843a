"""What one reader in trouble costs the others: a publisher and its subscribers, a process each.

The same load goes to subscribers that all keep up, then to as many of which one is stopped for a while, reads
a tenth of what the others do, or loses a fifth of its datagrams. The rate of the others is compared with the
first.
"""

import contextlib
import signal
from collections.abc import Mapping
from dataclasses import dataclass
from statistics import median
from time import sleep
from typing import Any

from shoal.processes.worker import Worker
from shoal_bench.bodies import SIZE_MIN
from shoal_bench.experiment import check_options, machine
from shoal_bench.norm import free_port
from shoal_bench.rounds import Follow, alternate

SIDES = "shoal_bench.slow_sides"
#: What happens to one of the subscribers.
TROUBLES = ("none", "stopped", "tenth", "lossy")
LOSS = 0.2
#: The stopped one reads for so much of the time before it is stopped.
BEFORE_STOP = 0.1
PATIENCE_S = 60.0


@dataclass(frozen=True, kw_only=True)
class SlowOptions:
    """One run of the benchmark."""

    size: int = 1024
    #: The one in trouble among them.
    subscribers: int = 8
    rounds: int = 3
    #: How long is published.
    seconds: float = 8.0
    #: How long the stopped one is.
    stopped_s: float = 5.0

    def __post_init__(self) -> None:
        checks = [
            (SIZE_MIN <= self.size <= 1 << 20, "size", f"from {SIZE_MIN} to {1 << 20}"),
            (2 <= self.subscribers <= 64, "subscribers", "from 2 to 64"),
            (self.rounds >= 1, "rounds", "at least 1"),
            (0 < self.seconds <= 600, "seconds", "more than 0 and at most 600"),
            (0 < self.stopped_s < self.seconds, "stopped_s", "more than 0 and less than seconds"),
        ]
        check_options(self, checks)


@dataclass(frozen=True)
class Reached:
    """What one transfer showed."""

    #: Of the slowest subscriber that is not in trouble.
    msg_s: float
    #: The longest that a single `publish` took.
    publish_max_s: float
    #: Members that the publisher no longer waited for.
    expelled: int
    #: Messages that the one in trouble was told it lost.
    told_lost: int


def run(options: SlowOptions, follow: Follow = lambda *_: None) -> dict[str, Any]:
    """Run all rounds and return the medians."""
    rate: list[float] = []

    def measure(trouble: str) -> Reached:
        reached = transfer(trouble, options, rate[-1] if rate else 0.0)
        if trouble == "none":
            rate.append(reached.msg_s)
        return reached

    results = alternate(
        TROUBLES, options.rounds, measure, lambda reached: f"{reached.msg_s:,.0f} messages/s", follow
    )
    even = results["none"]
    figures = {name: _figures(reached, even) for name, reached in results.items()}
    return figures | {
        "share_min": min(figures[name]["share"] for name in TROUBLES[1:]),
        "size": options.size,
        "subscribers": options.subscribers,
        "rounds": options.rounds,
        **machine(),
    }


def _figures(reached: list[Reached], even: list[Reached]) -> Mapping[str, Any]:
    return {
        "msg_s": median(each.msg_s for each in reached),
        "share": median(each.msg_s / beside.msg_s for each, beside in zip(reached, even, strict=True)),
        "publish_max_s": max(each.publish_max_s for each in reached),
        "expelled": max(each.expelled for each in reached),
        "told_lost": max(each.told_lost for each in reached),
    }


def transfer(trouble: str, options: SlowOptions, rate: float) -> Reached:
    """One transfer, with one subscriber in trouble; `rate` is what the others are expected to reach."""
    patience_s = PATIENCE_S + 4 * options.seconds
    port = free_port()
    with contextlib.ExitStack() as stack:

        def start(role: str, **own: Any) -> Worker:
            return stack.enter_context(Worker(SIDES, role, port=port, **own))

        special = {"tenth": {"msg_s_max": rate / 10}, "lossy": {"drop_received": LOSS}}
        troubled = start("subscribe", **special.get(trouble, {}))
        others = [start("subscribe") for _ in range(options.subscribers - 1)]
        load = {"size": options.size, "seconds": options.seconds, "subscribers": options.subscribers}
        publisher = start("publish", **load)
        publisher.wait_progress(patience_s)
        if trouble == "stopped":
            # The time passes for real: that is the experiment.
            sleep(options.seconds * BEFORE_STOP)
            troubled.signal(signal.SIGSTOP)
            sleep(options.stopped_s)
            troubled.signal(signal.SIGCONT)
        received = [other.result(patience_s) for other in others]
        sent = publisher.result(patience_s)
        told = troubled.result(patience_s)
    slowest = min(each["received"] / each["seconds"] for each in received)
    return Reached(slowest, sent["publish_max_s"], sent["expelled"], told["told_lost"])
