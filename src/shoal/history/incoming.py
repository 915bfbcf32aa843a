"""Tables on their way in: columns checked and brought to the types that the staging kernel takes."""

from collections.abc import Iterator
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from shoal.errors import HistoryError
from shoal.history.faults import bad_query
from shoal.history.schema import PROPERTY_TYPES, PUT_COLUMNS

SLICE_BYTES = 1 << 20

#: A column of texts: validity, offsets, data, index of the first value; without validity, all are there.
Texts = tuple[Any, Any, Any, int]
#: A column of numbers or flags: validity, data, index of the first value.
Numbers = tuple[Any, Any, int]


def check_schema(schema: pa.Schema, default_topic: str | None) -> None:
    """Refuse columns that mean nothing, before any row is taken."""
    for name in schema.names:
        if name not in PUT_COLUMNS:
            known = ", ".join(PUT_COLUMNS)
            raise bad_query(f"rows to be published have no column {name!r}; they have {known}", column=name)
        if schema.names.count(name) > 1:
            raise bad_query(f"there are two columns {name!r}", column=name)
    if "topic" not in schema.names and default_topic is None:
        raise bad_query("there is no topic: give a column topic, or a topic for all rows", column="topic")


def slices(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    """The same rows in batches of about `SLICE_BYTES`: each becomes one frame of the log."""
    for batch in batches:
        rows = max(1, batch.num_rows * SLICE_BYTES // max(1, batch.nbytes))
        for first in range(0, batch.num_rows, rows):
            yield batch.slice(first, rows)


def destinations(batch: pa.RecordBatch, default_topic: str | None, size: int) -> dict[str, tuple[int, int]]:
    """Where rows go: messages of each destination, and about how many of `size` bytes."""
    if not batch.num_rows:
        return {}
    names = batch.schema.names
    topics = batch.column("topic") if "topic" in names else pa.nulls(batch.num_rows, pa.string())
    if isinstance(topics, pa.DictionaryArray):
        topics = topics.dictionary_decode()
    lengths = pa.array([0], pa.int64()).take(pa.array([0] * batch.num_rows, pa.int8()))
    if "body" in names and not pa.types.is_null(batch.column("body").type):
        lengths = pc.fill_null(pc.binary_length(batch.column("body")), 0).cast(pa.int64())
    found = pa.table({"topic": topics.cast(pa.string()), "length": lengths}).group_by("topic")
    sums = found.aggregate([("length", "sum"), ("length", "count")]).to_pydict()
    rest = max(0, size - sum(sums["length_sum"])) / batch.num_rows
    sizes: dict[str, tuple[int, int]] = {}
    for topic, bodies, rows in zip(sums["topic"], sums["length_sum"], sums["length_count"], strict=True):
        name = default_topic if topic is None else topic
        if name is not None:
            before = sizes.get(name, (0, 0))
            sizes[name] = (before[0] + rows, before[1] + bodies + round(rest * rows))
    return sizes


def columns_of(batch: pa.RecordBatch) -> dict[str, Any]:
    """The arguments with which `StagedRows.push` takes a batch, the topic for all rows apart."""
    parts: dict[str, Any] = {"rows": batch.num_rows}
    for name, kind in PUT_COLUMNS.items():
        if name not in batch.schema.names:
            continue
        column = batch.column(name)
        if isinstance(column, pa.DictionaryArray):
            column = column.dictionary_decode()
        if name == "properties":
            parts |= _properties(column)
        elif name == "body":
            parts["body_is_text"] = pa.types.is_string(column.type) or pa.types.is_large_string(column.type)
            parts["body"] = _texts(_cast(name, column, pa.binary()))
        elif pa.types.is_string(kind):
            parts[name] = _texts(_cast(name, column, kind))
        else:
            parts[name] = _numbers(_cast(name, column, kind))
    return parts


def _cast(name: str, column: pa.Array, kind: pa.DataType) -> pa.Array:
    if column.type == kind:
        return column
    try:
        if pa.types.is_string(kind) and not _is_text(column.type) and not pa.types.is_null(column.type):
            raise pa.ArrowInvalid("it is no text")
        if pa.types.is_binary(kind) and pa.types.is_large_string(column.type):
            column = column.cast(pa.string())
        return column.cast(kind)
    except (pa.ArrowInvalid, pa.ArrowNotImplementedError) as error:
        raise bad_query(
            f"the column {name} is {column.type}, and must be {kind}: {error}", column=name
        ) from None


def _is_text(kind: pa.DataType) -> bool:
    return bool(pa.types.is_string(kind) or pa.types.is_large_string(kind) or pa.types.is_string_view(kind))


def _texts(column: pa.Array) -> Texts:
    validity, offsets, data = column.buffers()
    # An empty array may come without its buffers.
    return (validity, offsets or b"\0\0\0\0", data or b"", column.offset)


def _numbers(column: pa.Array) -> Numbers:
    validity, data = column.buffers()
    return (validity, data or b"", column.offset)


def _properties(column: pa.Array) -> dict[str, Any]:
    if pa.types.is_map(column.type):
        column = _cast("properties", column, PUT_COLUMNS["properties"])
        validity, offsets = column.buffers()[:2]
        return {
            "properties": (
                validity,
                offsets or b"\0\0\0\0",
                column.offset,
                _texts(column.keys),
                _texts(column.items),
            )
        }
    if pa.types.is_struct(column.type):
        fields = zip(column.type, column.flatten(), strict=True)
        return {"typed": [_typed(field.name, values) for field, values in fields]}
    if pa.types.is_null(column.type):
        return {}
    raise bad_query(
        f"the column properties is {column.type}, and must be map<string, string> or a struct of properties",
        column="properties",
    )


def _typed(name: str, column: pa.Array) -> tuple[str, str, Any]:
    kind = _property_type(column.type)
    if kind is None:
        known = ", ".join(PROPERTY_TYPES)
        raise bad_query(
            f"the property {name!r} is {column.type}; a property is one of {known}", column="properties"
        )
    column = _cast(f"properties.{name}", column, PROPERTY_TYPES[kind])
    return (name, kind, _texts(column) if kind == "string" else _numbers(column))


def _property_type(kind: pa.DataType) -> str | None:
    if pa.types.is_boolean(kind):
        return "bool"
    if pa.types.is_integer(kind):
        return "int64"
    if pa.types.is_floating(kind):
        return "float64"
    return "string" if _is_text(kind) or pa.types.is_null(kind) else None


def row_error(error: ValueError) -> HistoryError:
    """A row that the staging kernel refused."""
    return bad_query(str(error))
