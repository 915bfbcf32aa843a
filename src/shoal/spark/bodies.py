"""Bodies as columns: JSON texts into typed columns, bytes into text, rows into JSON texts."""

import io
import json
from collections.abc import Iterator
from datetime import date, datetime
from decimal import Decimal
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.json as pj


def parse(texts: pa.Array, kinds: pa.Array, layout: pa.Schema) -> dict[str, pa.Array]:
    """Each field of `layout` as a column; null where a body has no such field, or is no JSON object.

    Mappings come from the store as JSON that it wrote itself: Arrow reads them as a whole. Other bodies may
    be anything, for which Arrow's reader is not made; Python reads them one by one.
    """
    if len(texts) and pc.all(pc.equal(kinds, "mapping"), min_count=0).as_py():
        table = _parse_mappings(texts, layout)
        if table is not None:
            return {name: table.column(name).combine_chunks() for name in layout.names}
    objects = [_loaded(text) for text in texts.to_pylist()]
    return {f.name: _column([found.get(f.name) for found in objects], f.type) for f in layout}


def as_text(array: pa.Array) -> pa.Array:
    """Bytes as UTF-8; what is none is shown with replacement characters."""
    try:
        return pc.cast(array, pa.string())
    except pa.ArrowInvalid:
        return pa.array(
            [None if value is None else value.decode(errors="replace") for value in array.to_pylist()],
            pa.string(),
        )


def to_json(columns: pa.StructArray) -> pa.Array:
    """Each row as a JSON object; fields that are null are left out."""

    def texts() -> Iterator[str]:
        for row in columns.to_pylist():
            present = {name: value for name, value in row.items() if value is not None}
            yield json.dumps(present, ensure_ascii=False, separators=(",", ":"), default=_plain)

    return pa.array(texts(), pa.string())


def _parse_mappings(texts: pa.Array, layout: pa.Schema) -> pa.Table | None:
    """The whole batch at once, or none if some value is not of its field's type."""
    data = b"\n".join(texts.to_pylist())
    try:
        table = pj.read_json(
            io.BytesIO(data),
            read_options=pj.ReadOptions(use_threads=False, block_size=len(data) + 1),
            parse_options=pj.ParseOptions(explicit_schema=layout, unexpected_field_behavior="ignore"),
        )
    except pa.ArrowException:
        return None
    return table if table.num_rows == len(texts) else None


def _loaded(text: bytes | None) -> dict[str, Any]:
    if not text:
        return {}
    try:
        found = json.loads(text)
    except ValueError:
        return {}
    return found if isinstance(found, dict) else {}


def _column(values: list[Any], kind: pa.DataType) -> pa.Array:
    return pa.array([_coerced(value, kind) for value in values], kind)


def _coerced(value: Any, kind: pa.DataType) -> Any:
    """The value if it is of its type, else null."""
    if value is None:
        return None
    if pa.types.is_string(kind):
        return value if isinstance(value, str) else json.dumps(value)
    if pa.types.is_list(kind):
        return [_coerced(item, kind.value_type) for item in value] if isinstance(value, list) else None
    if pa.types.is_struct(kind):
        if not isinstance(value, dict):
            return None
        inner = (kind.field(at) for at in range(kind.num_fields))
        return {f.name: _coerced(value.get(f.name), f.type) for f in inner}
    if pa.types.is_boolean(kind) != isinstance(value, bool):
        return None
    try:
        if pa.types.is_timestamp(kind):
            return datetime.fromisoformat(value) if isinstance(value, str) else None
        if pa.types.is_date(kind):
            return date.fromisoformat(value) if isinstance(value, str) else None
        if pa.types.is_integer(kind) and not isinstance(value, int):
            return None
        return pa.scalar(value, kind).as_py()
    except (pa.ArrowException, ValueError, OverflowError):
        return None


def _plain(value: Any) -> Any:
    """What JSON has no form for."""
    if isinstance(value, datetime | date):
        return value.isoformat()
    if isinstance(value, Decimal):
        return float(value)
    if isinstance(value, bytes):
        return value.decode(errors="replace")
    raise TypeError(f"a value of type {type(value).__name__} has no place in a mapping body")
