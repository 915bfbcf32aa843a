"""What reading a batch and following a stream share: from options to ranges of history, from ranges to rows.

Readers are pickled and made in several processes: they hold options and plans, and connect only when asked
something.
"""

import dataclasses
import logging
from collections.abc import Callable, Generator, Iterator
from dataclasses import dataclass
from typing import Any, TypeVar

import pyarrow as pa
from pyspark.sql.datasource import InputPartition
from pyspark.sql.types import StructType

from shoal.errors import ConfigError, DataLossError, HistoryError, StoreUnavailableError
from shoal.messages import spark as notices
from shoal.spark import topics
from shoal.spark.explain import plainly
from shoal.spark.filters import Pushed
from shoal.spark.offsets import Boundary, Position
from shoal.spark.options import ReadOptions
from shoal.spark.rows import RowPlan, plan_rows
from shoal.spark.store import Query, Store

log = logging.getLogger("shoal.spark")

Answer = TypeVar("Answer")

_NOTHING_PUSHED = Pushed()


@dataclass(frozen=True)
class Range(InputPartition):
    """What one task reads: the matching messages from `start` up to `end`, not included."""

    query: Query
    incarnation: str
    start: int
    end: int
    address: str


class Reading:
    """One query's way of reading. Can be pickled."""

    def __init__(self, options: ReadOptions, schema: StructType) -> None:
        self.options = options
        self.plan: RowPlan = plan_rows(options, schema)

    def query(self, store: Store, pushed: Pushed = _NOTHING_PUSHED) -> Query:
        """What to ask for; a regular expression is matched with the topics that are there now.

        A topic that appears later has no messages in a range that is fixed already, so that reading a range
        again finds the same rows.
        """
        patterns = self.options.topics
        if self.options.topic_regex is not None:
            known = store.call(lambda client: client.topics(">"))
            patterns = topics.matching(self.options.topic_regex, (each["topic"] for each in known))
        return Query(
            topics.narrowed(patterns, pushed.topics),
            pushed.selector(self.options.selector),
            self.plan.columns,
            tuple(self.plan.properties.items()),
        )

    def split(self, store: Store, query: Query, start: Position, end: int) -> list[Range]:
        """Ranges of about equally many matching rows."""
        if not query.topics or start.offset >= end:
            return []

        def plan(begin: Position) -> list[tuple[int, int, int]]:
            return store.call(
                lambda client: client.plan(
                    topics=list(query.topics),
                    selector=query.selector,
                    start=begin.offset,
                    end=end,
                    incarnation=begin.incarnation,
                    partitions=self.options.min_partitions or 1,
                    rows_max=self.options.partition_rows_max,
                )
            )

        begin, ranges = asked(self.options, store, plan, start)
        return [Range(query, begin.incarnation, first, last, store.address) for first, last, _about in ranges]

    def rows(self, part: Range) -> Iterator[pa.RecordBatch]:
        """Runs in a task."""
        with plainly():
            begin = Position(part.incarnation, part.start)
            for address in self.options.at.replicas:
                begin = yield from self._rows_of_replica(part, begin, address)
            if begin.offset < part.end:
                yield from self._rows_of_store(part, begin)

    def _rows_of_replica(
        self, part: Range, begin: Position, address: str
    ) -> Generator[pa.RecordBatch, None, Position]:
        """Read from a member that follows, if it has all of the range; where another one goes on."""
        if begin.offset >= part.end:
            return begin
        at = dataclasses.replace(self.options.at, store=address, timeout_s=0.0)
        with Store(at) as replica:
            try:
                known = replica.info()
                if known["incarnation"] != begin.incarnation or known["end"] < part.end:
                    return begin
                for batch in replica.batches(part.query, begin.offset, part.end, begin.incarnation):
                    begin = Position(begin.incarnation, batch.column("offset")[-1].as_py() + 1)
                    yield self.plan.to_rows(batch)
                return Position(begin.incarnation, part.end)
            except (StoreUnavailableError, HistoryError) as error:
                log.debug("the replica at %s does not go on, and the store does: %s", address, error)
                return begin

    def _rows_of_store(self, part: Range, begin: Position) -> Iterator[pa.RecordBatch]:
        with Store(self.options.at, part.address) as store:
            try:
                for batch in store.batches(part.query, begin.offset, part.end, begin.incarnation):
                    begin = Position(begin.incarnation, batch.column("offset")[-1].as_py() + 1)
                    yield self.plan.to_rows(batch)
            except HistoryError as error:
                begin = after_loss(self.options, store, begin, error)
                if begin.incarnation == part.incarnation:
                    for batch in store.batches(part.query, begin.offset, part.end, begin.incarnation):
                        yield self.plan.to_rows(batch)


def asked(
    options: ReadOptions, store: Store, ask: Callable[[Position], Answer], start: Position
) -> tuple[Position, Answer]:
    """The answer, and where it begins: later than `start` if history was lost and the user goes on."""
    try:
        return start, ask(start)
    except HistoryError as error:
        begin = after_loss(options, store, start, error)
        return begin, ask(begin)


def after_loss(options: ReadOptions, store: Store, start: Position, error: HistoryError) -> Position:
    """Where to go on after the store refused a range; `DataLossError` unless the user goes on."""
    if error.code not in ("TRIMMED", "INCARNATION"):
        raise error
    info = store.info()
    if error.code == "TRIMMED":
        floor = int(error.detail.get("floor", info["floor"]))
        lost = int(error.detail.get("lost_before", floor))
        what = (
            f"the store at {store.address} no longer has what matches from offset {start.offset} to "
            f"{lost - 1}: retention dropped it before it was read"
        )
        remedy = "; to have retention wait for the query next time, give option subscription"
    else:
        floor = int(info["floor"])
        what = (
            f"the query was at offset {start.offset} of incarnation {start.incarnation}, and the store at "
            f"{store.address} is incarnation {info['incarnation']}: it is another store, or was restored"
        )
        remedy = "; to begin anew, take another checkpointLocation"
    if options.fail_on_data_loss:
        raise DataLossError(
            f"{what}. To go on with what is there, set option failOnDataLoss=false{remedy}"
        ) from error
    notices.HISTORY_MISSING(what=what).log(log)
    return Position(info["incarnation"], floor)


def first_offset(store: Store, info: dict[str, Any], boundary: Boundary) -> int:
    """Where reading starts. Refuses what history has not reached: a stream would wait there, unseen."""
    start = offset_of(store, info, boundary)
    if start > info["end"]:
        raise ConfigError(
            f"option startingOffsets is {start}, and the history of the store at {store.address} ends at "
            f"{info['end']}: give an offset from {info['floor']} to {info['end']}, earliest or latest"
        )
    return start


def offset_of(store: Store, info: dict[str, Any], boundary: Boundary) -> int:
    """The offset that an option means."""
    if boundary.incarnation is not None and boundary.incarnation != info["incarnation"]:
        raise ConfigError(
            f"an option names an offset of incarnation {boundary.incarnation}, but the store at "
            f"{store.address} is {info['incarnation']}"
        )
    if boundary.time_us is not None:
        time_us = boundary.time_us
        return int(store.call(lambda client: client.offset_at(time_us)))
    if boundary.offset is not None:
        return boundary.offset
    return int(info["floor"] if boundary.named == "earliest" else info["end"])
