"""The rows of history as Arrow has them: names, types, versions. What each column holds is told in
docs/reference/history.md."""

from collections.abc import Mapping, Sequence
from typing import Any

import pyarrow as pa

#: Raised when a column changes its type or its meaning, or goes; a column that is added does not raise it.
SCHEMA_VERSION = 1

_TIME = pa.timestamp("us", tz="UTC")

#: Every column, in the order of a row.
COLUMN_TYPES: dict[str, pa.DataType] = {
    "offset": pa.int64(),
    "topic": pa.string(),
    "timestamp": _TIME,
    "stored": _TIME,
    "message_id": pa.string(),
    "publisher": pa.string(),
    "chain": pa.int32(),
    "number": pa.int64(),
    "type": pa.string(),
    "priority": pa.int32(),
    "correlation_id": pa.string(),
    "reply_to": pa.string(),
    "redelivered": pa.bool_(),
    "body_kind": pa.string(),
    "body": pa.binary(),
    "properties": pa.map_(pa.string(), pa.string()),
    "body_detail": pa.binary(),
}

#: Columns that every message has a value for.
REQUIRED = frozenset({"offset", "topic", "stored", "publisher", "priority", "redelivered", "body_kind"})

#: What a query without `columns` gets.
DEFAULT_COLUMNS = tuple(name for name in COLUMN_TYPES if name != "body_detail")

#: The types that a property's own column may have.
PROPERTY_TYPES: dict[str, pa.DataType] = {
    "string": pa.string(),
    "text": pa.string(),
    "int64": pa.int64(),
    "float64": pa.float64(),
    "bool": pa.bool_(),
}

#: Gap records, as the action `gaps` gives them.
GAP_COLUMNS = ("after_offset", "publisher", "chain", "first", "last", "count", "stored_us", "reason")

#: What can be written in, with the types it is converted to; `body` and `properties` may have several.
PUT_COLUMNS: dict[str, pa.DataType] = {
    "topic": pa.string(),
    "body": pa.binary(),
    "body_kind": pa.string(),
    "properties": pa.map_(pa.string(), pa.string()),
    "priority": pa.int32(),
    "ttl_ms": pa.int64(),
    "correlation_id": pa.string(),
    "type": pa.string(),
    "reply_to": pa.string(),
}

#: An array as the extension module hands it over: length, null count, buffers, arrays inside it.
ArrayParts = tuple[int, int, list[Any], list[Any]]


def schema_of(columns: Sequence[str], properties: Mapping[str, str]) -> pa.Schema:
    """The schema of a query's answer: its columns, then its properties."""
    fields = [pa.field(name, COLUMN_TYPES[name], nullable=name not in REQUIRED) for name in columns]
    fields += [pa.field(name, PROPERTY_TYPES[kind]) for name, kind in properties.items()]
    return pa.schema(fields, metadata={"shoal.history.schema": str(SCHEMA_VERSION)})


def record_batch(schema: pa.Schema, columns: Sequence[ArrayParts]) -> pa.RecordBatch:
    """A record batch over the buffers that the columniser filled; nothing is copied."""
    arrays = [_array(field.type, parts) for field, parts in zip(schema, columns, strict=True)]
    return pa.RecordBatch.from_arrays(arrays, schema=schema)


def _array(kind: pa.DataType, parts: ArrayParts) -> pa.Array:
    length, null_count, buffers, children = parts
    inner = [_array(kind.field(index).type, child) for index, child in enumerate(children)]
    wrapped = [None if buffer is None else pa.py_buffer(buffer) for buffer in buffers]
    return pa.Array.from_buffers(kind, length, wrapped, null_count, children=inner or None)
