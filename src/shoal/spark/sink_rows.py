"""Rows to be written: which columns make a message, and what a store is sent."""

from dataclasses import dataclass

import pyarrow as pa
from pyspark.sql.types import (
    BinaryType,
    ByteType,
    DataType,
    IntegerType,
    LongType,
    MapType,
    ShortType,
    StringType,
    StructType,
)

from shoal.errors import ConfigError
from shoal.spark import bodies
from shoal.spark.options import WriteOptions

_WHOLE = (ByteType, ShortType, IntegerType, LongType)

#: Columns that make a message, with the types they may have and the type in which a store gets them.
COLUMNS: dict[str, tuple[tuple[type[DataType], ...], pa.DataType | None]] = {
    "topic": ((StringType,), pa.string()),
    "body": ((BinaryType, StringType, StructType), None),
    "body_kind": ((StringType,), pa.string()),
    "properties": ((MapType, StructType), None),
    "priority": (_WHOLE, pa.int32()),
    "ttl_ms": (_WHOLE, pa.int64()),
    "correlation_id": ((StringType,), pa.string()),
    "type": ((StringType,), pa.string()),
    "reply_to": ((StringType,), pa.string()),
}


@dataclass(frozen=True)
class SinkPlan:
    """How to make messages of rows. Can be pickled.

    Attributes:
        columns: columns that go to the store as they are.
        body_fields: columns that together make a mapping, the body, if no column is called body.
        body_is_struct: whether the column body holds mappings.
    """

    columns: tuple[str, ...]
    body_fields: tuple[str, ...]
    body_is_struct: bool

    def to_messages(self, batch: pa.RecordBatch) -> pa.RecordBatch:
        """What a store is sent for these rows."""
        made: dict[str, pa.Array] = {}
        for name in self.columns:
            array, target = batch.column(batch.schema.get_field_index(name)), COLUMNS[name][1]
            made[name] = array if target is None or array.type.equals(target) else array.cast(target)
        mapping: pa.StructArray | None = made.get("body") if self.body_is_struct else None
        if self.body_fields:
            arrays = [batch.column(batch.schema.get_field_index(name)) for name in self.body_fields]
            mapping = pa.StructArray.from_arrays(arrays, names=list(self.body_fields))
        if mapping is not None:
            made["body"] = bodies.to_json(mapping)
            made["body_kind"] = pa.array(["mapping"] * len(batch), pa.string())
        return pa.record_batch(made)


def plan_messages(options: WriteOptions, schema: StructType) -> SinkPlan:
    """How rows of `schema` become messages; refuses a schema that makes none."""
    accepted = ", ".join(COLUMNS)
    by_name = {f.name: f.dataType for f in schema}
    if "topic" not in by_name and options.topic is None:
        raise ConfigError(
            "rows have no column topic: give one, or say with option topic or queue where all of them go"
        )
    if "topic" in by_name and options.queue is not None:
        raise ConfigError(
            f"rows have a column topic, and option queue sends all of them to {options.queue!r}: drop the "
            "column, or leave the option out"
        )
    for name, (kinds, _) in COLUMNS.items():
        if name in by_name and not isinstance(by_name[name], kinds):
            wanted = " or ".join(
                sorted(
                    {kind().simpleString() if kind is not MapType else "map<string,string>" for kind in kinds}
                )
            )
            raise ConfigError(f"column {name} is {by_name[name].simpleString()}, and must be {wanted}")
    others = tuple(name for name in by_name if name not in COLUMNS)
    if "body" not in by_name:
        if not others:
            raise ConfigError(
                "rows have no column body, and none that could make one: give a column body (binary, "
                "string or "
                "struct), or any columns besides " + accepted
            )
        if "body_kind" in by_name:
            raise ConfigError(
                "the column body_kind tells what the column body is, and there is no column body"
            )
        return SinkPlan(tuple(name for name in by_name if name in COLUMNS), others, False)
    if others:
        raise ConfigError(
            f"column {others[0]} has no place in a message that has a body; columns are {accepted}. Drop "
            f"it, put it "
            "into properties, or leave the column body out: then all other columns make the body, a mapping"
        )
    is_struct = isinstance(by_name["body"], StructType)
    if is_struct and "body_kind" in by_name:
        raise ConfigError("the column body is a struct and becomes a mapping: leave the column body_kind out")
    return SinkPlan(tuple(by_name), (), is_struct)
