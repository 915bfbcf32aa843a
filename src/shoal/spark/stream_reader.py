"""Following history: offsets, limits, micro-batches.

Spark makes the reader in a process of its own, which lives as long as the query, and calls it from there; a
copy of it is pickled for the tasks, which only call `read`.
"""

import time
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import pyarrow as pa
from pyspark.sql.datasource import DataSourceStreamReader, InputPartition
from pyspark.sql.streaming.datasource import (
    ReadAllAvailable,
    ReadLimit,
    ReadMaxBytes,
    ReadMaxRows,
    ReadMinRows,
    SupportsTriggerAvailableNow,
)
from pyspark.sql.types import StructType

from shoal.errors import DataLossError
from shoal.spark.explain import speaks_plainly
from shoal.spark.offsets import Boundary, Position
from shoal.spark.options import ReadOptions
from shoal.spark.reading import Range, Reading, asked, first_offset
from shoal.spark.store import Query, Store

#: How long a question for news waits at the store before Spark asks again.
WAIT_S = 0.25

#: The lag is counted up to here: counting is reading, and an exact number means little when it is large.
LAG_ROWS_MAX = 1_000_000


@speaks_plainly
class ShoalStreamReader(DataSourceStreamReader, SupportsTriggerAvailableNow):
    """Follows history. An offset is a `Position`; reading a range again gives the same rows.

    Args:
        options: what to read.
        schema: the rows that Spark wants.
        clock: tells seconds, from any beginning.
    """

    def __init__(
        self, options: ReadOptions, schema: StructType, clock: Callable[[], float] = time.monotonic
    ) -> None:
        self._reading = Reading(options, schema)
        self._clock = clock
        self._opened: Store | None = None
        self._target: int | None = None
        self._waiting_since: float | None = None
        self._last_end: Position | None = None
        self._holds = False

    def __getstate__(self) -> dict[str, Any]:
        return self.__dict__ | {"_opened": None}

    @property
    def _store(self) -> Store:
        if self._opened is None:
            self._opened = Store(self._reading.options.at)
            self._opened.info()
        return self._opened

    def initialOffset(self) -> dict[str, Any]:  # noqa: N802 - Spark's name
        """Where a query without a checkpoint begins."""
        info = self._store.info()
        start = first_offset(self._store, info, self._reading.options.starting or Boundary(named="latest"))
        begin = Position(info["incarnation"], start)
        self._hold(begin)
        return begin.to_dict()

    def getDefaultReadLimit(self) -> ReadLimit:  # noqa: N802 - Spark's name
        """Spark knows one limit at a time; `latestOffset` heeds the others that the options give."""
        options = self._reading.options
        if options.max_rows is not None:
            return ReadMaxRows(options.max_rows)
        if options.max_bytes is not None:
            return ReadMaxBytes(options.max_bytes)
        if options.min_rows is not None:
            return ReadMinRows(options.min_rows)
        return ReadAllAvailable()

    def prepareForTriggerAvailableNow(self) -> None:  # noqa: N802 - Spark's name
        """What is stored from now on is left for another time."""
        self._target = int(self._store.info()["end"])

    def latestOffset(self, start: dict[str, Any], limit: ReadLimit) -> dict[str, Any]:  # noqa: N802
        """The end of the last matching message within the limits; `start` if there is none.

        Waits a little at the store if there is nothing, so that news are seen at once.
        """
        begin = Position.from_dict(start)
        if not self._holds:
            self._hold(begin)
        query = self._reading.query(self._store)
        if not query.topics:
            return self._reached(begin)
        limited = not isinstance(limit, ReadAllAvailable)
        begin, answer = asked(
            self._reading.options, self._store, lambda at: self._news(query, at, limited), begin
        )
        if limited and self._waits_for_more(answer["rows"]):
            return start
        return self._reached(Position(begin.incarnation, max(begin.offset, answer["end"])))

    def reportLatestOffset(self) -> dict[str, Any] | None:  # noqa: N802 - Spark's name
        """How far history reaches, and how many matching rows the query is behind: its lag."""
        begin = self._last_end
        if begin is None:
            return None
        query = self._reading.query(self._store)
        if not query.topics:
            return begin.to_dict() | {"rowsBehind": 0, "high": begin.offset}
        begin, behind = asked(
            self._reading.options,
            self._store,
            lambda at: self._latest(query, at, max_rows=LAG_ROWS_MAX),
            begin,
        )
        reached = Position(begin.incarnation, max(begin.offset, behind["end"]))
        return reached.to_dict() | {"rowsBehind": behind["rows"], "high": behind["high"]}

    def partitions(self, start: dict[str, Any], end: dict[str, Any]) -> Sequence[InputPartition]:
        """Split the range of one micro-batch between tasks."""
        first, last = Position.from_dict(start), Position.from_dict(end)
        if first.incarnation != last.incarnation:  # history was lost, and the user goes on
            first = Position(last.incarnation, int(self._store.info()["floor"]))
        parts = self._reading.split(self._store, self._reading.query(self._store), first, last.offset)
        if any(part.incarnation != last.incarnation for part in parts):
            raise DataLossError(
                f"a micro-batch that was begun asks for history of incarnation {last.incarnation}, and the "
                f"store "
                f"at {self._store.address} is {parts[0].incarnation} now: start with a new checkpointLocation"
            )
        return parts

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        """Give the rows of one part, in a task."""
        assert isinstance(partition, Range)
        return self._reading.rows(partition)

    def commit(self, end: dict[str, Any]) -> None:
        """What lies before `end` was read and is needed no more."""
        self._hold(Position.from_dict(end))

    def stop(self) -> None:
        """Close the connection; the hold stays, for the query may be started again."""
        if self._opened is not None:
            self._opened.close()

    def _reached(self, position: Position) -> dict[str, Any]:
        self._last_end = position
        return position.to_dict()

    def _news(self, query: Query, start: Position, limited: bool) -> dict[str, Any]:
        options = self._reading.options
        limits = {"max_rows": options.max_rows, "max_bytes": options.max_bytes} if limited else {}
        if self._target is not None:
            return self._latest(query, start, end=max(self._target, start.offset), **limits)
        answer = self._latest(query, start, **limits)
        if answer["rows"]:
            return answer
        question = self._question(query, start)
        answer = self._store.call(lambda client: client.wait(timeout_s=WAIT_S, **question))
        return self._latest(query, start, **limits) if answer["rows"] and limits else answer

    def _latest(self, query: Query, start: Position, **more: Any) -> dict[str, Any]:
        question = self._question(query, start) | more
        return self._store.call(lambda client: client.latest(**question))

    def _question(self, query: Query, start: Position) -> dict[str, Any]:
        return {
            "topics": list(query.topics),
            "selector": query.selector,
            "start": start.offset,
            "incarnation": start.incarnation,
        }

    def _waits_for_more(self, rows: int) -> bool:
        """Whether a micro-batch is not worth starting yet."""
        options = self._reading.options
        if options.min_rows is None or self._target is not None or rows == 0:
            return False
        if self._waiting_since is None:
            self._waiting_since = self._clock()
        waited_s = self._clock() - self._waiting_since
        if rows < options.min_rows and waited_s < options.max_trigger_delay_s:
            return True
        self._waiting_since = None
        return False

    def _hold(self, position: Position) -> None:
        name = self._reading.options.subscription
        if name is not None:
            self._store.call(lambda client: client.hold(name, position.offset))
        self._holds = True
