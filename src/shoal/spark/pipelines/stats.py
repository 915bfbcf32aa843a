"""How much, how large, how late, how much lost: for each window of time, topic and publisher.

Times are those at which the store stored messages, which never go back: so a window is complete as soon as
something later was stored. The delay is the time from publishing to storing; it is as exact as the two clocks
agree. Percentiles come from a histogram whose steps are 4 %: 16 for each doubling. What is lost is what the
store's gap records say.
"""

import json
from collections.abc import Callable, Iterable
from dataclasses import asdict, dataclass
from datetime import datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any

from shoal.errors import ConfigError
from shoal.spark.options import parse_duration_s
from shoal.spark.pipelines import common

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame, SparkSession
    from pyspark.sql.streaming.query import StreamingQuery

#: Steps of the histogram of delays for each doubling.
STEPS = 16
#: A report of more rows is refused: take a longer window, or fewer topics.
ROWS_MAX = 200_000

_COLUMNS = "topic,publisher,timestamp,stored,body"


@dataclass(frozen=True)
class WindowStats:
    """One window of one topic and publisher.

    Attributes:
        start: when the window begins.
        topic: the topic.
        publisher: who published.
        messages: how many messages were stored.
        bytes: how many bytes their bodies have.
        messages_per_s: how many in a second.
        bytes_per_s: how many bytes in a second.
        delay_p50_ms: half of the messages were stored within this time.
        delay_p99_ms: 99 % of them were.
        delay_max_ms: all of them were.
        lost: how many messages of this publisher the store missed meanwhile, on whatever topic.
    """

    start: datetime
    topic: str
    publisher: str
    messages: int
    bytes: int
    messages_per_s: float
    bytes_per_s: float
    delay_p50_ms: float | None
    delay_p99_ms: float | None
    delay_max_ms: float | None
    lost: int

    def to_dict(self) -> dict[str, Any]:
        """For JSON and for messages."""
        return asdict(self) | {"start": self.start.isoformat()}


def stats(
    spark: "SparkSession",
    topics: str = ">",
    *,
    window: str = "10s",
    store: str | None = None,
    selector: str | None = None,
    to_topic: str | None = None,
    options: dict[str, str] | None = None,
) -> list[WindowStats]:
    """Statistics of what is stored now; written to the topic `to_topic` as well, if given."""
    window_s = parse_duration_s("window", window)
    chosen = common.source_options(topics, store, selector, options)
    rows = common.read(spark, chosen | {"columns": _COLUMNS})
    found = _collected(spark, histogram(rows, window_s), window_s, chosen)
    if to_topic is not None and found:
        _publish(spark, found, common.sink_options(to_topic, store))
    return found


def follow_stats(
    spark: "SparkSession",
    topics: str = ">",
    *,
    checkpoint: str | Path,
    shown: Callable[[list[WindowStats]], object],
    window: str = "10s",
    store: str | None = None,
    selector: str | None = None,
    to_topic: str | None = None,
    options: dict[str, str] | None = None,
) -> "StreamingQuery":
    """Start statistics of what is stored from now on: `shown` gets each window when it is complete.

    With `to_topic` each is also published there, once, as a mapping.
    """
    window_s = parse_duration_s("window", window)
    chosen = common.source_options(topics, store, selector, options)
    rows = common.read(spark, chosen | {"columns": _COLUMNS}, follow=True)
    counted = histogram(rows.withWatermark("stored", "0 seconds"), window_s)

    def report(batch: "DataFrame", number: int) -> None:
        found = _collected(spark, batch, window_s, chosen)
        if not found:
            return
        if to_topic is not None:
            again = {"writeId": f"stats-{_query_id(Path(checkpoint))}", "writeNumber": str(number)}
            _publish(spark, found, common.sink_options(to_topic, store) | again)
        shown(found)

    writer = counted.writeStream.outputMode("append").foreachBatch(report)
    return writer.option("checkpointLocation", str(checkpoint)).queryName(f"stats {topics}").start()


def histogram(rows: "DataFrame", window_s: float) -> "DataFrame":
    """Counts by window, topic, publisher and step of the delay; of a batch or of a stream."""
    from pyspark.sql import functions as f

    delay_us = f.unix_micros("stored") - f.unix_micros("timestamp")
    step = f.floor(f.log2(f.greatest(delay_us, f.lit(1))) * STEPS)
    span = f.window("stored", f"{round(window_s * 1000)} milliseconds")
    return (
        rows.groupBy(span.alias("span"), "topic", "publisher", step.alias("step"))
        .agg(
            f.count("*").alias("messages"),
            f.sum(f.coalesce(f.octet_length("body"), f.lit(0))).alias("bytes"),
            f.max(delay_us).alias("slowest_us"),
        )
        .select(
            f.col("span.start").alias("start"),
            "topic",
            "publisher",
            "step",
            "messages",
            "bytes",
            "slowest_us",
        )
    )


def summarise(counted: "DataFrame") -> "DataFrame":
    """From the histogram to one row for each window, topic and publisher."""
    from pyspark.sql import Window
    from pyspark.sql import functions as f

    group = ["start", "topic", "publisher"]
    known = f.when(f.col("step").isNotNull(), f.col("messages")).otherwise(0)
    ordered = Window.partitionBy(*group).orderBy(f.col("step").asc_nulls_last())
    marked = counted.select(
        "*",
        f.sum(known).over(ordered).alias("up_to"),
        f.sum(known).over(Window.partitionBy(*group)).alias("of"),
    )

    def percentile(part: float) -> "Column":
        reached = f.col("up_to") >= f.col("of") * part
        step = f.min(f.when(reached & f.col("step").isNotNull(), f.col("step")))
        return f.pow(f.lit(2.0), (step + 0.5) / STEPS) / 1000

    return marked.groupBy(*group).agg(
        f.sum("messages").alias("messages"),
        f.sum("bytes").alias("bytes"),
        percentile(0.5).alias("delay_p50_ms"),
        percentile(0.99).alias("delay_p99_ms"),
        (f.max("slowest_us") / 1000).alias("delay_max_ms"),
    )


def plot(found: Iterable[WindowStats], path: str | Path) -> None:
    """Draw rate and delay over time into an image."""
    try:
        from matplotlib.figure import Figure
    except ImportError:
        raise ConfigError("a plot needs matplotlib: pip install 'shoal[plot]'") from None
    by_topic: dict[str, dict[datetime, list[WindowStats]]] = {}
    for each in found:
        by_topic.setdefault(each.topic, {}).setdefault(each.start, []).append(each)
    figure = Figure(figsize=(9, 6), layout="constrained")
    rates, delays = figure.subplots(2, 1, sharex=True)
    for topic, windows in sorted(by_topic.items()):
        times = sorted(windows)
        rates.plot(times, [sum(each.messages_per_s for each in windows[at]) for at in times], label=topic)
        late = [max((each.delay_p99_ms or 0.0 for each in windows[at]), default=0.0) for at in times]
        delays.plot(times, late, label=topic)
    rates.set_ylabel("messages/s")
    delays.set_ylabel("delay, 99 %, ms")
    if 0 < len(by_topic) <= 10:
        rates.legend()
    figure.autofmt_xdate()
    figure.savefig(path)


def _collected(
    spark: "SparkSession", counted: "DataFrame", window_s: float, chosen: dict[str, str]
) -> list[WindowStats]:
    rows = summarise(counted).orderBy("start", "topic", "publisher").limit(ROWS_MAX + 1).collect()
    if len(rows) > ROWS_MAX:
        raise ConfigError(f"more than {ROWS_MAX:,} rows of statistics: take a longer window, or fewer topics")
    lost = _lost(spark, window_s, chosen) if rows else {}
    return [
        WindowStats(
            start=row["start"],
            topic=row["topic"],
            publisher=row["publisher"],
            messages=row["messages"],
            bytes=row["bytes"],
            messages_per_s=row["messages"] / window_s,
            bytes_per_s=row["bytes"] / window_s,
            delay_p50_ms=row["delay_p50_ms"],
            delay_p99_ms=row["delay_p99_ms"],
            delay_max_ms=row["delay_max_ms"],
            lost=lost.get((row["start"], row["publisher"]), 0),
        )
        for row in rows
    ]


def _lost(spark: "SparkSession", window_s: float, chosen: dict[str, str]) -> dict[tuple[datetime, str], int]:
    """Messages that the store missed, by window and publisher."""
    from pyspark.sql import functions as f

    source = {
        name: value for name, value in chosen.items() if name in ("subscribe", "store", "token", "domain")
    }
    gaps = common.read(spark, source | {"gaps": "true"})
    span = f.window("stored", f"{round(window_s * 1000)} milliseconds")
    count = f.coalesce(f.col("last") - f.col("first") + 1, f.lit(1))
    found = gaps.groupBy(span.alias("span"), "publisher").agg(f.sum(count).alias("lost")).collect()
    return {(row["span"]["start"], row["publisher"]): row["lost"] for row in found}


def _publish(spark: "SparkSession", found: list[WindowStats], options: dict[str, str]) -> None:
    frame = spark.createDataFrame([(each.to_dict(),) for each in found], _PUBLISHED)
    frame.select("body.*").withColumnRenamed("topic", "of_topic").coalesce(1).write.format("shoal").options(
        **options
    ).mode("append").save()


_PUBLISHED = (
    "body STRUCT<start: STRING, topic: STRING, publisher: STRING, messages: BIGINT, bytes: BIGINT, "
    "messages_per_s: DOUBLE, bytes_per_s: DOUBLE, delay_p50_ms: DOUBLE, delay_p99_ms: DOUBLE, "
    "delay_max_ms: DOUBLE, lost: BIGINT>"
)


def _query_id(checkpoint: Path) -> str:
    """The id of the query, which stands in its checkpoint before the first micro-batch."""
    return str(json.loads((checkpoint / "metadata").read_text())["id"])
