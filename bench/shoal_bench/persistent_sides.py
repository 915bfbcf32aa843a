"""Who sends and who receives what must not be lost, each in a process of its own (see `workers`)."""

import asyncio
import contextlib
import itertools
import os
import resource
import time
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any

import shoal
from shoal.processes.worker import Report, Role, is_told, run_role, wait_told

#: No run takes longer.
PATIENCE_S = 600.0
QUEUE, TOPIC = "bench", "bench/messages"
#: Messages that go into an outbox before the file has its turn again.
OUTBOX_TURN = 100


def body_of(size: int, number: int) -> bytes:
    """A body that says which one it is."""
    return number.to_bytes(8, "big") + bytes(size - 8)


class Bodies:
    """Bodies in their order, until there are so many, or time is over."""

    #: How often the clock is looked at.
    CHECK = 8

    def __init__(self, size: int, count: int, seconds: float | None) -> None:
        self._size, self._count, self._seconds = size, count, seconds
        self.sent = 0

    def __iter__(self) -> Iterator[bytes]:
        until = None if self._seconds is None else time.monotonic() + self._seconds
        while self.sent < self._count:
            if until is not None and self.sent % self.CHECK == 0 and time.monotonic() >= until:
                return
            self.sent += 1
            yield body_of(self._size, self.sent - 1)


def _cpu_s() -> float:
    used = resource.getrusage(resource.RUSAGE_SELF)
    return used.ru_utime + used.ru_stime


def _span(began: float, ended: float, cpu_s: float) -> Mapping[str, Any]:
    return {"began": began, "ended": ended, "cpu_s": cpu_s}


def _go(report: Report) -> Callable[[], None]:
    """Say that everything is set up, and wait until all are."""

    def go() -> None:
        report(1)
        wait_told(PATIENCE_S)

    return go


def publish(options: dict[str, Any], report: Report) -> Mapping[str, Any]:
    """Send messages, waiting for each, or for all but a window; no longer than asked."""
    contestant, count, window, size = (options[name] for name in ("contestant", "count", "window", "size"))
    before_s, go = _cpu_s(), _go(report)
    bodies = Bodies(size, count, options.get("seconds"))
    if contestant == "nats":
        from shoal_bench.peers import jetstream

        began, ended = asyncio.run(jetstream.publish(options["port"], bodies, window, go))
    elif contestant == "artemis":
        from shoal_bench.peers import artemis

        with artemis.Stomp(options["port"]) as client:
            go()
            began = time.monotonic()
            for body in bodies:
                client.publish(body, window)
            client.flush()
            ended = time.monotonic()
    else:
        began, ended = _publish(options, bodies, window, go)
    return {**_span(began, ended, _cpu_s() - before_s), "sent": bodies.sent}


def _publish(
    options: dict[str, Any], bodies: "Bodies", window: int, go: Callable[[], None]
) -> tuple[float, float]:
    with shoal.connect(domain=options["domain"], interface="lo") as bus:
        send = bus.queue(QUEUE).send if options["kind"] == "queue" else _publisher(bus)
        bus._connection.ready_channel("the benchmark", PATIENCE_S)
        go()
        began = time.monotonic()
        ahead = window or None
        for body in bodies:
            send(body, window=ahead)
        bus.flush(PATIENCE_S)
        return began, time.monotonic()


def _publisher(bus: shoal.Bus) -> Callable[..., object]:
    def send(body: bytes, window: int | None) -> None:
        bus.publish(TOPIC, body, persistent=True, window=window)

    return send


def consume(options: dict[str, Any], report: Report) -> Mapping[str, Any]:
    """Receive and acknowledge messages."""
    contestant, count = options["contestant"], options["count"]
    before_s, go = _cpu_s(), _go(report)
    if contestant == "nats":
        from shoal_bench.peers import jetstream

        began, ended = asyncio.run(jetstream.consume(options["port"], count, go))
    elif contestant == "artemis":
        from shoal_bench.peers import artemis

        with artemis.Stomp(options["port"]) as client:
            client.subscribe(1000)
            go()
            began = time.monotonic()
            for _ in range(count):
                client.receive()
            ended = time.monotonic()
    else:
        began, ended = _consume(options["domain"], count, go)
    return _span(began, ended, _cpu_s() - before_s)


def _consume(domain: str, count: int, go: Callable[[], None]) -> tuple[float, float]:
    with (
        shoal.connect(domain=domain, interface="lo") as bus,
        bus.queue(QUEUE).consume(prefetch=1000) as consumer,
    ):
        go()
        began = time.monotonic()
        for message in itertools.islice(consumer, count):
            if message.redelivered:
                raise shoal.ShoalError("a message came twice")
        return began, time.monotonic()


def watch(options: dict[str, Any], report: Report) -> Mapping[str, Any]:
    """Be a live subscriber of the topic, until nobody sends any more and everything was read: how much."""
    received = 0
    with shoal.connect(domain=options["domain"], interface="lo") as bus, bus.subscribe(TOPIC) as live:
        report(1)
        # Whoever published has waited until everybody had it.
        while not is_told() or live.pending:
            received += live.receive(0.2) is not None
    return {"received": received}


def catch_up(options: dict[str, Any], report: Report) -> Mapping[str, Any]:
    """Make a durable subscription; or read all that was kept for it."""
    count = options["count"]
    with (
        shoal.connect(domain=options["domain"], interface="lo", client_id="bench") as bus,
        bus.subscribe(TOPIC, durable="bench", prefetch=4000) as subscription,
    ):
        if count == 0:
            return {}
        _go(report)()
        before_s, began, seen = _cpu_s(), time.monotonic(), 0
        while seen < count:
            message = subscription.receive(PATIENCE_S)
            if message is None:
                raise shoal.ShoalError(f"only {seen} of {count} messages came")
            if int.from_bytes(message.body[:8], "big") != seen:
                raise shoal.ShoalError(f"message {seen} is not the next one")
            seen += 1
        return _span(began, time.monotonic(), _cpu_s() - before_s)


def outbox(options: dict[str, Any], _report: Report) -> Mapping[str, Any]:
    """Publish into an outbox, and sync a preallocated file as often: the rates of both, taking turns.

    Each sends no longer than asked.
    """
    size, count, directory = options["size"], options["count"], Path(options["directory"])
    raw_s = boxed_s = 0.0
    bodies = [body_of(size, number) for number in range(min(count, OUTBOX_TURN))]
    done = 0
    with (
        shoal.connect("inproc://bench-outbox", outbox=directory / "outbox") as bus,
        _preallocated(directory, size * count * 2) as file,
    ):
        bus.publish(TOPIC, b"", persistent=True)
        while done < count and boxed_s < options["seconds"] and raw_s < options["seconds"]:
            began = time.perf_counter()
            for body in bodies:
                os.write(file, body)
                os.fdatasync(file)
            raw_s += time.perf_counter() - began
            began = time.perf_counter()
            for body in bodies:
                bus.publish(TOPIC, body, persistent=True)
            boxed_s += time.perf_counter() - began
            done += len(bodies)
        bus.close(0.0)
    return {"msg_s": done / boxed_s, "fdatasync_s": done / raw_s}


@contextlib.contextmanager
def _preallocated(directory: Path, size: int) -> Any:
    """A file whose blocks are there and written, so that a sync writes nothing but the data."""
    path = directory / "raw"
    file = os.open(path, os.O_RDWR | os.O_CREAT)
    try:
        block = bytes(1 << 20)
        for _ in range(size // len(block) + 1):
            os.write(file, block)
        os.fsync(file)
        os.lseek(file, 0, os.SEEK_SET)
        yield file
    finally:
        os.close(file)
        path.unlink()


ROLES: dict[str, Role] = {
    "publish": publish,
    "consume": consume,
    "watch": watch,
    "catch_up": catch_up,
    "outbox": outbox,
}

if __name__ == "__main__":
    run_role(ROLES)
