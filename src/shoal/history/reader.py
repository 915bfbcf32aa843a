"""The reading half of the service: ranges, plans, waits and record batches, without a word of Flight."""

import threading
import weakref
from collections.abc import Callable, Generator, Iterator, Sequence
from time import monotonic, time
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from shoal.errors import HistoryError
from shoal.history import faults
from shoal.history.options import ServerOptions
from shoal.history.query import Query
from shoal.history.schema import GAP_COLUMNS, SCHEMA_VERSION, record_batch, schema_of
from shoal.history.slots import Slots, Turns
from shoal.history.store import Scan, Store, core_selector

OpenScan = Callable[..., Scan]

#: How long a client may wait in one call; it asks again if it wants to wait longer.
WAIT_S_MAX = 300.0
#: How many rows a wait counts: a reader far behind need not wait until all of them are.
WAIT_ROWS_MAX = 131_072
#: How often a waiting call looks whether its client has gone, or the server is closing.
_GONE_CHECK_S = 0.5
#: A message is durable at most this time after it was stored, if the disk is well.
_UNSYNCED_US_MAX = 2_000_000
#: Ranges of a plan, at most.
PARTITIONS_MAX = 4096
#: Batches that are made at the same time; each may have a long frame of the log in memory.
BUILDERS = 8
#: How long a reader waits for others that read long rows while none of them gets done.
LARGE_WAIT_S = 60.0
#: Rows or bytes without a limit.
UNLIMITED = 2**63 - 1


class Reader:
    """Answers questions about what a store has. May be shared between threads."""

    def __init__(self, store: Store, options: ServerOptions, open_scan: OpenScan) -> None:
        self._store, self._options, self._open_scan = store, options, open_scan
        self._streams = Slots("reads", options.streams_max)
        self._waits = Slots("waiting calls", options.waits_max)
        self._building = threading.BoundedSemaphore(BUILDERS)
        #: Few long rows of all readers are in memory at a time, until their readers have them.
        self._large = Turns("rows longer than a batch", options.large_rows_max, LARGE_WAIT_S)
        self._closing = threading.Event()

    def close(self) -> None:
        """End running reads and waits as soon as they look."""
        self._closing.set()

    def info(self) -> dict[str, Any]:
        """Which store this is, and what it has."""
        log = self._store.log
        return {
            "incarnation": log.incarnation,
            "floor": log.floor,
            "end": log.durable_end,
            "schema_version": SCHEMA_VERSION,
            "domain": self._store.domain,
            "name": self._store.name,
        }

    def range_of(self, query: Query, *, waits: bool = False) -> tuple[int, int]:
        """The offsets that a query is about, as of now: the first, and the one after the last.

        Only a reader that waits may begin where history has not got to yet.
        """
        log = self._store.log
        if query.incarnation not in (None, log.incarnation):
            raise HistoryError(
                faults.INCARNATION,
                f"the query's offsets are of the store {query.incarnation}, and this is {log.incarnation}: "
                "it was restored or replaced, so begin anew",
                {"incarnation": log.incarnation},
            )
        floor, high = log.floor, log.durable_end
        start = (
            {"earliest": floor, "latest": high}[query.start] if isinstance(query.start, str) else query.start
        )
        if start > high and not waits:
            raise HistoryError(
                faults.BAD_QUERY,
                f"the query begins at offset {start}, and history ends at {high}: begin there or before, or "
                "follow what comes. If the store was restored from an older copy, begin anew",
                {"field": "from", "from": start, "end": high},
            )
        if query.from_time_us is not None:
            start = max(start, log.offset_at(query.from_time_us, "stored"))
        if start < floor:
            lost = self._store.lost_before(list(query.topics))
            if start < lost:
                raise HistoryError(
                    faults.TRIMMED,
                    f"the query begins at offset {start}, and of what matches nothing is left below {lost}",
                    {"floor": floor, "from": start, "lost_before": lost},
                )
            start = floor
        end = high if query.end is None else min(query.end, high)
        if query.to_time_us is not None:
            end = min(end, log.offset_at(query.to_time_us, "stored"))
        return start, max(start, end)

    def schema(self, query: Query) -> pa.Schema:
        """The schema of the answer."""
        return schema_of(query.columns, query.properties)

    def batches(self, query: Query) -> Iterator[pa.RecordBatch]:
        """The rows as they are now; mistakes are raised at once, not when iterating."""
        start, end = self.range_of(query)
        scan = self._open_scan(
            self._store.log,
            start,
            end,
            list(query.topics),
            core_selector(query.selector),
            list(query.columns),
            list(query.properties.items()),
        )
        only = None if query.only is None else _offsets(query.only)
        give_back = self._streams.take()
        batches = self._batches(scan, self.schema(query), query.limit, only, give_back)
        # A client may go before its first batch, and a generator that never ran does not clean up.
        weakref.finalize(batches, give_back)
        return batches

    def _batches(
        self,
        scan: Scan,
        schema: pa.Schema,
        limit: int | None,
        only: pa.Array | None,
        give_back: Callable[[], None],
    ) -> Generator[pa.RecordBatch]:
        try:
            options, left = self._options, limit
            while left is None or left > 0:
                self._check_open()
                rows_max = options.batch_rows_max if left is None else min(left, options.batch_rows_max)
                with self._building:
                    found = scan.next(rows_max, options.batch_bytes_max)
                if found is None:
                    return
                rows, columns = found
                if rows:
                    left = None if left is None else left - rows
                    yield _chosen(record_batch(schema, columns), only)
                else:
                    left = None if left is None else left - 1
                    with self._large.turn(self._check_open):
                        yield _chosen(self._large_batch(scan, schema), only)
        finally:
            give_back()

    def _large_batch(self, scan: Scan, schema: pa.Schema) -> pa.RecordBatch:
        found = scan.next(1, self._options.batch_bytes_max, large=True)
        if found is None:
            # It was there a moment ago.
            raise HistoryError(faults.BROKEN, "a row that is being read is gone", {})
        return record_batch(schema, found[1])

    def latest(self, query: Query, max_rows: int, max_bytes: int) -> dict[str, Any]:
        """How far a batch within these limits reaches."""
        start, end = self.range_of(query)
        return self._latest(query, start, end, max_rows, max_bytes)

    def _latest(self, query: Query, start: int, end: int, max_rows: int, max_bytes: int) -> dict[str, Any]:
        log, topics, selector = self._store.log, list(query.topics), core_selector(query.selector)
        found, rows, size = log.extent(start, end, topics, selector, max_rows, max_bytes)
        limited = max_rows < UNLIMITED or max_bytes < UNLIMITED
        more = limited and log.extent(found, end, topics, selector, 1, UNLIMITED)[1] > 0
        return {"from": start, "end": found, "rows": rows, "bytes": size, "more": more, "high": end}

    def wait(self, query: Query, timeout_s: float, gone: Callable[[], bool]) -> dict[str, Any]:
        """As `latest` with a limit of `WAIT_ROWS_MAX`, but not before something matches, or time is over."""
        log, deadline = self._store.log, monotonic() + min(timeout_s, WAIT_S_MAX)
        give_back = self._waits.take()
        try:
            start, end = self.range_of(query, waits=True)
            looked_from, over = start, False
            while True:
                self._check_open()
                answer = self._latest(query, looked_from, end, WAIT_ROWS_MAX, UNLIMITED)
                left = deadline - monotonic()
                if answer["rows"] or over or left <= 0 or gone():
                    answer["from"] = start
                    answer["end"] = answer["end"] if answer["rows"] else start
                    answer["over"] = over and not answer["rows"]
                    return answer
                looked_from = end
                over = self._is_over(query)
                if not over:
                    log.wait_for(end, min(left, _GONE_CHECK_S))
                _, end = self.range_of(query, waits=True)
        finally:
            give_back()

    def _is_over(self, query: Query) -> bool:
        """Whether nothing that comes later is in the range."""
        log = self._store.log
        if query.end is not None and log.durable_end >= query.end:
            return True
        until_us = query.to_time_us
        return until_us is not None and (
            log.offset_at(until_us, "stored") < log.durable_end or time() * 1e6 > until_us + _UNSYNCED_US_MAX
        )

    def plan(self, query: Query, partitions: int, rows_max: int | None) -> dict[str, Any]:
        """Ranges that are the whole together and can be read in parallel, each with its rows, about."""
        log, topics = self._store.log, list(query.topics)
        start, end = self.range_of(query)
        rows = sum(count for _, count, _, _ in log.topics(start, end, topics))
        if rows_max is not None:
            partitions = max(partitions, -(-rows // rows_max))
        ranges = log.split(start, end, topics, min(partitions, PARTITIONS_MAX))
        each = -(-rows // max(1, len(ranges)))
        counted = [[first, stop, each] for first, stop in ranges]
        return {"ranges": counted, "from": start, "to": end, "rows": rows, "incarnation": log.incarnation}

    def offset_at(self, time_us: int, by: str) -> dict[str, Any]:
        """The first offset stored, or published, at or after a time."""
        return {"offset": self._store.log.offset_at(time_us, by)}

    def gaps(self, query: Query) -> dict[str, Any]:
        """What the recorder could not get, by its place among the offsets."""
        start, end = self.range_of(query)
        found = self._store.log.gaps(start, end)
        return {"gaps": [dict(zip(GAP_COLUMNS, _gap_cells(gap), strict=True)) for gap in found]}

    def topics(self, patterns: Sequence[str]) -> dict[str, Any]:
        """Every topic with its number of messages, and its first and last offset."""
        log = self._store.log
        found = log.topics(log.floor, log.durable_end, list(patterns))
        keys = ("topic", "count", "first", "last")
        return {"topics": [dict(zip(keys, topic, strict=True)) for topic in found]}

    def _check_open(self) -> None:
        if self._closing.is_set():
            raise HistoryError(faults.CLOSED, "the store is closing; ask again later", {})


def _offsets(runs: Sequence[tuple[int, int]]) -> pa.Array:
    return pa.array([at for first, last in runs for at in range(first, last + 1)], pa.int64())


def _chosen(batch: pa.RecordBatch, only: pa.Array | None) -> pa.RecordBatch:
    """Of a batch the rows that alone are meant."""
    return batch if only is None else batch.filter(pc.is_in(batch.column("offset"), value_set=only))


def _gap_cells(gap: tuple[Any, ...]) -> tuple[Any, ...]:
    after, publisher, *others, away = gap
    return (after, f"{publisher:016x}", *others, "away" if away else "lost")
