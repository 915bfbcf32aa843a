"""Reading queues: a batch looks at what is there, a stream takes it, exactly once.

Under the query's name the store sets messages aside, and keeps in its log which. Where a micro-batch starts
says which ones are meant: asking for the same start gives the same messages, also after a crash of any part;
asking for their end, which Spark does once the micro-batch is done, acknowledges them. The messages
themselves are read from history, by their offsets.
"""

import logging
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace
from functools import partial
from typing import Any

import pyarrow as pa
from pyspark.sql.datasource import DataSourceReader, DataSourceStreamReader, InputPartition
from pyspark.sql.streaming.datasource import (
    ReadAllAvailable,
    ReadLimit,
    ReadMaxBytes,
    ReadMaxRows,
    SupportsTriggerAvailableNow,
)
from pyspark.sql.types import StructType

from shoal.errors import ConfigError, DataLossError, HistoryError
from shoal.history import History, faults
from shoal.history.query import RUNS_MAX
from shoal.messages import spark as notices
from shoal.spark.explain import speaks_plainly
from shoal.spark.offsets import Position
from shoal.spark.options import ReadOptions
from shoal.spark.reading import Range, Reading
from shoal.spark.store import Store
from shoal.spark.stream_reader import WAIT_S

log = logging.getLogger("shoal.spark")

Runs = list[tuple[int, int]]


@speaks_plainly
class QueueReader(DataSourceReader):
    """Looks at the messages that a queue has, and takes none."""

    def __init__(self, options: ReadOptions, schema: StructType) -> None:
        self._reading = Reading(options, schema)

    def partitions(self) -> list[InputPartition]:
        """Which messages are there is fixed here; the tasks read them."""
        with Store(self._reading.options.at) as store:
            incarnation = str(store.info()["incarnation"])
            runs: Runs = []
            for page in _pages(self._reading.options, store):
                runs += page
            return list(_ranges(self._reading, store, incarnation, runs))

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        """Give the rows of one part; Spark makes one without a value where there is none."""
        return self._reading.rows(partition) if isinstance(partition, Range) else iter(())


@speaks_plainly
class QueueStreamReader(DataSourceStreamReader, SupportsTriggerAvailableNow):
    """Takes messages from a queue. An offset is a `Position`: where a reservation starts, or ends."""

    def __init__(self, options: ReadOptions, schema: StructType) -> None:
        self._reading = Reading(options, schema)
        self._opened: Store | None = None
        #: Messages from this offset on are left for another time.
        self._target: int | None = None
        self._reported: dict[str, Any] | None = None

    def __getstate__(self) -> dict[str, Any]:
        return self.__dict__ | {"_opened": None}

    @property
    def _store(self) -> Store:
        if self._opened is None:
            self._opened = Store(self._reading.options.at)
        return self._opened

    def initialOffset(self) -> dict[str, Any]:  # noqa: N802 - Spark's name
        """A query without a checkpoint goes on where its name is."""
        info = self._store.info()
        return Position(info["incarnation"], self._reserve(None, messages=0)["start"]).to_dict()

    def getDefaultReadLimit(self) -> ReadLimit:  # noqa: N802 - Spark's name
        """Spark knows one limit at a time; `latestOffset` heeds both."""
        options = self._reading.options
        if options.max_rows is not None:
            return ReadMaxRows(options.max_rows)
        return ReadAllAvailable() if options.max_bytes is None else ReadMaxBytes(options.max_bytes)

    def prepareForTriggerAvailableNow(self) -> None:  # noqa: N802 - Spark's name
        """What is sent from now on is left for another time."""
        self._target = int(self._store.info()["end"])

    def latestOffset(self, start: dict[str, Any], limit: ReadLimit) -> dict[str, Any]:  # noqa: N802
        """The end of what is set aside from `start` on; `start` if there is nothing.

        What was set aside before it is acknowledged: Spark asks for more once it is done with it.
        """
        info = self._store.info()
        begin = self._begin(Position.from_dict(start), info)
        if self._target is not None:
            answer = self._reserve(begin.offset, messages=None if self._has_below(self._target) else 0)
        else:
            answer = self._reserve(begin.offset)
            if not answer["messages"]:
                topics = list(self._reading.options.topics)
                question = {"topics": topics, "start": info["end"], "timeout_s": WAIT_S}
                self._store.call(lambda client: client.wait(**question))
                answer = self._reserve(begin.offset)
        reached = Position(begin.incarnation, answer["end"]).to_dict()
        self._reported = reached | {"rowsBehind": answer["behind"]}
        return reached

    def reportLatestOffset(self) -> dict[str, Any] | None:  # noqa: N802 - Spark's name
        """How many messages the queue had beside those of the last micro-batch."""
        return self._reported

    def partitions(self, start: dict[str, Any], end: dict[str, Any]) -> Sequence[InputPartition]:
        """Split the messages of one micro-batch between tasks."""
        first, last = Position.from_dict(start), Position.from_dict(end)
        runs = self._reserved(first, last) if first != last else []
        return list(_ranges(self._reading, self._store, last.incarnation, runs))

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        """Give the rows of one part, in a task."""
        assert isinstance(partition, Range)
        return self._reading.rows(partition)

    def stop(self) -> None:
        """Close the connection; what is set aside stays so, for the query may be started again."""
        if self._opened is not None:
            self._opened.close()

    def _reserve(self, start: int | None, messages: int | None = None) -> dict[str, Any]:
        options = self._reading.options
        name, queue = options.subscription, options.queue
        assert name is not None
        assert queue is not None
        order: dict[str, Any] = {"start": start, "bytes": options.max_bytes, "selector": options.selector}
        order["messages"] = options.max_rows if messages is None else messages
        return self._store.call(lambda client: client.reserve(name, queue, **order))

    def _reserved(self, first: Position, last: Position) -> Runs:
        """Which messages a micro-batch has; none if they were given back and the user goes on."""
        name = self._reading.options.subscription
        assert name is not None
        try:
            runs, end = self._store.call(lambda client: client.reserved(name, first.offset))
            if (
                end == last.offset
                and first.incarnation == last.incarnation == self._store.info()["incarnation"]
            ):
                return runs
        except HistoryError as error:
            if error.code != faults.NO_QUEUE:
                raise
        what = (
            f"the messages of a micro-batch that was begun are not reserved as {name!r} any more: an "
            f"operator released them, and they went back to the queue"
        )
        if self._reading.options.fail_on_data_loss:
            raise DataLossError(f"{what}. To go on without them, set option failOnDataLoss=false")
        notices.RESERVATION_LOST(what=what).log(log)
        return []

    def _begin(self, start: Position, info: dict[str, Any]) -> Position:
        """Where to go on: elsewhere if the store is another, and the user goes on."""
        if start.incarnation == info["incarnation"]:
            return start
        what = (
            f"the query was at incarnation {start.incarnation} of the store at {self._store.address}, which "
            f"is {info['incarnation']} now: it is another store, or was restored"
        )
        if self._reading.options.fail_on_data_loss:
            raise DataLossError(
                f"{what}. To go on with what its queue has, set option failOnDataLoss=false, or take another "
                "checkpointLocation"
            )
        notices.QUEUE_CHANGED(what=what).log(log)
        return Position(info["incarnation"], self._reserve(None, messages=0)["start"])

    def _has_below(self, offset: int) -> bool:
        return any(runs and runs[0][0] < offset for runs in _pages(self._reading.options, self._store))


def _pages(options: ReadOptions, store: Store) -> Iterator[Runs]:
    """Runs of offsets of what a queue has, page by page."""
    queue, selector = options.queue, options.selector
    assert queue is not None
    start: int | None = 0
    while start is not None:
        show = partial(_shown, queue=queue, start=start, selector=selector)
        try:
            runs, start = store.call(show)
        except HistoryError as error:
            if error.code != faults.NO_QUEUE:
                raise
            raise ConfigError(f"option queue is {queue!r}: {error.sentence}") from None
        yield runs


def _shown(client: History, **which: Any) -> tuple[Runs, int | None]:
    return client.shown(**which)


def _ranges(reading: Reading, store: Store, incarnation: str, runs: Runs) -> Iterator[Range]:
    """Parts of about as many messages, as the options ask."""
    options = reading.options
    messages = sum(last - first + 1 for first, last in runs)
    most = min(options.partition_rows_max, -(-messages // (options.min_partitions or 1)) or 1)
    query = reading.query(store)
    for part in divide(runs, most):
        only = replace(query, only=tuple(part))
        yield Range(only, incarnation, part[0][0], part[-1][1] + 1, store.address)


def divide(runs: Iterable[tuple[int, int]], messages_max: int, runs_max: int = RUNS_MAX) -> Iterator[Runs]:
    """The same offsets in parts of a bounded number of offsets and runs."""
    part: Runs = []
    left = messages_max
    for first, last in runs:
        while first <= last:
            end = min(last, first + left - 1)
            part.append((first, end))
            left -= end - first + 1
            first = end + 1
            if not left or len(part) >= runs_max:
                yield part
                part, left = [], messages_max
    if part:
        yield part
