"""What every measurement here runs on: one Spark for all, and a server and a folder for each.

One session, because the first job of a session costs seconds that say nothing about us; each
measurement warms up what it uses and throws that away. Spark's Python workers import this package by
name, so its folder goes on their path: they do not look into the folder that we were started in.
"""

from __future__ import annotations

import os
import random
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING

import holdfast
from benchmarks.run import BODY_BYTES
from benchmarks.servers import Server, running
from benchmarks.spark.synthetic import Synthetic
from holdfast.spark import session

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

CORES = 2
CHUNK = 1_000
"""Messages in one call, wherever a side says how many."""

_ROOT = Path(__file__).parents[2]


@dataclass(frozen=True)
class Rig:
    spark: SparkSession
    server: Server
    hf: holdfast.Client
    folder: Path

    def read(self, queue: str) -> DataFrame:
        return self.spark.read.format("holdfast").options(**self._place(queue)).load()

    def stream(self, queue: str, rows_per_trigger: int) -> DataFrame:
        reader = self.spark.readStream.format("holdfast").options(**self._place(queue))
        return reader.option("maxRowsPerTrigger", rows_per_trigger).load()

    def _place(self, queue: str) -> dict[str, str]:
        return {"url": self.server.url, "queue": queue}


@contextmanager
def spark(*, quick: bool) -> Iterator[SparkSession]:
    """A session as a user on this machine would have it, with room for what is measured."""
    os.environ["PYTHONPATH"] = os.pathsep.join(
        [str(_ROOT), *filter(None, [os.environ.get("PYTHONPATH")])]
    )
    with TemporaryDirectory(prefix="hf-bench-spark-") as name:
        conf = {"spark.driver.memory": "2g", "spark.sql.warehouse.dir": name}
        if quick:  # what lives for seconds gains nothing from the optimizing compiler
            conf["spark.driver.extraJavaOptions"] = "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC"
        made = session.build("holdfast benchmark", f"local[{CORES}]", conf)
        try:
            made.dataSource.register(Synthetic)
            yield made
        finally:
            made.stop()


@contextmanager
def rig(on: SparkSession) -> Iterator[Rig]:
    with (
        running("fast") as server,
        holdfast.connect(server.url) as hf,
        TemporaryDirectory(prefix="hf-bench-spark-") as name,
    ):
        yield Rig(on, server, hf, Path(name))


def chunks(rng: random.Random, rows: int) -> Iterator[list[bytes]]:
    """So many bodies, all different: repeated ones would make small Parquet files."""
    for start in range(0, rows, CHUNK):
        count = min(CHUNK, rows - start)
        whole = rng.randbytes(BODY_BYTES * count)
        yield [whole[i : i + BODY_BYTES] for i in range(0, len(whole), BODY_BYTES)]


def fill(queue: holdfast.Queue, rng: random.Random, rows: int) -> None:
    for bodies in chunks(rng, rows):
        queue.send_many(bodies)
