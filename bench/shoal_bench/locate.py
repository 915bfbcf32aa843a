"""How many clients a registry sends to daemons in a second, and how long each waits for the answer.

The registry, its daemons and its clients are a process each, on loopback. Every client has an address of its
own, because a registry bounds the requests of an address; it asks 19 times a second. The registry tries a
connection to the daemons that it names, at most once a second each.
"""

from dataclasses import dataclass
from statistics import median
from typing import Any

from shoal.processes.worker import Worker
from shoal_bench.experiment import check_options, machine
from shoal_bench.latency import percentiles_us
from shoal_bench.norm import free_port
from shoal_bench.rounds import Follow, alternate

SIDES = "shoal_bench.locate_sides"
PATIENCE_S = 60.0


@dataclass(frozen=True, kw_only=True)
class LocateOptions:
    """One run of the benchmark."""

    daemons: int = 12
    #: Clients, each with an address of its own; they ask for 19 answers a second each.
    clients: int = 120
    rounds: int = 5
    seconds: float = 5.0

    def __post_init__(self) -> None:
        checks = [
            (3 <= self.daemons <= 200, "daemons", "from 3 to 200"),
            (1 <= self.clients <= 1000, "clients", "from 1 to 1000"),
            (self.rounds >= 1, "rounds", "at least 1"),
            (0 < self.seconds <= 600, "seconds", "more than 0 and at most 600"),
        ]
        check_options(self, checks)


def run(options: LocateOptions, follow: Follow = lambda *_: None) -> dict[str, Any]:
    """Run all rounds and return the medians."""
    results = alternate(
        ("shoal",),
        options.rounds,
        lambda _: measured(options),
        lambda reached: f"{reached['answers_s']:.0f}/s, p99 {reached['p99_us'] / 1000:.1f} ms",
        follow,
    )["shoal"]
    shoal = {key: median(each[key] for each in results) for key in results[0]}
    return {
        "shoal": shoal,
        "daemons": options.daemons,
        "clients": options.clients,
        "rounds": options.rounds,
        **machine(),
    }


def measured(options: LocateOptions) -> dict[str, float]:
    """One round."""
    port = free_port()
    with Worker(SIDES, "serve", port=port) as serving:
        serving.wait_progress(PATIENCE_S)
        with Worker(SIDES, "listen", port=port, daemons=options.daemons) as listening:
            listening.wait_progress(PATIENCE_S)
            clients, seconds = options.clients, options.seconds
            with Worker(SIDES, "ask", port=port, clients=clients, seconds=seconds) as asking:
                result = asking.result(PATIENCE_S + options.seconds)
    times = list(result["times_ns"])
    answers_s = len(times) / result["seconds"]
    return {"answers_s": answers_s, "refused": float(result["refused"]), **percentiles_us(times)}
