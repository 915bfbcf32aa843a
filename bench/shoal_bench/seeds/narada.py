"""Narada's experiment (its section 5): transit delays while a hundred other subscribers are served."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import product
from statistics import mean, pstdev
from typing import Any

from shoal.processes.worker import Worker
from shoal_bench.seeds.frame import NOT_JUDGED, Note, Reading, Site, Trial

SIDES, NODE = "shoal_bench.seeds.narada_sides", "shoal_bench.seeds.sides"
SUBSCRIBERS, CONNECTIONS = 100, 10
SOURCE = "ArtemisDelay.java"
START_S, END_S = 120.0, 60.0
COUNT_MIN = 10
#: Messages before the timed ones.
WARM = 500


@dataclass(frozen=True, kw_only=True)
class Delay(Trial):
    """A rate and a size."""

    rate: int
    size: int


def narada(quick: bool) -> list[Delay]:
    """5: mean transit delay and its deviation by publishing rate and size, with 100 other subscribers."""
    low = product((10, 25, 50), (100, 512, 1024, 4096, 16384, 65536))
    high = product((100, 500, 1000, 2000), (100, 250, 550))
    grid = [(50, 1024), (100, 100), (1000, 250)] if quick else [*low, *high]
    return [
        Delay(
            experiment="narada",
            name=f"{rate}/s-{size}",
            series=f"{size} B",
            x=rate,
            rate=rate,
            size=size,
        )
        for rate, size in grid
    ]


def measure(trial: Delay, contestant: str, site: Site, _note: Note) -> Reading:
    """Publish at the rate for the cell's time, through a router of ours or Artemis."""
    count = max(COUNT_MIN, int(trial.rate * site.rig.seconds))
    run = _artemis if contestant == "artemis" else _routed
    found, others = run(trial, count, site)
    delays: Sequence[float] = sorted(found["delays_s"])
    figures = {
        "mean_delay_ms": mean(delays) * 1e3 if delays else None,
        "deviation_ms": pstdev(delays) * 1e3 if delays else None,
        "p99_delay_ms": delays[int(len(delays) * 0.99)] * 1e3 if delays else None,
        "lost": float(count - len(delays) + expected(count) - others),
    }
    why = None if site.rig.strict else NOT_JUDGED
    return Reading(figures=figures, why="messages were lost" if figures["lost"] else why)


def expected(count: int) -> int:
    """What the other subscribers get in all."""
    return (WARM + count) * SUBSCRIBERS


def _routed(trial: Delay, count: int, site: Site) -> tuple[Mapping[str, Any], int]:
    with Worker(NODE, "node", core=site.node_core, every_s=1.0) as node:
        node.wait_progress()
        url = f"tcp://127.0.0.1:{node.progress}"
        many: dict[str, Any] = {"count": SUBSCRIBERS, "connections": CONNECTIONS}
        one: dict[str, Any] = {"rate": trial.rate, "size": trial.size, "count": count, "warm": WARM}
        with (
            Worker(SIDES, "subscribers", url=url, expected=expected(count), **many) as others,
            Worker(SIDES, "measure", url=url, **one) as measuring,
        ):
            others.wait_progress(START_S)
            measuring.wait_progress(START_S)
            measuring.tell()
            found = measuring.result(site.rig.seconds * 2 + END_S)
            others.tell()
            received = others.result(END_S)["received"]
    return found, received


def _artemis(trial: Delay, count: int, site: Site) -> tuple[Mapping[str, Any], int]:
    from shoal_bench.peers.artemis_jms import JavaProgram

    port = site.artemis.port
    with (
        JavaProgram(SOURCE, "subscribers", port, SUBSCRIBERS, CONNECTIONS, expected(count)) as others,
        JavaProgram(SOURCE, "measure", port, trial.rate, trial.size, count, WARM) as measuring,
    ):
        others.wait_ready()
        measuring.wait_ready()
        measuring.tell()
        found = measuring.result()
        others.tell()
        received = others.result()["received"]
    return found, received
