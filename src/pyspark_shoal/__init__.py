"""Found by Spark, which imports every module `pyspark_*` to learn which formats there are.

An error here would break all formats of the session. So where `shoal.spark` cannot be imported, there is
still a format `shoal`: one that tells everybody who uses it why not.
"""

import sys
from typing import NoReturn

from pyspark.sql.datasource import DataSource


def unusable(why: str) -> type[DataSource]:
    """A format `shoal` that raises whatever is asked of it."""

    class Unusable(DataSource):
        @classmethod
        def name(cls) -> str:
            return "shoal"

        def schema(self) -> NoReturn:
            raise ImportError(why, name="shoal")

        def reader(self, schema: object) -> NoReturn:
            self.schema()

        def streamReader(self, schema: object) -> NoReturn:  # noqa: N802 - Spark's name
            self.schema()

        def writer(self, schema: object, overwrite: bool) -> NoReturn:
            self.schema()

        def streamWriter(self, schema: object, overwrite: bool) -> NoReturn:  # noqa: N802 - Spark's name
            self.schema()

    return Unusable


DefaultSource: type[DataSource]
try:
    from shoal.spark.source import ShoalSource
except Exception as error:
    DefaultSource = unusable(
        f"{sys.executable}, the Python of Spark's workers, cannot import shoal.spark "
        f"({type(error).__name__}: {error}): run `{sys.executable} -m pip install "
        "'shoal[spark]'`, or set PYSPARK_PYTHON"
    )
else:
    DefaultSource = ShoalSource

__all__ = ["DefaultSource"]
