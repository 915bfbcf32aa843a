"""Routing: one publisher, a router and one subscriber, a process each, on loopback, beside other systems.

Publisher and subscriber both connect to the router. Every body that arrives is checked. With `selectors`
another program is connected that subscribes to the same topic with so many different selectors, none of which
matches: what they cost the router shows in the rate.
"""

import contextlib
import functools
from dataclasses import asdict, dataclass
from statistics import median
from typing import Any

from shoal.processes.worker import Worker
from shoal_bench.availability import PUBSUB, check_peers
from shoal_bench.bodies import SIZE_MIN
from shoal_bench.contestant import Load, Place
from shoal_bench.cpu import process_cpu_s
from shoal_bench.errors import ExperimentError
from shoal_bench.experiment import check_options, machine
from shoal_bench.norm import free_port
from shoal_bench.rounds import Follow, alternate, server_for
from shoal_bench.throughput import PATIENCE_FACTOR, PATIENCE_S, SIZE_MAX, WARM_UP_MAX, WARM_UP_MIN

SIDES, ROUTE_SIDES = "shoal_bench.pubsub_sides", "shoal_bench.route_sides"
#: Shoal, and Shoal with many selectors behind the router.
OURS, SELECTED = "shoal_loop", "shoal_selectors"
WARM_UP_BYTES = 50_000_000


@dataclass(frozen=True, kw_only=True)
class RouteOptions:
    """One run of the benchmark."""

    sizes: tuple[int, ...] = (64, 1024)
    peers: tuple[str, ...] = ("zenoh", "nats")
    rounds: int = 5
    #: About how long each transfer takes.
    seconds: float = 2.0
    #: How many messages each transfer moves; given, it takes as long as it takes.
    count: int | None = None
    #: Different selectors behind the router.
    selectors: int = 1000

    def __post_init__(self) -> None:
        checks = [
            (bool(self.sizes), "sizes", "at least one"),
            (
                all(SIZE_MIN <= size <= SIZE_MAX for size in self.sizes),
                "sizes",
                f"from {SIZE_MIN} to {SIZE_MAX}",
            ),
            (self.rounds >= 1, "rounds", "at least 1"),
            (0 < self.seconds <= 600, "seconds", "more than 0 and at most 600"),
            (self.count is None or self.count >= 2, "count", "at least 2"),
            (0 <= self.selectors <= 100_000, "selectors", "from 0 to 100,000"),
        ]
        check_options(self, checks)
        check_peers(self.peers, PUBSUB)


@dataclass(frozen=True)
class Routed:
    """What one transfer showed."""

    messages: int
    msg_s: float
    cpu_s: float
    router_cpu_s: float


def run(options: RouteOptions, follow: Follow = lambda *_: None) -> dict[str, Any]:
    """Run all rounds and return the medians, for each size."""
    result = {f"bytes_{size}": _run_size(options, size, follow) for size in options.sizes}
    return result | {"rounds": options.rounds, "selectors": options.selectors, **machine()}


def _run_size(options: RouteOptions, size: int, follow: Follow) -> dict[str, Any]:
    names = (OURS, *((SELECTED,) if options.selectors else ()), *options.peers)
    counts = {}
    for name in names:
        follow(0, name, "")
        counts[name] = options.count or _count_for(name, size, options)
    results = alternate(
        names,
        options.rounds,
        lambda name: transfer(name, Load(size=size, count=counts[name]), options),
        lambda reached: f"{reached.msg_s:,.0f} messages/s",
        follow,
    )
    return summary(size, results)


def _count_for(name: str, size: int, options: RouteOptions) -> int:
    count = min(WARM_UP_MAX, max(WARM_UP_MIN, WARM_UP_BYTES // size))
    return max(2, int(transfer(name, Load(size=size, count=count), options).msg_s * options.seconds))


def transfer(name: str, load: Load, options: RouteOptions) -> Routed:
    """One transfer by one contestant."""
    patience_s = PATIENCE_S + PATIENCE_FACTOR * options.seconds
    with contextlib.ExitStack() as stack:
        place = Place(port=free_port(), link="tcp", routed=True)
        contestant = OURS if name == SELECTED else name
        server_cpu_s = stack.enter_context(server_for(name, place.port))
        told: dict[str, Any] = {"contestant": contestant, "place": asdict(place), "load": asdict(load)}
        if name != "nats":
            router = stack.enter_context(Worker(ROUTE_SIDES, "route", **told))
            router.wait_progress()
            server_cpu_s = functools.partial(process_cpu_s, router.pid)
        if name == SELECTED:
            others = stack.enter_context(Worker(ROUTE_SIDES, "select", selectors=options.selectors, **told))
            others.wait_progress(patience_s)
        before_s = server_cpu_s()
        publisher = stack.enter_context(Worker(SIDES, "publish", **told))
        subscriber = stack.enter_context(Worker(SIDES, "subscribe", **told))
        received = subscriber.result(patience_s)
        publisher.tell()
        sent = publisher.result(patience_s)
        router_cpu_s = server_cpu_s() - before_s
    if received["seconds"] <= 0:
        raise ExperimentError(f"{load.count} messages are too few to measure a rate")
    cpu_s = sent["cpu_s"] + received["cpu_s"] + router_cpu_s
    return Routed(load.count, (load.count - 1) / received["seconds"], cpu_s, router_cpu_s)


def summary(size: int, results: dict[str, list[Routed]]) -> dict[str, Any]:
    """Medians of each contestant, and how Shoal compares."""
    figures = {name: _figures(size, routed) for name, routed in results.items()}
    ours = figures.pop(OURS)
    selected = figures.pop(SELECTED, None)
    result: dict[str, Any] = {"shoal": ours, **figures}
    for peer, theirs in figures.items():
        result[f"ratio_{peer}"] = ours["msg_s"] / theirs["msg_s"]
    if selected is not None:
        result["shoal_selectors"] = selected
        result["ratio_selectors"] = selected["msg_s"] / ours["msg_s"]
    return result


def _figures(size: int, routed: list[Routed]) -> dict[str, Any]:
    msg_s = median(each.msg_s for each in routed)
    return {
        "msg_s": msg_s,
        "gbit_s": msg_s * size * 8 / 1e9,
        "cpu_s_per_million": median(each.cpu_s / each.messages * 1e6 for each in routed),
        "router_cpu_s_per_million": median(each.router_cpu_s / each.messages * 1e6 for each in routed),
        "messages": routed[0].messages,
        "rounds_msg_s": [each.msg_s for each in routed],
    }
