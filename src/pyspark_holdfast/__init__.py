"""Where PySpark looks for data sources by itself: modules called pyspark_*, with a DefaultSource."""

from holdfast.spark.source import HoldfastDataSource as DefaultSource

__all__ = ["DefaultSource"]
