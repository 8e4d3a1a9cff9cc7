"""Steps → what happened, and what there was, over time.

Time is cut into equal buckets, of a size that gives the whole archive at most MOST of them. Every queue
has a row for every bucket, so that a quiet minute is a zero and not a line drawn across it.
"""

from __future__ import annotations

from dataclasses import dataclass

from pyspark.sql import Column, DataFrame, Window
from pyspark.sql import functions as F

from holdfast.spark.jobs.report.archive import Extent
from holdfast.spark.jobs.report.steps import DEAD, DEAD_IN_HAND, IN_HAND, WAITING

MOST = 240
HAPPENED = ("sent", "received", "acked", "requeued", "dead", "expired", "removed", "dropped")
THERE = ("ready", "delayed", "in_hand", "dead")

_SECOND, _MINUTE, _HOUR, _DAY = 1_000, 60_000, 3_600_000, 86_400_000
_SIZES = {
    "second": _SECOND,
    "10 seconds": 10 * _SECOND,
    "minute": _MINUTE,
    "10 minutes": 10 * _MINUTE,
    "hour": _HOUR,
    "6 hours": 6 * _HOUR,
    "day": _DAY,
    "week": 7 * _DAY,
    "30 days": 30 * _DAY,
    "365 days": 365 * _DAY,
}


@dataclass(frozen=True, slots=True)
class Buckets:
    """Equal pieces of time from the start of the first to the start of the last, in ms."""

    name: str
    size_ms: int
    first_ms: int
    last_ms: int

    def of(self, ms: Column) -> Column:
        return ms - F.pmod(ms, F.lit(self.size_ms))


def buckets(extent: Extent) -> Buckets:
    """The smallest size that does not cut the archive into too many."""
    for name, size in _SIZES.items():
        first = extent.first_ms - extent.first_ms % size
        last = extent.last_ms - extent.last_ms % size
        cut = Buckets(name, size, first, last)
        if (last - first) // size < MOST:
            break
    return cut


def throughput(steps: DataFrame, cut: Buckets) -> DataFrame:
    """How many messages were sent, received, … in each bucket, per queue."""
    counted = steps.groupBy("queue", cut.of(F.col("at_ms")).alias("bucket_ms")).agg(
        *(F.count_if(F.col("event") == event).alias(event) for event in HAPPENED)
    )
    return _filled(_grid(steps, cut), counted, HAPPENED)


def backlog(steps: DataFrame, cut: Buckets, now_ms: int) -> DataFrame:
    """How many messages were in each state at the end of each bucket, per queue.

    What was there before the journal saw it is not in these numbers: they begin with nothing.
    """
    changes = _changes(steps).where(F.col("ms") <= now_ms)
    summed = changes.groupBy("queue", cut.of(F.col("ms")).alias("bucket_ms")).agg(
        *(
            F.sum(F.when(F.col("state") == name, F.col("by")).otherwise(0)).alias(name)
            for name in THERE
        )
    )
    so_far = Window.partitionBy("queue").orderBy("bucket")
    filled = _filled(_grid(steps, cut), summed, THERE)
    return filled.select("queue", "bucket", *(F.sum(n).over(so_far).alias(n) for n in THERE))


def _changes(steps: DataFrame) -> DataFrame:
    """Each step as one more of a state when it began, and one less when it ended.

    A wait is two of them where the message fell due only later: delayed, then ready.
    """
    at, ready, end = F.col("at_ms"), F.col("ready_ms"), F.col("next_ms")
    never = F.lit(2**62)

    def span(state: str, start: Column, stop: Column) -> Column:
        return F.struct(F.lit(state).alias("state"), start.alias("start"), stop.alias("stop"))

    waiting = F.array(
        span("delayed", at, F.least(ready, F.coalesce(end, never))),
        span("ready", ready, F.coalesce(end, never)),
    )
    in_hand = F.array(span("in_hand", at, F.coalesce(end, never)))
    dead = F.array(span("dead", at, F.coalesce(end, never)))
    state = F.col("state")
    spans = (
        steps.select(
            "queue",
            F.explode(
                F.when(state == WAITING, waiting)
                .when(state.isin(*IN_HAND), in_hand)
                .when(state.isin(DEAD, DEAD_IN_HAND), dead)
            ).alias("span"),
        )
        .select("queue", "span.*")
        .where(F.col("stop") > F.col("start"))
    )
    came = spans.select("queue", "state", F.col("start").alias("ms"), F.lit(1).alias("by"))
    went = spans.select("queue", "state", F.col("stop").alias("ms"), F.lit(-1).alias("by"))
    return came.unionAll(went)


def _grid(steps: DataFrame, cut: Buckets) -> DataFrame:
    times = F.sequence(F.lit(cut.first_ms), F.lit(cut.last_ms), F.lit(cut.size_ms))
    return steps.select("queue").distinct().withColumn("bucket_ms", F.explode(times))


def _filled(grid: DataFrame, counted: DataFrame, columns: tuple[str, ...]) -> DataFrame:
    joined = grid.join(counted, ["queue", "bucket_ms"], "left")
    return joined.select(
        "queue",
        F.timestamp_millis("bucket_ms").alias("bucket"),
        *(F.coalesce(name, F.lit(0)).cast("long").alias(name) for name in columns),
    )
