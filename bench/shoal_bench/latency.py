"""Round trips: a message there and one back, between two processes on loopback, beside other systems."""

from dataclasses import asdict, dataclass
from statistics import median
from typing import Any

from shoal.processes.worker import Worker
from shoal_bench.availability import PUBSUB, check_peers
from shoal_bench.bodies import SIZE_MIN
from shoal_bench.contestant import Place
from shoal_bench.experiment import check_options, machine
from shoal_bench.norm import free_port
from shoal_bench.rounds import Follow, alternate, server_for
from shoal_bench.throughput import LINKS

SIDES = "shoal_bench.pubsub_sides"
WARM_UP = 500
PATIENCE_S = 120.0
PERCENTILES = {"p50_us": 0.5, "p99_us": 0.99, "p999_us": 0.999}


@dataclass(frozen=True, kw_only=True)
class LatencyOptions:
    """One run of the benchmark."""

    size: int = 64
    peers: tuple[str, ...] = ("zmq",)
    rounds: int = 5
    #: Round trips in each round.
    count: int = 10_000
    #: What carries Shoal's messages.
    link: str = "norm"

    def __post_init__(self) -> None:
        checks = [
            (SIZE_MIN <= self.size <= 1 << 20, "size", f"from {SIZE_MIN} to {1 << 20}"),
            (self.rounds >= 1, "rounds", "at least 1"),
            (self.count >= 10, "count", "at least 10"),
            (self.link in LINKS, "link", " or ".join(LINKS)),
        ]
        check_options(self, checks)
        check_peers(self.peers, PUBSUB)


def run(options: LatencyOptions, follow: Follow = lambda *_: None) -> dict[str, Any]:
    """Run all rounds and return the medians of each round's percentiles."""
    results = alternate(
        ("shoal", *options.peers),
        options.rounds,
        lambda name: percentiles_us(round_trips_ns(name, options)),
        lambda reached: f"p50 {reached['p50_us']:.0f} µs, p99 {reached['p99_us']:.0f} µs",
        follow,
    )
    return summary(options, results)


def round_trips_ns(name: str, options: LatencyOptions) -> list[int]:
    """How long each round trip of one round took."""
    place = Place(port=free_port(), link=options.link)
    common: dict[str, Any] = {
        "contestant": "shoal_loop" if name == "shoal" else name,
        "place": asdict(place),
        "size": options.size,
        "warm_up": WARM_UP,
        "count": options.count,
    }
    with (
        server_for(name, place.port),
        Worker(SIDES, "ping", **common) as asking,
        Worker(SIDES, "echo", **common),
    ):
        return list(asking.result(PATIENCE_S)["times_ns"])


def percentiles_us(times_ns: list[int]) -> dict[str, float]:
    """The times that this share of the round trips did not exceed."""
    ordered = sorted(times_ns)
    last = len(ordered) - 1
    return {name: ordered[round(share * last)] / 1000 for name, share in PERCENTILES.items()}


def summary(options: LatencyOptions, results: dict[str, list[dict[str, float]]]) -> dict[str, Any]:
    """Medians, and theirs divided by ours."""
    result: dict[str, Any] = {}
    for name, rounds in results.items():
        result[name] = {part: median(each[part] for each in rounds) for part in PERCENTILES}
        result[name]["rounds_p50_us"] = [each["p50_us"] for each in rounds]
    for part in PERCENTILES:
        ratios = {peer: result[peer][part] / result["shoal"][part] for peer in options.peers}
        for peer, ratio in ratios.items():
            result[peer][f"ratio_{part.removesuffix('_us')}"] = ratio
        if ratios:
            result[f"ratio_{part.removesuffix('_us')}_to_best_peer"] = min(ratios.values())
    return result | {
        "size": options.size,
        "round_trips": options.count,
        "rounds": options.rounds,
        **machine(),
    }
