"""What the pipelines share: the source as they all open it."""

from collections.abc import Mapping
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, DataFrameReader, SparkSession
    from pyspark.sql.streaming.readwriter import DataStreamReader


def source_options(
    topics: str, store: str | None, selector: str | None, more: Mapping[str, str] | None = None
) -> dict[str, str]:
    """Options of the format `shoal` for reading; what is none is left to its default."""
    given = {"subscribe": topics, "store": store, "selector": selector}
    return {name: value for name, value in given.items() if value is not None} | dict(more or {})


_BOUNDS = ("startingOffsets", "endingOffsets", "startingTimestamp", "endingTimestamp")


def gap_options(options: Mapping[str, str], bounds: Mapping[str, str] | None = None) -> dict[str, str]:
    """Options for reading gap records where `options` read messages: of the same range, or of `bounds`."""
    shared = (
        "store",
        "token",
        "tokenFile",
        "fingerprint",
        "domain",
        "storeTimeout",
        "failOnDataLoss",
        *(_BOUNDS if bounds is None else ()),
    )
    kept = {name.lower() for name in shared}
    same = {name: value for name, value in options.items() if name.lower() in kept}
    return same | dict(bounds or {}) | {"gaps": "true"}


def sink_options(topic: str, store: str | None) -> dict[str, str]:
    """Options of the format `shoal` for writing."""
    return {"topic": topic} | ({"store": store} if store is not None else {})


def read(spark: "SparkSession", options: Mapping[str, str], *, follow: bool = False) -> "DataFrame":
    """History as it is now, or as it grows."""
    reader: DataFrameReader | DataStreamReader = spark.readStream if follow else spark.read
    return reader.format("shoal").options(**options).load()
