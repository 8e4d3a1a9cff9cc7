"""The sink: rows become messages of a queue or of several, or are published on a topic.

Each task sends its rows as it reads them; there is nothing to commit afterwards. A task that fails is
repeated by Spark, and so is a micro-batch after a restart, with rows that were sent already. Each row is
sent once all the same: every call writes the digests of its rows down in the server, in the same step, under
the name of the task (run and partition; the batch is the ledger's generation), and who repeats it leaves
out what is there (`engine/ledger.py`). What is asked of the query is that a partition has the same rows
when it is repeated; their order may differ. Where rows can move to another partition, or change (rand(),
now() in a UDF), a repeated one may be sent twice; none is lost.

Rejected: dedup ids by the number of a row. After a shuffle rows may come in another order the second time:
then a row that was not sent gets the id of one that was, and is lost. Dedup ids by content are safe, but
cost the server seven times as much as the messages, and are forgotten after the queue's
dedup window, five minutes, which a restart may take. A row's own `dedup_id` is honoured besides.

An error of the server, such as QueueFull, fails the task with that message; Spark repeats it, and fails the
job when it does not pass.
"""

from __future__ import annotations

import logging
import uuid
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING

from pyspark import TaskContext
from pyspark.sql import DataFrame
from pyspark.sql.datasource import (
    DataSourceArrowWriter,
    DataSourceStreamArrowWriter,
    WriterCommitMessage,
)
from pyspark.sql.types import StructType

import holdfast
from holdfast.engine import ledger
from holdfast.engine.ledger import Ledger
from holdfast.errors import InvalidArgument
from holdfast.spark import rows
from holdfast.spark.options import Options, parse
from holdfast.spark.target import Target

if TYPE_CHECKING:
    import pyarrow as pa

log = logging.getLogger("holdfast")

# A failed job's ledgers are of use while Spark may repeat its tasks; a query's until it is started again.
_JOB_KEEPS_MS = 24 * 3_600_000
_QUERY_KEEPS_MS = 30 * 24 * 3_600_000
# Rows wait for a full call, in all targets together up to so many bytes.
_WAITING_BYTES = 32 * 1024 * 1024


@dataclass(frozen=True)
class Written(WriterCommitMessage):
    """What one task did. `duplicates`: rows whose own dedup id the queue knew. `repeated`: rows that an
    earlier attempt had sent. `queues`: where to."""

    partition: int
    rows: int
    duplicates: int
    repeated: int
    queues: tuple[str, ...]


class Task:
    """Writes one partition. Pickled to the executor."""

    def __init__(self, options: Options, schema: StructType) -> None:
        place = options.place
        self._options = options
        self._routed = not (place.queue or place.topic)
        self._names = rows.check(schema, routed=self._routed)

    def write(self, batches: Iterator[pa.RecordBatch], name: Ledger) -> Written:
        """Returns when all rows are stored."""
        targets: dict[str, Target] = {}
        number = waiting = 0
        for batch in batches:
            packed = rows.pack_batch(batch, self._names, routed=self._routed, first=number)
            for queue, some in packed:
                target = targets.get(queue)
                if target is None:
                    target = Target(self._place(queue), name, self._options.batch)
                    targets[queue] = target
                target.take(some)
            number += batch.num_rows
            waiting += batch.nbytes
            if len(targets) > 1 and waiting > _WAITING_BYTES:
                for target in targets.values():
                    target.flush()
                waiting = 0
        for target in targets.values():
            target.flush()
        return Written(
            name.part,
            number,
            sum(target.duplicates for target in targets.values()),
            sum(target.repeated for target in targets.values()),
            tuple(targets),
        )

    def _place(self, queue: str) -> holdfast.Queue | holdfast.Topic:
        place = self._options.place
        if place.topic:
            return place.client().topic(place.topic)
        return place.client().queue(place.queue or queue)

    def forget(self, run: str, written: Sequence[WriterCommitMessage | None]) -> None:
        """Remove the ledgers of a job that is done; nobody will look at them again."""
        by_queue: dict[str, list[int | None]] = {}
        for each in written:
            if isinstance(each, Written):
                for queue in each.queues:
                    by_queue.setdefault(queue, [None]).append(each.partition)
        for queue, parts in by_queue.items():
            target = self._place(queue)
            for ref in target.refs():
                keys = [ledger.key(ref, run, part) for part in parts]
                target.transport.command("UNLINK", *keys, key=ref.key)


def _refuse_overwrite(overwrite: bool, instead: str) -> None:
    if overwrite:
        raise InvalidArgument(f"a queue cannot be overwritten; {instead}")


def _partition() -> tuple[TaskContext, int]:
    context = TaskContext.get()
    assert context is not None
    return context, context.partitionId()


def send(df: DataFrame, options: Mapping[str, str]) -> list[Written]:
    """As `df.write` does, and tells what each task did; Spark keeps that to itself."""
    task, run = Task(parse(options, "write"), df.schema), uuid.uuid4().hex

    def write(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        import pyarrow as pa

        _, partition = _partition()
        done = task.write(batches, Ledger(run, partition, 0, _JOB_KEEPS_MS))
        yield pa.RecordBatch.from_pylist([asdict(done) | {"queues": list(done.queues)}])

    columns = (
        "partition BIGINT, rows BIGINT, duplicates BIGINT, repeated BIGINT, queues ARRAY<STRING>"
    )
    found = [row.asDict() for row in df.mapInArrow(write, columns).collect()]
    written = [Written(**{**row, "queues": tuple(row["queues"])}) for row in found]
    task.forget(run, written)
    return written


class BatchWriter(DataSourceArrowWriter):
    """`df.write`. Made on the driver, once per job: its name is what all attempts have in common."""

    def __init__(self, options: Options, schema: StructType, overwrite: bool) -> None:
        _refuse_overwrite(overwrite, "use mode('append')")
        self._task = Task(options, schema)
        self._run = uuid.uuid4().hex

    def write(self, iterator: Iterator[pa.RecordBatch]) -> Written:
        _, partition = _partition()
        return self._task.write(iterator, Ledger(self._run, partition, 0, _JOB_KEEPS_MS))

    def commit(self, messages: list[WriterCommitMessage | None]) -> None:
        self._task.forget(self._run, messages)

    def abort(self, messages: list[WriterCommitMessage | None]) -> None:
        done = sum(message.rows for message in messages if isinstance(message, Written))
        log.warning(
            "the job failed after it had sent %d rows, and perhaps some of a task that failed; they stay "
            "sent. Another run is another job, and sends them again: give rows a dedup_id if that "
            "must not be",
            done,
        )


class StreamWriter(DataSourceStreamArrowWriter):
    """`df.writeStream`. The name of the ledgers is the query's, which its checkpoint keeps."""

    def __init__(self, options: Options, schema: StructType, overwrite: bool) -> None:
        _refuse_overwrite(overwrite, "use outputMode('append') or outputMode('update')")
        self._task = Task(options, schema)

    def write(self, iterator: Iterator[pa.RecordBatch]) -> Written:
        context, partition = _partition()
        query = context.getLocalProperty("sql.streaming.queryId")
        batch = context.getLocalProperty("streaming.sql.batchId")
        if not query or batch is None:
            raise InvalidArgument(
                "Spark does not tell which query and batch this is; without that a repeated batch "
                "could not be told from a new one"
            )
        return self._task.write(iterator, Ledger(query, partition, int(batch), _QUERY_KEEPS_MS))

    def commit(self, messages: list[WriterCommitMessage | None], batchId: int) -> None:
        """Nothing: the ledgers stay until the next batch, since Spark may still repeat this one."""

    def abort(self, messages: list[WriterCommitMessage | None], batchId: int) -> None:
        log.warning(
            "batch %d failed; rows that were sent stay sent, and are left out when it is repeated",
            batchId,
        )
