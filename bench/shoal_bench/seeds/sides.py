"""The node and the load of a cell, a process each, pinned to a core each (see `shoal.processes.worker`).

The node routes between TCP connections: it is the study's server. The load is its publishers and subscribers.
"""

import itertools
import os
import threading
import time
from collections.abc import Iterator, Mapping
from contextlib import ExitStack
from typing import Any

import shoal
from shoal.processes.worker import Report, Role, is_told, run_role, wait_told
from shoal_bench.cpu import CpuClock
from shoal_bench.errors import ExperimentError
from shoal_bench.seeds.cell import Cell, Group
from shoal_bench.seeds.validity import Core

#: Longer than any cell.
CELL_S = 3600.0
#: Connections that subscribers share whose filters match nothing.
IDLE_CONNECTIONS = 10
READY_S = 60.0
#: What may wait for one subscriber.
QUEUE_BYTES_MAX = 16 << 20


def node(options: dict[str, Any], report: Report) -> Mapping[str, Any]:
    """Route until the parent has had enough, with a sample of its counters each second. Reports its port."""
    _pin(options["core"])
    samples: list[dict[str, float]] = []
    with shoal.listen("tcp://127.0.0.1:0", router=True) as bus:
        (listener,) = (link for link in bus.links if link.role == "listen")
        used = CpuClock()
        report(int(listener.address.rpartition(":")[2]))
        began = time.monotonic()
        while not is_told():
            core = None if options["core"] is None else Core.read(options["core"])
            links = bus.links
            samples.append(
                {
                    "at_s": time.monotonic() - began,
                    "received": sum(link.messages_received for link in links),
                    "dispatched": sum(link.messages_sent for link in links),
                    "evaluated": bus.stats()["filters_evaluated"],
                    "cpu_s": used.elapsed_s(),
                    "softirq": 0 if core is None else core.softirq,
                }
            )
            time.sleep(max(0.0, began + len(samples) * options["every_s"] - time.monotonic()))
    return {"samples": samples}


def load(options: dict[str, Any], report: Report) -> Mapping[str, Any]:
    """Publish as fast as the node takes it, for some seconds, and count every copy that arrives."""
    _pin(options["core"])
    cell, url = Cell.from_json(options["cell"]), f"tcp://127.0.0.1:{options['port']}"
    with ExitStack() as stack:
        readers = [_subscribed(stack, url, group) for group in cell.matching for _ in range(group.count)]
        # Subscribers that get nothing share connections: what they cost the node are their filters.
        every = [group for group in cell.idle for _ in range(group.count)]
        for own in (every[start::IDLE_CONNECTIONS] for start in range(min(IDLE_CONNECTIONS, len(every)))):
            bus = stack.enter_context(shoal.connect(url))
            for group in own:
                _subscribe(bus, group)
            bus.sync()
        buses = [stack.enter_context(shoal.connect(url)) for _ in range(cell.publishers)]
        for bus in buses:
            bus.sync()
        report(1)
        wait_told(CELL_S)
        counting = _Counting(readers)
        stop = time.monotonic() + options["seconds"]
        senders = [_Sender(bus, cell, stop) for bus in buses]
        for sender in senders:
            sender.join()
        sent = sum(sender.sent for sender in senders)
        for bus in buses:
            bus.flush(READY_S)
        received = counting.finish(sent * cell.r)
    if received != sent * cell.r:
        raise ExperimentError(f"{sent} messages were sent, and {received} of {sent * cell.r} copies arrived")
    return {"sent": sent, "received": received}


def _pin(core: int | None) -> None:
    if core is not None:
        os.sched_setaffinity(0, {core})


def _subscribed(stack: ExitStack, url: str, group: Group) -> shoal.Subscription:
    bus = stack.enter_context(shoal.connect(url))
    subscription = _subscribe(bus, group)
    bus.sync()
    return subscription


def _subscribe(bus: shoal.Bus, group: Group) -> shoal.Subscription:
    return bus.subscribe(
        group.topic, selector=group.selector, correlation=group.correlation, queue_bytes_max=QUEUE_BYTES_MAX
    )


class _Sender(threading.Thread):
    """One publisher: what the cell says, in turn, until it is time."""

    #: Between two looks at the clock.
    RUN = 64

    def __init__(self, bus: shoal.Bus, cell: Cell, stop: float) -> None:
        super().__init__(name="publisher", daemon=True)
        self.sent = 0
        self._bus, self._until = bus, stop
        self._body = bytes(cell.size)
        self._messages = _messages(cell)
        self.start()

    def run(self) -> None:
        publish, body = self._bus.publish, self._body
        while time.monotonic() < self._until:
            for topic, headers in itertools.islice(self._messages, self.RUN):
                publish(topic, body, **headers)
            self.sent += self.RUN


def _messages(cell: Cell) -> Iterator[tuple[str, dict[str, Any]]]:
    """Topics and headers, round robin, made in advance."""
    headers: list[dict[str, Any]] = [{}]
    if cell.correlations:
        headers = [{"correlation_id": correlation} for correlation in cell.correlations]
    elif cell.properties:
        headers = [{"properties": properties} for properties in cell.properties]
    count = max(len(cell.topics), len(headers))
    made = [(cell.topics[i % len(cell.topics)], headers[i % len(headers)]) for i in range(count)]
    return itertools.cycle(made)


class _Counting(threading.Thread):
    """Counts what all subscribers get, in batches."""

    def __init__(self, readers: list[shoal.Subscription]) -> None:
        super().__init__(name="subscribers", daemon=True)
        self._readers = readers
        self._count = 0
        self._over = threading.Event()
        self.start()

    def run(self) -> None:
        while True:
            over = self._over.is_set()
            before = self._count
            for reader in self._readers:
                self._count += len(reader.receive_nowait(10_000))
            if self._count == before:
                if over:
                    return
                # Publishers share this core.
                time.sleep(0.0005)

    def finish(self, expected: int) -> int:
        """How many arrived, once all are here or none comes any more."""
        deadline = time.monotonic() + READY_S
        while self._count < expected and time.monotonic() < deadline:
            time.sleep(0.01)
        self._over.set()
        self.join()
        return self._count


ROLES: dict[str, Role] = {"node": node, "load": load}

if __name__ == "__main__":
    run_role(ROLES)
