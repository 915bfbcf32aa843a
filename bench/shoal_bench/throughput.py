"""Throughput: one publisher and its subscribers, a process each, on loopback, beside other systems.

Every body that arrives is checked. A subscriber's rate counts from its first message to its last, and of
several subscribers the slowest counts.
"""

import contextlib
from dataclasses import asdict, dataclass
from statistics import median
from typing import Any

from shoal.processes.worker import Worker
from shoal_bench.availability import PUBSUB, check_peers
from shoal_bench.bodies import SIZE_MIN
from shoal_bench.contestant import Load, Place
from shoal_bench.errors import ExperimentError
from shoal_bench.experiment import check_options, machine
from shoal_bench.norm import free_port
from shoal_bench.rounds import Follow, alternate, server_for

SIDES = "shoal_bench.pubsub_sides"
#: Shoal runs both ways of receiving, and the better one counts.
OURS = ("shoal_loop", "shoal_callback")
SIZE_MAX = 4 << 20
LINKS = ("norm", "tcp")
#: Moved before the rounds, to learn how many messages fill the time asked for.
WARM_UP_BYTES, WARM_UP_MIN, WARM_UP_MAX = 100_000_000, 200, 200_000
#: A transfer may take so many times longer than planned.
PATIENCE_FACTOR, PATIENCE_S = 20, 40.0


@dataclass(frozen=True, kw_only=True)
class ThroughputOptions:
    """One run of the benchmark."""

    size: int = 64
    subscribers: int = 1
    peers: tuple[str, ...] = ("zenoh", "zmq")
    rounds: int = 5
    #: About how long each transfer takes.
    seconds: float = 2.0
    #: How many messages each transfer moves; given, it takes as long as it takes.
    count: int | None = None
    #: What carries Shoal's messages.
    link: str = "norm"

    def __post_init__(self) -> None:
        checks = [
            (SIZE_MIN <= self.size <= SIZE_MAX, "size", f"from {SIZE_MIN} to {SIZE_MAX}"),
            (1 <= self.subscribers <= 64, "subscribers", "from 1 to 64"),
            (self.rounds >= 1, "rounds", "at least 1"),
            (0 < self.seconds <= 600, "seconds", "more than 0 and at most 600"),
            (self.count is None or self.count >= 2, "count", "at least 2"),
            (self.link in LINKS, "link", " or ".join(LINKS)),
        ]
        check_options(self, checks)
        check_peers(self.peers, PUBSUB)


@dataclass(frozen=True)
class Transfer:
    """What one transfer showed."""

    messages: int
    #: Of the slowest subscriber.
    msg_s: float
    cpu_s: float
    subscribers: int

    @property
    def cpu_s_per_million(self) -> float:
        """Processor seconds of all processes for a million messages delivered."""
        return self.cpu_s / (self.messages * self.subscribers) * 1e6


def run(options: ThroughputOptions, follow: Follow = lambda *_: None) -> dict[str, Any]:
    """Run all rounds and return the medians."""
    names = (*OURS, *options.peers)
    counts = {}
    for name in names:
        follow(0, name, "")
        counts[name] = options.count or _count_for(name, options)
    results = alternate(
        names,
        options.rounds,
        lambda name: transfer(name, _load(options, counts[name]), options.seconds, link=options.link),
        lambda reached: f"{reached.msg_s:,.0f} messages/s",
        follow,
    )
    return summary(options, results)


def _load(options: ThroughputOptions, count: int) -> Load:
    return Load(size=options.size, count=count, subscribers=options.subscribers)


def _count_for(name: str, options: ThroughputOptions) -> int:
    warm_up = min(WARM_UP_MAX, max(WARM_UP_MIN, WARM_UP_BYTES // options.size // options.subscribers))
    warm = transfer(name, _load(options, warm_up), options.seconds, link=options.link)
    return max(2, int(warm.msg_s * options.seconds))


def transfer(name: str, load: Load, seconds: float, interface: str = "lo", *, link: str = "norm") -> Transfer:
    """One transfer by one contestant."""
    patience_s = PATIENCE_S + PATIENCE_FACTOR * seconds
    with contextlib.ExitStack() as stack:
        place = Place(port=free_port(), interface=interface, link=link)
        server_cpu_s = stack.enter_context(server_for(name, place.port))

        def start(role: str, number: int) -> Worker:
            numbered = asdict(place) | {"number": number}
            options: dict[str, Any] = {"contestant": name, "place": numbered, "load": asdict(load)}
            return stack.enter_context(Worker(SIDES, role, **options))

        publisher = start("publish", 0)
        subscribers = [start("subscribe", number) for number in range(load.subscribers)]
        received = [subscriber.result(patience_s) for subscriber in subscribers]
        publisher.tell()
        sent = publisher.result(patience_s)
        cpu_s = sent["cpu_s"] + sum(each["cpu_s"] for each in received) + server_cpu_s()
    slowest_s = max(each["seconds"] for each in received)
    if slowest_s <= 0:
        raise ExperimentError(f"{load.count} messages are too few to measure a rate")
    return Transfer(load.count, (load.count - 1) / slowest_s, cpu_s, load.subscribers)


def summary(options: ThroughputOptions, results: dict[str, list[Transfer]]) -> dict[str, Any]:
    """Medians of each contestant, and how Shoal compares with the fastest peer."""
    figures = {name: _figures(options, transfers) for name, transfers in results.items()}
    ours = {name: figures[name] for name in OURS}
    best = max(ours, key=lambda name: float(ours[name]["msg_s"]))
    result: dict[str, Any] = {"shoal": ours[best] | {"receiver": best.removeprefix("shoal_")}}
    result |= {peer: figures[peer] for peer in options.peers}
    result |= ours
    if options.peers:
        result["best_peer"] = max(options.peers, key=lambda peer: float(figures[peer]["msg_s"]))
        result["ratio_to_best_peer"] = ours[best]["msg_s"] / figures[result["best_peer"]]["msg_s"]
    return result | {
        "link": options.link,
        "size": options.size,
        "subscribers": options.subscribers,
        "rounds": options.rounds,
        **machine(),
    }


def _figures(options: ThroughputOptions, transfers: list[Transfer]) -> dict[str, Any]:
    msg_s = median(each.msg_s for each in transfers)
    return {
        "msg_s": msg_s,
        "gbit_s": msg_s * options.size * 8 / 1e9,
        "cpu_s_per_million": median(each.cpu_s_per_million for each in transfers),
        "messages": transfers[0].messages,
        "rounds_msg_s": [each.msg_s for each in transfers],
    }
