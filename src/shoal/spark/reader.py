"""Reading a range of history once."""

from collections.abc import Iterable, Iterator

import pyarrow as pa
from pyspark.sql.datasource import DataSourceReader, Filter, InputPartition
from pyspark.sql.types import StructType

from shoal.history.query import OFFSET_MAX
from shoal.spark.explain import speaks_plainly
from shoal.spark.filters import Pushed, push
from shoal.spark.gaps import GapReader
from shoal.spark.offsets import Boundary, Position
from shoal.spark.options import ReadOptions
from shoal.spark.queues import QueueReader
from shoal.spark.reading import Range, Reading, first_offset, offset_of
from shoal.spark.rows import property_types
from shoal.spark.store import Store


@speaks_plainly
class ShoalReader(DataSourceReader):
    """Reads a range of history once."""

    def __init__(self, options: ReadOptions, schema: StructType) -> None:
        self._reading = Reading(options, schema)
        self._pushed = Pushed()

    def partitions(self) -> list[InputPartition]:
        """Split the range between tasks. It is fixed here, so that all tasks read the same history."""
        options = self._reading.options
        with Store(options.at) as store:
            info = store.info()
            start = first_offset(store, info, options.starting or Boundary(named="earliest"))
            end = min(info["end"], offset_of(store, info, options.ending or Boundary(named="latest")))
            first, last = self._pushed_range(store)
            begin, end = Position(info["incarnation"], max(start, first)), min(end, last)
            query = self._reading.query(store, self._pushed)
            return list(self._reading.split(store, query, begin, end))

    def _pushed_range(self, store: Store) -> tuple[int, int]:
        """The offsets that Spark's filters leave."""
        pushed = self._pushed
        first, end = pushed.first, OFFSET_MAX if pushed.end is None else pushed.end
        if pushed.from_us is not None:
            first = max(first, offset_of(store, {}, Boundary(time_us=pushed.from_us)))
        if pushed.to_us is not None:
            end = min(end, offset_of(store, {}, Boundary(time_us=pushed.to_us)))
        return first, end

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        """Give the rows of one part; Spark makes one without a value where there is none."""
        return self._reading.rows(partition) if isinstance(partition, Range) else iter(())


@speaks_plainly
class ShoalPushingReader(ShoalReader):
    """Reads a range of history once, and has the store check Spark's filters.

    A class of its own: Spark refuses a reader with this method where
    `spark.sql.python.filterPushdown.enabled` is off.
    """

    def pushFilters(self, filters: list[Filter]) -> Iterable[Filter]:  # noqa: N802 - Spark's name
        """Take what the store can check; Spark checks everything again on the remaining rows."""
        self._pushed = push(filters, property_types(self._reading.options))
        return filters


def batch_reader(options: ReadOptions, schema: StructType) -> DataSourceReader:
    """The reader for what the options ask."""
    if options.gaps:
        return GapReader(options, schema)
    if options.queue is not None:
        return QueueReader(options, schema)
    return (ShoalPushingReader if options.push_filters else ShoalReader)(options, schema)
