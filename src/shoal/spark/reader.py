"""Reading a range of history once, and a store's records of what it missed."""

from collections.abc import Iterable, Iterator

import pyarrow as pa
from pyspark.sql.datasource import DataSourceReader, Filter, InputPartition
from pyspark.sql.pandas.types import to_arrow_schema
from pyspark.sql.types import StructType

from shoal.errors import ConfigError
from shoal.spark.filters import Pushed, push
from shoal.spark.offsets import Boundary, Position
from shoal.spark.options import ReadOptions
from shoal.spark.reading import Range, Reading, offset_of
from shoal.spark.rows import GAP_SCHEMA, property_types
from shoal.spark.store import Store


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
            start = offset_of(store, info, options.starting or Boundary(named="earliest"))
            end = min(info["end"], offset_of(store, info, options.ending or Boundary(named="latest")))
            if self._pushed.end is not None:
                end = min(end, self._pushed.end)
            begin = Position(info["incarnation"], max(start, self._pushed.first))
            query = self._reading.query(store, self._pushed)
            return list(self._reading.split(store, query, begin, end))

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        """Give the rows of one part; Spark makes one without a value where there is none."""
        return self._reading.rows(partition) if isinstance(partition, Range) else iter(())


class ShoalPushingReader(ShoalReader):
    """Reads a range of history once, and has the store check Spark's filters.

    A class of its own: Spark refuses a reader with this method where
    `spark.sql.python.filterPushdown.enabled` is off.
    """

    def pushFilters(self, filters: list[Filter]) -> Iterable[Filter]:  # noqa: N802 - Spark's name
        """Take what the store can check; Spark checks everything again on what is left."""
        self._pushed = push(filters, property_types(self._reading.options))
        return filters


class GapReader(DataSourceReader):
    """Reads a store's records of what it missed."""

    def __init__(self, options: ReadOptions, schema: StructType) -> None:
        self._options = options
        self._schema = schema
        known = {f.name: f.dataType.simpleString() for f in GAP_SCHEMA}
        for wanted in schema:
            if known.get(wanted.name) != wanted.dataType.simpleString():
                raise ConfigError(
                    f"the schema names {wanted.name} {wanted.dataType.simpleString()}; gaps are rows of "
                    f"{', '.join(f'{name} {kind}' for name, kind in known.items())}"
                )

    def partitions(self) -> list[InputPartition]:
        """One task reads all: gaps are rare."""
        with Store(self._options.at) as store:
            return [InputPartition(store.info() and store.address)]

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        """Give the records in their order."""
        layout = to_arrow_schema(self._schema, timezone="UTC")
        with Store(self._options.at, partition.value) as store:
            gaps = store.call(lambda client: client.gaps())
        rows = [{**gap, "stored": gap["stored_us"]} for gap in gaps]
        yield pa.RecordBatch.from_pylist([{name: row[name] for name in layout.names} for row in rows], layout)


def batch_reader(options: ReadOptions, schema: StructType) -> DataSourceReader:
    """The reader for what the options ask."""
    if options.gaps:
        return GapReader(options, schema)
    return (ShoalPushingReader if options.push_filters else ShoalReader)(options, schema)
