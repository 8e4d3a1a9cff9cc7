"""A Spark program to be killed: it reads a queue and writes what it read, as its arguments say.

python -m tests.spark.crash.driver '{"url": …}'

`start` is the same query in a Spark that runs already, to be broken off rather than killed.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import msgspec
from pyspark import TaskContext
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.datasource import DataSourceStreamReader
from pyspark.sql.streaming.datasource import ReadLimit
from pyspark.sql.streaming.query import StreamingQuery
from pyspark.sql.types import StructType

from holdfast.spark import session
from holdfast.spark.offsets import Offset
from holdfast.spark.source import HoldfastDataSource
from holdfast.spark.stream import QueueStreamReader
from tests.java import JVM

if TYPE_CHECKING:
    import pyarrow as pa


@dataclass
class Program:
    """What this file does. `once`: until the queue is empty, then exit 0; else until killed."""

    url: str
    queue: str
    checkpoint: str
    parquet: str = ""
    to_queue: str = ""
    options: dict[str, str] = field(default_factory=dict)
    master: str = "local[2,4]"
    conf: dict[str, str] = field(default_factory=dict)
    once: bool = False
    failing: bool = False
    ack_in_stop: bool = False

    @property
    def words(self) -> list[str]:
        """How it is started."""
        return ["tests.spark.crash.driver", msgspec.json.encode(self).decode()]


class AcksInStop(QueueStreamReader):
    """The mistake that must be caught: acks what was planned when it is told to stop."""

    _last: Offset | None = None

    def latestOffset(self, start: dict[str, Any], limit: ReadLimit) -> dict[str, Any]:
        from holdfast.spark.offsets import decode

        found = super().latestOffset(start, limit)
        self._last = decode(found)
        return found

    def stop(self) -> None:
        if self._last is not None and self._last.seq:
            self._commit(self._last)


class AckingInStop(HoldfastDataSource):
    def streamReader(self, schema: StructType) -> DataSourceStreamReader:
        return AcksInStop(self._options("readStream"))


def _fail_first(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    """The first attempt of every other task dies half way."""
    task = TaskContext.get()
    assert task is not None
    dies = task.attemptNumber() == 0 and task.partitionId() % 2 == 0
    for batch in batches:
        if dies:
            yield batch.slice(0, batch.num_rows // 2)
            raise RuntimeError("this task was told to die")
        yield batch


def read(spark: SparkSession, program: Program) -> DataFrame:
    options = {"url": program.url, "queue": program.queue, **program.options}
    found = spark.readStream.format("holdfast").options(**options).load()
    return found.mapInArrow(_fail_first, found.schema) if program.failing else found


def start(spark: SparkSession, program: Program) -> StreamingQuery:
    rows = read(spark, program)
    if program.to_queue:
        rows = rows.select("body", "attributes", "priority")
        out = rows.writeStream.format("holdfast").option("url", program.url)
        out = out.option("queue", program.to_queue)
    else:
        out = rows.writeStream.format("parquet").option("path", program.parquet)
    out = out.option("checkpointLocation", program.checkpoint)
    trigger: dict[str, Any] = (
        {"availableNow": True} if program.once else {"processingTime": "0 seconds"}
    )
    return out.trigger(**trigger).start()


def main(program: Program) -> None:
    conf = {
        "spark.executor.extraJavaOptions": JVM,
        "spark.driver.memory": "1g",
        "spark.sql.shuffle.partitions": "2",
        **program.conf,
    }
    spark = session.build("crash test", program.master, conf)
    if program.ack_in_stop:
        spark.dataSource.register(AckingInStop)
    start(spark, program).awaitTermination()
    spark.stop()


if __name__ == "__main__":
    main(msgspec.json.decode(sys.argv[1], type=Program))
