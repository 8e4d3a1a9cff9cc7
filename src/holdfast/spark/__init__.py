"""The data pipeline: queues, topics and journals in Spark, in and out.

    from holdfast.spark import register
    register(spark)
    orders = spark.readStream.format("holdfast").option("queue", "orders").load()

PySpark finds the format by itself too (`pyspark_holdfast`), where it looks for such modules.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

__all__ = ["register"]


def register(spark: SparkSession) -> None:
    """Make `format("holdfast")` known to a session. Safe to repeat."""
    from holdfast.spark.source import HoldfastDataSource

    spark.dataSource.register(HoldfastDataSource)
