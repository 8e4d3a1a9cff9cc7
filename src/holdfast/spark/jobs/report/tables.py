"""All tables of a report, computed once and written as Parquet.

Steps are kept for as long as several tables are made from them; lives are written first, and what is
made from them reads them back. Nothing of either ever comes to the driver. The others are small, and
most of their cost is Spark's planning: several are made at a time, and they are read without Spark.
"""

from __future__ import annotations

from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
from pyspark.sql import DataFrame, SparkSession

from holdfast.spark.jobs.report import metrics, timeline
from holdfast.spark.jobs.report.archive import Extent
from holdfast.spark.jobs.report.lives import lives
from holdfast.spark.jobs.report.steps import steps

_AT_A_TIME = 4


class Tables:
    """Where each table lies, to be read by its name."""

    def __init__(self, spark: SparkSession, folder: Path) -> None:
        self._spark = spark
        self._folder = folder

    def path(self, name: str) -> str:
        # With its scheme: what is local to us need not be what Spark takes for the default.
        return f"file://{self._folder / name}"

    def read(self, name: str) -> DataFrame:
        return self._spark.read.parquet(self.path(name))

    def small(self, name: str) -> pa.Table:
        """One with few rows, without asking Spark. Times come as ms."""
        # What Spark takes for a time by default is, to Arrow, one in ns, which end in 2262.
        table = pq.read_table(self._folder / name, coerce_int96_timestamp_unit="ms")
        for i, field in enumerate(table.schema):
            if pa.types.is_timestamp(field.type):
                ms = table.column(i).cast(pa.timestamp("ms", field.type.tz)).cast(pa.int64())
                table = table.set_column(i, field.name, ms)
        return table


def write(
    spark: SparkSession, events: DataFrame, extent: Extent, cut: timeline.Buckets, folder: Path
) -> Tables:
    """All tables, each in a folder of its name below `folder`."""
    made = Tables(spark, folder)
    told = steps(events).persist()
    try:
        lives(told, extent.last_ms).write.parquet(made.path("lives"))
        lived = made.read("lives")
        tables: dict[str, Callable[[], DataFrame]] = {
            "queues": lambda: metrics.queues(lived),
            "latency": lambda: metrics.latency(lived),
            "attempts": lambda: metrics.attempts(lived),
            "endings": lambda: metrics.endings(told),
            "failures": lambda: metrics.failures(told),
            "dead_letters": lambda: metrics.dead_letters(told, lived),
            "slowest": lambda: metrics.slowest(lived),
            "throughput": lambda: timeline.throughput(told, cut),
            "backlog": lambda: timeline.backlog(told, cut, extent.last_ms),
        }

        def write_one(name: str) -> None:
            tables[name]().coalesce(1).write.parquet(made.path(name))

        with ThreadPoolExecutor(_AT_A_TIME) as pool:
            for _ in pool.map(write_one, tables):
                pass
    finally:
        told.unpersist()
    return made
