"""Rows as Spark sees them: the row schema, which of its columns a query wants, and their making from what a
store sends.

A column is one of the row schema (version 1, the same for every store), a property named in `propertySchema`,
or a field of JSON bodies named in `bodySchema`.
"""

from dataclasses import dataclass, field

import pyarrow as pa
import pyarrow.compute as pc
from pyspark.sql.pandas.types import to_arrow_schema
from pyspark.sql.types import (
    BinaryType,
    BooleanType,
    DataType,
    DoubleType,
    FloatType,
    IntegerType,
    LongType,
    MapType,
    ShortType,
    StringType,
    StructField,
    StructType,
    TimestampType,
)

from shoal.errors import ConfigError
from shoal.spark import bodies
from shoal.spark.ddl import parse_schema
from shoal.spark.options import ReadOptions

SCHEMA_VERSION = 1

ROW_SCHEMA = StructType(
    [
        StructField("offset", LongType()),
        StructField("topic", StringType()),
        StructField("timestamp", TimestampType()),
        StructField("stored", TimestampType()),
        StructField("message_id", StringType()),
        StructField("publisher", StringType()),
        StructField("chain", IntegerType()),
        StructField("number", LongType()),
        StructField("type", StringType()),
        StructField("priority", IntegerType()),
        StructField("correlation_id", StringType()),
        StructField("reply_to", StringType()),
        StructField("redelivered", BooleanType()),
        StructField("body_kind", StringType()),
        StructField("body", BinaryType()),
        StructField("properties", MapType(StringType(), StringType())),
    ]
)

#: What a store tells about messages it missed.
GAP_SCHEMA = StructType(
    [
        StructField("after_offset", LongType()),
        StructField("publisher", StringType()),
        StructField("chain", IntegerType()),
        StructField("first", LongType()),
        StructField("last", LongType()),
        StructField("count", LongType()),
        StructField("stored", TimestampType()),
        StructField("reason", StringType()),
    ]
)

#: Types of properties, as Spark and as the store call them. A store knows one width of each.
_PROPERTY_TYPES: dict[type[DataType], str] = {
    # Texts only, as the selectors see it into which filters on the column are turned.
    StringType: "text",
    BooleanType: "bool",
    ShortType: "int64",
    IntegerType: "int64",
    LongType: "int64",
    FloatType: "float64",
    DoubleType: "float64",
}


def full_schema(options: ReadOptions) -> StructType:
    """All columns that the options describe, in their order."""
    if options.gaps:
        return GAP_SCHEMA
    fields = [f for f in ROW_SCHEMA if options.include_properties or f.name != "properties"]
    fields += _extra_fields(options)
    if options.columns is None:
        return StructType(fields)
    by_name = {f.name: f for f in fields}
    missing = [name for name in options.columns if name not in by_name]
    if missing:
        raise ConfigError(f"option columns names {missing[0]}; there are {', '.join(by_name)}")
    return StructType([by_name[name] for name in options.columns])


@dataclass(frozen=True)
class RowPlan:
    """Which columns to ask a store for, and how to make the rows of a query from them. Can be pickled.

    Attributes:
        schema: the rows that Spark wants.
        columns: columns of the row schema to ask for.
        properties: properties to ask for, with the store's name of their type.
        body_fields: fields of bodies, to be parsed here.
    """

    schema: StructType
    columns: tuple[str, ...]
    properties: dict[str, str]
    body_fields: StructType = field(default_factory=StructType)

    def arrow_schema(self) -> pa.Schema:
        """The rows as Spark's workers expect them."""
        return to_arrow_schema(self.schema, timezone="UTC")

    def to_rows(self, batch: pa.RecordBatch) -> pa.RecordBatch:
        """Make rows for Spark from what the store sent."""
        wanted = self.arrow_schema()
        parsed: dict[str, pa.Array] = {}
        if self.body_fields.fields:
            layout = to_arrow_schema(self.body_fields, timezone="UTC")
            parsed = bodies.parse(batch.column("body"), batch.column("body_kind"), layout)
        arrays = [
            parsed[f.name] if f.name in parsed else _fit(batch.column(f.name), f, self.properties)
            for f in wanted
        ]
        return pa.RecordBatch.from_arrays(arrays, schema=wanted)


def plan_rows(options: ReadOptions, schema: StructType) -> RowPlan:
    """How to make rows of `schema`, which the user gave or `full_schema` made."""
    known = {f.name: f.dataType for f in ROW_SCHEMA}
    properties = property_types(options)
    body_fields = _body_fields(options)
    in_bodies = {f.name: f.dataType for f in body_fields}
    _extra_fields(options)
    columns, asked, parsed = ["offset"], {}, []
    for wanted in schema:
        name, declared = wanted.name, wanted.dataType
        if name in in_bodies:
            _check_type(name, declared, in_bodies[name])
            parsed.append(StructField(name, declared))
        elif name in properties:
            _check_type(name, declared, properties[name])
            asked[name] = _PROPERTY_TYPES[type(declared)]
        elif name in known:
            if not (name == "body" and isinstance(declared, StringType)):
                _check_type(name, declared, known[name])
            columns.append(name)
        else:
            raise ConfigError(
                f"the schema names the column {name}: it is none of the row schema ({', '.join(known)}), and "
                "neither option propertySchema nor bodySchema names it"
            )
    if parsed:
        columns += ["body", "body_kind"]
    return RowPlan(schema, tuple(dict.fromkeys(columns)), asked, StructType(parsed))


def _extra_fields(options: ReadOptions) -> list[StructField]:
    """Columns from properties and bodies; none of them may have the name of another column."""
    taken = {f.name: "the row schema" for f in ROW_SCHEMA}
    extra = []
    for option, fields in (
        ("propertySchema", StructType([StructField(n, t) for n, t in property_types(options).items()])),
        ("bodySchema", _body_fields(options)),
    ):
        for made in fields:
            if made.name in taken:
                raise ConfigError(
                    f"option {option} names {made.name}, which is a column of {taken[made.name]} already; "
                    "read it from the columns properties or body instead"
                )
            taken[made.name] = f"option {option}"
            extra.append(made)
    return extra


def property_types(options: ReadOptions) -> dict[str, DataType]:
    """The properties that become columns, by name."""
    if options.property_schema is None:
        return {}
    schema = parse_schema("propertySchema", options.property_schema)
    for declared in schema:
        if type(declared.dataType) not in _PROPERTY_TYPES:
            accepted = "STRING, BOOLEAN, SMALLINT, INT, BIGINT, FLOAT and DOUBLE"
            raise ConfigError(
                f"option propertySchema: {declared.name} cannot be "
                f"{declared.dataType.simpleString().upper()}; "
                f"properties are {accepted}"
            )
    return {declared.name: declared.dataType for declared in schema}


def _body_fields(options: ReadOptions) -> StructType:
    return parse_schema("bodySchema", options.body_schema) if options.body_schema else StructType()


def _check_type(name: str, declared: DataType, actual: DataType) -> None:
    if type(declared) is not type(actual) or declared.simpleString() != actual.simpleString():
        raise ConfigError(
            f"the schema says that column {name} is {declared.simpleString()}, but it is "
            f"{actual.simpleString()}"
        )


def _fit(array: pa.Array, wanted: pa.Field, properties: dict[str, str]) -> pa.Array:
    """The values in exactly the type that Spark expects."""
    if array.type.equals(wanted.type):
        return array
    if wanted.name == "body" and pa.types.is_string(wanted.type):
        return bodies.as_text(array)
    try:
        return pc.cast(array, wanted.type)
    except pa.ArrowInvalid as error:
        if wanted.name in properties:
            raise ConfigError(
                f"option propertySchema: a value of {wanted.name} does not fit {wanted.type}: {error}"
            ) from None
        raise
