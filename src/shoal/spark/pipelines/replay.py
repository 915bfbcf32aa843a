"""Publishes again what was recorded: from an archive or from history, in its order, with its spacing.

Spark reads; the driver publishes, for order needs one publisher, and Spark's executors never speak to the
bus. The messages are new ones: their identity and time are those of the replay. Their topic, body,
properties, priority, type and correlation id are those of the original.
"""

import json
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pyarrow as pa

import shoal
from shoal.errors import ConfigError
from shoal.spark.ddl import parse_schema
from shoal.spark.pipelines import archive, common

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

#: Messages are brought to the driver in portions of about as many.
PORTION_ROWS = 50_000
#: A message that is due sooner is published at once: sleeping is not as exact.
EARLY_S = 0.0005


@dataclass(frozen=True)
class Replayed:
    """What a replay did.

    Attributes:
        messages: how many messages were published.
        seconds: how long it took.
        late_max_s: by how much the latest message missed its time.
    """

    messages: int
    seconds: float
    late_max_s: float


class Pace:
    """When each message is due: the spacing of the originals, divided by a factor.

    Args:
        speed: 2 is twice as fast; 0 is as fast as possible.
        clock: tells seconds, from any beginning.
        sleep: waits for seconds.
    """

    def __init__(
        self,
        speed: float,
        clock: Callable[[], float] = time.monotonic,
        sleep: Callable[[float], object] = time.sleep,
    ) -> None:
        if not speed >= 0:
            raise ConfigError(f"speed must be 0 (as fast as possible) or a factor above it, not {speed}")
        self._speed, self._clock, self._sleep = speed, clock, sleep
        self._began: float | None = None
        self._first_us = 0
        self.late_max_s = 0.0

    def wait(self, published_us: int) -> None:
        """Return when the message that was published at this time is due."""
        if self._speed == 0:
            return
        if self._began is None:
            self._began, self._first_us = self._clock(), published_us
            return
        due = self._began + (published_us - self._first_us) / 1e6 / self._speed
        early = due - self._clock()
        if early > EARLY_S:
            self._sleep(early)
        else:
            self.late_max_s = max(self.late_max_s, -early)


def replay(
    spark: "SparkSession",
    source: str | Path,
    bus: "shoal.Bus",
    *,
    speed: float = 1.0,
    store: str | None = None,
    topics: str | None = None,
    prefix: str | None = None,
    property_schema: str | None = None,
    options: dict[str, str] | None = None,
    told: Callable[[int], object] | None = None,
) -> Replayed:
    """Publish recorded messages again.

    Args:
        spark: the session.
        source: the directory of an archive, or patterns of topics in a store's history.
        bus: where to publish.
        speed: 2 publishes twice as fast as the original, 0 as fast as possible.
        store: the store's address or directory, for history.
        topics: of an archive, only these topics: patterns with commas between them.
        prefix: published topics begin with this, followed by a slash.
        property_schema: types of properties, such as `size BIGINT`; others are published as texts.
        options: further options of the source, such as `startingTimestamp`.
        told: how many messages were published so far, now and then.
    """
    pace = Pace(speed)
    types = _property_types(property_schema)
    began, count = time.monotonic(), 0
    for portion in _portions(spark, source, store, topics, options):
        for row in portion.to_pylist():
            at = row["timestamp"] or row["stored"]
            pace.wait(round(at.timestamp() * 1e6))
            _publish(bus, row, prefix, types)
            count += 1
        if told is not None:
            told(count)
    bus.flush(30.0)
    return Replayed(count, time.monotonic() - began, pace.late_max_s)


def _portions(
    spark: "SparkSession",
    source: str | Path,
    store: str | None,
    topics: str | None,
    options: dict[str, str] | None,
) -> Iterator[pa.Table]:
    """The messages in the order of their offsets, a bounded number at a time."""
    from pyspark.sql import functions as f

    def frame() -> "DataFrame":
        return _frame(spark, source, store, topics, options)

    lowest, highest = frame().agg(f.min("offset"), f.max("offset")).collect()[0]
    if lowest is None:
        return
    for first in range(lowest, highest + 1, PORTION_ROWS):
        # Loaded anew for each portion, for its filter is pushed to the store.
        part = frame().where(f.col("offset").between(first, first + PORTION_ROWS - 1))
        yield part.orderBy("offset").toArrow()


def _frame(
    spark: "SparkSession",
    source: str | Path,
    store: str | None,
    topics: str | None,
    options: dict[str, str] | None,
) -> "DataFrame":
    if not Path(source).is_dir():
        if topics is not None:
            raise ConfigError(f"{source} is no archive: give the topics of history as the source itself")
        pushing = {"pushFilters": "true"} | (options or {})
        return common.read(spark, common.source_options(str(source), store, None, pushing))
    if options or store is not None:
        raise ConfigError(f"{source} is an archive, to which store and options of history mean nothing")
    frame = archive.load(spark, source)
    if topics is None:
        return frame
    from shoal.spark.topics import matches

    known = [row["topic"] for row in frame.select("topic").distinct().collect()]
    patterns = [pattern.strip() for pattern in topics.split(",")]
    chosen = [topic for topic in known if any(matches(pattern, topic) for pattern in patterns)]
    return frame.where(frame["topic"].isin(chosen))


def _publish(
    bus: "shoal.Bus", row: dict[str, Any], prefix: str | None, types: dict[str, Callable[[str], Any]]
) -> None:
    properties = {
        name: types[name](value) if name in types else value
        for name, value in (row["properties"] or ())
        if value is not None
    }
    bus.publish(
        row["topic"] if prefix is None else f"{prefix}/{row['topic']}",
        _body(row["body_kind"], row["body"]),
        properties=properties or None,
        priority=4 if row["priority"] is None else row["priority"],
        correlation_id=row["correlation_id"],
        reply_to=row["reply_to"],
        type=row["type"],
    )


def _body(kind: str | None, body: bytes | None) -> Any:
    if body is None or kind == "empty":
        return None
    if kind == "text":
        return body.decode()
    if kind in ("mapping", "list", "scalar"):
        return json.loads(body)
    if kind == "arrow":
        return pa.ipc.open_stream(body).read_all()
    return body


def _property_types(schema: str | None) -> dict[str, Callable[[str], Any]]:
    if schema is None:
        return {}
    parsers: dict[str, Callable[[str], Any]] = {
        "string": str,
        "boolean": lambda text: text.lower() == "true",
        "double": float,
        "float": float,
    }
    made = {f.name: f.dataType.simpleString() for f in parse_schema("property_schema", schema)}
    return {name: parsers.get(kind, int) for name, kind in made.items()}
