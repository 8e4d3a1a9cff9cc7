"""A queue as a stream into Parquet, at several sizes of a trigger, next to a synthetic stream.

Both go through the same file sink with a checkpoint. What people do today has neither: a loop that pops
and appends, and loses what it popped when it dies.
"""

from __future__ import annotations

import itertools
import shutil
import time
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from statistics import median
from typing import TYPE_CHECKING

from benchmarks.bars import Bar
from benchmarks.rounds import Laps, Rounds, interleave
from benchmarks.run import BODY_BYTES, Run, Table
from benchmarks.spark import today
from benchmarks.spark.rates import rate_rows
from benchmarks.spark.rig import CORES, Rig, chunks, fill, rig
from benchmarks.spark.synthetic import NAME as SYNTHETIC_FORMAT
from benchmarks.spark.triggers import run_available
from holdfast.spark.ranges import parts

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

OURS = "Spark, stream of a queue"
SYNTHETIC = "Spark, synthetic stream, no server"
POPPED = "Spark, LPOP in mapPartitions, in a loop"

JUDGED = 100_000
# Rows of a trigger: triggers in a round after the first, which does not count; rounds.
SIZES = {20_000: (6, 3), JUDGED: (4, 5), 250_000: (3, 3)}
_QUICK = 20
_WARM_UP = 2
_QUEUE = "streamed"


@dataclass(frozen=True)
class Size:
    rows_per_trigger: int
    triggers: int
    rounds: Rounds


@dataclass(frozen=True)
class StreamingResult:
    sizes: list[Size]

    def tables(self) -> list[Table]:
        speeds: list[tuple[str, ...]] = []
        phases: list[tuple[str, ...]] = []
        for size in self.sizes:
            label = f"{size.rows_per_trigger:,}"
            for i, row in enumerate(rate_rows(size.rounds, (SYNTHETIC,))):
                speeds.append((label if i == 0 else "", *row))
            for i, side in enumerate((OURS, SYNTHETIC)):
                phases.append((label if i == 0 else "", side, *_per_trigger(size, side)))
        return [
            Table(
                "Stream → Parquet",
                ("rows a trigger", "side", "rows/s", "× synthetic"),
                speeds,
                f"{BODY_BYTES}-byte bodies, local[{CORES}], AvailableNow, times of triggers as Spark "
                "reports them, without the first; as many partitions and files on both streams. × is the "
                "median of the rounds' own ratios, with its quartiles: more is faster, and more than 1 "
                "is noise, for a source without a server has less to do. LPOP gives nothing but "
                "bodies, and has no checkpoint.",
            ),
            Table(
                "Where a trigger's time goes",
                ("rows a trigger", "side", *_phase_names(self.sizes[0])),
                phases,
                "ms a trigger, in the median round. Planning acks the trigger before.",
            ),
        ]

    def bars(self) -> list[Bar]:
        judged = self.sizes[list(SIZES).index(JUDGED)]
        return [
            Bar(
                f"stream → Parquet at {judged.rows_per_trigger:,} a trigger, of the synthetic one",
                judged.rounds.speed(OURS, SYNTHETIC).median,
                "≥",
                0.2,
            )
        ]


def _phase_names(size: Size) -> tuple[str, ...]:
    return tuple(size.rounds.times[OURS])


def _per_trigger(size: Size, side: str) -> list[str]:
    return [
        f"{median(size.rounds.total(side, (phase,))) / size.triggers / 1e6:,.0f}"
        for phase in _phase_names(size)
    ]


def measure(run: Run, spark: SparkSession) -> StreamingResult:
    if run.quick:
        return StreamingResult(
            [_size(run, spark, rows // _QUICK, 2, rounds=1, warm_up=0) for rows in SIZES]
        )
    # Java takes a million rows to compile this path. Until then Parquet is so slow on all sides that
    # they look alike: a comparison that cannot fail.
    triggers, _ = SIZES[JUDGED]
    _size(run, spark, JUDGED, triggers, rounds=0, warm_up=_WARM_UP)
    return StreamingResult(
        [
            _size(run, spark, rows, triggers, rounds=rounds, warm_up=0)
            for rows, (triggers, rounds) in SIZES.items()
        ]
    )


def _size(
    run: Run,
    spark: SparkSession,
    rows_per_trigger: int,
    triggers: int,
    *,
    rounds: int,
    warm_up: int,
) -> Size:
    steps = rounds + warm_up
    with rig(spark) as on, run.step(f"stream by {rows_per_trigger:,}", steps) as tick:
        number = itertools.count()
        sides: dict[str, Callable[[], Laps]] = {
            side: partial(take, run, on, number, rows_per_trigger, triggers + 1)
            for side, take in ((OURS, _ours), (SYNTHETIC, _synthetic), (POPPED, _popped))
        }
        found = interleave(
            sides,
            messages=rows_per_trigger * triggers,
            rounds=rounds,
            rng=run.rng,
            tick=tick,
            warm_up=warm_up,
        )
    return Size(rows_per_trigger, triggers, found)


def _ours(run: Run, on: Rig, number: itertools.count[int], rows: int, triggers: int) -> Laps:
    queue = on.hf.queue(_QUEUE)
    fill(queue, run.rng, rows * triggers)
    found = _to_parquet(on, number, on.stream(_QUEUE, rows), rows, triggers)
    if left := queue.stats().total:
        raise RuntimeError(f"{left} messages are left in a queue that was read to its end")
    return found


def _synthetic(run: Run, on: Rig, number: itertools.count[int], rows: int, triggers: int) -> Laps:
    source = (
        on.spark.readStream.format(SYNTHETIC_FORMAT)
        .option("rows", rows * triggers)
        .option("parts", parts(rows, 0))
        .option("maxRowsPerTrigger", rows)
        .load()
    )
    return _to_parquet(on, number, source, rows, triggers)


def _to_parquet(
    on: Rig, number: itertools.count[int], source: DataFrame, rows: int, triggers: int
) -> Laps:
    folder = on.folder / str(next(number))
    writer = source.writeStream.format("parquet").option("path", str(folder / "table"))
    writer = writer.option("checkpointLocation", str(folder / "checkpoint"))
    found = run_available(writer, triggers, rows)
    _check(on, folder, rows * triggers)
    return found


def _popped(run: Run, on: Rig, number: itertools.count[int], rows: int, triggers: int) -> Laps:
    today.push(on, chunks(run.rng, rows * triggers))
    folder = on.folder / str(next(number))
    times = []
    for _ in range(triggers):
        start = time.perf_counter_ns()
        today.popped(on, rows).write.mode("append").parquet(str(folder / "table"))
        times.append(time.perf_counter_ns() - start)
    _check(on, folder, rows * triggers)
    return {"whole": sum(times[1:])}


def _check(on: Rig, folder: Path, rows: int) -> None:
    found = on.spark.read.parquet(str(folder / "table")).count()
    if found != rows:
        raise RuntimeError(f"{found} rows were written, not {rows}")
    shutil.rmtree(folder)
