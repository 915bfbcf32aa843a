"""What a message costs on each of the four threads it passes: `python -m shoal_bench.stages --size 64`.

Publisher and subscriber are two connections of one process on loopback, and take turns: everything is
published, then flushed, then read. So no thread waits for another while its processor time is taken, and the
tenth percentile over many turns is hardly touched by what else runs on the machine. Linux only: it reads the
scheduler's own account of each thread.
"""

import argparse
import secrets
import time
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import islice
from pathlib import Path

import shoal
from shoal_bench.norm import free_port

TOPIC = "bench/stages"
TASKS = Path("/proc/self/task")
#: Of a turn: what the subscription's queue surely holds.
TURN_BYTES = 2 << 20
TURN_MESSAGES_MAX = 20_000


@dataclass(frozen=True)
class Stages:
    """Processor time of one message on each thread, in nanoseconds."""

    publish_ns: float
    send_ns: float
    receive_ns: float
    read_ns: float

    @property
    def sum_ns(self) -> float:
        """On all of them."""
        return self.publish_ns + self.send_ns + self.receive_ns + self.read_ns


def measure(size: int, turns: int) -> Stages:
    """The tenth percentile of each stage over so many turns."""
    count = min(TURN_MESSAGES_MAX, TURN_BYTES // size)
    url = f"norm://239.192.74.211:{free_port()}"
    before = _tasks()
    with shoal.connect(url, interface="lo") as publisher:
        sending = _tasks() - before
        with shoal.connect(url, interface="lo") as subscriber, subscriber.subscribe(TOPIC) as subscription:
            receiving = _tasks() - before - sending
            publisher.wait_for_subscribers(TOPIC, timeout_s=10)
            body = secrets.token_bytes(size)
            rows = [_turn(publisher, subscription, body, count, sending, receiving) for _ in range(turns)]
    columns = (sorted(column)[len(rows) // 10] / count for column in zip(*rows, strict=True))
    return Stages(*columns)


def _turn(
    publisher: shoal.Bus,
    subscription: shoal.Subscription,
    body: bytes,
    count: int,
    sending: set[str],
    receiving: set[str],
) -> tuple[int, int, int, int]:
    sent, received, began = _cpu_ns(sending), _cpu_ns(receiving), time.thread_time_ns()
    for _ in range(count):
        publisher.publish(TOPIC, body)
    published = time.thread_time_ns() - began
    publisher.flush(20)
    began = time.thread_time_ns()
    for message in islice(subscription, count):
        _ = message.body
    read = time.thread_time_ns() - began
    return published, _cpu_ns(sending) - sent, _cpu_ns(receiving) - received, read


def _tasks() -> set[str]:
    return {task.name for task in TASKS.iterdir()}


def _cpu_ns(tasks: set[str]) -> int:
    return sum(int((TASKS / task / "schedstat").read_text().split()[0]) for task in tasks)


def main(arguments: Sequence[str] | None = None) -> None:
    """Print a row of the page on performance for each size."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n")[0])
    parser.add_argument("--size", type=int, nargs="+", default=[64, 1024, 16_384], help="bytes of a body")
    parser.add_argument("--turns", type=int, default=60, help="how often everything is sent and read")
    options = parser.parse_args(arguments)
    print("| bytes | publisher, Python | publisher, link | subscriber, link | subscriber, Python | sum, µs |")
    print("| --- | --- | --- | --- | --- | --- |")
    for size in options.size:
        stages = measure(size, options.turns)
        parts = (stages.publish_ns, stages.send_ns, stages.receive_ns, stages.read_ns, stages.sum_ns)
        print(f"| {size:,} | " + " | ".join(f"{part / 1000:.2f}" for part in parts) + " |", flush=True)


if __name__ == "__main__":
    main()
