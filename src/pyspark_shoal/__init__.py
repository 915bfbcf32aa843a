"""Found by Spark, which imports every module `pyspark_*` to learn which formats there are.

An error here would break all formats of the session, so that whatever cannot be imported is left out.
"""

from contextlib import suppress

with suppress(Exception):
    from shoal.spark.source import ShoalSource as DefaultSource

__all__ = ["DefaultSource"]
