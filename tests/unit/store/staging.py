"""Rows for tests that stage: what the history server does with a client's batches."""

import time
from collections.abc import Callable

import pyarrow as pa

from shoal._core import Log, StagedRows, encode_record
from shoal.history import incoming


def stage(log: Log, staging: str, topic: str, bodies: list[bytes]) -> None:
    """Stage rows of one topic."""
    batch = pa.record_batch({"topic": [topic] * len(bodies), "body": pa.array(bodies, pa.binary())})
    columns = incoming.columns_of(batch)
    log.stage(staging, StagedRows(timestamp_us=time.time_ns() // 1000, default_topic=None, **columns))


def commit_below_and_above_a_floor(log: Log, commit: Callable[[str, int, list[str]], object]) -> int:
    """Four sealed segments: the last two commit what the first two stage. Returns where the last one begins.

    Without what comes before it the third refers to rows that are gone.
    """

    def seal() -> None:
        log.append(1, 1, [(None, 1, encode_record("t", b"x"))])
        log.seal()
        log.sync()

    for staging in ("early", "late"):
        stage(log, staging, "t", [b"x"] * 3)
        seal()
    commit("q", 1, ["early"])
    seal()
    floor = log.end
    commit("q", 2, ["late"])
    seal()
    return floor
