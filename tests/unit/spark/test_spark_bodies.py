import json
from datetime import UTC, datetime
from decimal import Decimal

import pyarrow as pa
import pytest

from shoal.spark import bodies

LAYOUT = pa.schema([("bid", pa.float64()), ("n", pa.int32()), ("s", pa.string()), ("ok", pa.bool_())])


def parse(texts, kind="mapping", layout=LAYOUT):
    kinds = pa.array([kind] * len(texts), pa.string())
    made = bodies.parse(pa.array(texts, pa.binary()), kinds, layout)
    assert [made[f.name].type for f in layout] == [f.type for f in layout]
    return [
        dict(zip(made, row, strict=True)) for row in zip(*(made[n].to_pylist() for n in made), strict=True)
    ]


@pytest.mark.parametrize("kind", ["mapping", "text"])
def test_fields_become_columns_and_others_are_ignored(kind):
    rows = parse([b'{"bid": 1.5, "n": 3, "s": "x", "ok": true, "more": [1]}', b"{}"], kind)
    assert rows == [
        {"bid": 1.5, "n": 3, "s": "x", "ok": True},
        {"bid": None, "n": None, "s": None, "ok": None},
    ]


def test_a_value_of_another_type_is_null_and_spoils_nothing_else():
    rows = parse(
        [b'{"n": "three", "bid": 2}', b'{"n": 1.5}', b'{"n": 4, "ok": 1, "s": 5}', b'{"n": 99999999999}']
    )
    assert [row["n"] for row in rows] == [None, None, 4, None]
    assert rows[0]["bid"] == 2.0
    assert rows[2]["ok"] is None
    assert rows[2]["s"] == "5"


@pytest.mark.parametrize(
    "text", [b"", b"null", b"[1]", b"7", b"\xff\x00", b'{"n":', b'{"n": 1}{"n": 2}', None]
)
def test_a_body_that_is_no_object_gives_nulls(text):
    assert parse([text], "text") == [{"bid": None, "n": None, "s": None, "ok": None}]


def test_nested_values_and_times():
    layout = pa.schema(
        [
            ("legs", pa.list_(pa.struct([("px", pa.float64())]))),
            ("at", pa.timestamp("us", "UTC")),
        ]
    )
    text = b'{"legs": [{"px": 1}, {"px": 2.5}], "at": "2026-01-02T03:04:05Z"}'
    expected = [{"legs": [{"px": 1.0}, {"px": 2.5}], "at": datetime(2026, 1, 2, 3, 4, 5, tzinfo=UTC)}]
    assert parse([text], "mapping", layout) == expected
    assert parse([text], "text", layout) == expected
    assert parse([b'{"legs": 3, "at": 5}'], "text", layout) == [{"legs": None, "at": None}]


def test_rows_become_json_without_what_is_null():
    columns = pa.StructArray.from_arrays(
        [
            pa.array([1, None]),
            pa.array([Decimal("1.50"), None]),
            pa.array([datetime(2026, 1, 2, tzinfo=UTC), None]),
            pa.array([b"x", None]),
            pa.array([[1, 2], None]),
        ],
        names=["n", "d", "at", "b", "l"],
    )
    texts = bodies.to_json(columns).to_pylist()
    assert json.loads(texts[0]) == {
        "n": 1,
        "d": 1.5,
        "at": "2026-01-02T00:00:00+00:00",
        "b": "x",
        "l": [1, 2],
    }
    assert texts[1] == "{}"
