"""Lives and steps → small tables of numbers: what a report says, before it is drawn.

Percentiles are of settled messages with a complete life that were delivered at least once: one that is
still on its way has no time yet, and one that nobody ever received has no time in hand.
"""

from __future__ import annotations

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F

from holdfast.spark.jobs.report.lives import OUTCOMES, SETTLED
from holdfast.spark.jobs.report.steps import GIVEN_BACK

MEASURES = ("time_in_queue", "time_in_hand", "total")
SLOWEST = 100
# Ranks are exact up to this many values, and within 1 in so many beyond.
_ACCURACY = 10_000


def queues(lives: DataFrame) -> DataFrame:
    """One row per queue: how many messages, what became of them, how often they were tried."""
    return lives.groupBy("queue").agg(
        F.count("*").alias("messages"),
        F.count_if(~F.col("complete")).alias("incomplete"),
        *(F.count_if(F.col("outcome") == name).alias(name) for name in OUTCOMES),
        *(
            F.sum(name).alias(name)
            for name in ("deliveries", "retries", *GIVEN_BACK, "deaths", "redriven")
        ),
        F.sum(F.col("size").cast("long")).alias("bytes"),
    )


def timed(lives: DataFrame) -> DataFrame:
    """Those by which time is told."""
    return lives.where(
        F.col("complete") & (F.col("deliveries") > 0) & F.col("outcome").isin(*SETTLED)
    )


def latency(lives: DataFrame) -> DataFrame:
    """p50, p95, p99 and the most of each of MEASURES, in ms: over all (queue and priority null), per
    queue (priority null), and per queue and priority."""

    def spread(measure: str) -> list[Column]:
        ms = F.col(f"{measure}_ms")
        cuts = F.percentile_approx(ms, [0.5, 0.95, 0.99], _ACCURACY)
        named = (cuts[i].alias(f"{measure}_{p}_ms") for i, p in enumerate(("p50", "p95", "p99")))
        return [*named, F.max(ms).alias(f"{measure}_max_ms")]

    spreads = [column for measure in MEASURES for column in spread(measure)]
    return (
        timed(lives).rollup("queue", "priority").agg(F.count("*").alias("messages"), *spreads)
    ).where(F.col("messages") > 0)


def attempts(lives: DataFrame) -> DataFrame:
    """How many messages took how many deliveries until they were settled."""
    settled = lives.where((F.col("deliveries") > 0) & F.col("outcome").isin(*SETTLED))
    return settled.groupBy("queue", "deliveries").agg(F.count("*").alias("messages"))


def endings(steps: DataFrame) -> DataFrame:
    """How deliveries ended, per queue."""
    ended = steps.where(F.col("ending").isNotNull())
    return ended.groupBy("queue", "ending").agg(F.count("*").alias("deliveries"))


def failures(steps: DataFrame) -> DataFrame:
    """Why deliveries did not end with an ack, in the words of those who gave them back."""
    failed = steps.where(F.col("ending").isin(*GIVEN_BACK))
    return failed.groupBy("queue", "ending", "reason").agg(
        F.count("*").alias("deliveries"), F.count_distinct("id").alias("messages")
    )


def dead_letters(steps: DataFrame, lives: DataFrame) -> DataFrame:
    """Deaths by reason, and how many are still dead of it."""
    deaths = (
        steps.where("died")
        .groupBy("queue", "reason")
        .agg(
            F.count("*").alias("deaths"),
            F.timestamp_millis(F.min("at_ms")).alias("first_at"),
            F.timestamp_millis(F.max("at_ms")).alias("last_at"),
        )
    )
    dead = (
        lives.where(F.col("outcome") == "dead")
        .groupBy("queue", F.col("dead_reason").alias("reason"))
        .agg(F.count("*").alias("still_dead"))
    )
    joined = deaths.join(dead, ["queue", "reason"], "left")
    return joined.withColumn("still_dead", F.coalesce("still_dead", F.lit(0)))


def slowest(lives: DataFrame, count: int = SLOWEST) -> DataFrame:
    """The messages that took longest from first ready to settled."""
    return (
        timed(lives)
        .orderBy(F.desc("total_ms"), "queue", "id")
        .limit(count)
        .select(
            "queue",
            "id",
            "priority",
            "outcome",
            "deliveries",
            "sent_at",
            "settled_at",
            "total_ms",
            "time_in_queue_ms",
            "time_in_hand_ms",
            "delayed_ms",
            "dead_reason",
        )
    )
