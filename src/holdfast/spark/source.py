"""`format("holdfast")`: which reader or writer a use of it gets.

Spark makes this object on the driver, in a Python process of its own and more than once, and pickles
what it returns to the executors. Nothing here talks to a server.
"""

from __future__ import annotations

from pyspark.sql.datasource import (
    DataSource,
    DataSourceReader,
    DataSourceStreamReader,
    DataSourceStreamWriter,
    DataSourceWriter,
)
from pyspark.sql.types import StructType

from holdfast.spark import schema as schemas
from holdfast.spark.options import Options, Use, parse


class HoldfastDataSource(DataSource):
    """Queues, subscriptions and journals in; queues and topics out."""

    @classmethod
    def name(cls) -> str:
        return "holdfast"

    def _options(self, use: Use) -> Options:
        return parse(self.options, use)

    def schema(self) -> StructType:
        # Spark asks before it tells how it will read; each reader then checks what it may be told.
        return schemas.of(parse(self.options, "any read"))

    def reader(self, schema: StructType) -> DataSourceReader:
        options = self._options("read")
        if options.journal:
            from holdfast.spark.journal import JournalReader

            return JournalReader(options)
        from holdfast.spark.batch import StateReader

        return StateReader(options)

    def streamReader(self, schema: StructType) -> DataSourceStreamReader:
        options = self._options("readStream")
        if options.journal:
            from holdfast.spark.journal import JournalStreamReader

            return JournalStreamReader(options)
        from holdfast.spark.stream import QueueStreamReader

        return QueueStreamReader(options)

    def writer(self, schema: StructType, overwrite: bool) -> DataSourceWriter:
        from holdfast.spark import sink

        return sink.BatchWriter(self._options("write"), schema, overwrite)

    def streamWriter(self, schema: StructType, overwrite: bool) -> DataSourceStreamWriter:
        from holdfast.spark import sink

        return sink.StreamWriter(self._options("writeStream"), schema, overwrite)
