import pytest

from shoal.errors import ConfigError
from shoal.spark.ddl import parse_schema


@pytest.mark.parametrize(
    ("text", "made"),
    [
        ("region STRING, size INT", "struct<region:string,size:int>"),
        ("`odd name` bigint", "struct<odd name:bigint>"),
        ("tags ARRAY<STRING>", "struct<tags:array<string>>"),
        ("at TIMESTAMP, d DATE, f FLOAT", "struct<at:timestamp,d:date,f:float>"),
        (
            "leg STRUCT<px: DOUBLE, n: ARRAY<INT>>, ok BOOLEAN",
            "struct<leg:struct<px:double,n:array<int>>,ok:boolean>",
        ),
    ],
)
def test_schemas_are_read_as_spark_writes_them(text, made):
    assert parse_schema("bodySchema", text).simpleString() == made


@pytest.mark.parametrize(
    "text", ["region", "region STRING size INT", "region COLOUR", "a STRUCT<", "a INT,", "a; INT"]
)
def test_anything_else_is_refused_with_the_option_and_an_example(text):
    with pytest.raises(ConfigError, match="option bodySchema must list names with their types"):
        parse_schema("bodySchema", text)


def test_a_name_comes_once():
    with pytest.raises(ConfigError, match="names a twice"):
        parse_schema("bodySchema", "a INT, a STRING")
