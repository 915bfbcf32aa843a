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
from typing import Any, Literal

import shoal
from shoal import _core
from shoal.processes.worker import Report, Role, is_told, run_role, wait_told
from shoal_bench.cpu import CpuClock
from shoal_bench.errors import ExperimentError
from shoal_bench.seeds.cell import Cell, Group
from shoal_bench.seeds.validity import TICKS, Core

#: Longer than any cell.
CELL_S = 3600.0
#: Connections that subscribers share whose filters match nothing.
IDLE_CONNECTIONS = 10
READY_S = 60.0
#: Hosts that subscribers are on, by multicast.
RECEIVERS = 2
GROUP = "239.192.74.207"
#: A receiver that is slow holds the publishers back, as the study's server did.
WHEN_SLOW: Literal["wait"] = "wait"
#: What may wait for one subscriber.
QUEUE_BYTES_MAX = 16 << 20


def node(options: dict[str, Any], report: Report) -> Mapping[str, Any]:
    """Route until the parent has had enough, with a sample of its counters each second. Reports its port."""
    _pin(options["core"])
    samples: list[dict[str, float]] = []
    door = f"tcp://{options.get('address', '127.0.0.1')}:0"
    with shoal.listen(door, router=True, when_slow=WHEN_SLOW) as bus:
        (listener,) = (link for link in bus.links if link.role == "listen")
        used = CpuClock()
        report(int(listener.address.rpartition(":")[2]))
        began = time.monotonic()
        while not is_told():
            core = None if options["core"] is None else Core.read(options["core"])
            stats = bus.stats()
            samples.append(
                {
                    "at_s": time.monotonic() - began,
                    "received": stats["messages_received"],
                    "dispatched": stats["messages_delivered"],
                    "evaluated": stats["filters_evaluated"],
                    "matched": stats["messages_matched"],
                    "bytes": stats["message_bytes_in"] + stats["message_bytes_out"],
                    "cpu_s": used.elapsed_s(),
                    "softirq_s": 0.0 if core is None else core.softirq / TICKS,
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
            reader
            for group in cell.matching
            for _ in range(group.count)
            for reader in _subscribed(stack, next(urls), group)
        ]
        # Subscribers that get nothing share connections: what they cost the node are their filters.
        every = [group for group in cell.idle for _ in range(group.count)]
        for own in (every[start::IDLE_CONNECTIONS] for start in range(min(IDLE_CONNECTIONS, len(every)))):
            bus = stack.enter_context(_client(next(urls)))
            for group in own:
                _subscribe(bus, group)
            bus.sync()
        buses = [stack.enter_context(_client(next(urls))) for _ in range(cell.publishers)]
        for bus in buses:
            bus.sync()
        senders = [_Sender(bus, cell) for bus in buses]
        report(1)
        wait_told(CELL_S)
        counting = _Counting(readers)
        used, began = CpuClock(), time.monotonic()
        for sender in senders:
            sender.begin(options["seconds"])
        sent = sum(sender.end() for sender in senders)
        busy = used.elapsed_s() / (time.monotonic() - began)
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
            wanting = sum(any(topic in group.topics for group in host) for host in hosts)
            if not bus.wait_for_subscribers(topic, wanting, READY_S):
                raise ExperimentError(f"fewer than {wanting} receivers of {topic} came within {READY_S:g} s")
        senders = [_Sender(bus, cell) for bus in buses]
        report(1)
        wait_told(CELL_S)
        used, began, samples = CpuClock(), time.monotonic(), []

        def sample() -> None:
            sent = sum(sender.sent for sender in senders)
            core = None if options["core"] is None else Core.read(options["core"])
            stats = [bus.stats() for bus in buses]
            samples.append(
                {
                    "at_s": time.monotonic() - began,
                    "received": sent,
                    "dispatched": sent,
                    "evaluated": sum(each["filters_evaluated"] for each in stats),
                    "matched": sum(each["messages_matched"] for each in stats),
                    "bytes": sum(each["message_bytes_in"] + each["message_bytes_out"] for each in stats),
                    "cpu_s": used.elapsed_s(),
                    "softirq_s": 0.0 if core is None else core.softirq / TICKS,
                }
            )

        stop = began + options["seconds"]
        for sender in senders:
            sender.begin(options["seconds"])
        while time.monotonic() < stop:
            sample()
            time.sleep(max(0.0, began + len(samples) * options["every_s"] - time.monotonic()))
        sent = sum(sender.end() for sender in senders)
        # The publishers may have left this thread no time before.
        sample()
        for bus in buses:
            bus.flush(READY_S)
    return {"samples": samples, "sent": sent}


def receivers(options: dict[str, Any], report: Report) -> Mapping[str, Any]:
    """Count every copy until the parent says that all was sent: one or two hosts, as the study had."""
    _pin(options["core"])
    cell = Cell.from_json(options["cell"])
    idle = [group for group in cell.idle for _ in range(group.count)]
    with ExitStack() as stack:
        hosts = [(stack.enter_context(_group(options)), groups) for groups in _hosts(cell)]
        readers = [reader for bus, groups in hosts for group in groups for reader in _subscribe(bus, group)]
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
    return shoal.connect(f"norm://{GROUP}:{options['port']}", interface="lo", when_slow=WHEN_SLOW)


def _client(url: str) -> shoal.Bus:
    return shoal.connect(url, when_slow=WHEN_SLOW)


def _pin(core: int | None) -> None:
    if core is not None:
        os.sched_setaffinity(0, {core})


def _subscribed(stack: ExitStack, url: str, group: Group) -> list[shoal.Subscription]:
    bus = stack.enter_context(_client(url))
    subscriptions = _subscribe(bus, group)
    bus.sync()
    return subscriptions


def _subscribe(bus: shoal.Bus, group: Group) -> list[shoal.Subscription]:
    """Subscribe to each topic of a group."""
    return [
        bus.subscribe(
            topic,
            selector=group.selector,
            correlation=group.correlation,
            queue_bytes_max=QUEUE_BYTES_MAX,
        )
        for topic in group.topics
    ]


class _Sender(threading.Thread):
    """One publisher: what the cell says, in turn, for some seconds. Its messages are encoded before."""

    def __init__(self, bus: shoal.Bus, cell: Cell) -> None:
        super().__init__(name="publisher", daemon=True)
        messages = [
            (topic, headers.get("properties"), headers.get("correlation_id"))
            for topic, headers in cell.messages()
        ]
        self._load = _core.LoadPublisher(bus._connection.node, messages, bytes(cell.size))
        self._seconds = 0.0
        self._failure: Exception | None = None

    def begin(self, seconds: float) -> None:
        """Publish for so long."""
        self._seconds = seconds
        self.start()

    def run(self) -> None:
        try:
            self._load.run(self._seconds)
        except Exception as error:
            self._failure = error

    @property
    def sent(self) -> int:
        """Messages published so far."""
        return self._load.sent

    def end(self) -> int:
        """Wait until it is over: how many were published."""
        self.join()
        if self._failure is not None:
            raise ExperimentError(f"a publisher ended: {self._failure}") from self._failure
        return self.sent


class _Counting(threading.Thread):
    """Counts what all subscribers get, and checks the numbers."""

    def __init__(self, readers: list[shoal.Subscription]) -> None:
        super().__init__(name="subscribers", daemon=True)
        self._sink = _core.LoadSink([reader._core for reader in readers])
        self.start()

    def run(self) -> None:
        self._sink.run()

    def finish(self, expected: int | None = None) -> int:
        """How many arrived, once all are here; without a number, once no more come."""
        deadline = time.monotonic() + READY_S
        while expected is not None and self._sink.received < expected and time.monotonic() < deadline:
            time.sleep(0.01)
        self._sink.finish()
        self.join()
        if self._sink.disordered:
            raise ExperimentError(f"{self._sink.disordered} messages came twice or out of order")
        return self._sink.received


ROLES: dict[str, Role] = {"node": node, "load": load, "publishers": publishers, "receivers": receivers}

if __name__ == "__main__":
    run_role(ROLES)
