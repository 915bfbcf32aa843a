"""History of stores for viewers.

Search, counts over time, and Parquet. Needs `shoal[history]`; without it there is no history.
"""

import io
import itertools
import threading
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from shoal.console.bodies import history_row
from shoal.errors import ConfigError, InvalidDestinationError

if TYPE_CHECKING:
    from shoal.history import History

#: Stores whose history is known, at the most.
STORES_MAX = 64
#: Rows of one search, and bytes of their bodies together.
ROWS_MAX, BYTES_MAX = 10_000, 32 << 20
#: Bars of a chart.
BUCKETS_MAX = 240
COLUMNS = (
    *("offset", "topic", "stored", "timestamp", "publisher", "message_id", "priority", "type"),
    *("correlation_id", "reply_to", "body_kind", "body", "properties"),
)


@dataclass(frozen=True, kw_only=True, slots=True)
class Search:
    """What is searched for."""

    store: str
    patterns: tuple[str, ...] = ()
    selector: str | None = None
    #: Microseconds since 1970, by the time of storing.
    from_us: int | None = None
    to_us: int | None = None

    @property
    def options(self) -> dict[str, Any]:
        """As `History` takes it."""
        return {"selector": self.selector or None, "from_time": self.from_us, "to_time": self.to_us}


class Histories:
    """The histories of a domain's stores, by the stores' names. May be shared between threads."""

    def __init__(self, given: Mapping[str, str] | None = None) -> None:
        """Begin with histories that the command line names; others are heard of."""
        self._lock = threading.Lock()
        self._known: dict[str, tuple[str, str | None]] = {}
        self._open: dict[str, History] = {}
        self._given = frozenset(given or ())
        for name, where in (given or {}).items():
            self._known[name] = (where, None)

    @property
    def names(self) -> list[str]:
        """Stores whose history can be asked for."""
        with self._lock:
            return sorted(self._known)

    def learn(self, name: str, endpoint: str, fingerprint: str | None) -> None:
        """A store says where its history is."""
        with self._lock:
            known = (endpoint, fingerprint)
            if name in self._given or self._known.get(name) == known or len(self._known) >= STORES_MAX:
                return
            self._known[name] = known
            if (former := self._open.pop(name, None)) is not None:
                former.close()

    def _of(self, name: str) -> "History":
        try:
            from shoal.history import connect
        except ImportError as error:
            raise ConfigError(f"{error.name} is not installed: pip install 'shoal[history]'") from None
        with self._lock:
            if name not in self._known:
                raise InvalidDestinationError(
                    f"No store {name!r} serves its history. Start it with --flight 127.0.0.1:7475."
                )
            if name not in self._open:
                endpoint, fingerprint = self._known[name]
                self._open[name] = connect(endpoint, fingerprint=fingerprint)
            return self._open[name]

    def topics(self, name: str) -> list[dict[str, Any]]:
        """Topics of a store, with the number of messages."""
        return self._of(name).topics()

    def search(self, wanted: Search, limit: int, start: int | None = None) -> dict[str, Any]:
        """Rows that match, the oldest first, and where to go on."""
        history = self._of(wanted.store)
        limit = min(limit, ROWS_MAX)
        options = wanted.options | ({} if start is None else {"start": start, "from_time": None})
        reach = history.latest(wanted.patterns, max_rows=limit, max_bytes=BYTES_MAX, **options)
        options |= {"start": reach["from"], "end": reach["end"], "from_time": None, "to_time": None}
        rows = []
        for batch in history.batches(wanted.patterns, columns=list(COLUMNS), limit=limit, **options):
            rows += [history_row(row) for row in batch.to_pylist()]
        gaps = history.gaps(**{name: options[name] for name in ("start", "end")})
        lost = sum(int(gap["count"]) for gap in gaps if gap["reason"] == "lost")
        return {"rows": rows, "next": reach["end"] if reach["more"] else None, "lost": lost}

    def counts(self, wanted: Search, buckets: int) -> dict[str, Any]:
        """How many messages match in each part of a span of time, and in all."""
        history = self._of(wanted.store)
        buckets = min(max(buckets, 1), BUCKETS_MAX)
        if wanted.from_us is None or wanted.to_us is None or wanted.to_us <= wanted.from_us:
            raise ConfigError("from and to are needed for counts, and from is earlier than to")
        step = (wanted.to_us - wanted.from_us) / buckets
        edges = [wanted.from_us + round(number * step) for number in range(buckets + 1)]
        offsets = [history.offset_at(edge) for edge in edges]
        counts = []
        for first, end in itertools.pairwise(offsets):
            if end <= first:
                counts.append(0)
            elif not wanted.patterns and not wanted.selector:
                counts.append(end - first)
            else:
                found = history.latest(wanted.patterns, selector=wanted.selector, start=first, end=end)
                counts.append(int(found["rows"]))
        return {"times": [edge / 1e6 for edge in edges[:-1]], "counts": counts, "total": sum(counts)}

    def parquet(self, wanted: Search) -> Iterator[bytes]:
        """A Parquet file of all rows that match, part by part."""
        import pyarrow.parquet as pq

        from shoal.history.schema import DEFAULT_COLUMNS, schema_of

        history = self._of(wanted.store)
        # The range stays the same, whatever is recorded meanwhile.
        reach = history.latest(wanted.patterns, **wanted.options)
        fixed = {"selector": wanted.selector or None, "start": reach["from"], "end": reach["end"]}
        buffer = _Parts()
        with pq.ParquetWriter(buffer, schema_of(list(DEFAULT_COLUMNS), {}), compression="zstd") as writer:
            for batch in history.batches(wanted.patterns, **fixed):
                writer.write_batch(batch)
                yield buffer.take()
        yield buffer.take()

    def close(self) -> None:
        """Close all connections."""
        with self._lock:
            for history in self._open.values():
                history.close()
            self._open.clear()


class _Parts(io.RawIOBase):
    """What was written since it was taken last; a Parquet file is written from its beginning to its end."""

    def __init__(self) -> None:
        super().__init__()
        self._parts: list[bytes] = []
        self._at = 0

    def writable(self) -> bool:
        return True

    def write(self, data: Any) -> int:
        part = bytes(data)
        self._parts.append(part)
        self._at += len(part)
        return len(part)

    def tell(self) -> int:
        return self._at

    def take(self) -> bytes:
        """The parts so far."""
        found, self._parts = b"".join(self._parts), []
        return found
