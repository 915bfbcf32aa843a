"""The node and the load of a cell, a process each, pinned to a core each (see `shoal.processes.worker`).

Routed: the node routes between TCP connections, as the study's server did; the load is its publishers and
subscribers. Multicast: the publishers' process is the node, and the load are the subscribers.
"""

import itertools
import os
import threading
import time
from collections.abc import Mapping
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
#: Hosts that subscribers are on, by multicast.
RECEIVERS = 2
GROUP = "239.192.74.207"
#: What may wait for one subscriber.
QUEUE_BYTES_MAX = 16 << 20


def node(options: dict[str, Any], report: Report) -> Mapping[str, Any]:
    """Route until the parent has had enough, with a sample of its counters each second. Reports its port."""
    _pin(options["core"])
    samples: list[dict[str, float]] = []
    with shoal.listen(f"tcp://{options.get('address', '127.0.0.1')}:0", router=True) as bus:
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
    cell, urls = Cell.from_json(options["cell"]), itertools.cycle(options["urls"])
    with ExitStack() as stack:
        readers = [
            _subscribed(stack, next(urls), group) for group in cell.matching for _ in range(group.count)
        ]
        # Subscribers that get nothing share connections: what they cost the node are their filters.
        every = [group for group in cell.idle for _ in range(group.count)]
        for own in (every[start::IDLE_CONNECTIONS] for start in range(min(IDLE_CONNECTIONS, len(every)))):
            bus = stack.enter_context(shoal.connect(next(urls)))
            for group in own:
                _subscribe(bus, group)
            bus.sync()
        buses = [stack.enter_context(shoal.connect(next(urls))) for _ in range(cell.publishers)]
        for bus in buses:
            bus.sync()
        report(1)
        wait_told(CELL_S)
        counting = _Counting(readers)
        used, began = CpuClock(), time.monotonic()
        stop = began + options["seconds"]
        senders = [_Sender(bus, cell, stop) for bus in buses]
        for sender in senders:
            sender.join()
        busy = used.elapsed_s() / (time.monotonic() - began)
        sent = sum(sender.sent for sender in senders)
        for bus in buses:
            bus.flush(READY_S)
        received = counting.finish(sent * cell.r)
        took_s = time.monotonic() - began
    if received != sent * cell.r:
        raise ExperimentError(f"{sent} messages were sent, and {received} of {sent * cell.r} copies arrived")
    return {"sent": sent, "received": received, "seconds": took_s, "busy": busy}


def publishers(options: dict[str, Any], report: Report) -> Mapping[str, Any]:
    """Publish by multicast, as fast as the receivers take it, with a sample of the counters each second."""
    _pin(options["core"])
    cell = Cell.from_json(options["cell"])
    hosts = _hosts(cell)
    with ExitStack() as stack:
        buses = [stack.enter_context(_group(options)) for _ in range(cell.publishers)]
        for bus, topic in itertools.product(buses, cell.topics):
            wanting = sum(any(group.wants(topic) for group in host) for host in hosts)
            if not bus.wait_for_subscribers(topic, wanting, READY_S):
                raise ExperimentError(f"fewer than {wanting} receivers of {topic} came within {READY_S:g} s")
        report(1)
        wait_told(CELL_S)
        used, began, samples = CpuClock(), time.monotonic(), []
        stop = began + options["seconds"]
        senders = [_Sender(bus, cell, stop) for bus in buses]
        while (now := time.monotonic()) < stop:
            sent = sum(sender.sent for sender in senders)
            samples.append(
                {
                    "at_s": now - began,
                    "received": sent,
                    "dispatched": sent,
                    "evaluated": sum(bus.stats()["filters_evaluated"] for bus in buses),
                    "cpu_s": used.elapsed_s(),
                }
            )
            time.sleep(max(0.0, began + len(samples) * options["every_s"] - time.monotonic()))
        for sender in senders:
            sender.join()
        for bus in buses:
            bus.flush(READY_S)
    return {"samples": samples, "sent": sum(sender.sent for sender in senders)}


def receivers(options: dict[str, Any], report: Report) -> Mapping[str, Any]:
    """Count every copy until the parent says that all was sent: one or two hosts, as the study had."""
    _pin(options["core"])
    cell = Cell.from_json(options["cell"])
    idle = [group for group in cell.idle for _ in range(group.count)]
    with ExitStack() as stack:
        hosts = [(stack.enter_context(_group(options)), groups) for groups in _hosts(cell)]
        readers = [_subscribe(bus, group) for bus, groups in hosts for group in groups]
        for (bus, _), group in zip(itertools.cycle(hosts), idle, strict=False):
            _subscribe(bus, group)
        counting = _Counting(readers)
        report(1)
        wait_told(CELL_S)
        return {"received": counting.finish()}


def _hosts(cell: Cell) -> list[list[Group]]:
    """What each of the receiving hosts subscribes to."""
    every = [group for group in cell.matching for _ in range(group.count)]
    return [every[start::RECEIVERS] for start in range(min(len(every), RECEIVERS))]


def _group(options: Mapping[str, Any]) -> shoal.Bus:
    # A receiver that is slow holds the publishers back, as the study's server did.
    return shoal.connect(f"norm://{GROUP}:{options['port']}", interface="lo", when_slow="wait")


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
        self._messages = itertools.cycle(cell.messages())
        self.start()

    def run(self) -> None:
        publish, body = self._bus.publish, self._body
        while time.monotonic() < self._until:
            for topic, headers in itertools.islice(self._messages, self.RUN):
                publish(topic, body, **headers)
            self.sent += self.RUN


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

    def finish(self, expected: int | None = None) -> int:
        """How many arrived, once all are here; without a number, once no more come."""
        deadline = time.monotonic() + READY_S
        while expected is not None and self._count < expected and time.monotonic() < deadline:
            time.sleep(0.01)
        self._over.set()
        self.join()
        return self._count


ROLES: dict[str, Role] = {"node": node, "load": load, "publishers": publishers, "receivers": receivers}

if __name__ == "__main__":
    run_role(ROLES)
