import pickle

import pyarrow as pa
import pytest
from pyspark.sql.pandas.types import to_arrow_schema

from shoal.errors import ConfigError
from shoal.spark.ddl import parse_schema
from shoal.spark.options import read_options
from shoal.spark.rows import ROW_SCHEMA, full_schema, plan_rows


def options(**given):
    return read_options({"subscribe": "a", **given})


def sent(rows, **more):
    """What a store sends: all columns of the row schema, and properties."""
    layout = to_arrow_schema(ROW_SCHEMA, timezone="UTC")
    batch = pa.RecordBatch.from_pylist(
        [{name: row.get(name) for name in layout.names} for row in rows], layout
    )
    arrays = [*batch.columns, *more.values()]
    return pa.RecordBatch.from_arrays(arrays, names=[*layout.names, *more])


def test_without_wishes_rows_have_all_columns_of_the_row_schema():
    assert full_schema(options()) == ROW_SCHEMA


def test_properties_and_body_fields_follow_the_row_schema():
    names = full_schema(options(propertySchema="region STRING", bodySchema="bid DOUBLE")).names
    assert names == [*ROW_SCHEMA.names, "region", "bid"]


def test_columns_are_chosen_and_ordered_by_the_option():
    chosen = options(columns="region, topic", propertySchema="region STRING", includeHeaders="false")
    assert full_schema(chosen).names == ["region", "topic"]
    with pytest.raises(ConfigError, match="option columns names colour; there are offset, topic"):
        full_schema(options(columns="colour"))


def test_the_map_of_properties_can_be_left_out():
    assert "properties" not in full_schema(options(includeHeaders="false")).names


def test_only_what_is_wanted_is_asked_for():
    chosen = options(propertySchema="region STRING, size INT", bodySchema="bid DOUBLE, ask DOUBLE")
    plan = plan_rows(chosen, parse_schema("x", "topic STRING, size INT"))
    assert plan.columns == ("offset", "topic")
    assert plan.properties == {"size": "int64"}
    plan = plan_rows(chosen, parse_schema("x", "bid DOUBLE"))
    assert plan.columns == ("offset", "body", "body_kind")
    assert plan.body_fields.names == ["bid"]


def test_rows_have_exactly_the_types_that_spark_expects():
    chosen = options(propertySchema="size INT", bodySchema="bid DOUBLE")
    plan = pickle.loads(pickle.dumps(plan_rows(chosen, full_schema(chosen))))
    rows = [
        {
            "offset": 1,
            "topic": "a",
            "body_kind": "mapping",
            "body": b'{"bid": 1.5}',
            "properties": {"size": "3"},
        },
        {"offset": 2, "topic": "a", "body_kind": "bytes", "body": b"\x00"},
    ]
    batch = sent(rows, size=pa.array([3, None], pa.int64()))
    made = plan.to_rows(batch)
    assert made.schema.equals(plan.arrow_schema())
    assert made.column("size").to_pylist() == [3, None]
    assert made.column("bid").to_pylist() == [1.5, None]


def test_topics_that_come_as_a_dictionary_are_texts_to_spark():
    plan = plan_rows(options(), parse_schema("x", "topic STRING"))
    topic = pa.array(["a", "b", "a"]).dictionary_encode()
    made = plan.to_rows(pa.record_batch({"offset": [1, 2, 3], "topic": topic}))
    assert made.column("topic").to_pylist() == ["a", "b", "a"]
    assert made.schema.field("topic").type == pa.string()


def test_a_body_can_be_read_as_text():
    plan = plan_rows(options(), parse_schema("x", "body STRING"))
    made = plan.to_rows(pa.record_batch({"offset": [1, 2], "body": [b"gr\xc3\xbcn", b"\xff"]}))
    assert made.column("body").to_pylist() == ["grün", "\ufffd"]


@pytest.mark.parametrize(
    ("given", "schema", "said"),
    [
        (
            {},
            "colour STRING",
            "the schema names the column colour: it is none of the row schema (offset, topic",
        ),
        ({}, "priority STRING", "the schema says that column priority is string, but it is int"),
        ({"propertySchema": "size INT"}, "size BIGINT", "column size is bigint, but it is int"),
        (
            {"propertySchema": "topic STRING"},
            "topic STRING",
            "propertySchema names topic, which is a column of",
        ),
        (
            {"propertySchema": "a INT", "bodySchema": "a INT"},
            "a INT",
            "bodySchema names a, which is a column of",
        ),
        ({"propertySchema": "at TIMESTAMP"}, "at TIMESTAMP", "at cannot be TIMESTAMP; properties are STRING"),
    ],
)
def test_a_schema_that_cannot_be_read_is_refused_by_name(given, schema, said):
    with pytest.raises(ConfigError) as raised:
        plan_rows(options(**given), parse_schema("x", schema))
    assert said in str(raised.value)


def test_a_property_that_does_not_fit_its_type_is_named():
    plan = plan_rows(options(propertySchema="size INT"), parse_schema("x", "size INT"))
    with pytest.raises(ConfigError, match="a value of size does not fit int32"):
        plan.to_rows(pa.record_batch({"offset": [1], "size": pa.array([1 << 40], pa.int64())}))
