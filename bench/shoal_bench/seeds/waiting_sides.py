"""Sides of the waiting-time experiment, a process each: Poisson publishers, and subscribers that measure.

Both read the machine's monotonic clock, so a delay is only right within one host.
"""

import contextlib
import os
import random
import struct
import time
from collections.abc import Iterator, Mapping
from contextlib import ExitStack
from typing import Any

import shoal
from shoal.processes.worker import Report, Role, is_told, run_role, wait_told
from shoal_bench.seeds.cell import TOPIC

#: Subscribers with a filter, and the share of them that a message is for on average.
SUBSCRIBERS, SHARE = 40, 0.25
#: Subscribers of the law `fixed` that want the same.
FIXED_GROUPS = round(1 / SHARE)
#: Filters that match nothing and that no index decides, and long bodies: with them a message costs the node
#: tens of microseconds. Without them the node takes more messages than a publisher of Python sends, and a
#: wait is shorter than waking a thread takes.
FILTERS, BODY_BYTES = 400, 8192
TAG = "abcdefghijklmnopqrstuvwxyz"
#: Arrivals nearer than this are waited for without sleeping.
SPIN_S = 100e-6
CELL_S = 3600.0
#: Different messages made in advance.
MADE = 1024
STAMP = struct.Struct("<d")


def selector(law: str, number: int) -> str:
    """The filter of a subscriber."""
    match law:
        case "fixed":
            return f"g = '{number % FIXED_GROUPS}'"
        case "all-or-none":
            return "g = 'all'"
        case _:
            return f"b{number} = 'y'"


def properties(law: str, mix: str, draw: random.Random) -> dict[str, str]:
    """What one message carries: for as many subscribers as the law draws, for none, or for the most."""
    match law:
        case "fixed":
            return {"g": "none" if mix == "none" else str(draw.randrange(FIXED_GROUPS))}
        case "all-or-none":
            every = mix == "most" or (mix == "law" and draw.random() < SHARE)
            return {"g": "all" if every else "none"}
        case _:
            share = {"none": 0.0, "most": 1.0, "law": SHARE}[mix]
            return {f"b{number}": "y" if draw.random() < share else "n" for number in range(SUBSCRIBERS)}


def copies_max(law: str) -> int:
    """For how many a message of the mix `most` is."""
    return SUBSCRIBERS // FIXED_GROUPS if law == "fixed" else SUBSCRIBERS


def publish(options: dict[str, Any], report: Report) -> Mapping[str, Any]:
    """Publish at Poisson times of a rate, or without one as fast as it goes."""
    _pin(options["core"])
    draw = random.Random(options["seed"])
    made = [{**properties(options["law"], options["mix"], draw), "tag": TAG} for _ in range(MADE)]
    rest = bytes(BODY_BYTES - STAMP.size)
    with shoal.connect(options["url"]) as bus:
        bus.sync()
        report(1)
        wait_told(CELL_S)
        began = due = time.monotonic()
        count = 0
        for due in _arrivals(draw, options["rate"], began, options["seconds"]):
            while (left := due - time.monotonic()) > 0:
                if left > SPIN_S:
                    time.sleep(left - SPIN_S / 2)
            bus.publish(TOPIC, STAMP.pack(time.monotonic()) + rest, properties=made[count % MADE])
            count += 1
        took_s = time.monotonic() - began
        bus.flush(60.0)
    return {"sent": count, "seconds": took_s}


def _pin(core: int | None) -> None:
    if core is not None:
        os.sched_setaffinity(0, {core})


def _go_first() -> None:
    """Run before the publisher on the core that both share, as root; threads of this one do so, too.

    The publisher spins until its next message is due. A subscriber that waits for it measures the scheduler.
    """
    with contextlib.suppress(OSError):
        os.sched_setscheduler(0, os.SCHED_FIFO, os.sched_param(2))


def _arrivals(draw: random.Random, rate: float | None, began: float, seconds: float) -> Iterator[float]:
    at = began
    while at < began + seconds:
        yield at
        at = time.monotonic() if rate is None else at + draw.expovariate(rate)


def subscribe(options: dict[str, Any], report: Report) -> Mapping[str, Any]:
    """Receive on all connections; one subscriber without a filter times each message."""
    _pin(options["core"])
    _go_first()
    delays: list[float] = []
    with ExitStack() as stack:
        measuring = stack.enter_context(shoal.connect(options["url"])).subscribe(TOPIC)
        filtered = []
        for number in range(SUBSCRIBERS):
            bus = stack.enter_context(shoal.connect(options["url"]))
            filtered.append(bus.subscribe(TOPIC, selector=selector(options["law"], number)))
            bus.sync()
        others = stack.enter_context(shoal.connect(options["url"]))
        for number in range(FILTERS):
            others.subscribe(TOPIC, selector=f"tag LIKE '%{number}%z'")
        others.sync()
        report(1)
        while not is_told():
            message = measuring.receive(timeout_s=0.001)
            batch = [] if message is None else [message, *measuring.receive_nowait(1000)]
            now = time.monotonic()
            delays += [now - STAMP.unpack_from(each.body)[0] for each in batch]
            for subscription in filtered:
                subscription.receive_nowait(10_000)
    return {"delays_s": delays}


ROLES: dict[str, Role] = {"publish": publish, "subscribe": subscribe}

if __name__ == "__main__":
    run_role(ROLES)
