"""Rows for tests that stage: what the history server does with a client's batches."""

import time

import pyarrow as pa

from shoal._core import Log, StagedRows
from shoal.history import incoming


def stage(log: Log, staging: str, topic: str, bodies: list[bytes]) -> None:
    """Stage rows of one topic."""
    batch = pa.record_batch({"topic": [topic] * len(bodies), "body": pa.array(bodies, pa.binary())})
    columns = incoming.columns_of(batch)
    log.stage(staging, StagedRows(timestamp_us=time.time_ns() // 1000, default_topic=None, **columns))
