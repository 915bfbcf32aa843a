"""Bodies that are parsed as a whole, by Arrow, and one by one, by Python, give the same columns."""

import json

import pyarrow as pa
from hypothesis import given, settings
from hypothesis import strategies as st

from shoal.spark import bodies

LAYOUT = pa.schema([("bid", pa.float64()), ("n", pa.int32()), ("s", pa.string()), ("ok", pa.bool_())])
ROWS = st.lists(
    st.fixed_dictionaries(
        {},
        optional={
            "bid": st.floats(allow_nan=False, allow_infinity=False),
            "n": st.integers(-(1 << 31), (1 << 31) - 1),
            "s": st.text(),
            "ok": st.booleans(),
            "more": st.lists(st.none() | st.integers(), max_size=2),
        },
    ),
    max_size=20,
)


def parsed(texts: list[bytes], kind: str) -> dict[str, list[object]]:
    made = bodies.parse(pa.array(texts, pa.binary()), pa.array([kind] * len(texts), pa.string()), LAYOUT)
    return {name: array.to_pylist() for name, array in made.items()}


@settings(deadline=None)
@given(ROWS)
def test_both_ways_of_parsing_agree(rows: list[dict[str, object]]) -> None:
    texts = [json.dumps(row).encode() for row in rows]
    expected = {name: [row.get(name) for row in rows] for name in LAYOUT.names}
    assert parsed(texts, "mapping") == parsed(texts, "text") == expected
