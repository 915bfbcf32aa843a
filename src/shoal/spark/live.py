"""Live mode: rows straight from the network, with no store, at most once.

The process in which Spark plans the stream joins the domain and passes on what it hears. Nothing is kept:
what comes while no query runs, while the buffer is full, or in a micro-batch that fails, is lost to the
query.
"""

import base64
import json
import logging
import time
from collections.abc import Iterator, Mapping
from typing import Any

import pyarrow as pa
from pyspark.sql.datasource import SimpleDataSourceStreamReader
from pyspark.sql.pandas.types import to_arrow_schema
from pyspark.sql.types import StructType

import shoal
from shoal.history.schema import PROPERTY_TYPES
from shoal.messages import spark as notices
from shoal.spark.options import ReadOptions
from shoal.spark.rows import ROW_SCHEMA, RowPlan, plan_rows

log = logging.getLogger("shoal.spark")

#: The most messages of one micro-batch; the rest waits in the subscription, or is dropped there.
BATCH_ROWS_MAX = 100_000
#: What a subscription holds while Spark is busy; beyond it, the oldest messages go.
QUEUE_BYTES_MAX = 64 << 20
#: How long a question for news waits.
WAIT_S = 0.25


class LiveReader(SimpleDataSourceStreamReader):
    """Follows a domain from now on. Joins it on the first question, in the process that asks."""

    def __init__(self, options: ReadOptions, schema: StructType) -> None:
        self._options = options
        self._plan: RowPlan = plan_rows(options, schema)
        self._bus: shoal.Bus | None = None
        self._subscriptions: list[shoal.Subscription] = []
        self._received = 0

    def __getstate__(self) -> dict[str, Any]:
        return self.__dict__ | {"_bus": None, "_subscriptions": []}

    def initialOffset(self) -> dict[str, Any]:  # noqa: N802 - Spark's name
        """Nothing was received yet."""
        self._join()
        return {"received": 0}

    def read(self, start: dict[str, Any]) -> tuple[Iterator[Any], dict[str, Any]]:
        """What has arrived; waits a little if there is nothing."""
        self._join()
        self._received = max(self._received, int(start["received"]))
        messages = self._arrived()
        self._received += len(messages)
        rows = [self._plan.to_rows(to_batch(messages, self._plan.properties))] if messages else []
        return iter(rows), {"received": self._received}

    def readBetweenOffsets(self, start: dict[str, Any], end: dict[str, Any]) -> Iterator[Any]:  # noqa: N802
        """A micro-batch that failed: its messages are gone."""
        count = int(end["received"]) - int(start["received"])
        notices.LIVE_LOST(messages=count).log(log)
        return iter(())

    def close(self) -> None:
        """Leave the domain. Spark ends the process instead."""
        bus, self._bus = self._bus, None
        if bus is not None:
            bus.close()

    def _join(self) -> None:
        if self._bus is not None:
            return
        notices.LIVE_AT_MOST_ONCE().log(log)
        domain = self._options.at.domain
        url = self._options.bus
        self._bus = shoal.connect(url) if domain is None else shoal.connect(url, domain=domain)
        self._subscriptions = [
            self._bus.subscribe(
                pattern,
                selector=self._options.selector,
                queue_bytes_max=QUEUE_BYTES_MAX,
                queue_full="drop_old",
            )
            for pattern in self._options.topics
        ]

    def _arrived(self) -> list[shoal.Message]:
        deadline = time.monotonic() + WAIT_S
        messages: list[shoal.Message] = []
        while not messages:
            for subscription in self._subscriptions:
                messages += subscription.receive_nowait(BATCH_ROWS_MAX - len(messages))
            if messages or time.monotonic() >= deadline:
                break
            first = self._subscriptions[0].receive(0.005 if len(self._subscriptions) > 1 else WAIT_S)
            if first is not None:
                messages.append(first)
        return messages


def to_batch(messages: list[shoal.Message], properties: Mapping[str, str]) -> pa.RecordBatch:
    """Messages as a store would send them, as far as that is known without one; properties as columns too."""
    layout = to_arrow_schema(ROW_SCHEMA, timezone="UTC")
    for name, kind in properties.items():
        layout = layout.append(pa.field(name, PROPERTY_TYPES[kind]))
    rows = [
        _row(message)
        | {name: _typed(message.properties.get(name), kind) for name, kind in properties.items()}
        for message in messages
    ]
    return pa.RecordBatch.from_pylist(rows, schema=layout)


def _row(message: shoal.Message) -> dict[str, Any]:
    kind, body = _body(message.body)
    publisher, chain, number = _origin(message)
    correlation = message.correlation_id
    return {
        "topic": message.topic,
        "timestamp": None if message.timestamp is None else round(message.timestamp * 1e6),
        "message_id": message.message_id,
        "publisher": publisher,
        "chain": chain,
        "number": number,
        "type": message.type,
        "priority": message.priority,
        "correlation_id": correlation.decode(errors="replace")
        if isinstance(correlation, bytes)
        else correlation,
        "reply_to": message.reply_to,
        "redelivered": message.redelivered,
        "body_kind": kind,
        "body": body,
        "properties": {name: _text(value) for name, value in message.properties.items()},
    } | dict.fromkeys(("offset", "stored"))


def _origin(message: shoal.Message) -> tuple[str, int | None, int | None]:
    """Publisher, chain and number, which the id is made of."""
    parts = (message.message_id or "").removeprefix("ID:").split("-")
    if len(parts) == 3 and len(parts[0]) == 16 and parts[1].isdigit() and parts[2].isdigit():
        return parts[0], int(parts[1]), int(parts[2])
    return f"{message.sender:016x}", None, None


def _body(body: Any) -> tuple[str, bytes | None]:
    """What kind of body it is, and its bytes: texts in UTF-8, values as JSON, others as they are."""
    if body is None:
        return "empty", None
    if isinstance(body, bytes):
        return "bytes", body
    if isinstance(body, str):
        return "text", body.encode()
    if isinstance(body, dict | list | bool | int | float):
        kind = "mapping" if isinstance(body, dict) else "list" if isinstance(body, list) else "scalar"
        return kind, json.dumps(body, ensure_ascii=False, default=_encoded).encode()
    if isinstance(body, pa.Table):
        sink = pa.BufferOutputStream()
        with pa.ipc.new_stream(sink, body.schema) as writer:
            writer.write(body)
        return "arrow", sink.getvalue().to_pybytes()
    return "array", body.tobytes()


def _text(value: Any) -> str | None:
    """A property as a store shows it in a map of texts."""
    return json.dumps(value) if isinstance(value, bool) else None if value is None else str(value)


def _typed(value: Any, kind: str) -> Any:
    """A property as a store shows it in a column of its own: null if it has another type."""
    if isinstance(value, bool) or value is None:
        return value if kind == "bool" else None
    if kind == "text":
        return value if isinstance(value, str) else None
    if kind == "int64":
        return value if isinstance(value, int) and -(1 << 63) <= value < 1 << 63 else None
    return float(value) if kind == "float64" and isinstance(value, int | float) else None


def _encoded(value: Any) -> str:
    return base64.b64encode(value).decode() if isinstance(value, bytes) else str(value)
