"""Events → steps: each event of a message, with the state it left, the state it led to, and how long.

A message's events are put in the order of their journal entries, never of their times: many happen
within one millisecond, and a server's clock may step back. A message is one of (queue, id), since the
subscriptions of a topic share ids.

    event                              leads to        from
    sent                               waiting         nothing
    received                           leased, or reserved by Spark   waiting
    requeued                           waiting         leased, reserved
    dead                               dead            leased, reserved, dead in hand
    dead_received                      dead in hand    dead
    redriven                           waiting         dead
    rescheduled                        waiting         waiting
    acked, expired, removed, dropped   gone            see _FROM
    extended                           the state it was in, with another end of the lease

That a delayed message falls due is no event: it waits from `ready_ms`, which is when it was put there or
when it falls due, whichever is later. A step from a state that its event cannot follow means that the
journal has a gap there: it was off, or trimmed.

Adding an event to the engine? It needs a line in both tables below, and is passed over until then.
"""

from __future__ import annotations

from pyspark.sql import Column, DataFrame, Window, WindowSpec
from pyspark.sql import functions as F

WAITING, LEASED, RESERVED = "waiting", "leased", "reserved"
DEAD, DEAD_IN_HAND = "dead", "dead in hand"
GONE = ("acked", "expired", "removed", "dropped")
IN_HAND = (LEASED, RESERVED)

_LEADS_TO = {
    **dict.fromkeys(("sent", "requeued", "redriven", "rescheduled"), WAITING),
    "received": LEASED,
    "dead": DEAD,
    "dead_received": DEAD_IN_HAND,
    **{event: event for event in GONE},
}
_FROM = {
    "received": (WAITING,),
    "requeued": IN_HAND,
    "dead": (*IN_HAND, DEAD_IN_HAND),
    "dead_received": (DEAD,),
    "redriven": (DEAD,),
    "rescheduled": (WAITING,),
    "acked": (*IN_HAND, DEAD_IN_HAND),
    "expired": (WAITING,),
    "removed": (WAITING, *IN_HAND, DEAD, DEAD_IN_HAND),
    "dropped": (WAITING,),
}

# How a delivery ended. Those that failed counted towards max_receives; a release does not.
FAILED = ("nacked", "lease_ended", "recovered", "buried")
GIVEN_BACK = (*FAILED, "released")
ENDINGS = ("acked", *GIVEN_BACK, "removed")

# The engine's own words, from lua/shared/due.lua, dead.lua and recover.lua.
_LEASE_ENDED = "the lease ended without an ack"
_RECOVERED = "recovered"
_LAST_TRY = "max_receives"
_RETURNED = "returned"
_RESERVED = "reserved"


def steps(events: DataFrame) -> DataFrame:
    """One row per event that led somewhere, each event once.

    Columns: queue, id, n (1, 2, … within a message, with gaps), event, prior (state before, null if
    unknown), state (after), at_ms, ready_ms, next_ms and next_event (null for the last), ending (of
    the delivery this event ended, else null), died, sound (false: there is a gap before it), priority,
    size, reason.
    """
    return _with_next(_with_prior(_once(events)))


def _order() -> WindowSpec:
    """The same for every window, so that Spark sorts once."""
    return Window.partitionBy("queue", "id").orderBy("entry_ms", "entry_seq", "position")


def _once(events: DataFrame) -> DataFrame:
    """Each event once, with what its order among those of its message depends on.

    `id` follows from the key of an event. It is among the columns compared so that one shuffle, by
    queue and id, serves this and all windows.
    """
    once = events.repartition("queue", "id").dropDuplicates(
        ["queue", "id", "shard", "entry", "position"]
    )
    entry = F.split("entry", "-")
    return once.select(
        "queue",
        "id",
        entry[0].cast("long").alias("entry_ms"),
        entry[1].cast("long").alias("entry_seq"),
        "position",
        "event",
        _state_after().alias("state"),
        F.unix_millis("time").alias("at_ms"),
        F.unix_millis(F.greatest("time", F.coalesce("due", "time"))).alias("ready_ms"),
        F.unix_millis("lease_until").alias("lease_until_ms"),
        F.coalesce("reason", F.lit("")).alias("reason"),
        "receives",
        "priority",
        "size",
    )


def _state_after() -> Column:
    """Null for an event that leads nowhere."""
    event, found = F.col("event"), F.lit(None).cast("string")
    for name, state in _LEADS_TO.items():
        found = F.when(event == name, F.lit(state)).otherwise(found)
    by_spark = (event == "received") & (F.col("reason") == _RESERVED)
    return F.when(by_spark, F.lit(RESERVED)).otherwise(found)


def _with_prior(ordered: DataFrame) -> DataFrame:
    """Adds what was the case before: the state, and the lease and failures of the last delivery."""
    before = _order().rowsBetween(Window.unboundedPreceding, Window.currentRow - 1)
    event = F.col("event")

    def last(value: Column) -> Column:
        return F.last(value, ignorenulls=True).over(before)

    # In a struct, so that a lease without an end is not passed over for an earlier one with an end.
    leases = event.isin("received", "dead_received", "extended")
    lease = F.when(leases, F.struct(F.col("lease_until_ms").alias("until_ms")))
    return (
        ordered.withColumn("n", F.row_number().over(_order()))
        .withColumn("prior", last(F.col("state")))
        .withColumn("lease", last(lease))
        .withColumn("failures", last(F.when(event == "received", F.col("receives"))))
        .where(F.col("state").isNotNull())
        .withColumn("ending", _ending())
        .withColumn("died", _died())
        .withColumn("sound", _sound())
        .drop("lease", "failures", "lease_until_ms", "receives")
    )


def _ending() -> Column:
    """How the delivery ended, if this event ended one.

    A release and a retry both come as `requeued`, with whatever text the consumer gave; only a retry
    raises the count of failures. Of a delivery that was the last try the journal says no more than
    `max_receives`: it is put down to the lease if that was over by then.
    """
    event, reason = F.col("event"), F.col("reason")
    of_the_dead = F.coalesce(F.col("prior").isin(DEAD, DEAD_IN_HAND), F.lit(False))
    counted = F.col("receives") > F.coalesce("failures", F.lit(0))
    too_late = F.coalesce(F.col("at_ms") >= F.col("lease.until_ms"), F.lit(False))
    requeued = (
        F.when(reason == _LEASE_ENDED, "lease_ended")
        .when(reason == _RECOVERED, "recovered")
        .when(counted, "nacked")
        .otherwise("released")
    )
    dead = F.when(reason != _LAST_TRY, "buried").when(too_late, "lease_ended").otherwise("nacked")
    return (
        F.when((event == "acked") & ~of_the_dead, "acked")
        .when(event == "requeued", requeued)
        .when(_died(), dead)
        .when((event == "removed") & F.col("prior").isin(*IN_HAND), "removed")
    )


def _died() -> Column:
    """A death, rather than a dead letter that somebody had in hand and gave back."""
    returned = (F.col("prior") == DEAD_IN_HAND) | (
        F.col("prior").isNull() & (F.col("reason") == _RETURNED)
    )
    return (F.col("event") == "dead") & ~F.coalesce(returned, F.lit(False))


def _sound() -> Column:
    event, prior = F.col("event"), F.col("prior")
    fits = (event == "sent") & prior.isNull()
    for name, states in _FROM.items():
        fits = fits | ((event == name) & prior.isin(*states))
    return F.coalesce(fits, F.lit(False))


def _with_next(known: DataFrame) -> DataFrame:
    return (
        known.withColumn("next_ms", F.lead("at_ms").over(_order()))
        .withColumn("next_event", F.lead("event").over(_order()))
        .drop("entry_ms", "entry_seq", "position")
    )
