"""What a group costs when nothing is published: `python tests/e2e/idle.py --nodes 60 --seconds 12`.

All nodes are in one process. Prints how long it took until everybody knew everybody, and then CPU seconds and
datagrams per second.
"""

import argparse
import time
from dataclasses import dataclass

from programs import loopback_url

import shoal


@dataclass(frozen=True)
class Idle:
    """What was measured."""

    met_after_s: float
    met_cpu_s: float
    cpu_s_per_s: float
    sent_per_s: float
    received_per_s: float


def measure(nodes: int, seconds: float, settle_s: float = 3.0, **options: float) -> Idle:
    """Let nodes meet, settle, and do nothing for so long."""
    url, began, cpu = loopback_url(), time.monotonic(), time.process_time()
    buses = [shoal.connect(url, **options) for _ in range(nodes)]
    try:
        for number, bus in enumerate(buses):
            bus.subscribe(f"t/{number}")
        while any(len(bus.members) < nodes - 1 for bus in buses):
            if time.monotonic() - began > 120:
                raise TimeoutError(f"members known: {sorted(len(bus.members) for bus in buses)}")
            time.sleep(0.02)
        met_after_s, met_cpu_s = time.monotonic() - began, time.process_time() - cpu
        time.sleep(settle_s)
        before, began, cpu = _datagrams(buses), time.monotonic(), time.process_time()
        time.sleep(seconds)
        took = time.monotonic() - began
        sent, received = (
            (after - count) / took for after, count in zip(_datagrams(buses), before, strict=True)
        )
        return Idle(met_after_s, met_cpu_s, (time.process_time() - cpu) / took, sent, received)
    finally:
        for bus in buses:
            bus.close(0)


def _datagrams(buses: list[shoal.Bus]) -> tuple[int, int]:
    stats = [bus.stats() for bus in buses]
    return sum(each["datagrams_sent"] for each in stats), sum(each["datagrams_received"] for each in stats)


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--nodes", type=int, default=60)
    parser.add_argument("--seconds", type=float, default=12)
    chosen = parser.parse_args()
    print(measure(chosen.nodes, chosen.seconds))
