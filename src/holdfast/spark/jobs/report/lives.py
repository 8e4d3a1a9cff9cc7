"""Steps → lives: one row per message, from the first thing known of it to the last.

A life is complete if it begins with `sent` and has no gap. An incomplete one is counted with the rest,
with what is known of it, but nothing is timed by it: how long it waited before the journal saw it,
nobody knows.

    delayed_ms        put off, by the sender or between tries
    time_in_queue_ms  ready and waiting, summed over all waits that have ended, however they ended
    time_in_hand_ms   with a consumer, summed over all deliveries that have ended
    total_ms          from when it was first ready to when it was settled; what lay between, such as
                      delays before another try and time as a dead letter, is part of it
"""

from __future__ import annotations

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F

from holdfast.spark.jobs.report.steps import DEAD, DEAD_IN_HAND, GIVEN_BACK, GONE, IN_HAND, WAITING

SETTLED = (*GONE, DEAD)
OUTCOMES = (*SETTLED, "ready", "delayed", *IN_HAND)


def lives(steps: DataFrame, now_ms: int) -> DataFrame:
    """What became of each message by `now_ms`, the time of the last event in the archive.

    Columns: queue, id, priority, size, sent_at, first_ready_at, first_received_at, settled_at,
    outcome (one of OUTCOMES), complete, deliveries, retries, one count for each of GIVEN_BACK, deaths,
    dead_reason, redriven, and the four times above.
    """
    return _timed(_summed(steps), now_ms)


def _summed(steps: DataFrame) -> DataFrame:
    event, state, at, ready = (F.col(name) for name in ("event", "state", "at_ms", "ready_ms"))
    next_ms, died, n = F.col("next_ms"), F.col("died"), F.col("n")
    waiting, zero = state == WAITING, F.lit(0)
    given_back = [F.count_if(F.col("ending") == name).alias(name) for name in GIVEN_BACK]

    def first(when: Column, what: Column) -> Column:
        return F.min(F.when(when, what))

    def spent(when: Column, ms: Column) -> Column:
        # A server's clock may step back: no time is less than none.
        return F.coalesce(F.sum(F.when(when & next_ms.isNotNull(), F.greatest(zero, ms))), zero)

    return steps.groupBy("queue", "id").agg(
        F.max("priority").alias("priority"),
        F.max("size").alias("size"),
        first(event == "sent", at).alias("sent_ms"),
        # One that is rescheduled was not ready yet.
        first(
            waiting & ~F.coalesce(F.col("next_event") == "rescheduled", F.lit(False)), ready
        ).alias("first_ready_ms"),
        first(event == "received", at).alias("first_received_ms"),
        F.max(F.when(died, at)).alias("died_ms"),
        F.max_by(
            F.struct(state.alias("state"), at.alias("at_ms"), ready.alias("ready_ms")), n
        ).alias("last"),
        F.every("sound").alias("complete"),
        F.count_if(event == "received").alias("deliveries"),
        F.count_if((event == "requeued") & (F.col("ending") != "released")).alias("retries"),
        *given_back,
        F.count_if(died).alias("deaths"),
        F.max_by(F.when(died, F.col("reason")), F.when(died, n)).alias("dead_reason"),
        F.count_if(event == "redriven").alias("redriven"),
        spent(waiting, F.least(next_ms, ready) - at).alias("delayed_ms"),
        spent(waiting, next_ms - ready).alias("time_in_queue_ms"),
        spent(state.isin(*IN_HAND), next_ms - at).alias("time_in_hand_ms"),
    )


def _timed(summed: DataFrame, now_ms: int) -> DataFrame:
    state = F.col("last.state")
    due_later = F.col("last.ready_ms") > now_ms
    outcome = (
        F.when((state == WAITING) & due_later, "delayed")
        .when(state == WAITING, "ready")
        .when(state == DEAD_IN_HAND, DEAD)
        .otherwise(state)
    )
    settled_ms = F.when(state.isin(*GONE), F.col("last.at_ms")).when(
        state.isin(DEAD, DEAD_IN_HAND), F.col("died_ms")
    )
    timed = F.col("complete") & (F.col("deliveries") > 0)
    total_ms = F.when(timed, F.greatest(F.lit(0), settled_ms - F.col("first_ready_ms")))
    return summed.select(
        "queue",
        "id",
        "priority",
        "size",
        F.timestamp_millis("sent_ms").alias("sent_at"),
        F.timestamp_millis(F.when(F.col("complete"), F.col("first_ready_ms"))).alias(
            "first_ready_at"
        ),
        F.timestamp_millis("first_received_ms").alias("first_received_at"),
        F.timestamp_millis(settled_ms).alias("settled_at"),
        outcome.alias("outcome"),
        "complete",
        "deliveries",
        "retries",
        *GIVEN_BACK,
        "deaths",
        "dead_reason",
        "redriven",
        "delayed_ms",
        "time_in_queue_ms",
        "time_in_hand_ms",
        total_ms.alias("total_ms"),
    )
