"""The format `shoal`: what Spark makes of `format("shoal")`."""

from pyspark.errors import PySparkNotImplementedError
from pyspark.sql.datasource import (
    DataSource,
    DataSourceReader,
    DataSourceStreamReader,
    DataSourceStreamWriter,
    DataSourceWriter,
    SimpleDataSourceStreamReader,
)
from pyspark.sql.types import StructType

from shoal.spark import options
from shoal.spark.explain import speaks_plainly
from shoal.spark.gaps import GapStreamReader
from shoal.spark.live import LiveReader
from shoal.spark.queues import QueueStreamReader
from shoal.spark.reader import batch_reader
from shoal.spark.rows import full_schema
from shoal.spark.stream_reader import ShoalStreamReader
from shoal.spark.writer import ShoalStreamWriter, ShoalWriter


@speaks_plainly
class ShoalSource(DataSource):
    """Topics and queues as tables: read in batches or followed, rows published as messages."""

    @classmethod
    def name(cls) -> str:
        """What `format` takes."""
        return "shoal"

    def schema(self) -> StructType:
        """The columns, where the user gives none."""
        return full_schema(options.read_options(self.options))

    def reader(self, schema: StructType) -> DataSourceReader:
        """Read a range of history once."""
        return batch_reader(options.for_batch(options.read_options(self.options)), schema)

    def streamReader(self, schema: StructType) -> DataSourceStreamReader:  # noqa: N802 - Spark's name
        """Follow history."""
        chosen = options.for_stream(options.read_options(self.options))
        if chosen.live:  # Spark then asks for a simple reader
            raise PySparkNotImplementedError(
                errorClass="NOT_IMPLEMENTED", messageParameters={"feature": "streamReader with mode=live"}
            )
        if chosen.queue is not None:
            return QueueStreamReader(chosen, schema)
        return GapStreamReader(chosen, schema) if chosen.gaps else ShoalStreamReader(chosen, schema)

    def simpleStreamReader(self, schema: StructType) -> SimpleDataSourceStreamReader:  # noqa: N802
        """Follow the network itself."""
        return LiveReader(options.for_stream(options.read_options(self.options)), schema)

    def writer(self, schema: StructType, overwrite: bool) -> DataSourceWriter:
        """Publish the rows of a batch."""
        return ShoalWriter(options.write_options(self.options), schema, overwrite)

    def streamWriter(self, schema: StructType, overwrite: bool) -> DataSourceStreamWriter:  # noqa: N802
        """Publish the rows of micro-batches."""
        return ShoalStreamWriter(options.write_options(self.options), schema, overwrite)
