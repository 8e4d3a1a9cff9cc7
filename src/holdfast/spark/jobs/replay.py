"""replay: archived messages are sent again, in the order in which they were first sent.

    archive ─► --where ─► in order, numbered ─► delays, dedup ids ─► the queue

One task sends all of it: the order is a promise, and with dedup ids the server is the limit, not Spark.
Rejected: row_number() over all rows, and a task per partition, which would send the end of the archive
beside its beginning.

Safe to repeat: a message's dedup id is made of its queue and id, so within the target's dedup window it
is sent once, however often and with whatever filter the job runs. After that window (`configure(
dedup_window=…)`, five minutes unless set) another run is another replay, and sends it again.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import date

from py4j.protocol import Py4JError
from pyspark.errors import PySparkException
from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql import functions as F
from pyspark.sql.types import DateType, StructField, StructType

from holdfast.engine.calls import gap_us
from holdfast.errors import InvalidArgument
from holdfast.names import MAX_LENGTH
from holdfast.spark import schema, sink
from holdfast.spark.jobs import faults, ids, places
from holdfast.spark.jobs.files import Files
from holdfast.spark.place import Place

_ARCHIVE = StructType([*schema.MESSAGES.fields, StructField("day", DateType())])


@dataclass(frozen=True, slots=True)
class Plan:
    """`where`: SQL over a message's columns, `day`, and `text`, its body as text. `rate`: so many a
    second. `shift`: with the gaps that were between them when they were first sent. Both by delays:
    the server lets them fall due, and the job ends when all are sent. `options`: of the data source."""

    path: str
    to: Place
    where: str | None = None
    rate: float | None = None
    shift: bool = False
    dry_run: bool = False
    options: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Day:
    """What a replay takes from one day of one queue's archive."""

    queue: str
    day: date
    messages: int


@dataclass(frozen=True, slots=True)
class ReplaySummary:
    path: str
    to: str
    read: int
    matched: int
    sent: int
    """0 for a dry run, in which nothing is sent."""
    duplicates: int
    """Known to the queue by their dedup ids: an earlier run had sent them."""
    days: tuple[Day, ...]
    lasts: float
    """Seconds until the last of them falls due."""
    dry_run: bool


# ---- the steps ----------------------------------------------------------------------------


def archived(spark: SparkSession, path: str) -> DataFrame:
    """All messages of an archive, with `day`, and `text` for those who look into the body."""
    files = Files(spark, path)
    home = path.rstrip("/")
    if not files.exists(path):
        raise InvalidArgument(f"there is no archive at {path}")
    if files.exists(f"{home}/_landing/events"):
        raise InvalidArgument(
            f"{path} is an archive of events, which have no bodies; give one of messages"
        )
    if not any(name.startswith("queue=") for name in files.names(path)):
        raise InvalidArgument(
            f"{path} is no archive: it has no folders queue=…; `holdfast spark archive` makes one"
        )
    if files.exists(f"{home}/_delta_log"):
        rows = spark.read.format("delta").load(path)
    else:
        # The schema is told: a queue called 2026 must not be taken for a number.
        rows = spark.read.schema(_ARCHIVE).parquet(path)
    return rows.withColumn("text", F.col("body").cast("string"))


def chosen(rows: DataFrame, where: str | None) -> DataFrame:
    return rows if where is None else rows.where(where)


def in_order(rows: DataFrame) -> DataFrame:
    """One partition, in the order of sending; `number` counts from 0."""
    ordered = rows.sort("sent_at", *ids.order(), "queue").coalesce(1)
    # In one partition these are 0, 1, 2 …
    return ordered.withColumn("number", F.monotonically_increasing_id())


def delays(rate: float | None, first_ms: int | None) -> Column:
    """How long after it is sent again a message falls due, ms. `first_ms`: when the one was sent that
    all others follow in their old distance."""
    if rate is not None:
        return F.floor(F.col("number") * F.lit(gap_us(rate) / 1000)).cast("long")
    if first_ms is not None:
        return F.unix_millis("sent_at") - F.lit(first_ms)
    return F.lit(None).cast("long")


def outgoing(numbered: DataFrame, rate: float | None, first_ms: int | None) -> DataFrame:
    """As the sink takes them."""
    whole = F.concat(F.lit("replay/"), F.col("queue"), F.lit("/"), F.col("id"))
    # A name has its limit, and a queue's may be that long already.
    short = F.concat(F.lit("replay/"), F.substring(F.sha2("queue", 256), 1, 40), F.lit("/"), "id")
    return numbered.select(
        "body",
        "attributes",
        "priority",
        "group",
        delays(rate, first_ms).alias("delay_ms"),
        F.when(F.length(whole) > MAX_LENGTH, short).otherwise(whole).alias("dedup_id"),
    )


# ---- running them -------------------------------------------------------------------------


def run(spark: SparkSession, plan: Plan) -> ReplaySummary:
    """Sends what matches. Raises InvalidArgument for a path or SQL that cannot be, before anything is
    sent; a job that failed half way may be run again."""
    gap = gap_us(plan.rate)
    if plan.rate is not None and plan.shift:
        raise InvalidArgument("a rate sets new gaps, a shift keeps the old ones; give one of them")
    try:
        rows = archived(spark, plan.path)
        matching = chosen(rows, plan.where)
        days, first, last = _days(matching)
        matched = sum(each.messages for each in days)
        written: list[sink.Written] = []
        if not plan.dry_run and matched:
            messages = outgoing(in_order(matching), plan.rate, first if plan.shift else None)
            written = sink.send(messages, {**plan.options, **places.options(plan.to)})
        read = matched if plan.where is None else rows.count()
    except (PySparkException, Py4JError) as error:
        raise faults.translated(error) from error
    duplicates = sum(each.duplicates for each in written)
    lasts = max(matched - 1, 0) * gap / 1_000_000
    if plan.shift:
        lasts = (last - first) / 1000
    return ReplaySummary(
        plan.path,
        plan.to.name,
        read,
        matched,
        sum(each.rows for each in written) - duplicates,
        duplicates,
        days,
        lasts,
        plan.dry_run,
    )


def _days(matching: DataFrame) -> tuple[tuple[Day, ...], int, int]:
    """Counts by queue and day, and when the first and the last were sent, in ms: Python would take a
    timestamp for one of this machine's time zone."""
    sent = F.unix_millis("sent_at")
    found = (
        matching.groupBy("queue", "day")
        .agg(F.count(F.lit(1)).alias("n"), F.min(sent).alias("first"), F.max(sent).alias("last"))
        .sort("queue", "day")
        .collect()
    )
    days = tuple(Day(row["queue"], row["day"], row["n"]) for row in found)
    return (
        days,
        min((row["first"] for row in found), default=0),
        max((row["last"] for row in found), default=0),
    )
