"""A store's records of what it missed, read once or followed.

A gap lies before a message, and has the place of that message: the gaps from `start` up to `end` are those
before messages with these offsets. None can appear below an offset that was shown already, so that reading a
range again gives the same gaps. One behind the last message is part of a batch, and of a stream once
another message has come.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import pyarrow as pa
from pyspark.sql.datasource import DataSourceReader, DataSourceStreamReader, InputPartition
from pyspark.sql.pandas.types import to_arrow_schema
from pyspark.sql.streaming.datasource import ReadLimit, SupportsTriggerAvailableNow
from pyspark.sql.types import StructType

from shoal.errors import ConfigError
from shoal.spark.explain import plainly, speaks_plainly
from shoal.spark.offsets import Boundary, Position
from shoal.spark.options import ReadOptions
from shoal.spark.reading import asked, first_offset, offset_of
from shoal.spark.rows import GAP_SCHEMA
from shoal.spark.store import Store
from shoal.spark.stream_reader import WAIT_S


@dataclass(frozen=True)
class GapRange(InputPartition):
    """Gaps before the messages from `start` up to `last`, which is included."""

    incarnation: str
    start: int
    last: int
    address: str


class _Gaps:
    """What both readers share. Can be pickled."""

    def __init__(self, options: ReadOptions, schema: StructType) -> None:
        self.options = options
        self.schema = schema
        known = {f.name: f.dataType.simpleString() for f in GAP_SCHEMA}
        for wanted in schema:
            if known.get(wanted.name) != wanted.dataType.simpleString():
                raise ConfigError(
                    f"the schema names {wanted.name} {wanted.dataType.simpleString()}; gaps are rows of "
                    f"{', '.join(f'{name} {kind}' for name, kind in known.items())}"
                )

    def found(self, store: Store, start: Position, last: int) -> tuple[Position, list[dict[str, Any]]]:
        """The records, in their order, and where they begin: later than `start` if history was lost."""

        def ask(begin: Position) -> list[dict[str, Any]]:
            return store.call(
                lambda client: client.gaps(start=begin.offset, end=last, incarnation=begin.incarnation)
            )

        return asked(self.options, store, ask, start)

    def rows(self, part: GapRange) -> Iterator[pa.RecordBatch]:
        """Runs in a task."""
        layout = to_arrow_schema(self.schema, timezone="UTC")
        with plainly(), Store(self.options.at, part.address) as store:
            _, gaps = self.found(store, Position(part.incarnation, part.start), part.last)
        rows = [{**gap, "stored": gap["stored_us"]} for gap in gaps]
        yield pa.RecordBatch.from_pylist([{name: row[name] for name in layout.names} for row in rows], layout)


@speaks_plainly
class GapReader(DataSourceReader):
    """Reads the gaps of a range of history once."""

    def __init__(self, options: ReadOptions, schema: StructType) -> None:
        self._gaps = _Gaps(options, schema)

    def partitions(self) -> list[InputPartition]:
        """One task reads all: gaps are rare."""
        options = self._gaps.options
        with Store(options.at) as store:
            info = store.info()
            start = first_offset(store, info, options.starting or Boundary(named="earliest"))
            end = offset_of(store, info, options.ending or Boundary(named="latest"))
            # What is missing behind the last message belongs to history as it is now.
            last = end if options.ending is None else end - 1
            if last < start:
                return []
            return [GapRange(info["incarnation"], start, last, store.address)]

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        """Give the records; Spark makes a partition without a value where there is none."""
        return self._gaps.rows(partition) if isinstance(partition, GapRange) else iter(())


@speaks_plainly
class GapStreamReader(DataSourceStreamReader, SupportsTriggerAvailableNow):
    """Follows the gaps. An offset is a `Position`, as for messages."""

    def __init__(self, options: ReadOptions, schema: StructType) -> None:
        self._gaps = _Gaps(options, schema)
        self._opened: Store | None = None
        self._target: int | None = None
        #: Up to here there is no gap that was not handed over.
        self._looked = 0

    def __getstate__(self) -> dict[str, Any]:
        return self.__dict__ | {"_opened": None}

    @property
    def _store(self) -> Store:
        if self._opened is None:
            self._opened = Store(self._gaps.options.at)
        return self._opened

    def initialOffset(self) -> dict[str, Any]:  # noqa: N802 - Spark's name
        """Where a query without a checkpoint begins."""
        info = self._store.info()
        start = first_offset(self._store, info, self._gaps.options.starting or Boundary(named="latest"))
        return Position(info["incarnation"], start).to_dict()

    def prepareForTriggerAvailableNow(self) -> None:  # noqa: N802 - Spark's name
        """What is stored from now on is left for another time."""
        self._target = int(self._store.info()["end"])

    def latestOffset(self, start: dict[str, Any], limit: ReadLimit) -> dict[str, Any]:  # noqa: N802
        """The end of history if there is a gap before it, else `start`."""
        begin = Position.from_dict(start)
        if self._target is None:
            self._store.call(lambda client: client.wait(timeout_s=WAIT_S, start="latest"))
        info = self._store.info()
        end = int(info["end"]) if self._target is None else self._target
        if info["incarnation"] == begin.incarnation:
            looked = max(begin.offset, self._looked)
            if end > looked:
                _, gaps = self._gaps.found(self._store, Position(begin.incarnation, looked), end - 1)
                if gaps:
                    return Position(begin.incarnation, end).to_dict()
            self._looked = max(looked, end)
            return start
        # The store refuses a place of another incarnation, and the user may go on.
        begin, _ = self._gaps.found(self._store, begin, max(end - 1, 0))
        return Position(begin.incarnation, end).to_dict()

    def partitions(self, start: dict[str, Any], end: dict[str, Any]) -> Sequence[InputPartition]:
        """One task reads all."""
        first, after = Position.from_dict(start), Position.from_dict(end)
        if first.incarnation != after.incarnation:
            self._looked = 0
            first = Position(after.incarnation, int(self._store.info()["floor"]))
        self._looked = max(self._looked, after.offset)
        if first.offset >= after.offset:
            return []
        return [GapRange(after.incarnation, first.offset, after.offset - 1, self._store.address)]

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        """Give the records of one micro-batch, in a task."""
        assert isinstance(partition, GapRange)
        return self._gaps.rows(partition)

    def stop(self) -> None:
        """Close the connection."""
        if self._opened is not None:
            self._opened.close()
