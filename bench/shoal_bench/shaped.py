"""Transfers of messages that carry more than a body: what headers, properties and a selector cost.

One publisher and one subscriber, a process each, on loopback, through the public API. Every body is checked.
"""

from collections.abc import Mapping
from dataclasses import asdict, dataclass
from statistics import median
from typing import Any

from shoal.processes.worker import Worker
from shoal_bench.contestant import Load, Place
from shoal_bench.errors import ExperimentError
from shoal_bench.experiment import check_options
from shoal_bench.norm import free_port
from shoal_bench.rounds import Follow, alternate

SIDES = {"bus": "shoal_bench.shaped_sides", "jms": "shoal_bench.jms_sides"}
PROPERTIES_MAX = 5
PATIENCE_S = 120.0


@dataclass(frozen=True, kw_only=True)
class Shape:
    """What messages carry beside their body, and what becomes of it."""

    #: Named values of different types, up to five.
    properties: int = 0
    #: Whether there are header fields: correlation id, type, where answers go, life time, priority.
    headers: bool = False
    #: The subscription's selector; every message matches it.
    selector: str | None = None
    #: Whether the subscriber reads properties and headers, not only the body.
    reads: bool = False
    #: What both programs use: `bus`, or `jms`.
    api: str = "bus"

    def __post_init__(self) -> None:
        fine = 0 <= self.properties <= PROPERTIES_MAX
        checks = [
            (fine, "properties", f"from 0 to {PROPERTIES_MAX}"),
            (self.api in SIDES, "api", " or ".join(SIDES)),
        ]
        check_options(self, checks)


@dataclass(frozen=True)
class ShapedTransfer:
    """What one transfer showed."""

    msg_s: float
    #: Processor time of the subscriber from its first message to its last, for each of them.
    cpu_us: float
    #: The publisher's.
    publisher_cpu_us: float

    @property
    def both_us(self) -> float:
        """Processor time of both, for each message."""
        return self.cpu_us + self.publisher_cpu_us


def run(
    shapes: Mapping[str, Shape], size: int, count: int, rounds: int, follow: Follow = lambda *_: None
) -> dict[str, list[ShapedTransfer]]:
    """Let messages of each shape travel in turns."""
    load = Load(size=size, count=count)
    return alternate(
        shapes,
        rounds,
        lambda name: transfer(shapes[name], load),
        lambda reached: f"{reached.msg_s:,.0f} messages/s, {reached.cpu_us:.3f} µs of processor each",
        follow,
    )


def transfer(shape: Shape, load: Load) -> ShapedTransfer:
    """One transfer of messages of one shape."""
    options: dict[str, Any] = {
        "place": asdict(Place(port=free_port())),
        "load": asdict(load),
        "shape": asdict(shape),
    }
    sides = SIDES[shape.api]
    with (
        Worker(sides, "publish", **options) as publisher,
        Worker(sides, "subscribe", **options) as subscriber,
    ):
        received = subscriber.result(PATIENCE_S)
        publisher.tell()
        sent = publisher.result(PATIENCE_S)
    if received["seconds"] <= 0:
        raise ExperimentError(f"{load.count} messages are too few to measure a rate")
    timed = load.count - 1
    return ShapedTransfer(
        msg_s=timed / received["seconds"],
        cpu_us=received["cpu_s"] / timed * 1e6,
        publisher_cpu_us=sent["cpu_s"] / load.count * 1e6,
    )


def figures(transfers: list[ShapedTransfer]) -> dict[str, float]:
    """Medians of one shape."""
    return {
        "msg_s": median(each.msg_s for each in transfers),
        "cpu_us_per_message": median(each.cpu_us for each in transfers),
        "publisher_cpu_us_per_message": median(each.publisher_cpu_us for each in transfers),
    }
