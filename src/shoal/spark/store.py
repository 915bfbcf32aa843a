"""A store's history as a query uses it: found again after a restart, read on from where a connection broke.

Speaks Arrow Flight through `shoal.history` and nothing else: Spark's workers are forked, and a connection to
the bus does not survive that.
"""

import logging
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any, TypeVar

import pyarrow as pa

from shoal import history
from shoal.errors import ConfigError, StoreUnavailableError
from shoal.history.client import endpoint_of
from shoal.messages import spark as notices
from shoal.spark.options import StoreOptions

log = logging.getLogger("shoal.spark")

Answer = TypeVar("Answer")

#: Pauses between attempts to reach a store that is away, in seconds; the last is repeated.
RETRY_PAUSES_S = (0.05, 0.1, 0.2, 0.5, 1.0)


@dataclass(frozen=True)
class Query:
    """What to read, without the range. Can be pickled.

    Attributes:
        topics: patterns of topics.
        selector: a condition, or none.
        columns: columns of the row schema.
        properties: properties that become columns, with their types.
        only: runs of offsets, both ends included, beside which nothing is meant; none for all.
    """

    topics: tuple[str, ...]
    selector: str | None
    columns: tuple[str, ...] = ()
    properties: tuple[tuple[str, str], ...] = ()
    only: tuple[tuple[int, int], ...] | None = None


def endpoint(options: StoreOptions) -> str:
    """Where the store serves history; a directory is looked into each time, for its port may change."""
    try:
        return endpoint_of(options.store)[0]
    except ConfigError:
        raise ConfigError(
            "option store must be an address such as grpc://127.0.0.1:7475 or the directory of a store, not "
            f"{options.store!r}"
        ) from None


class Store:
    """A connection to one store's history, made again when it breaks. Not to be shared between threads.

    Args:
        options: which store, and how long it may be away.
        known_at: where it listened last, for machines on which its directory is not.
    """

    def __init__(self, options: StoreOptions, known_at: str | None = None) -> None:
        self._options = options
        self._known_at = known_at
        self._client: history.History | None = None

    def __enter__(self) -> "Store":
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        """Give the connection back."""
        if self._client is not None:
            self._client.close()
            self._client = None

    @property
    def address(self) -> str:
        """Where the store listens, as far as this machine can tell."""
        if self._known_at is not None and "://" not in self._options.store:
            try:
                return endpoint(self._options)
            except (ConfigError, StoreUnavailableError):
                return self._known_at
        return endpoint(self._options)

    def call(self, ask: Callable[[history.History], Answer]) -> Answer:
        """Ask until the store answers, or has been away for too long."""
        began = time.monotonic()
        for attempt in range(1_000_000):
            try:
                return ask(self._connected())
            except StoreUnavailableError as error:
                self.close()
                self._pause(attempt, began, error)
        raise AssertionError("unreachable")

    def info(self) -> dict[str, Any]:
        """Which store this is, and how far its history reaches; refuses one of another domain."""
        told: dict[str, Any] = self.call(lambda client: client.info())
        wanted = self._options.domain
        if wanted is not None and told.get("domain") != wanted:
            raise ConfigError(
                f"option domain says {wanted!r}, but the store at {self.address} belongs to "
                f"{told.get('domain')!r}"
            )
        return told

    def batches(self, query: Query, start: int, end: int, incarnation: str) -> Iterator[pa.RecordBatch]:
        """The matching messages of a range, in order, each once, also if the store restarts meanwhile."""
        next_offset, began, attempt = start, time.monotonic(), 0
        while True:
            try:
                for batch in self._connected().batches(
                    topics=list(query.topics),
                    selector=query.selector,
                    columns=list(query.columns),
                    properties=dict(query.properties) or None,
                    start=next_offset,
                    end=end,
                    incarnation=incarnation,
                    only=query.only,
                ):
                    if batch.num_rows:
                        next_offset = batch.column("offset")[-1].as_py() + 1
                        yield batch
                        began, attempt = time.monotonic(), 0
                return
            except StoreUnavailableError as error:
                self.close()
                self._pause(attempt, began, error)
                attempt += 1

    def _connected(self) -> history.History:
        if self._client is None:
            options = self._options
            is_directory = options.fingerprint is None and "://" not in options.store
            fingerprint = endpoint_of(options.store)[1] if is_directory else options.fingerprint
            self._client = history.connect(
                self.address, token=options.token, token_file=options.token_file, fingerprint=fingerprint
            )
        return self._client

    def _pause(self, attempt: int, began: float, error: StoreUnavailableError) -> None:
        waited_s = time.monotonic() - began
        if waited_s >= self._options.timeout_s:
            raise StoreUnavailableError(
                f"option store: no store answered at {self._options.store} for {waited_s:.0f} s (option "
                f"storeTimeout); "
                f"is `shoal store` running there? {error}"
            ) from error
        if attempt == 0:
            notices.STORE_SILENT(store=self._options.store, timeout_s=self._options.timeout_s).log(log)
        time.sleep(min(RETRY_PAUSES_S[min(attempt, len(RETRY_PAUSES_S) - 1)], self._options.timeout_s))
