"""The writing half of the service: rows staged invisibly, then committed or discarded."""

import threading
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any

import pyarrow as pa

from shoal.bus.store_protocol import queue_name
from shoal.errors import HistoryError, StoreRefusedError
from shoal.history import faults, incoming
from shoal.history.options import ServerOptions
from shoal.history.store import Store

STAGING_ID_BYTES_MAX = 255
SCOPE_BYTES_MAX = 255

#: Makes rows for the log out of a batch's columns: `StagedRows` of the extension module.
MakeRows = Callable[..., Any]


def _allow(destination: str) -> None:
    """Let every caller publish everywhere."""


class Stagings:
    """What clients have staged. May be shared between threads.

    The log itself knows which stagings there are, so that they outlive the process; here is only which client
    they came from, and which of them are being written just now.
    """

    def __init__(self, store: Store, options: ServerOptions, make_rows: MakeRows) -> None:
        self._store, self._options, self._make_rows = store, options, make_rows
        self._lock = threading.Lock()
        self._clients: dict[str, str] = {}
        self._writing: set[str] = set()

    def put(
        self,
        staging: str,
        client: str,
        topic: str | None,
        schema: pa.Schema,
        batches: Iterator[pa.RecordBatch],
        check: Callable[[str], None] = _allow,
    ) -> dict[str, int]:
        """Stage all rows of `batches`, or none if anything fails. A staging of that name begins anew.

        `check` raises for a destination that the caller may not publish to.
        """
        incoming.check_schema(schema, topic)
        with self._writes(staging, client):
            log = self._store.log
            log.discard([staging])
            rows_all = bytes_all = 0
            try:
                for batch in incoming.slices(batches):
                    rows = self._rows(batch, topic)
                    if not rows.count:
                        continue
                    self._check_room(client, rows.bytes)
                    sizes = incoming.destinations(batch, topic, rows.bytes)
                    for destination in sizes:
                        check(destination)
                    self._store.expect(staging, sizes, more=rows_all > 0)
                    self._declare(sizes)
                    log.stage(staging, rows)
                    rows_all += rows.count
                    bytes_all += rows.bytes
                if not rows_all:
                    # A staging without rows is one, too: a task with nothing to write commits nothing.
                    log.stage(staging, self._make_rows(timestamp_us=0, default_topic=topic, rows=0))
                if rows_all != sum(rows for name, rows, *_ in log.stagings() if name == staging):
                    sentence = f"the staging {staging!r} expired while it was written: send it again"
                    raise HistoryError(faults.NO_STAGING, sentence, {"stagings": [staging]})
            except BaseException:
                log.discard([staging])
                raise
        return {"rows": rows_all, "bytes": bytes_all}

    def _declare(self, destinations: Iterable[str]) -> None:
        """A queue must be there before messages for it are: it has only those that came since."""
        for destination in destinations:
            if (queue := queue_name(destination)) is not None:
                self._store.ask("declare", queue=queue)

    def _rows(self, batch: pa.RecordBatch, topic: str | None) -> Any:
        try:
            columns = incoming.columns_of(batch)
            return self._make_rows(timestamp_us=time.time_ns() // 1000, default_topic=topic, **columns)
        except ValueError as error:
            raise incoming.row_error(error) from None

    @contextmanager
    def _writes(self, staging: str, client: str) -> Iterator[None]:
        """No other caller writes, commits or discards the staging while the block runs."""
        _check_length("staging", staging, STAGING_ID_BYTES_MAX)
        with self._lock:
            if staging in self._writing:
                raise faults.bad_query(f"the staging {staging!r} is being written already", staging=staging)
            kept = self._store.log.stagings()
            if len(kept) + len(self._writing) >= self._options.stagings_max:
                most = self._options.stagings_max
                raise HistoryError(
                    faults.FULL, f"there are {most} stagings: commit or discard some", {"most": most}
                )
            self._writing.add(staging)
            self._clients[staging] = client
        try:
            yield
        finally:
            with self._lock:
                self._writing.discard(staging)
                self._forget_gone()

    def _forget_gone(self) -> None:
        there = {staging for staging, *_ in self._store.log.stagings()} | self._writing
        self._clients = {staging: client for staging, client in self._clients.items() if staging in there}

    def _check_room(self, client: str, more: int) -> None:
        with self._lock:
            sizes = {staging: size for staging, _, size, _ in self._store.log.stagings()}
            mine = sum(size for staging, size in sizes.items() if self._clients.get(staging) == client)
        for whose, staged, most in (
            ("this client has", mine, self._options.staged_bytes_per_client_max),
            ("all clients have", sum(sizes.values()), self._options.staged_bytes_max),
        ):
            if staged + more > most:
                sentence = f"{whose} {staged} bytes staged, and with {more} more it would be above {most}"
                raise HistoryError(faults.FULL, f"{sentence}: commit or discard some", {"most": most})

    def commit(self, scope: str | None, number: int, stagings: Sequence[str]) -> dict[str, Any]:
        """Make these stagings visible and durable, in this order, at once; a repetition changes nothing."""
        if scope is not None:
            _check_length("scope", scope, SCOPE_BYTES_MAX)
        with self._lock:
            for staging in stagings:
                if staging in self._writing:
                    raise faults.bad_query(f"the staging {staging!r} is still being written", staging=staging)
                if list(stagings).count(staging) > 1:
                    raise faults.bad_query(f"the staging {staging!r} is named twice", staging=staging)
        # Not under the lock: the disk is waited for, and the log itself keeps commits apart.
        try:
            first, end, repeated = self._store.commit(scope, number, list(stagings))
        except StoreRefusedError as error:
            raise HistoryError(faults.NO_STAGING, str(error), {"stagings": list(stagings)}) from None
        with self._lock:
            self._forget_gone()
        rows = end - first if first >= 0 else 0
        return {"first": first, "end": end, "rows": rows, "repeated": repeated}

    def discard(self, stagings: Sequence[str]) -> dict[str, Any]:
        """Forget stagings; those that are not there do not matter."""
        with self._lock:
            for staging in stagings:
                if staging in self._writing:
                    raise faults.bad_query(f"the staging {staging!r} is still being written", staging=staging)
            gone = self._store.log.discard(list(stagings))
            self._forget_gone()
        return {"discarded": gone}


def _check_length(what: str, value: str, most: int) -> None:
    if len(value.encode()) > most:
        raise faults.bad_query(
            f"{what} has {len(value.encode())} bytes; at most {most} are allowed", field=what
        )
