"""What a crowd that joins, leaves and dies costs a publisher that sends at a fixed rate.

The publisher has a core of its own. A steady subscriber counts what arrives. The same load goes out once with
nobody else in the domain, and once while the nodes of a crowd join and leave all the time. They are in a few
processes, of which one after the other is killed.
"""

import contextlib
import os
import signal
from collections.abc import Mapping
from dataclasses import dataclass
from statistics import median
from time import monotonic
from typing import Any

from shoal.processes.worker import Worker
from shoal_bench.experiment import check_options, machine
from shoal_bench.norm import free_port
from shoal_bench.rounds import Follow, alternate

SIDES = "shoal_bench.churn_sides"
CASES = ("alone", "churn")
#: The nodes of the crowd are in so many processes.
PROCESSES = 4
PATIENCE_S = 120.0


@dataclass(frozen=True, kw_only=True)
class ChurnOptions:
    """One run of the benchmark."""

    #: Of the crowd, at any time.
    nodes: int = 200
    #: Messages that the publisher sends in a second.
    msg_s: int = 2000
    size: int = 256
    rounds: int = 3
    #: How long is published.
    seconds: float = 10.0
    #: How long a node of the crowd stays.
    life_s: float = 5.0
    #: How often a process of the crowd is killed, and another one started.
    kill_every_s: float = 2.5

    def __post_init__(self) -> None:
        checks = [
            (PROCESSES <= self.nodes <= 1000, "nodes", f"from {PROCESSES} to 1000"),
            (1 <= self.msg_s <= 100_000, "msg_s", "from 1 to 100,000"),
            (8 <= self.size <= 1 << 20, "size", f"from 8 to {1 << 20}"),
            (self.rounds >= 1, "rounds", "at least 1"),
            (0 < self.seconds <= 600, "seconds", "more than 0 and at most 600"),
            (self.life_s > 0, "life_s", "more than 0"),
            (self.kill_every_s > 0, "kill_every_s", "more than 0"),
        ]
        check_options(self, checks)


@dataclass(frozen=True)
class Reached:
    """What one transfer showed."""

    #: Of the publisher.
    msg_s: float
    cpu_s_per_s: float
    publish_max_s: float
    #: Messages that the steady subscriber did not get.
    lost: int
    #: Nodes that joined and were gone again, as the publisher saw it.
    joined: int
    left: int


def run(options: ChurnOptions, follow: Follow = lambda *_: None) -> dict[str, Any]:
    """Run all rounds and return the medians."""
    results = alternate(
        CASES,
        options.rounds,
        lambda case: transfer(case, options),
        lambda reached: f"{reached.msg_s:,.0f} messages/s, {reached.cpu_s_per_s:.3f} of a core",
        follow,
    )
    pairs = list(zip(results["churn"], results["alone"], strict=True))
    return {case: _figures(reached) for case, reached in results.items()} | {
        "rate_share": median(churn.msg_s / alone.msg_s for churn, alone in pairs),
        "cpu_ratio": median(churn.cpu_s_per_s / alone.cpu_s_per_s for churn, alone in pairs),
        "nodes": options.nodes,
        "size": options.size,
        "rounds": options.rounds,
        **machine(),
    }


def _figures(reached: list[Reached]) -> Mapping[str, Any]:
    return {
        "msg_s": median(each.msg_s for each in reached),
        "cpu_s_per_s": median(each.cpu_s_per_s for each in reached),
        "publish_max_s": max(each.publish_max_s for each in reached),
        "lost": max(each.lost for each in reached),
        "joined": median(each.joined for each in reached),
        "left": median(each.left for each in reached),
    }


def transfer(case: str, options: ChurnOptions) -> Reached:
    """One transfer, alone or beside a crowd."""
    port, cores = free_port(), sorted(os.sched_getaffinity(0))
    patience_s = PATIENCE_S + 4 * options.seconds
    with contextlib.ExitStack() as stack:

        def start(role: str, **own: Any) -> Worker:
            cpus = [cores[-1]] if role == "publish" else cores[:-1] or cores
            return stack.enter_context(Worker(SIDES, role, port=port, cpus=cpus, **own))

        steady = start("subscribe")
        share = options.nodes // PROCESSES
        crowd = [] if case == "alone" else [_crowd(start, share, options) for _ in range(PROCESSES)]
        for each in crowd:
            each.wait_progress(patience_s)
        load = {"size": options.size, "seconds": options.seconds, "msg_s": options.msg_s}
        publisher = start("publish", **load)
        publisher.wait_progress(patience_s)
        began, killed = monotonic(), 0
        while crowd and not publisher.wait(
            max(0.0, began + (killed + 1) * options.kill_every_s - monotonic())
        ):
            # The time passes for real: that is the experiment.
            crowd[killed % PROCESSES].signal(signal.SIGKILL)
            crowd[killed % PROCESSES] = _crowd(start, share, options)
            killed += 1
        sent = publisher.result(patience_s)
        received = steady.result(patience_s)["received"]
    return Reached(
        sent["sent"] / sent["seconds"],
        sent["cpu_s"] / sent["seconds"],
        sent["publish_max_s"],
        sent["sent"] - received,
        sent["joined"],
        sent["left"],
    )


def _crowd(start: Any, nodes: int, options: ChurnOptions) -> Worker:
    worker: Worker = start("crowd", nodes=nodes, life_s=options.life_s)
    return worker
