"""A source with no server behind it: rows of the same columns and sizes, made up on the spot.

It is the most that a Python data source can give Spark, through the same Arrow path, with the same
rows in a batch, as many partitions as ours has, and for streams the same admission control. What
ours makes less than this is the price of the server and of turning messages into columns. With more
partitions than ours it would pay for tasks and files that ours does not: it has been seen to lose.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from functools import cache
from typing import TYPE_CHECKING, Any

from pyspark.sql.datasource import (
    DataSource,
    DataSourceReader,
    DataSourceStreamReader,
    InputPartition,
)
from pyspark.sql.streaming.datasource import (
    ReadAllAvailable,
    ReadLimit,
    ReadMaxRows,
    SupportsTriggerAvailableNow,
)
from pyspark.sql.types import StructType

from benchmarks.run import BODY_BYTES
from holdfast.spark import schema as schemas

if TYPE_CHECKING:
    import pyarrow as pa

NAME = "synthetic"
_BATCH = 5_000
_SOME_TIME_MS = 1_800_000_000_000


class Span(InputPartition):
    def __init__(self, start: int, end: int) -> None:
        self.start = start
        self.end = end


class Synthetic(DataSource):
    """Options: rows, parts, and for streams maxRowsPerTrigger."""

    @classmethod
    def name(cls) -> str:
        return NAME

    def schema(self) -> StructType:
        return schemas.MESSAGES

    def reader(self, schema: StructType) -> DataSourceReader:
        return Batch(int(self.options["rows"]), int(self.options["parts"]))

    def streamReader(self, schema: StructType) -> DataSourceStreamReader:
        return Stream(
            int(self.options["rows"]),
            int(self.options["parts"]),
            int(self.options["maxRowsPerTrigger"]),
        )


class Batch(DataSourceReader):
    def __init__(self, rows: int, parts: int) -> None:
        self.rows = rows
        self.parts = parts

    def partitions(self) -> Sequence[InputPartition]:
        return spans(0, self.rows, self.parts)

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        assert isinstance(partition, Span)
        return made_up(partition)


class Stream(DataSourceStreamReader, SupportsTriggerAvailableNow):
    """Offsets are row numbers: any range can be asked for again."""

    def __init__(self, rows: int, parts: int, most: int) -> None:
        self.rows = rows
        self.parts = parts
        self.most = most

    def initialOffset(self) -> dict[str, Any]:
        return {"row": 0}

    def getDefaultReadLimit(self) -> ReadLimit:
        return ReadMaxRows(self.most)

    def prepareForTriggerAvailableNow(self) -> None:
        """All rows are there from the start."""

    def latestOffset(self, start: dict[str, Any], limit: ReadLimit) -> dict[str, Any]:
        if isinstance(limit, ReadMaxRows):
            return {"row": min(int(start["row"]) + limit.max_rows, self.rows)}
        assert isinstance(limit, ReadAllAvailable)
        return {"row": self.rows}

    def partitions(self, start: dict[str, Any], end: dict[str, Any]) -> Sequence[InputPartition]:
        return spans(int(start["row"]), int(end["row"]), self.parts)

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        assert isinstance(partition, Span)
        return made_up(partition)


def spans(start: int, end: int, parts: int) -> list[InputPartition]:
    size = max(-(-(end - start) // parts), 1)
    return [Span(at, min(at + size, end)) for at in range(start, end, size)]


def made_up(span: Span) -> Iterator[pa.RecordBatch]:
    """Bodies of random bytes, all different; else Parquet would write a dictionary of a few."""
    import numpy as np
    import pyarrow as pa
    import pyarrow.compute as pc

    columns = _arrow_schema()
    random = np.random.default_rng(span.start)
    for start in range(span.start, span.end, _BATCH):
        n = min(_BATCH, span.end - start)
        numbers = np.arange(start, start + n, dtype=np.int64)
        times = pa.array(numbers // 1_000 + _SOME_TIME_MS)
        within = np.arange(0, (n + 1) * BODY_BYTES, BODY_BYTES, dtype=np.int32)
        content = pa.py_buffer(random.bytes(n * BODY_BYTES))
        zeros = np.zeros(n, dtype=np.int32)
        found = {
            "queue": pa.repeat(pa.scalar("synthetic"), n),
            "id": pc.binary_join_element_wise(
                times.cast(pa.string()), pa.array(numbers).cast(pa.string()), "-"
            ),
            "body": pa.Array.from_buffers(pa.binary(), n, [None, pa.py_buffer(within), content]),
            "priority": pa.array(zeros),
            "receives": pa.array(zeros),
            "sent_at": pc.multiply(times, 1_000).view(pa.timestamp("us", "UTC")),
        }
        arrays = [
            found[field.name] if field.name in found else pa.nulls(n, field.type)
            for field in columns
        ]
        yield pa.RecordBatch.from_arrays(arrays, schema=columns)


@cache
def _arrow_schema() -> pa.Schema:
    return schemas.arrow(schemas.MESSAGES)
