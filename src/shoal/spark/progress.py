"""How a running query gets on: its lag, a line for people, metrics for programs, and a clean end."""

import json
import threading
import time
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any

from pyspark.sql.streaming.listener import (
    QueryIdleEvent,
    QueryProgressEvent,
    QueryStartedEvent,
    QueryTerminatedEvent,
    StreamingQueryListener,
)

if TYPE_CHECKING:
    from pyspark.sql.streaming.query import StreamingQuery


#: How long a micro-batch that is being processed may go on when its query is stopped.
STOP_PATIENCE_S = 30.0

#: What Spark says while it processes a micro-batch.
_BUSY = "Processing new data"


def rows_behind(progress: Mapping[str, Any] | None) -> int | None:
    """How many matching messages were stored and not yet read at the last micro-batch; none if not known."""
    behind = [
        told["rowsBehind"]
        for source in (progress or {}).get("sources", ())
        if "rowsBehind" in (told := _loaded(source.get("latestOffset")))
    ]
    return sum(behind) if behind else None


def describe(progress: Mapping[str, Any]) -> str:
    """One line: which micro-batch, how much, how fast, how far behind, and how long that takes."""
    rows, rate = progress.get("numInputRows", 0), progress.get("processedRowsPerSecond") or 0.0
    took_ms = progress.get("durationMs", {}).get("triggerExecution")
    behind = rows_behind(progress)
    parts = [f"micro-batch {progress.get('batchId')}", f"{rows:,} rows", f"{rate:,.0f} rows/s"]
    parts += [f"{took_ms:,} ms"] if took_ms is not None else []
    parts += [f"{behind:,} behind"] if behind is not None else []
    parts += [f"about {max(1, round(behind / rate))} s left"] if behind and rate else []
    return ", ".join(parts)


def wait(
    query: "StreamingQuery",
    told: Callable[[str], object],
    poll_s: float = 0.5,
    *,
    stopping: threading.Event | None = None,
) -> None:
    """Wait for the end of a query and tell each micro-batch meanwhile.

    An interrupt stops it cleanly, and so does `stopping` once it is set. A query that is stopped goes on from
    its checkpoint when it is started again.
    """
    seen = None
    try:
        while not query.awaitTermination(poll_s):  # type: ignore[arg-type]
            seen = _tell(query, told, seen)
            if stopping is not None and stopping.is_set():
                stop(query)
    except KeyboardInterrupt:
        stop(query)
    _tell(query, told, seen)


def stop(query: "StreamingQuery", patience_s: float = STOP_PATIENCE_S) -> None:
    """Stop a query, if possible between two micro-batches: Spark makes an error of one that it cuts short."""
    deadline = time.monotonic() + patience_s
    while query.isActive and query.status["message"] == _BUSY and time.monotonic() < deadline:
        time.sleep(0.02)
    query.stop()


def _tell(query: "StreamingQuery", told: Callable[[str], object], seen: object) -> object:
    progress = query.lastProgress
    if progress is None:
        return seen
    known = json.loads(progress.json) if hasattr(progress, "json") else progress
    at = (known.get("batchId"), known.get("timestamp"))
    if at != seen and known.get("numInputRows"):
        told(describe(known))
    return at


class QueryMetrics(StreamingQueryListener):
    """Metrics of all queries of a session, as text that Prometheus reads. May be shared between threads.

    Add it with `spark.streams.addListener(metrics)`, and serve `metrics.text()` where your program serves
    others.
    """

    _GAUGES = (
        ("shoal_spark_rows_behind", "matching messages stored but not yet read", rows_behind),
        ("shoal_spark_input_rows_per_second", "rows that arrive", lambda p: p.get("inputRowsPerSecond")),
        (
            "shoal_spark_processed_rows_per_second",
            "rows that are done",
            lambda p: p.get("processedRowsPerSecond"),
        ),
        (
            "shoal_spark_batch_milliseconds",
            "how long the last micro-batch took",
            lambda p: p.get("durationMs", {}).get("triggerExecution"),
        ),
    )

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._queries: dict[str, dict[str, Any]] = {}

    def onQueryStarted(self, event: QueryStartedEvent) -> None:  # noqa: N802 - Spark's name
        """Nothing is known yet."""

    def onQueryProgress(self, event: QueryProgressEvent) -> None:  # noqa: N802 - Spark's name
        """Remember the last progress of each query."""
        with self._lock:
            self._queries[str(event.progress.id)] = json.loads(event.progress.json)

    def onQueryIdle(self, event: QueryIdleEvent) -> None:  # noqa: N802 - Spark's name
        """An idle query is not behind: the next progress tells."""

    def onQueryTerminated(self, event: QueryTerminatedEvent) -> None:  # noqa: N802 - Spark's name
        """Forget a query that ended."""
        with self._lock:
            self._queries.pop(str(event.id), None)

    def text(self) -> str:
        """All metrics in the text format of Prometheus."""
        with self._lock:
            queries = dict(self._queries)
        lines = []
        for name, meaning, value_of in self._GAUGES:
            values = [(progress, value_of(progress)) for progress in queries.values()]
            lines += [f"# HELP {name} {meaning}", f"# TYPE {name} gauge"]
            lines += [
                f'{name}{{query="{_label(progress.get("name") or progress["id"])}"}} {value}'
                for progress, value in values
                if value is not None
            ]
        return "\n".join(lines) + "\n"


def _label(text: str) -> str:
    return text.replace("\\", "\\\\").replace('"', '\\"').replace("\n", "\\n")


def _loaded(offset: Any) -> dict[str, Any]:
    """An offset as progress shows it: a dictionary, or JSON of one."""
    if isinstance(offset, str):
        try:
            offset = json.loads(offset)
        except ValueError:
            return {}
    return offset if isinstance(offset, dict) else {}
