"""A batch read of a queue, next to a plain Python drain of the same number of messages.

Every Spark side ends in the no-op sink, which takes each row with its body and writes nothing.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from benchmarks.bars import Bar
from benchmarks.rounds import Laps, Rounds, interleave
from benchmarks.run import BODY_BYTES, Run, Table
from benchmarks.spark import today
from benchmarks.spark.rates import rate_table
from benchmarks.spark.rig import CHUNK, CORES, Rig, chunks, fill, rig
from benchmarks.spark.synthetic import NAME as SYNTHETIC_FORMAT
from holdfast.spark.ranges import parts

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

OURS = "Spark, batch read of a queue"
DRAIN = "plain Python: receive and ack by 1,000"
SYNTHETIC = "Spark, synthetic source, no server"
POPPED = "Spark, LPOP in mapPartitions"
DROPPED = "Spark, LPOP in foreachPartition, rows stay in Python"

_LOOKED_AT, _DRAINED = "looked-at", "drained"


@dataclass(frozen=True)
class ReadingResult:
    rounds: Rounds

    def tables(self) -> list[Table]:
        return [
            rate_table(
                f"Batch read of {self.rounds.messages:,} messages",
                self.rounds,
                {"× plain Python": DRAIN, "× synthetic": SYNTHETIC},
                f"{BODY_BYTES}-byte bodies, local[{CORES}], into the no-op sink. A batch read takes "
                "nothing; the drain acks. LPOP has no ack, and rows of nothing but a body.",
            )
        ]

    def bars(self) -> list[Bar]:
        return [
            Bar(
                "batch read, of a plain Python drain",
                self.rounds.speed(OURS, DRAIN).median,
                "≥",
                0.8,
            )
        ]


def measure(run: Run, spark: SparkSession) -> ReadingResult:
    rows, rounds = run.choose(1_000_000, 20_000), run.choose(5, 1)
    warm_up = run.choose(1, 0)
    with rig(spark) as on, run.step("batch read", 1 + warm_up + rounds) as tick:
        fill(on.hf.queue(_LOOKED_AT), run.rng, rows)
        tick()
        sides: dict[str, Callable[[], Laps]] = {
            DRAIN: lambda: _drain(run, on, rows),
            OURS: lambda: _into_nothing(on.read(_LOOKED_AT)),
            SYNTHETIC: lambda: _into_nothing(_synthetic(spark, rows)),
            POPPED: lambda: _popped(run, on, rows),
            DROPPED: lambda: _dropped(run, on, rows),
        }
        found = interleave(
            sides, messages=rows, rounds=rounds, rng=run.rng, tick=tick, warm_up=warm_up
        )
        seen = on.read(_LOOKED_AT).selectExpr("count(body) AS bodies", "count(DISTINCT id) AS ids")
        if tuple(seen.first() or ()) != (rows, rows):
            raise RuntimeError(f"{rows} messages are ready, Spark sees {seen.first()}")
    return ReadingResult(found)


def _synthetic(spark: SparkSession, rows: int) -> DataFrame:
    return (
        spark.read.format(SYNTHETIC_FORMAT)
        .option("rows", rows)
        .option("parts", parts(rows, 0))
        .load()
    )


def _into_nothing(frame: DataFrame) -> Laps:
    return _timed(lambda: frame.write.format("noop").mode("overwrite").save())


def _drain(run: Run, on: Rig, rows: int) -> Laps:
    queue = on.hf.queue(_DRAINED)
    fill(queue, run.rng, rows)
    size = 0
    start = time.perf_counter_ns()
    while got := queue.receive_many(CHUNK):
        for delivery in got:
            size += len(delivery.body)
        queue.ack_many(got)
    took = time.perf_counter_ns() - start
    if size != rows * BODY_BYTES or queue.stats().total:
        raise RuntimeError(f"{size / BODY_BYTES:.0f} of {rows} messages came")
    return {"read": took}


def _popped(run: Run, on: Rig, rows: int) -> Laps:
    today.push(on, chunks(run.rng, rows))
    found = _into_nothing(today.popped(on, rows))
    _check_popped(on)
    return found


def _dropped(run: Run, on: Rig, rows: int) -> Laps:
    today.push(on, chunks(run.rng, rows))
    found = _timed(lambda: today.pop_and_drop(on, rows))
    _check_popped(on)
    return found


def _check_popped(on: Rig) -> None:
    with on.server.connect() as client:
        left: Any = client.llen(today.KEY)
    if left:
        raise RuntimeError(f"{left} were not popped")


def _timed(what: Callable[[], None]) -> Laps:
    start = time.perf_counter_ns()
    what()
    return {"read": time.perf_counter_ns() - start}
