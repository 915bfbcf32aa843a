"""A store's history: recording what a publisher sends, and reading it back over Arrow Flight.

Store, publisher and reader are processes of their own. Every recorded message is read back and compared.
"""

import contextlib
import os
import tempfile
import time
from collections.abc import Iterator
from dataclasses import asdict, dataclass
from pathlib import Path
from statistics import median
from typing import Any

import numpy as np

import shoal.history
from shoal.errors import ShoalError
from shoal.history import History
from shoal.processes.worker import Worker
from shoal_bench.bodies import Bodies
from shoal_bench.contestant import TOPIC, Load, Place
from shoal_bench.errors import ExperimentError
from shoal_bench.experiment import check_options
from shoal_bench.history_sides import WANTED
from shoal_bench.norm import free_port
from shoal_bench.rounds import Follow

SIDES, PUBLISHER = "shoal_bench.history_sides", "shoal_bench.pubsub_sides"
ROW_BYTES = 100
#: Short ones, so that a hundred million fit on most disks.
LARGE_ROW_BYTES = 16
COLUMNS = ["offset", "topic", "timestamp", "body"]
TOPICS, RARE_TOPIC, RARE_ROWS = 10_000, "rare/topic", 20
ROWS_MIN = 100_000
PATIENCE_S = 300.0


@dataclass(frozen=True, kw_only=True)
class HistoryOptions:
    """One run of the benchmark."""

    #: Rows that are read.
    rows: int = 5_000_000
    #: Messages that are recorded in each round, at 64 bytes; of 1 KB a quarter of it.
    messages: int = 2_000_000
    rounds: int = 5
    #: Messages of the store whose memory and recovery are measured.
    stored: int = 10_000_000
    #: Where the store is, on the disk to be measured; none is the directory for temporary files.
    directory: str | None = None

    def __post_init__(self) -> None:
        checks = [
            (self.rows >= ROWS_MIN, "rows", f"at least {ROWS_MIN}"),
            (self.messages >= 1000, "messages", "at least 1000"),
            (self.rounds >= 1, "rounds", "at least 1"),
            (self.stored >= ROWS_MIN, "stored", f"at least {ROWS_MIN}"),
        ]
        check_options(self, checks)


class StoreProcess:
    """A store that records everything, in a process of its own."""

    def __init__(self, path: Path, place: Place) -> None:
        order: dict[str, Any] = {"path": str(path), "place": asdict(place)}
        self._worker = Worker(SIDES, "store", **order)
        try:
            self._worker.wait_progress(PATIENCE_S)
            self.history = shoal.history.connect(path)
        except BaseException:
            self.kill()
            raise

    def memory_mb(self) -> tuple[float, float]:
        """What it has now of its own, and the most it had, files that the kernel keeps in memory included."""
        status = Path(f"/proc/{self._worker.pid}/status").read_text()
        fields = dict(line.split(":", 1) for line in status.splitlines())
        return tuple(int(fields[name].split()[0]) / 1000 for name in ("RssAnon", "VmHWM"))  # type: ignore[return-value]

    def cpu_s(self) -> float:
        """Processor time so far."""
        times = Path(f"/proc/{self._worker.pid}/stat").read_text().rpartition(")")[2].split()
        return (int(times[11]) + int(times[12])) / os.sysconf("SC_CLK_TCK")

    def end(self) -> None:
        """Let it close its log and end."""
        self.history.close()
        try:
            self._worker.tell()
            self._worker.result(PATIENCE_S)
        finally:
            self.kill()

    def kill(self) -> None:
        """End it where it stands."""
        self._worker.__exit__(None, None, None)


@contextlib.contextmanager
def store_at(path: Path, place: Place) -> Iterator[StoreProcess]:
    """A store that is gone when the block ends."""
    store = StoreProcess(path, place)
    try:
        yield store
    except BaseException:
        store.kill()
        raise
    store.end()


def run(options: HistoryOptions, follow: Follow = lambda *_: None) -> dict[str, Any]:
    """Run everything and return the figures."""
    with tempfile.TemporaryDirectory(dir=options.directory) as made:
        path = Path(made)
        try:
            result: dict[str, Any] = {"disk": _disk(path, follow)}
            result |= _recording(options, path, follow)
            result |= _reading(options, path / "reading", follow)
            result |= _large(options, path / "large", follow)
        except ShoalError as error:
            raise ExperimentError(str(error)) from error
    return result | {"rounds": options.rounds, "cores": os.cpu_count(), "load_1min": os.getloadavg()[0]}


def _disk(path: Path, follow: Follow, size: int = 512 << 20) -> dict[str, Any]:
    """How fast the disk takes a file that is written in order and synced at its end."""
    follow(0, "disk", "")
    block = os.urandom(4 << 20)
    began_s = time.perf_counter()
    with (path / "sequential").open("wb", buffering=0) as file:
        for _ in range(size // len(block)):
            file.write(block)
        os.fdatasync(file.fileno())
    seconds = time.perf_counter() - began_s
    (path / "sequential").unlink()
    return {"write_mb_s": size / 1e6 / seconds, "gbit_s": size * 8 / 1e9 / seconds}


def _recording(options: HistoryOptions, path: Path, follow: Follow) -> dict[str, Any]:
    loads = {64: options.messages, 1024: max(1000, options.messages // 4)}
    reached: dict[int, list[tuple[float, float]]] = {size: [] for size in loads}
    for number in range(1, options.rounds + 1):
        for size, count in loads.items():
            follow(number, f"recording {size} B", "")
            at = path / f"recording-{size}-{number}"
            at.mkdir()
            reached[size].append(_record(at, Load(size=size, count=count)))
            follow(number, f"recording {size} B", f"{reached[size][-1][0]:,.0f} messages/s")
            _remove(at)
    figures = {}
    for size, rounds in reached.items():
        msg_s = median(rate for rate, _ in rounds)
        figures[f"recording_{size}"] = {
            "msg_s": msg_s,
            "gbit_s": msg_s * size * 8 / 1e9,
            "store_cpu_s_per_million": median(cpu_s / loads[size] * 1e6 for _, cpu_s in rounds),
            "messages": loads[size],
        }
    return figures


def _record(path: Path, load: Load) -> tuple[float, float]:
    """Messages per second, from the first published to the last that is durable, and the store's CPU time."""
    place = Place(port=free_port())
    with store_at(path, place) as store:
        options: dict[str, Any] = {"contestant": "shoal_loop", "place": asdict(place), "load": asdict(load)}
        before_s = store.cpu_s()
        with Worker(PUBLISHER, "publish", **options) as publisher:
            publisher.wait_ready()
            _wait_for_end(store.history, 1)
            began_s = time.perf_counter()
            already = store.history.info()["end"]
            _wait_for_end(store.history, load.count)
            seconds, cpu_s = time.perf_counter() - began_s, store.cpu_s() - before_s
            publisher.tell()
            publisher.result()
        _check(store.history, load)
    return (load.count - already) / seconds, cpu_s


def _wait_for_end(history: History, end: int) -> None:
    deadline = time.monotonic() + PATIENCE_S
    while (reached := history.info()["end"]) < end:
        left_s = deadline - time.monotonic()
        if left_s <= 0:
            raise ExperimentError(f"only {reached} of {end} messages were recorded within {PATIENCE_S} s")
        # The last offset that is missing: nothing is asked before it is there.
        history.wait(start=end - 1, columns=["offset"], timeout_s=left_s)


def _check(history: History, load: Load) -> None:
    """Every message is there, once, whole and in its place."""
    bodies = load.bodies()
    lap = np.frombuffer(b"".join(bodies[n] for n in range(len_of_lap(bodies))), np.uint8)
    lap = lap.reshape(-1, load.size)
    seen = 0
    for batch in history.batches(TOPIC, columns=["body"]):
        _, _, data = batch.column("body").buffers()
        found = np.frombuffer(data, np.uint8)[: batch.num_rows * load.size].reshape(-1, load.size)
        expected = lap[np.arange(seen, seen + batch.num_rows) % len(lap)]
        if not np.array_equal(found, expected):
            raise ExperimentError(f"messages near number {seen} are not what was published")
        seen += batch.num_rows
    if seen != load.count:
        raise ExperimentError(f"{seen} of {load.count} messages were recorded")


def len_of_lap(bodies: Bodies) -> int:
    """After how many bodies they begin again."""
    return next(number for number in range(1, 1 << 20) if bodies[number] == bodies[0])


def _reading(options: HistoryOptions, path: Path, follow: Follow) -> dict[str, Any]:
    path.mkdir()
    place = Place(port=free_port())
    follow(0, "filling", "")
    store = StoreProcess(path, place)
    try:
        _fill(store, place, options.rows)
        return _read_rounds(options, store, follow)
    finally:
        store.history.close()
        store.kill()
        _remove(path)


def _large(options: HistoryOptions, path: Path, follow: Follow) -> dict[str, Any]:
    """What a store with many messages takes in memory, after it was read in every way, and to open again."""
    path.mkdir()
    place, count = Place(port=free_port()), options.stored
    follow(0, "a large store", "")
    with Worker(SIDES, "fill", path=str(path), **_rows_order(count, LARGE_ROW_BYTES)) as filling:
        filling.result(PATIENCE_S * 10)
    store = StoreProcess(path, place)
    try:
        _read_in_every_way(store, count, path)
        anonymous_mb, most_mb = store.memory_mb()
        catch_up = _catch_up(store, path)
    finally:
        store.history.close()
        store.kill()
    follow(0, "recovery", "")
    began_s = time.perf_counter()
    with store_at(path, place) as store:
        ready_s = time.perf_counter() - began_s
        if store.history.info()["end"] != count:
            raise ExperimentError("after a restart the store does not have what it had")
        status = store.history.status()
    _remove(path)
    gigabytes, seconds = status["disk_bytes"]["log"] / 1e9, status["recovery"]["seconds"]
    return {
        "memory": {"rss_anonymous_mb": anonymous_mb, "rss_most_mb": most_mb, "messages": count},
        "catch_up": catch_up,
        "recovery": {
            "seconds": seconds,
            "gigabytes": gigabytes,
            "seconds_per_gigabyte": seconds / gigabytes,
            "gigabytes_read": status["recovery"]["bytes_read"] / 1e9,
            "ready_s": ready_s,
        },
    }


def _read_in_every_way(store: StoreProcess, count: int, path: Path) -> None:
    """Once the store has made its indexes: every row, one rare topic, a selector, topics, a plan."""
    history = store.history
    deadline = time.monotonic() + PATIENCE_S * 4
    while len(list(path.glob("*.idx"))) < history.status()["segments"] - 1:
        if time.monotonic() > deadline:
            raise ExperimentError("the store does not make its indexes")
        time.sleep(0.5)
    rows = sum(batch.num_rows for batch in history.batches(columns=COLUMNS))
    rare = history.read(RARE_TOPIC).num_rows
    if rows != count or rare < RARE_ROWS:
        raise ExperimentError(f"{rows} of {count} rows, and {rare} of {RARE_ROWS} rare ones were read")
    history.read(selector="JMSPriority = 9", columns=["offset"])
    topics, ranges = history.topics(), history.plan(partitions=64)
    if len(topics) != TOPICS + 1 or ranges[-1][1] != count:
        raise ExperimentError(f"{len(topics)} topics are listed, and ranges up to {ranges[-1][1]}")


def _catch_up(store: StoreProcess, path: Path) -> dict[str, Any]:
    """How fast the store goes through its log for a reader that is far behind, beside the files alone."""
    files = sorted(path.glob("0*.log"))
    size = sum(file.stat().st_size for file in files)
    began_s = time.perf_counter()
    for file in files:
        with file.open("rb", buffering=0) as opened:
            while opened.read(1 << 20):
                pass
    sequential_s = time.perf_counter() - began_s
    began_s = time.perf_counter()
    # Every message is looked at, and none is sent.
    store.history.latest(selector="JMSPriority = 9")
    seconds = time.perf_counter() - began_s
    rates = {"mb_s": size / 1e6 / seconds, "sequential_mb_s": size / 1e6 / sequential_s}
    return rates | {"ratio": sequential_s / seconds}


def _rows_order(rows: int, row_bytes: int = ROW_BYTES) -> dict[str, Any]:
    return {
        "rows": rows,
        "row_bytes": row_bytes,
        "topics": TOPICS,
        "rare_topic": RARE_TOPIC,
        "rare_rows": RARE_ROWS,
    }


def _fill(store: StoreProcess, place: Place, rows: int) -> None:
    with Worker(SIDES, "publish", place=asdict(place), **_rows_order(rows)) as publisher:
        _wait_for_end(store.history, rows)
        publisher.tell()
        publisher.result()


def _read_rounds(options: HistoryOptions, store: StoreProcess, follow: Follow) -> dict[str, Any]:
    endpoint = store.history.endpoint
    roles: dict[str, tuple[str, dict[str, Any], int]] = {
        "reading": ("read", {"query": {"columns": COLUMNS}}, options.rows),
        "reading_all_columns": ("read", {"query": {}}, options.rows),
        "select_in_store": ("select_in_store", {"columns": COLUMNS}, _wanted(options.rows)),
        "select_in_pandas": ("select_in_pandas", {"columns": COLUMNS}, _wanted(options.rows)),
        "rare_topic": ("read", {"query": {"topics": RARE_TOPIC, "columns": COLUMNS}}, RARE_ROWS),
    }
    results: dict[str, list[dict[str, Any]]] = {name: [] for name in roles}
    for number in range(1, options.rounds + 1):
        for name, (role, order, rows) in roles.items():
            follow(number, name, "")
            with Worker(SIDES, role, endpoint=endpoint, **order) as reader:
                result = dict(reader.result(PATIENCE_S))
            if result["rows"] != rows:
                raise ExperimentError(f"{name}: {result['rows']} rows came, and {rows} were expected")
            results[name].append(result)
            follow(number, name, f"{result['seconds']:.3f} s")
    seconds = {name: median(result["seconds"] for result in found) for name, found in results.items()}
    figures: dict[str, Any] = {}
    for name in ("reading", "reading_all_columns"):
        figures[name] = {
            "rows_s": options.rows / seconds[name],
            "gb_s": results[name][0]["bytes"] / 1e9 / seconds[name],
            "reader_cpu_s": median(result["cpu_s"] for result in results[name]),
            "rows": options.rows,
        }
    figures["selector"] = {
        "store_s": seconds["select_in_store"],
        "pandas_s": seconds["select_in_pandas"],
        "ratio": seconds["select_in_pandas"] / seconds["select_in_store"],
        "selected": _wanted(options.rows),
    }
    figures["rare_topic"] = {
        "ms": seconds["rare_topic"] * 1e3,
        "everything_ms": seconds["reading"] * 1e3,
        "ratio": seconds["reading"] / seconds["rare_topic"],
        "topics": TOPICS + 1,
    }
    return figures


def _wanted(rows: int) -> int:
    return len(range(WANTED, rows, 10))


def _remove(path: Path) -> None:
    for entry in sorted(path.rglob("*"), reverse=True):
        entry.rmdir() if entry.is_dir() else entry.unlink()
    path.rmdir()
