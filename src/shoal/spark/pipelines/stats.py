"""How much, how large, how late, how much lost: for each window of time, topic and publisher.

Times are those at which the store stored messages, which never go back: so a window is complete as soon as
something later was stored. The delay is the time from publishing to storing; it is as exact as the two clocks
agree. Percentiles come from a histogram whose steps are 4 %: 16 for each doubling. What is lost is what the
store's gap records say. They name publisher and chain; the topic of a message that never came is known only
if all that came from the publisher on that chain in the window had one topic. Otherwise its row has the topic
`?`.
"""

import json
from collections.abc import Callable, Iterable
from dataclasses import asdict, dataclass, replace
from datetime import datetime, timedelta
from pathlib import Path
from typing import TYPE_CHECKING, Any

from shoal.errors import ConfigError
from shoal.spark.options import parse_duration_s
from shoal.spark.pipelines import common

if TYPE_CHECKING:
    from matplotlib.figure import Figure
    from pyspark.sql import Column, DataFrame, SparkSession
    from pyspark.sql.streaming.query import StreamingQuery

#: Steps of the histogram of delays for each doubling.
STEPS = 16
#: A report of more rows is refused: take a longer window, or fewer topics.
ROWS_MAX = 200_000
#: Stands for the topic of what is lost, where it is not known.
UNKNOWN_TOPIC = "?"

_COLUMNS = "topic,publisher,chain,timestamp,stored,body"


@dataclass(frozen=True)
class WindowStats:
    """One window of one topic and publisher.

    Attributes:
        start: when the window begins.
        topic: the topic; `?` for messages that are lost and may have been on any.
        publisher: who published.
        messages: how many messages were stored.
        bytes: how many bytes their bodies have.
        messages_per_s: how many in a second.
        bytes_per_s: how many bytes in a second.
        delay_p50_ms: half of the messages were stored within this time.
        delay_p99_ms: 99 % of them were.
        delay_max_ms: all of them were.
        lost: how many messages of this publisher and topic the store missed meanwhile.
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
    gaps = _gaps(spark, window_s, common.gap_options(chosen))
    found = with_losses(_collected(histogram(rows, window_s), window_s), gaps)
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
        counted = _collected(batch, window_s)
        if not counted:
            return
        windows = {each.start for each, _ in counted}
        since = {"startingTimestamp": str(int(min(windows).timestamp() * 1000))}
        gaps = _gaps(spark, window_s, common.gap_options(chosen, since))
        found = with_losses(counted, [gap for gap in gaps if gap.start in windows])
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
        rows.groupBy(span.alias("span"), "topic", "publisher", "chain", step.alias("step"))
        .agg(
            f.count("*").alias("messages"),
            f.sum(f.coalesce(f.octet_length("body"), f.lit(0))).alias("bytes"),
            f.max(delay_us).alias("slowest_us"),
        )
        .select(
            f.col("span.start").alias("start"),
            "topic",
            "publisher",
            "chain",
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
        # A step's middle may lie beyond the slowest message of all.
        return f.least(f.pow(f.lit(2.0), (step + 0.5) / STEPS) / 1000, slowest)

    slowest = f.max("slowest_us") / 1000
    return marked.groupBy(*group).agg(
        f.sum("messages").alias("messages"),
        f.sum("bytes").alias("bytes"),
        percentile(0.5).alias("delay_p50_ms"),
        percentile(0.99).alias("delay_p99_ms"),
        slowest.alias("delay_max_ms"),
        f.collect_set("chain").alias("chains"),
    )


def plot(found: Iterable[WindowStats], path: str | Path) -> None:
    """Draw rate and delay over time into an image."""
    drawn(found).savefig(path)


def drawn(found: Iterable[WindowStats]) -> "Figure":
    """Rate and delay over time."""
    try:
        from matplotlib.dates import AutoDateLocator, ConciseDateFormatter
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
        rate = [sum(each.messages_per_s for each in windows[at]) for at in times]
        rates.plot(times, rate, marker="o", markersize=3, label=topic)
        late = [max((each.delay_p99_ms or 0.0 for each in windows[at]), default=0.0) for at in times]
        delays.plot(times, late, marker="o", markersize=3, label=topic)
    rates.set_ylabel("messages/s")
    delays.set_ylabel("delay, 99 %, ms")
    for axes in (rates, delays):
        axes.set_ylim(0, axes.get_ylim()[1] * 1.05)
    known = sorted({at for windows in by_topic.values() for at in windows})
    if len(known) == 1:
        # One window alone would be drawn on a scale of years.
        delays.set_xlim(known[0] - timedelta(minutes=1), known[0] + timedelta(minutes=1))
    locator = AutoDateLocator()  # type: ignore[no-untyped-call]
    delays.xaxis.set_major_locator(locator)
    delays.xaxis.set_major_formatter(ConciseDateFormatter(locator))  # type: ignore[no-untyped-call]
    if 0 < len(by_topic) <= 10:
        rates.legend()
    return figure


@dataclass(frozen=True)
class Gap:
    """What a store missed of one chain of a publisher, in one window."""

    start: datetime
    publisher: str
    chain: int
    lost: int


def with_losses(
    counted: Iterable[tuple[WindowStats, Iterable[int | None]]], gaps: Iterable[Gap]
) -> list[WindowStats]:
    """Add what is lost to the rows, each of which comes with the chains of its messages.

    What may have been on any topic gets a row of its own.
    """
    rows: dict[tuple[datetime, str, str], WindowStats] = {}
    topics: dict[tuple[datetime, str, int | None], set[str]] = {}
    for each, chains in counted:
        rows[each.start, each.topic, each.publisher] = each
        for chain in chains:
            topics.setdefault((each.start, each.publisher, chain), set()).add(each.topic)
    for gap in gaps:
        known = topics.get((gap.start, gap.publisher, gap.chain), set())
        topic = next(iter(known)) if len(known) == 1 else UNKNOWN_TOPIC
        key = gap.start, topic, gap.publisher
        row = rows.get(key) or WindowStats(
            gap.start, topic, gap.publisher, 0, 0, 0.0, 0.0, None, None, None, 0
        )
        rows[key] = replace(row, lost=row.lost + gap.lost)
    return [rows[key] for key in sorted(rows)]


def _collected(counted: "DataFrame", window_s: float) -> list[tuple[WindowStats, list[int | None]]]:
    """The rows without losses, each with the chains of its messages."""
    rows = summarise(counted).limit(ROWS_MAX + 1).collect()
    if len(rows) > ROWS_MAX:
        raise ConfigError(f"more than {ROWS_MAX:,} rows of statistics: take a longer window, or fewer topics")
    return [
        (
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
                lost=0,
            ),
            row["chains"],
        )
        for row in rows
    ]


def _gaps(spark: "SparkSession", window_s: float, options: dict[str, str]) -> list[Gap]:
    """What the store missed, by window, publisher and chain."""
    from pyspark.sql import functions as f

    span = f.window("stored", f"{round(window_s * 1000)} milliseconds")
    # What the store may have missed while it was away is no count of what was lost.
    gaps = common.read(spark, options).where("reason = 'lost'")
    found = gaps.groupBy(span.alias("span"), "publisher", "chain").agg(f.sum("count").alias("lost"))
    return [
        Gap(row["span"]["start"], row["publisher"], row["chain"], row["lost"])
        for row in found.limit(ROWS_MAX).collect()
    ]


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
