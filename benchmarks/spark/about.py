"""The circumstances of a run, Spark's among them."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from benchmarks import about
from benchmarks.spark.rig import CORES

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


@dataclass(frozen=True)
class SparkAbout(about.About):
    spark: str = ""
    java: str = ""

    def line(self) -> str:
        return f"{super().line()} · Spark {self.spark}, local[{CORES}], on Java {self.java}"


def look(spark: SparkSession, *, seed: int, quick: bool, load_before: float) -> SparkAbout:
    assert spark.sparkContext._jvm is not None
    found = vars(about.look(seed=seed, quick=quick)) | {"load_before": load_before}
    java = spark.sparkContext._jvm.java.lang.System.getProperty("java.version")
    return SparkAbout(**found, spark=spark.version, java=str(java))
