"""Writing rows as messages, exactly once or at least once.

A task stages its rows at the store, where no reader sees them. The driver then commits: one request names the
stagings of exactly those task attempts that Spark counts, and an id, (query, micro-batch). The store makes
them visible together and durable, and remembers the highest number for each query: a micro-batch that is done
again after a crash is recognised, and what it staged is thrown away. Stagings without a commit expire.
"""

import logging
import uuid
from collections.abc import Iterable, Iterator
from dataclasses import dataclass

import pyarrow as pa
from pyspark import TaskContext
from pyspark.sql.datasource import (
    DataSourceArrowWriter,
    DataSourceStreamArrowWriter,
    WriterCommitMessage,
)
from pyspark.sql.types import StructType

from shoal.errors import ConfigError, HistoryError
from shoal.history import History
from shoal.messages import spark as notices
from shoal.spark.explain import speaks_plainly
from shoal.spark.options import StoreOptions, WriteOptions
from shoal.spark.sink_rows import SinkPlan, plan_messages
from shoal.spark.store import Store

log = logging.getLogger("shoal.spark")

#: One staging holds about as much: large enough to be cheap, small enough to be sent again when a store
#: restarts.
STAGING_ROWS = 65_536
STAGING_BYTES = 8 << 20


@dataclass
class Staged(WriterCommitMessage):
    """What one task attempt left at the store.

    Attributes:
        partition: the task's place, which is the order of its rows among those of others.
        stagings: the ids of its rows, in their order.
        rows: how many there are.
        query: the id of the streaming query, which survives restarts; empty for a batch.
    """

    partition: int
    stagings: list[str]
    rows: int
    query: str


class _Writing:
    """What batches and streams share. Can be pickled."""

    def __init__(self, options: WriteOptions, schema: StructType, overwrite: bool) -> None:
        if overwrite:
            raise ConfigError('messages cannot be overwritten: use mode("append")')
        self.options = options
        self.plan: SinkPlan = plan_messages(options, schema)
        # Spark makes this once, on the driver. A store that is not there, or of another domain, fails here
        # and not in each attempt of each task.
        with Store(options.at) as store:
            store.info()

    def stage(self, iterator: Iterator[pa.RecordBatch], task: TaskContext, query: str) -> Staged:
        """Bring the rows of a task to the store; show them only if no caller waits for other tasks."""
        partition, stagings, rows = task.partitionId(), list[str](), 0
        prefix = f"{query or 'batch'}-{partition}-{task.taskAttemptId()}"
        with Store(self.options.at) as store:
            for messages in _chunks(self.plan.to_messages(batch) for batch in iterator if batch.num_rows):
                stagings.append(stage_again(store, prefix, messages, self.options.topic))
                rows += messages.num_rows
            if not self.options.exactly_once and stagings:
                store.call(lambda client: client.commit(None, 0, stagings))
                stagings = []
        return Staged(partition, stagings, rows, query)

    def commit(
        self, messages: Iterable[WriterCommitMessage | None], scope: str, number: int, *, last: bool = False
    ) -> None:
        """Make what these tasks staged visible, once for each scope and number; `last` ends the scope."""
        stagings = _stagings(messages)
        if stagings:
            with Store(self.options.at) as store:
                answer = store.call(lambda client: client.commit(scope, number, stagings))
                try:
                    if answer["repeated"]:
                        store.call(lambda client: client.discard(stagings))
                    if last:
                        store.call(lambda client: client.forget(scope))
                except HistoryError as error:
                    # It is committed, and a failure would have it written again; the store does so itself.
                    notices.NOT_TIDIED(why=error).log(log)


def stage_again(store: Store, prefix: str, messages: pa.Table, topic: str | None) -> str:
    """Stage rows under a new id, and under another if the store goes away; return the id that counts."""

    def attempt(client: History) -> str:
        staging = f"{prefix}-{uuid.uuid4().hex}"
        client.stage(staging, messages, topic=topic)
        return staging

    return store.call(attempt)


def discard(at: StoreOptions, messages: Iterable[WriterCommitMessage | None]) -> None:
    """Give back what tasks staged that Spark does not count."""
    stagings = _stagings(messages)
    if stagings:
        with Store(at) as store:
            store.call(lambda client: client.discard(stagings))


@speaks_plainly
class ShoalWriter(DataSourceArrowWriter):
    """Writes the rows of a batch. With option writeId, writing it again changes nothing."""

    def __init__(self, options: WriteOptions, schema: StructType, overwrite: bool) -> None:
        self._writing = _Writing(options, schema, overwrite)
        # Made once, where the write is planned; the tasks and the commit get copies.
        self._scope = options.write_id or f"batch-{uuid.uuid4().hex}"

    def write(self, iterator: Iterator[pa.RecordBatch]) -> WriterCommitMessage:
        """Stage the rows of one task."""
        task = TaskContext.get()
        assert task is not None
        return self._writing.stage(iterator, task, "")

    def commit(self, messages: list[WriterCommitMessage | None]) -> None:
        """Make the rows of all tasks visible.

        A scope is needed though the user gave no id: without one, a store that dies while it answers leaves
        it open whether it committed.
        """
        options = self._writing.options
        self._writing.commit(messages, self._scope, options.write_number, last=options.write_id is None)

    def abort(self, messages: list[WriterCommitMessage | None]) -> None:
        """Throw away what was staged."""
        discard(self._writing.options.at, messages)


@speaks_plainly
class ShoalStreamWriter(DataSourceStreamArrowWriter):
    """Writes micro-batches."""

    def __init__(self, options: WriteOptions, schema: StructType, overwrite: bool) -> None:
        if options.write_id is not None:
            raise ConfigError("option writeId is for df.write: a stream has the id of its query")
        self._writing = _Writing(options, schema, overwrite)

    def write(self, iterator: Iterator[pa.RecordBatch]) -> WriterCommitMessage:
        """Stage the rows of one task."""
        task = TaskContext.get()
        assert task is not None
        query = task.getLocalProperty("sql.streaming.queryId")
        if not query:
            raise ConfigError("Spark told no id of the query: is this Spark older than 4.3?")
        return self._writing.stage(iterator, task, query)

    def commit(self, messages: list[WriterCommitMessage | None], batchId: int) -> None:  # noqa: N803
        """Make the micro-batch visible, once."""
        scope = next((message.query for message in messages if isinstance(message, Staged)), "")
        self._writing.commit(messages, f"spark-{scope}", batchId)

    def abort(self, messages: list[WriterCommitMessage | None], batchId: int) -> None:  # noqa: N803
        """Throw away what was staged."""
        discard(self._writing.options.at, messages)


def _stagings(messages: Iterable[WriterCommitMessage | None]) -> list[str]:
    staged = sorted((m for m in messages if isinstance(m, Staged)), key=lambda m: m.partition)
    return [staging for message in staged for staging in message.stagings]


def _chunks(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.Table]:
    """Spark's small batches, put together."""
    waiting: list[pa.RecordBatch] = []
    rows = size = 0
    for batch in batches:
        waiting.append(batch)
        rows, size = rows + batch.num_rows, size + batch.nbytes
        if rows >= STAGING_ROWS or size >= STAGING_BYTES:
            yield pa.Table.from_batches(waiting)
            waiting, rows, size = [], 0, 0
    if waiting:
        yield pa.Table.from_batches(waiting)
