"""Topics into Parquet files, each message once.

```
DIR/epoch=0000000007/date=2026-10-01/topic=prices%2FACME/part-00000.parquet
DIR/_checkpoint/    how far the archive is
DIR/_writing/       what is not finished
```

A micro-batch is an epoch with a directory of its own, which appears under its name when all of it is written.
One that is done again after a crash finds its directory there and does nothing, or finds none and starts
afresh. Readers of Parquet leave out names that begin with an underscore. Compaction makes few
large files of many small ones; it writes down what it replaces before it does, and a compaction that was
interrupted is finished by the next start.
"""

import json
import os
import shutil
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any
from urllib.parse import quote

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.dataset as ds
import pyarrow.parquet as pq

from shoal.errors import ConfigError
from shoal.spark.pipelines import common

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession
    from pyspark.sql.streaming.query import StreamingQuery

#: A task has at most this number of files open at once; the least recently written one is closed for
#: another.
OPEN_FILES_MAX = 256
#: Rows of one file after compaction.
COMPACTED_ROWS = 1_000_000


def archive(
    spark: "SparkSession",
    topics: str,
    directory: str | Path,
    *,
    store: str | None = None,
    selector: str | None = None,
    follow: bool = False,
    every: str = "10 seconds",
    options: dict[str, str] | None = None,
    finished: "Callable[[str], object] | None" = None,
) -> "StreamingQuery":
    """Start writing what is stored on `topics` into Parquet files; goes on where it stopped before.

    Args:
        spark: the session.
        topics: patterns of topics, with commas between them.
        directory: where the files go, on a disk that the driver and all executors see.
        store: the store's address or directory.
        selector: which messages; all if none.
        follow: go on with what is published later, a micro-batch `every` so often. Otherwise the query ends
            when all that is stored now has been written.
        every: how often, as Spark says it.
        options: further options of the source, such as `maxOffsetsPerTrigger`.
        finished: told the directory of each epoch once it is complete.
    """
    target = prepare(directory)
    limits = {"startingOffsets": "earliest", "maxOffsetsPerTrigger": "1000000", "failOnDataLoss": "true"}
    source = common.source_options(topics, store, selector, limits | (options or {}))
    frame = common.read(spark, source, follow=True)

    def write(batch: "DataFrame", number: int) -> None:
        made = write_epoch(batch, target, number)
        if made is not None and finished is not None:
            finished(str(made))

    writer = frame.writeStream.foreachBatch(write).option("checkpointLocation", str(target / "_checkpoint"))
    writer = writer.trigger(processingTime=every) if follow else writer.trigger(availableNow=True)
    return writer.queryName(f"archive {topics}").start()


def prepare(directory: str | Path) -> Path:
    """Make the directory an archive, and finish what a compaction left undone."""
    target = Path(directory).absolute()
    if target.exists() and not target.is_dir():
        raise ConfigError(f"the archive {target} must be a directory, and is a file")
    target.mkdir(parents=True, exist_ok=True)
    finish_compaction(target)
    return target


def write_epoch(batch: "DataFrame", target: Path, number: int) -> Path | None:
    """Write one micro-batch; returns its directory, or none if there is nothing to write."""
    made = target / f"epoch={number:010d}"
    if made.exists() or _was_compacted(target, number):
        return None
    draft = target / "_writing" / made.name
    shutil.rmtree(draft, ignore_errors=True)
    draft.mkdir(parents=True)
    counted = batch.mapInArrow(_writing_into(str(draft)), "rows BIGINT").groupBy().sum("rows").collect()
    if not counted[0][0]:
        shutil.rmtree(draft)
        return None
    draft.rename(made)
    return made


def _writing_into(draft: str) -> Callable[[Iterator[pa.RecordBatch]], Iterator[pa.RecordBatch]]:
    """What a task does: its rows into files by date and topic."""

    def write(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        from pyspark import TaskContext

        task = TaskContext.get()
        assert task is not None
        with Files(Path(draft), f"part-{task.partitionId():05d}") as files:
            for batch in batches:
                files.write(batch)
        yield pa.record_batch({"rows": pa.array([files.rows], pa.int64())})

    return write


class Files:
    """Parquet files under one directory, one for each date and topic at a time."""

    def __init__(self, directory: Path, name: str, rows_max: int | None = None) -> None:
        self.rows = 0
        self._directory = directory
        self._name = name
        self._rows_max = rows_max
        self._open: dict[tuple[str, str], tuple[pq.ParquetWriter, int]] = {}
        self._made: dict[tuple[str, str], int] = {}

    def __enter__(self) -> "Files":
        return self

    def __exit__(self, *_: object) -> None:
        for writer, _rows in self._open.values():
            writer.close()

    def write(self, batch: pa.RecordBatch) -> None:
        """Put rows where they belong, in their order."""
        if batch.num_rows == 0:
            return
        dates = pc.strftime(batch.column("stored"), format="%Y-%m-%d")
        keys = pa.table(
            {"date": dates, "topic": batch.column("topic"), "row": pa.array(range(batch.num_rows))}
        )
        for group in (
            keys.group_by(["date", "topic"], use_threads=False).aggregate([("row", "list")]).to_pylist()
        ):
            self._append((group["date"], group["topic"]), batch.take(pa.array(group["row_list"])))
        self.rows += batch.num_rows

    def _append(self, key: tuple[str, str], rows: pa.RecordBatch) -> None:
        writer, written = self._open.pop(key, (None, 0))
        if writer is not None and self._rows_max is not None and written >= self._rows_max:
            writer.close()
            writer, written = None, 0
        if writer is None:
            if len(self._open) >= OPEN_FILES_MAX:
                self._open.pop(next(iter(self._open)))[0].close()
            writer = self._new(key, rows.schema)
        writer.write_batch(rows)
        self._open[key] = (writer, written + rows.num_rows)

    def _new(self, key: tuple[str, str], schema: pa.Schema) -> pq.ParquetWriter:
        date, topic = key
        number = self._made.get(key, 0)
        self._made[key] = number + 1
        folder = self._directory / f"date={date}" / f"topic={quote(topic, safe='')}"
        folder.mkdir(parents=True, exist_ok=True)
        more = f"-{number}" if number else ""
        return pq.ParquetWriter(folder / f"{self._name}{more}.parquet", schema, compression="zstd")


def epochs(directory: str | Path) -> list[Path]:
    """The finished epochs of an archive, in the order of their messages."""
    return sorted(Path(directory).glob("epoch=*"), key=lambda path: path.name.removeprefix("epoch="))


def parquet_files(directory: str | Path) -> list[str]:
    """All Parquet files of an archive."""
    return [str(file) for epoch in epochs(directory) for file in sorted(epoch.rglob("*.parquet"))]


def load(spark: "SparkSession", directory: str | Path) -> "DataFrame":
    """The archived messages; order them by `offset` if the order matters."""
    folders = [str(path) for path in epochs(directory)]
    if not folders:
        raise ConfigError(
            f"{directory} is no archive, or nothing was archived there yet: there is no epoch=…"
        )
    columns = [field.name for field in _row_fields()]
    return spark.read.option("basePath", str(directory)).parquet(*folders).select(*columns)


def _row_fields() -> list[Any]:
    from shoal.spark.rows import ROW_SCHEMA

    return list(ROW_SCHEMA.fields)


def compact(directory: str | Path) -> tuple[int, int]:
    """Make few large files of all finished epochs; returns how many files there were and are.

    Do it while no archiving runs. Readers that start meanwhile may see neither the old nor the new files for
    a moment.
    """
    target = prepare(directory)
    old = epochs(target)
    before = len(parquet_files(target))
    if len(old) < 2:
        return before, before
    made = f"epoch={_first(old[0])}-{_last(old[-1])}"
    draft = target / "_writing" / made
    shutil.rmtree(draft, ignore_errors=True)
    draft.mkdir(parents=True)
    with Files(draft, "part-00000", COMPACTED_ROWS) as files:
        for epoch in old:
            for file in sorted(epoch.rglob("*.parquet")):
                for batch in ds.dataset(file, format="parquet").to_batches(use_threads=False):
                    files.write(batch)
    _write_safely(target / "_compaction.json", json.dumps({"made": made, "of": [path.name for path in old]}))
    finish_compaction(target)
    return before, len(parquet_files(target))


def finish_compaction(target: Path) -> None:
    """Replace old epochs by the one made of them, if that was begun. Doing it twice does no harm."""
    plan = target / "_compaction.json"
    if not plan.exists():
        return
    told = json.loads(plan.read_text())
    for name in told["of"]:
        if name != told["made"]:
            shutil.rmtree(target / name, ignore_errors=True)
    draft = target / "_writing" / told["made"]
    if draft.exists():
        draft.rename(target / told["made"])
    plan.unlink()


def _was_compacted(target: Path, number: int) -> bool:
    return any(int(_first(path)) <= number <= int(_last(path)) for path in epochs(target))


def _first(epoch: Path) -> str:
    return epoch.name.removeprefix("epoch=").split("-")[0]


def _last(epoch: Path) -> str:
    return epoch.name.removeprefix("epoch=").split("-")[-1]


def _write_safely(path: Path, text: str) -> None:
    draft = path.with_name(path.name + ".new")
    with draft.open("w") as file:
        file.write(text)
        file.flush()
        os.fsync(file.fileno())
    draft.replace(path)
