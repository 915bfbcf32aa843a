"""The columniser says the same as its slow twin, for any message."""

import json
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from twin import JSON_KINDS, Stored

from shoal._core import columnise
from shoal.errors import MessageFormatError
from shoal.history.schema import COLUMN_TYPES, DEFAULT_COLUMNS, PROPERTY_TYPES, record_batch, schema_of

TEXTS = st.text(max_size=12)
SCALARS = (
    st.none()
    | st.booleans()
    | st.integers(-(2**63), 2**64 - 1)
    | st.floats(allow_nan=False)
    | TEXTS
    | st.binary(max_size=8)
)
#: Keys that stay different as text.
KEYS = TEXTS | st.integers(-(2**63), 2**63 - 1)
VALUES = st.recursive(
    SCALARS,
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(KEYS, inner, max_size=4),
    max_leaves=12,
)
BODIES = (
    st.none()
    | st.binary(max_size=40)
    | TEXTS
    | st.booleans()
    | st.integers(-(2**63), 2**64 - 1)
    | st.floats()
    | st.lists(VALUES, max_size=4)
    | st.dictionaries(KEYS, VALUES, max_size=4)
)
NAMES = st.sampled_from(["region", "size", "flag", "ä"])
LEVELS = st.lists(st.text("abcä-", min_size=1, max_size=4), min_size=1, max_size=3).map("/".join)
TIMES = st.integers(0, 2**50)
ROWS = st.lists(
    st.builds(
        Stored,
        topic=LEVELS,
        body=BODIES,
        properties=st.dictionaries(NAMES, SCALARS, max_size=4),
        priority=st.integers(0, 9),
        correlation_id=st.none() | TEXTS,
        reply_to=st.none() | LEVELS,
        type=st.none() | TEXTS,
        redelivered=st.booleans(),
        offset=st.integers(0, 2**62),
        stored_us=TIMES,
        publisher=st.integers(0, 2**64 - 1),
        chain=st.integers(0, 2**31 - 1),
        number=st.none() | st.integers(0, 2**62),
        timestamp_us=TIMES,
    ),
    max_size=20,
)


def batch_of(rows: list[Stored], columns: tuple[str, ...], properties: dict[str, str]) -> pa.RecordBatch:
    schema = schema_of(columns, properties)
    _, parts = columnise([row.row() for row in rows], list(columns), list(properties.items()))
    batch = record_batch(schema, parts)
    batch.validate(full=True)
    return batch


def same_text(found: str | None, expected: str | None, value: Any) -> bool:
    if isinstance(value, float) and found is not None:
        return float(found) == value and any(mark in found for mark in ".einfI")
    return found == expected


@settings(max_examples=100, deadline=None)
@given(rows=ROWS)
def test_every_column_of_every_row_is_what_the_twin_says(rows: list[Stored]) -> None:
    batch = batch_of(rows, DEFAULT_COLUMNS, {})
    assert batch.num_rows == len(rows)
    for name in DEFAULT_COLUMNS:
        for row, found in zip(rows, batch.column(name).to_pylist(), strict=True):
            expected = row.column(name)
            if name == "body" and row.column("body_kind") in JSON_KINDS:
                assert json.loads(found) == expected
            elif name == "properties":
                assert [key for key, _ in found] == [key for key, _ in expected]
                for (key, text), (_, wanted) in zip(found, expected, strict=True):
                    assert same_text(text, wanted, row.properties[key])
            else:
                assert found == expected


@settings(max_examples=60, deadline=None)
@given(rows=ROWS, kind=st.sampled_from(sorted(PROPERTY_TYPES)), name=NAMES)
def test_a_property_has_a_column_of_the_type_asked_for(rows: list[Stored], kind: str, name: str) -> None:
    batch = batch_of(rows, ("offset",), {name: kind})
    for row, found in zip(rows, batch.column(name).to_pylist(), strict=True):
        expected = row.property_column(name, kind)
        if kind == "string":
            assert same_text(found, expected, row.properties.get(name))
        else:
            assert found == expected
            assert type(found) is type(expected)


@settings(max_examples=100, deadline=None)
@given(rows=ROWS, columns=st.permutations(list(COLUMN_TYPES)).map(lambda names: tuple(names[:5])))
def test_columns_come_alone_and_in_any_order(rows: list[Stored], columns: tuple[str, ...]) -> None:
    whole = batch_of(rows, tuple(COLUMN_TYPES), {})
    assert batch_of(rows, columns, {}).to_pylist() == whole.select(list(columns)).to_pylist()


def test_an_array_keeps_its_layout_as_body_detail() -> None:
    numpy = pytest.importorskip("numpy")
    array = numpy.arange(6, dtype="<f4").reshape(2, 3)
    [row] = batch_of([Stored(topic="a", body=array)], ("body_kind", "body", "body_detail"), {}).to_pylist()
    assert row == {"body_kind": "array", "body": array.tobytes(), "body_detail": b"C\x03<f4\x02\x03"}


def test_a_record_that_is_no_message_is_named_as_unreadable() -> None:
    with pytest.raises(MessageFormatError, match="cannot be read"):
        columnise([(0, 0, 0, 0, None, 0, b"\x00\x00")], ["offset"], [])


def test_names_that_no_column_or_type_has_are_refused() -> None:
    with pytest.raises(ValueError, match='there is no column "colour"'):
        columnise([], ["colour"], [])
    with pytest.raises(ValueError, match='there is no type of a property "decimal"'):
        columnise([], ["offset"], [("size", "decimal")])


def test_the_bytes_counted_are_about_those_that_arrow_counts() -> None:
    rows = [
        Stored(topic="prices/ACME", body=b"x" * 100, properties={"region": "EU"}, number=n)
        for n in range(1000)
    ]
    counted, parts = columnise([row.row() for row in rows], list(DEFAULT_COLUMNS), [])
    held = record_batch(schema_of(DEFAULT_COLUMNS, {}), parts).nbytes
    assert 0.9 < counted / held < 1.1
