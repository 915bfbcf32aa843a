"""Spark reads the same rows from a store and from Parquet files, in one session, in turns; then it writes
them.

Rows have eight columns with a body of 100 bytes. Reading goes to Spark's sink `noop`, which takes every
column and does nothing. Every contestant's rows are counted and their offsets added up before anything is
measured.
"""

import json
import statistics
import tempfile
import threading
import time
import uuid
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pyarrow.parquet as pq

from shoal.processes.store import StoreProcess
from shoal_bench.errors import ExperimentError
from shoal_bench.experiment import check_options
from shoal_bench.rounds import Follow, alternate

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession
    from pyspark.sql.streaming.query import StreamingQuery

COLUMNS = ("offset", "topic", "timestamp", "stored", "publisher", "number", "priority", "body")
BODY_BYTES = 100
TOPICS = 100
#: Rows are published and written to Parquet in portions of as many.
PORTION = 250_000
#: One of ten values: a selector for one of them selects a tenth of the rows.
BUCKETS = 10


@dataclass(frozen=True, kw_only=True)
class SparkOptions:
    """What to measure.

    Attributes:
        rows: how many rows are read, and written, in each round.
        rounds: how often each contestant runs.
        rate: rows per second while the latency is measured.
        seconds: for how long it is measured.
    """

    rows: int = 2_000_000
    rounds: int = 5
    rate: int = 20_000
    seconds: float = 20.0

    def __post_init__(self) -> None:
        checks = [(getattr(self, name) >= 1, name, "at least 1") for name in ("rows", "rounds", "rate")]
        check_options(self, [*checks, (self.seconds >= 5, "seconds", "at least 5")])


def run(options: SparkOptions, follow: Follow) -> dict[str, Any]:
    """All parts, in one Spark session and with one store."""
    import shoal.spark

    with (
        tempfile.TemporaryDirectory(prefix="shoal-bench-") as made,
        StoreProcess(Path(made) / "store") as store,
    ):
        place = Path(made)
        follow(0, "rows", "")
        _fill(store.address, options.rows)
        files = _write_parquet(store.address, place / "parquet")
        spark = shoal.spark.session("shoal bench", quiet=True)
        try:
            bench = _Bench(spark, store.address, files, place, options.rows)
            bench.check()
            return _measure(bench, options, follow)
        finally:
            spark.stop()


def _measure(bench: "_Bench", options: SparkOptions, follow: Follow) -> dict[str, Any]:
    rate: Callable[[float], str] = lambda rows_s: f"{rows_s / 1e6:.2f} M rows/s"  # noqa: E731
    readers = {
        "shoal batch": bench.batch_shoal,
        "parquet batch": bench.batch_parquet,
        "shoal stream": bench.stream_shoal,
        "parquet stream": bench.stream_parquet,
        "selector": bench.with_selector,
        "filter": bench.with_filter,
    }
    for name, measure in readers.items():
        follow(0, name, rate(measure()))
    reached = alternate(readers, options.rounds, lambda name: readers[name](), rate, follow)
    follow(0, "sink", rate(bench.write()[0]))
    written = alternate(
        ["sink"], options.rounds, lambda _: bench.write(), lambda reached: rate(reached[0]), follow
    )["sink"]
    follow(0, "latency", "")
    latency = bench.latency(options.rate, options.seconds)
    median = {name: statistics.median(values) for name, values in reached.items()}
    return {
        "shoal": {
            "batch_rows_s": median["shoal batch"],
            "stream_rows_s": median["shoal stream"],
            "selector_rows_s": median["selector"],
            "sink_rows_s": statistics.median(committed for committed, _ in written),
            "sink_published_rows_s": statistics.median(published for _, published in written),
            **latency,
        },
        "parquet": {"batch_rows_s": median["parquet batch"], "stream_rows_s": median["parquet stream"]},
        "ratio_to_parquet": median["shoal stream"] / median["parquet stream"],
        "ratio_to_parquet_batch": median["shoal batch"] / median["parquet batch"],
        "selector_speedup": median["selector"] / median["filter"],
        "rows": options.rows,
        "rounds": options.rounds,
    }


def table(rows: int, topic: str = "bench") -> pa.Table:
    """Messages to be written in."""
    numbers = range(rows)
    return pa.table(
        {
            "topic": pa.array([f"{topic}/{number % TOPICS}" for number in numbers]),
            "body": pa.array([number.to_bytes(8, "big") * (BODY_BYTES // 8) + b"1234" for number in numbers]),
            "properties": pa.array(
                [{"bucket": number % BUCKETS} for number in numbers], pa.struct([("bucket", pa.int64())])
            ),
        }
    )


def _fill(address: str, rows: int) -> None:
    from shoal import history

    portion = table(min(rows, PORTION))
    with history.connect(address) as client:
        for first in range(0, rows, PORTION):
            client.write(portion.slice(0, min(PORTION, rows - first)))


def _write_parquet(address: str, directory: Path) -> Path:
    """The same rows as files, as Spark reads them best: a few large ones."""
    from shoal import history

    directory.mkdir()
    with history.connect(address) as client:
        waiting: list[pa.RecordBatch] = []
        count = 0
        for batch in client.batches("bench/>", columns=list(COLUMNS)):
            waiting.append(batch)
            if sum(each.num_rows for each in waiting) >= PORTION * 2:
                pq.write_table(pa.Table.from_batches(waiting), directory / f"{count}.parquet")
                waiting, count = [], count + 1
        if waiting:
            pq.write_table(pa.Table.from_batches(waiting), directory / f"{count}.parquet")
    return directory


class _Bench:
    """What is measured, each as rows per second."""

    def __init__(self, spark: "SparkSession", address: str, files: Path, place: Path, rows: int) -> None:
        self._spark, self._address, self._files, self._place, self._rows = spark, address, files, place, rows

    def check(self) -> None:
        """Both contestants must have the same rows, and all of them."""
        sums = {
            name: tuple(frame.selectExpr("count(*)", "sum(offset)", "sum(octet_length(body))").collect()[0])
            for name, frame in (("shoal", self._history()), ("parquet", self._parquet()))
        }
        if sums["shoal"] != sums["parquet"] or sums["shoal"][0] != self._rows:
            raise ExperimentError(
                f"the contestants read different rows: {sums}, and {self._rows} were written"
            )

    def batch_shoal(self) -> float:
        return self._timed(lambda: _noop(self._history()))

    def batch_parquet(self) -> float:
        return self._timed(lambda: _noop(self._parquet()))

    def stream_shoal(self) -> float:
        reader = self._spark.readStream.format("shoal").option("store", self._address)
        options = {"subscribe": "bench/>", "startingOffsets": "earliest", "columns": ",".join(COLUMNS)}
        return self._streamed(reader.options(**options).load())

    def stream_parquet(self) -> float:
        return self._streamed(self._spark.readStream.schema(self._parquet().schema).parquet(str(self._files)))

    def with_selector(self) -> float:
        """A tenth of the rows, chosen by the store; rows that were looked at count."""
        return self._timed(lambda: _noop(self._history(selector=f"bucket = {BUCKETS - 1}")))

    def with_filter(self) -> float:
        """The same rows, chosen by Spark."""
        frame = self._history(propertySchema="bucket BIGINT", columns=",".join((*COLUMNS, "bucket")))
        return self._timed(lambda: _noop(frame.where(f"bucket = {BUCKETS - 1}")))

    def write(self) -> tuple[float, float]:
        """Rows from Parquet files into the store, exactly once: until committed, and until published."""
        frame = self._parquet().select("body")
        topic = f"sink/{uuid.uuid4().hex}"
        self._wait_until_published()
        began = time.perf_counter()
        writer = frame.write.format("shoal").option("store", self._address).option("topic", topic)
        writer.mode("append").save()
        committed_s = time.perf_counter() - began
        self._wait_until_published()
        published_s = time.perf_counter() - began
        written = self._history(subscribe=topic, columns="offset").count()
        if written != self._rows:
            raise ExperimentError(f"{written} rows were written, not {self._rows}")
        return written / committed_s, written / published_s

    def _wait_until_published(self) -> None:
        """What a commit leaves to be published would slow down whatever is measured next."""
        from shoal import history

        with history.connect(self._address) as client:
            while client.status()["unpublished_rows"]:
                time.sleep(0.02)

    def latency(self, rate: int, seconds: float) -> dict[str, float]:
        """From the store to the store, exactly once, at a given rate: how long micro-batches take."""
        source = {"store": self._address, "subscribe": "live/>", "columns": "topic,body"}
        # What is fed while the query starts counts as well.
        source["startingOffsets"] = str(self._end())
        frame = self._spark.readStream.format("shoal").options(**source).load()
        query = (
            frame.selectExpr("concat('out/', topic) AS topic", "body")
            .writeStream.format("shoal")
            .option("store", self._address)
            .option("checkpointLocation", str(self._place / "latency"))
            .start()
        )
        feeder = _Feeder(self._address, rate)
        feeder.start()
        try:
            time.sleep(seconds)
            feeder.stop()
            self._wait_for(feeder.written, query)
        finally:
            feeder.stop()
            query.stop()
        return _latencies(query.recentProgress, self._delays(feeder.written))

    def _end(self) -> int:
        from shoal import history

        with history.connect(self._address) as client:
            return int(client.info()["end"])

    def _wait_for(self, rows: int, query: "StreamingQuery") -> None:
        from shoal import history

        deadline = time.monotonic() + 60
        with history.connect(self._address) as client:
            while client.latest("out/>")["rows"] < rows:
                if query.exception() is not None or time.monotonic() > deadline:
                    raise ExperimentError(f"the query did not finish: {query.exception() or 'too slow'}")
                time.sleep(0.2)

    def _delays(self, fed: int) -> list[float]:
        """How long after a row the copy of it was stored, in milliseconds; second half, when all is warm."""
        pair = (
            self._history(subscribe="live/>", columns="stored,body").withColumnRenamed("stored", "came")
            .join(self._history(subscribe="out/>", columns="stored,body"), "body")
            .selectExpr("unix_micros(stored) - unix_micros(came) AS us", "came")
        )  # fmt: skip
        rows = pair.orderBy("came").toArrow().column("us").to_pylist()
        if len(rows) != fed:
            raise ExperimentError(f"{fed} rows were fed, and {len(rows)} pairs of a row and its copy found")
        return sorted(us / 1000 for us in rows[len(rows) // 2 :])

    def _history(self, **options: str) -> "DataFrame":
        chosen = {"subscribe": "bench/>", "columns": ",".join(COLUMNS), **options}
        return self._spark.read.format("shoal").option("store", self._address).options(**chosen).load()

    def _parquet(self) -> "DataFrame":
        return self._spark.read.parquet(str(self._files)).select(*COLUMNS)

    def _timed(self, action: Callable[[], object]) -> float:
        began = time.perf_counter()
        action()
        return self._rows / (time.perf_counter() - began)

    def _streamed(self, frame: "DataFrame") -> float:
        """All rows as a stream that ends; what Spark needs to start a query does not count."""
        place = self._place / f"stream-{uuid.uuid4().hex}"
        query = (
            frame.writeStream.format("noop")
            .option("checkpointLocation", str(place))
            .trigger(availableNow=True)
            .start()
        )
        query.awaitTermination()
        progress = [_loaded(each) for each in query.recentProgress]
        rows = sum(int(each["numInputRows"]) for each in progress)
        if rows != self._rows:
            raise ExperimentError(f"a stream read {rows} rows, and there are {self._rows}")
        return rows / (sum(int(each["durationMs"]["triggerExecution"]) for each in progress) / 1000)


class _Feeder(threading.Thread):
    """Writes rows at a steady rate, ten times a second."""

    def __init__(self, address: str, rate: int) -> None:
        super().__init__(name="feeder", daemon=True)
        self.written = 0
        self._address, self._rate = address, rate
        self._stopped = threading.Event()

    def run(self) -> None:
        from shoal import history

        count = max(self._rate // 10, 1)
        with history.connect(self._address) as client:
            due = time.monotonic()
            while not self._stopped.is_set():
                bodies = [f"{self.written + at:0{BODY_BYTES}d}".encode() for at in range(count)]
                client.write(pa.table({"body": bodies}), topic="live/rows")
                self.written += count
                due += 0.1
                self._stopped.wait(max(due - time.monotonic(), 0))

    def stop(self) -> None:
        self._stopped.set()
        self.join()


def _latencies(progress: list[Any], delays_ms: list[float]) -> dict[str, float]:
    took = sorted(
        each["durationMs"]["triggerExecution"]
        for each in map(_loaded, progress[len(progress) // 3 :])
        if each["numInputRows"]
    )
    if not took or not delays_ms:
        raise ExperimentError("no micro-batch was measured: measure for longer")
    return {
        "batch_p50_ms": took[len(took) // 2],
        "batch_p99_ms": took[len(took) * 99 // 100],
        "row_p50_ms": delays_ms[len(delays_ms) // 2],
        "row_p99_ms": delays_ms[len(delays_ms) * 99 // 100],
    }


def _noop(frame: "DataFrame") -> None:
    frame.write.format("noop").mode("overwrite").save()


def _loaded(progress: Any) -> dict[str, Any]:
    return dict(json.loads(progress.json)) if hasattr(progress, "json") else dict(progress)
