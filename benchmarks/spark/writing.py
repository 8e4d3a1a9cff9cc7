"""Rows of a DataFrame into a queue, next to a plain `send_many` of the same bodies in one process."""

from __future__ import annotations

import itertools
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Any

import holdfast
from benchmarks.bars import Bar
from benchmarks.rounds import Laps, Rounds, interleave
from benchmarks.run import BODY_BYTES, Run, Table
from benchmarks.spark import today
from benchmarks.spark.rates import rate_table
from benchmarks.spark.rig import CHUNK, CORES, Rig, rig
from benchmarks.spark.synthetic import NAME as SYNTHETIC_FORMAT
from benchmarks.spark.triggers import run_available

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

OURS = "Spark, write to a queue"
SEND = "plain Python: send_many by 1,000"
PUSHED = "Spark, RPUSH in foreachPartition"
STREAMED = "Spark, writeStream to a queue"
OURS_FULL = "Spark, write to a queue, all columns"
SEND_FULL = "plain Python: send_many by 1,000, all fields"

_numbers = itertools.count()
_TRIGGERS = 5
# A hundred bytes that differ from row to row, made by Spark.
_BODY = "concat(unhex(sha2(string(id), 512)), substring(unhex(sha2(string(-id), 512)), 1, 36))"
_FULL = (
    "body",
    "map('customer', string(id % 1000), 'kind', 'order') AS attributes",
    "int(id % 10) AS priority",
    "bigint(if(id % 2 = 0, 3600000, 0)) AS delay_ms",
    "concat('customer-', id % 1000) AS group",
    "string(id) AS dedup_id",
)


@dataclass(frozen=True)
class WritingResult:
    plain: Rounds
    streamed: Rounds
    full: Rounds

    def tables(self) -> list[Table]:
        note = f"{BODY_BYTES}-byte bodies from a cached DataFrame, local[{CORES}]."
        return [
            rate_table(
                f"Writing {self.plain.messages:,} messages",
                self.plain,
                {"× send_many": SEND, "× RPUSH": PUSHED},
                f"{note} RPUSH sends again what a repeated task had sent; ours does not.",
            ),
            rate_table(
                f"Writing {self.streamed.messages:,} messages by a stream",
                self.streamed,
                {"× send_many": SEND},
                f"From the synthetic stream in {_TRIGGERS - 1} triggers, whose times Spark reports; "
                "one more before them does not count.",
            ),
            rate_table(
                f"Writing {self.full.messages:,} messages with everything a message can have",
                self.full,
                {"× send_many": SEND_FULL},
                "Attributes, priority, a delay for every other one, a group, a dedup id.",
            ),
        ]

    def bars(self) -> list[Bar]:
        return [
            Bar("writer, of plain Python send_many", self.plain.speed(OURS, SEND).median, "≥", 1.0)
        ]


def measure(run: Run, spark: SparkSession) -> WritingResult:
    rows, rounds = run.choose(1_000_000, 20_000), run.choose(5, 1)
    few, few_rounds = run.choose(60_000, 5_000), run.choose(3, 1)
    per_trigger = run.choose(100_000, 5_000)
    steady = per_trigger * (_TRIGGERS - 1)
    warm_up = run.choose(1, 0)
    steps = rounds + 2 * few_rounds + 3 * warm_up
    with rig(spark) as on, run.step("writer", steps) as tick:

        def compare(messages: int, rounds: int, sides: dict[str, Callable[[str], Laps]]) -> Rounds:
            fresh = {side: partial(_on_its_own, on, write) for side, write in sides.items()}
            return interleave(
                fresh,
                messages=messages,
                rounds=rounds,
                rng=run.rng,
                tick=tick,
                warm_up=warm_up,
            )

        frame = _frame(spark, rows).select("body").cache()
        bodies: list[bytes] = frame.toArrow()["body"].to_pylist()
        plain = compare(
            rows,
            rounds,
            {
                SEND: lambda queue: _send(on, queue, bodies),
                OURS: lambda queue: _write(on, queue, frame, rows),
                PUSHED: lambda _: _push(on, frame, rows),
            },
        )
        streamed = compare(
            steady,
            few_rounds,
            {
                SEND: lambda queue: _send(on, queue, bodies[:steady]),
                STREAMED: lambda queue: _stream(on, queue, per_trigger),
            },
        )
        frame.unpersist()
        said = _frame(spark, few).selectExpr(*_FULL).cache()
        outgoing = [_outgoing(row) for row in said.collect()]
        full = compare(
            few,
            few_rounds,
            {
                SEND_FULL: lambda queue: _send(on, queue, outgoing),
                OURS_FULL: lambda queue: _write(on, queue, said, few),
            },
        )
        said.unpersist()
    return WritingResult(plain, streamed, full)


def _frame(spark: SparkSession, rows: int) -> DataFrame:
    return spark.range(rows, numPartitions=CORES).selectExpr("id", f"{_BODY} AS body")


def _outgoing(row: Any) -> holdfast.Outgoing:
    return holdfast.Outgoing(
        bytes(row.body),
        attributes=row.attributes,
        priority=row.priority,
        delay=row.delay_ms / 1000,
        group=row.group,
        dedup_id=row.dedup_id,
    )


def _on_its_own(on: Rig, write: Callable[[str], Laps]) -> Laps:
    """Into a queue that nobody has written to: one that has remembers dedup ids."""
    queue = on.hf.queue(f"written-{next(_numbers)}")
    found = write(queue.name)
    queue.delete()
    return found


def _send(on: Rig, name: str, messages: Sequence[bytes | holdfast.Outgoing]) -> Laps:
    queue = on.hf.queue(name)
    start = time.perf_counter_ns()
    for at in range(0, len(messages), CHUNK):
        queue.send_many(messages[at : at + CHUNK])
    took = time.perf_counter_ns() - start
    _check(on, name, len(messages))
    return {"write": took}


def _write(on: Rig, name: str, frame: DataFrame, rows: int) -> Laps:
    writer = frame.write.format("holdfast").mode("append")
    writer = writer.option("url", on.server.url).option("queue", name)
    start = time.perf_counter_ns()
    writer.save()
    took = time.perf_counter_ns() - start
    _check(on, name, rows)
    return {"write": took}


def _stream(on: Rig, name: str, per_trigger: int) -> Laps:
    source = (
        on.spark.readStream.format(SYNTHETIC_FORMAT)
        .option("rows", per_trigger * _TRIGGERS)
        .option("parts", CORES)
        .option("maxRowsPerTrigger", per_trigger)
        .load()
    )
    writer = source.select("body").writeStream.format("holdfast")
    writer = writer.option("url", on.server.url).option("queue", name)
    writer = writer.option("checkpointLocation", str(on.folder / name))
    found = run_available(writer, _TRIGGERS, per_trigger)
    _check(on, name, per_trigger * _TRIGGERS)
    return found


def _push(on: Rig, frame: DataFrame, rows: int) -> Laps:
    start = time.perf_counter_ns()
    frame.foreachPartition(today.pusher(on))
    took = time.perf_counter_ns() - start
    with on.server.connect() as client:
        there: Any = client.llen(today.KEY)
        client.unlink(today.KEY)
    if there != rows:
        raise RuntimeError(f"{there} of {rows} were pushed")
    return {"write": took}


def _check(on: Rig, name: str, rows: int) -> None:
    if (there := on.hf.queue(name).stats().total) != rows:
        raise RuntimeError(f"{there} messages are in the queue, {rows} were written")
