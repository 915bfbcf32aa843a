"""What must not be lost: sending it, receiving it, keeping it, beside Artemis and JetStream.

Every contestant syncs a message to the disk before it says that it has it, on the same disk, in turn.
Publishers and receivers are processes of their own.
"""

import contextlib
import os
import tempfile
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from statistics import median
from typing import Any

import shoal
from shoal._core import Log
from shoal.errors import ShoalError
from shoal.processes.store import StoreProcess
from shoal.processes.worker import Worker
from shoal_bench.availability import ARTEMIS, NATS, NATS_SERVER, Needs, check_peers
from shoal_bench.errors import ExperimentError
from shoal_bench.experiment import check_options
from shoal_bench.norm import free_port
from shoal_bench.persistent_sides import PATIENCE_S, QUEUE
from shoal_bench.rounds import Follow, alternate

SIDES = "shoal_bench.persistent_sides"
NEEDS: Needs = {"artemis": (ARTEMIS,), "nats": (NATS, NATS_SERVER)}
PEERS = tuple(NEEDS)


@dataclass(frozen=True, kw_only=True)
class PersistentOptions:
    """One run of the benchmark."""

    peers: tuple[str, ...] = PEERS
    rounds: int = 5
    #: Bytes of a body.
    size: int = 1024
    #: Publishers, a process each.
    publishers: int = 8
    #: No publisher sends for longer.
    seconds: float = 3.0
    #: Messages of each publisher that waits for each, at the most.
    waiting: int = 20_000
    #: Messages of each publisher that does not, at the most, and how many it has on their way.
    windowed: int = 20_000
    window: int = 1000
    #: Messages through the queue, at the most, into the outbox, and for a durable subscriber to read later.
    queued: int = 50_000
    boxed: int = 5000
    behind: int = 200_000
    #: Messages of the queue whose memory and start are measured; 0 leaves that out.
    large: int = 0
    #: Where everything is, on the disk to be measured; none is the directory for temporary files.
    directory: str | None = None

    def __post_init__(self) -> None:
        counts = ("rounds", "publishers", "waiting", "windowed", "window", "queued", "boxed", "behind")
        check_options(self, [(getattr(self, name) >= 1, name, "at least 1") for name in counts])
        check_options(
            self,
            [
                (self.seconds > 0, "seconds", "more than 0"),
                (self.size >= 8, "size", "at least 8"),
                (self.large >= 0, "large", "at least 0, which leaves it out"),
            ],
        )
        check_peers(self.peers, NEEDS)


def run(options: PersistentOptions, follow: Follow = lambda *_: None) -> dict[str, Any]:
    """Run everything and return the figures."""
    names = ["shoal", *options.peers]
    with tempfile.TemporaryDirectory(dir=options.directory, prefix="shoal-bench-") as made:
        path = Path(made)
        try:
            outbox = _outbox(options, path, follow)
            sync_s = 1 / outbox["fdatasync_s"]

            #: How fast each was with a window, last time: so many messages a queue is to carry.
            paces: dict[str, float] = {}

            def measured(what: str, measure: Callable[[str], dict[str, float]]) -> dict[str, Any]:
                def told(reached: dict[str, float]) -> str:
                    return f"{what} {reached['msg_s']:,.0f} messages/s"

                return _compared(alternate(names, options.rounds, measure, told, follow))

            def sending(count: int, window: int) -> Callable[[str], dict[str, float]]:
                return lambda name: _sending(options, name, path, sync_s, count, window, "queue")

            result: dict[str, Any] = measured("waiting for each:", sending(options.waiting, 0))

            def windowed(name: str) -> dict[str, float]:
                reached = sending(options.windowed, options.window)(name)
                paces[name] = reached["msg_s"]
                return reached

            def through(name: str) -> dict[str, float]:
                count = max(100, min(options.queued, int(paces[name] * options.seconds / 2)))
                return _through(options, name, path, sync_s, count)

            result["windowed"] = measured("windowed:", windowed)
            result["queue"] = measured("queue:", through)
            result["topic"] = _topics(options, path, sync_s, follow)
            result["outbox"] = outbox
            result |= _store(options, path, follow)
            if options.large:
                result["large"] = _large(options, path, follow)
        except ShoalError as error:
            raise ExperimentError(str(error)) from error
    return result | {"rounds": options.rounds, "cores": os.cpu_count(), "load_1min": os.getloadavg()[0]}


def _compared(rounds: dict[str, list[dict[str, float]]]) -> dict[str, Any]:
    figures: dict[str, Any] = {
        name: {figure: median(one[figure] for one in reached) for figure in reached[0]}
        for name, reached in rounds.items()
    }
    best = max((value["msg_s"] for name, value in figures.items() if name != "shoal"), default=None)
    if best is not None:
        figures["ratio_to_best_peer"] = figures["shoal"]["msg_s"] / best
    return figures


@contextlib.contextmanager
def _contestant(name: str, path: Path, sync_s: float) -> Iterator[tuple[dict[str, Any], Callable[[], float]]]:
    """A server; gives what its clients need to know, and its processor time."""
    with tempfile.TemporaryDirectory(dir=path) as made:
        directory, port = Path(made), free_port()
        if name == "shoal":
            with StoreProcess(directory / "data", record="bench-records-nothing") as store:
                yield {"contestant": name, "domain": store.domain}, store.cpu_s
            return
        from shoal_bench.peers import artemis, jetstream

        server = artemis.server if name == "artemis" else jetstream.server
        with server(port, directory, sync_s) as cpu_s:
            yield {"contestant": name, "port": port}, cpu_s


def _together(workers: list[Worker]) -> tuple[float, float, int]:
    """Let processes go at once: how long all took together, their processor time, and what they sent."""
    for worker in workers:
        worker.wait_progress(PATIENCE_S)
    for worker in workers:
        worker.tell()
    spans = [worker.result(PATIENCE_S) for worker in workers]
    seconds = max(span["ended"] for span in spans) - min(span["began"] for span in spans)
    return seconds, sum(span["cpu_s"] for span in spans), sum(span.get("sent", 0) for span in spans)


def _sending(
    options: PersistentOptions, name: str, path: Path, sync_s: float, count: int, window: int, kind: str
) -> dict[str, float]:
    with _contestant(name, path, sync_s) as (where, cpu_s), contextlib.ExitStack() as stack:
        order = {**where, "count": count, "window": window, "size": options.size, "kind": kind}
        order["seconds"] = options.seconds
        workers = [stack.enter_context(Worker(SIDES, "publish", **order)) for _ in range(options.publishers)]
        before_s = cpu_s()
        seconds, clients_s, sent = _together(workers)
        server_s = cpu_s() - before_s
        if name == "shoal" and kind == "queue":
            _check_queue(where["domain"], sent)
    return {"msg_s": sent / seconds, "cpu_s_per_million": (clients_s + server_s) / sent * 1e6}


def _check_queue(domain: str, count: int) -> None:
    with shoal.connect(domain=domain, interface="lo") as bus:
        found = bus.queue(QUEUE).purge()
    if found != count:
        raise ExperimentError(f"{found} of {count} messages are in the queue")


def _through(
    options: PersistentOptions, name: str, path: Path, sync_s: float, count: int
) -> dict[str, float]:
    """Send, receive and acknowledge, at the same time."""
    with _contestant(name, path, sync_s) as (where, cpu_s), contextlib.ExitStack() as stack:
        order = {
            **where,
            "count": count,
            "window": options.window,
            "size": options.size,
            "kind": "queue",
        }
        workers = [stack.enter_context(Worker(SIDES, role, **order)) for role in ("consume", "publish")]
        before_s = cpu_s()
        seconds, clients_s, _ = _together(workers)
        server_s = cpu_s() - before_s
    return {"msg_s": count / seconds, "cpu_s_per_million": (clients_s + server_s) / count * 1e6}


def _topics(options: PersistentOptions, path: Path, sync_s: float, follow: Follow) -> dict[str, Any]:
    """Topics that only the store wants, and one that a live subscriber watches."""
    figures: dict[str, Any] = {}
    for what, window, count in (
        ("waiting", 0, options.waiting),
        ("windowed", options.window, options.windowed),
    ):
        figures[what] = _sending(options, "shoal", path, sync_s, count, window, "topic")
        follow(options.rounds, f"shoal, a topic, {what}", f"{figures[what]['msg_s']:,.0f} messages/s")
        with _contestant("shoal", path, sync_s) as (where, _), contextlib.ExitStack() as stack:
            order = {**where, "count": count, "window": window, "size": options.size, "kind": "topic"}
            order["seconds"] = options.seconds
            watcher = stack.enter_context(Worker(SIDES, "watch", **order))
            watcher.wait_progress(PATIENCE_S)
            workers = [
                stack.enter_context(Worker(SIDES, "publish", **order)) for _ in range(options.publishers)
            ]
            seconds, _, sent = _together(workers)
            watcher.tell()
            received = watcher.result(PATIENCE_S)["received"]
            if received != sent:
                raise ExperimentError(f"a live subscriber got {received} of {sent} messages")
        figures[f"{what}_watched"] = {"msg_s": sent / seconds}
        follow(options.rounds, f"shoal, a watched topic, {what}", f"{sent / seconds:,.0f} messages/s")
    return figures


def _outbox(options: PersistentOptions, path: Path, follow: Follow) -> dict[str, Any]:
    reached = []
    for number in range(1, options.rounds + 1):
        follow(number, "outbox", "")
        with tempfile.TemporaryDirectory(dir=path) as directory:
            order: dict[str, Any] = {"size": options.size, "count": options.boxed, "directory": directory}
            order["seconds"] = options.seconds
            with Worker(SIDES, "outbox", **order) as worker:
                reached.append(worker.result(PATIENCE_S))
        follow(number, "outbox", f"{reached[-1]['msg_s']:,.0f} messages/s")
    figures = {name: median(one[name] for one in reached) for name in reached[0]}
    figures["fdatasync_ms"] = 1000 / figures["fdatasync_s"]
    figures["share_of_fdatasync"] = median(one["msg_s"] / one["fdatasync_s"] for one in reached)
    return figures


def _store(options: PersistentOptions, path: Path, follow: Follow) -> dict[str, Any]:
    """How fast a durable subscriber catches up, and how long a killed store takes to be there again."""
    follow(options.rounds, "shoal, catching up", "")
    directory = path / "behind"
    with StoreProcess(directory, record="bench-records-nothing") as store:
        order: dict[str, Any] = {"contestant": "shoal", "domain": store.domain, "size": options.size}
        with Worker(SIDES, "catch_up", **order, count=0) as worker:
            worker.result(PATIENCE_S)
        sending = {**order, "count": options.behind, "window": options.window, "kind": "topic"}
        with Worker(SIDES, "publish", **sending) as publisher:
            _together([publisher])
        with Worker(SIDES, "catch_up", **order, count=options.behind) as reader:
            before_s = store.cpu_s()
            seconds, reader_s, _ = _together([reader])
            store_s = store.cpu_s() - before_s
        store.kill()
        began = time.perf_counter()
        store.start()
        recovered_s = time.perf_counter() - began
    stored = sum(file.stat().st_size for file in directory.glob("*.log"))
    log = Log(directory, store_id=1, incarnation=bytes(16))
    began = time.perf_counter()
    _, rows, size = log.extent(0, log.end, [">"])
    read_s = time.perf_counter() - began
    log.close()
    follow(options.rounds, "shoal, catching up", f"{options.behind / seconds:,.0f} messages/s")
    caught_up_mb_s = options.behind * options.size / 1e6 / seconds
    read_mb_s = size / 1e6 / read_s
    return {
        "catch_up": {
            "msg_s": options.behind / seconds,
            "mb_s": caught_up_mb_s,
            "log_read_mb_s": read_mb_s,
            "log_rows": rows,
            "share_of_log_read": caught_up_mb_s / read_mb_s,
            "store_cpu_us_per_message": store_s / options.behind * 1e6,
            "reader_cpu_us_per_message": reader_s / options.behind * 1e6,
        },
        "recovery": {"seconds": recovered_s, "gb": stored / 1e9, "s_per_gb": recovered_s / (stored / 1e9)},
    }


def _large(options: PersistentOptions, path: Path, follow: Follow) -> dict[str, Any]:
    """A queue of many messages: what the store takes, how soon it is there again, how soon it delivers."""
    follow(options.rounds, "shoal, a long queue", "")
    with StoreProcess(path / "large", record="bench-records-nothing") as store:
        order: dict[str, Any] = {"contestant": "shoal", "domain": store.domain, "size": 16, "kind": "queue"}
        order["window"] = 10_000
        with Worker(SIDES, "publish", **order, count=options.large) as publisher:
            _together([publisher])
        filled_mb = store.memory_mb()
        store.kill()
        began = time.perf_counter()
        store.start()
        started_s = time.perf_counter() - began
        with shoal.connect(domain=store.domain, interface="lo") as bus:
            began = time.perf_counter()
            first = bus.queue(QUEUE).receive(PATIENCE_S)
            delivered_s = time.perf_counter() - began
        if first is None or first.body[:8] != bytes(8):
            raise ExperimentError("the first message is not the first that was sent")
        return {
            "messages": options.large,
            "memory_mb": filled_mb,
            "memory_after_start_mb": store.memory_mb(),
            "start_s": started_s,
            "first_delivery_s": delivered_s,
        }
