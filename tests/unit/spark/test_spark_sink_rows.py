import pyarrow as pa
import pytest
from pyspark.sql.types import BinaryType, MapType, StringType, StructField, StructType

from shoal.errors import ConfigError
from shoal.spark.ddl import parse_schema
from shoal.spark.options import write_options
from shoal.spark.sink_rows import plan_messages


def plan(schema, **given):
    return plan_messages(
        write_options(given), parse_schema("x", schema) if isinstance(schema, str) else schema
    )


def test_columns_that_make_a_message_go_as_they_are():
    schema = StructType(
        [
            StructField("topic", StringType()),
            StructField("body", BinaryType()),
            StructField("properties", MapType(StringType(), StringType())),
        ]
    )
    batch = pa.record_batch(
        {
            "topic": ["a"],
            "body": [b"x"],
            "properties": pa.array([[("k", "v")]], pa.map_(pa.string(), pa.string())),
        }
    )
    made = plan(schema).to_messages(batch)
    assert made.equals(batch)


def test_numbers_are_brought_to_the_store_s_width():
    made = plan("body STRING, priority BIGINT, ttl_ms INT", topic="t").to_messages(
        pa.record_batch(
            {"body": ["x"], "priority": pa.array([7], pa.int64()), "ttl_ms": pa.array([5], pa.int32())}
        )
    )
    assert (made.schema.field("priority").type, made.schema.field("ttl_ms").type) == (pa.int32(), pa.int64())


def test_without_a_body_all_other_columns_make_one():
    batch = pa.record_batch({"topic": ["a", "a"], "symbol": ["X", "Y"], "vwap": [1.5, None]})
    made = plan("topic STRING, symbol STRING, vwap DOUBLE").to_messages(batch)
    assert made.column("body").to_pylist() == ['{"symbol":"X","vwap":1.5}', '{"symbol":"Y"}']
    assert made.column("body_kind").to_pylist() == ["mapping", "mapping"]


def test_a_struct_is_a_mapping():
    batch = pa.record_batch({"body": pa.array([{"a": 1}], pa.struct([("a", pa.int32())]))})
    made = plan("body STRUCT<a: INT>", topic="t").to_messages(batch)
    assert made.column("body").to_pylist() == ['{"a":1}']


@pytest.mark.parametrize(
    ("schema", "given", "said"),
    [
        ("body STRING", {}, "rows have no column topic"),
        ("topic STRING", {}, "rows have no column body, and none that could make one"),
        (
            "topic STRING, body STRING, colour STRING",
            {},
            "column colour has no place in a message that has a body",
        ),
        ("topic INT, body STRING", {}, "column topic is int, and must be string"),
        ("body INT", {"topic": "t"}, "column body is int, and must be binary or string or struct"),
        ("body STRING, properties STRING", {"topic": "t"}, "and must be map<string,string> or struct"),
        ("a INT, body_kind STRING", {"topic": "t"}, "there is no column body"),
    ],
)
def test_rows_that_make_no_message_are_refused_by_name(schema, given, said):
    with pytest.raises(ConfigError) as raised:
        plan(schema, **given)
    assert said in str(raised.value)
