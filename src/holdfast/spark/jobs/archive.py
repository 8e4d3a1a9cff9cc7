"""archive: queues, subscriptions or journals into Parquet files, partitioned by queue and day.

Messages are consumed: each is in the archive exactly once, and then acked. Journals are copied, and
nothing is taken. Each source is a query of its own with its own checkpoint, so that one can be added,
or stand still, without the others. `landing` tells how a batch gets into the folder exactly once,
`compaction` how many small files become few.

The day is that of `sent_at` (of `time` for events), in UTC whatever the session's time zone is: a
folder must not depend on who writes it.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import Any, Literal
from urllib.parse import quote

from py4j.protocol import Py4JJavaError
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F
from pyspark.sql.streaming.query import StreamingQuery

from holdfast.errors import InvalidArgument, ReservationLost, Unsupported
from holdfast.spark.jobs import checkpoints, places, running
from holdfast.spark.jobs.files import Files
from holdfast.spark.jobs.landing import FOLDER, Landing, landed
from holdfast.spark.place import Place

Kind = Literal["messages", "events"]
_DELTA = "org.apache.spark.sql.delta.sources.DeltaDataSource"
_DAY_US = 86_400_000_000


@dataclass(frozen=True, slots=True)
class Source:
    """What one query reads."""

    place: Place
    journal: bool = False

    @property
    def name(self) -> str:
        return f"journal of {self.place.name}" if self.journal else self.place.name


@dataclass(frozen=True, slots=True)
class Plan:
    """What to archive, where to, and how. `options`: further ones of the data source, by their names."""

    sources: Sequence[Source]
    to: str
    once: bool = False
    every: float = 1.0
    checkpoint: str | None = None
    format: str = "parquet"
    options: Mapping[str, str] = field(default_factory=dict)

    def checkpoint_of(self, source: Source) -> str:
        """Beside the data, under a name that readers of the folder pass over."""
        kind = "journal-" if source.journal else ""
        name = kind + quote(source.place.name, safe="")
        if self.checkpoint is None:
            return f"{self.to.rstrip('/')}/_checkpoint-{name}"
        return self.checkpoint if len(self.sources) == 1 else f"{self.checkpoint}/{name}"


@dataclass(frozen=True, slots=True)
class Summary:
    to: str
    sources: tuple[running.Tally, ...]
    open: int
    """Messages of a batch that was begun: reserved, and written when the job is started again."""

    @property
    def rows(self) -> int:
        return sum(tally.rows for tally in self.sources)


# ---- the steps ----------------------------------------------------------------------------


def with_day(rows: DataFrame, column: str) -> DataFrame:
    """A further column, `day`: the date in UTC."""
    days = F.floor(F.unix_micros(column) / F.lit(_DAY_US)).cast("int")
    return rows.withColumn("day", F.date_add(F.lit("1970-01-01").cast("date"), days))


def read(spark: SparkSession, source: Source, options: Mapping[str, str]) -> DataFrame:
    mine = places.options(source.place, journal=source.journal)
    reader = spark.readStream.format("holdfast").options(**{**options, **mine})
    return with_day(reader.load(), "time" if source.journal else "sent_at")


def write_parquet(rows: DataFrame, folder: str) -> None:
    rows.write.partitionBy("queue", "day").parquet(folder)


# ---- running them -------------------------------------------------------------------------


def run(
    spark: SparkSession,
    plan: Plan,
    *,
    stop: running.Stop | None = None,
    watch: running.Watch = running.quiet,
) -> Summary:
    """Archives until there is no more (`once`), or until `stop` is set.

    Raises the typed error of whatever went wrong. It can be started again at any time, after a crash
    too, and goes on where it was.
    """
    stop = stop or running.Stop()
    _check(spark, plan)
    starts = [(source.name, partial(_start, spark, plan, source)) for source in plan.sources]
    taken = [
        (Files(spark, plan.to), plan.checkpoint_of(source), source.place)
        for source in plan.sources
        if not source.journal
    ]
    with checkpoints.settling(taken) as left:
        tallies = running.follow(starts, stop, watch)
    return Summary(plan.to, tuple(tallies), sum(left))


def _start(spark: SparkSession, plan: Plan, source: Source) -> StreamingQuery:
    rows = read(spark, source, plan.options)
    writer = rows.writeStream.queryName(f"archive {source.name}").option(
        "checkpointLocation", plan.checkpoint_of(source)
    )
    writer = running.triggered(writer, plan.once, plan.every)

    def land(batch: DataFrame, number: int) -> None:
        mine = batch.sparkSession
        query = running.query_id(mine)
        if plan.format == "delta":
            _append_delta(batch, number, plan.to, query)
        else:
            landing = Landing(Files(mine, plan.to), plan.to, source.name, query)
            landing.land(batch, number, write_parquet)

    return writer.foreachBatch(land).start()


def _append_delta(batch: DataFrame, number: int, to: str, query: str) -> None:
    """Delta keeps count itself: a batch that it has under this name is left out."""
    writer = batch.write.format("delta").mode("append").partitionBy("queue", "day")
    writer.option("txnAppId", query).option("txnVersion", number).save(to)


def _check(spark: SparkSession, plan: Plan) -> None:
    if not plan.sources:
        raise InvalidArgument("name at least one queue, subscription or journal to archive")
    named = [source.name for source in plan.sources]
    if twice := sorted({name for name in named if named.count(name) > 1}):
        raise InvalidArgument(f"named twice: {', '.join(twice)}")
    kinds: set[Kind] = {"events" if source.journal else "messages" for source in plan.sources}
    if len(kinds) > 1:
        raise InvalidArgument(
            "messages and events have different columns; archive them to different folders"
        )
    if plan.format not in ("parquet", "delta"):
        raise InvalidArgument(f"--format is parquet or delta, not {plan.format!r}")
    if plan.format == "delta":
        _check_delta(spark)
    files = Files(spark, plan.to)
    _mark(files, plan.to, kinds.pop())
    for source in plan.sources:
        _check_checkpoint(files, plan, source)


def _check_delta(spark: SparkSession) -> None:
    jvm: Any = spark._jvm
    loader = jvm.java.lang.Thread.currentThread().getContextClassLoader()
    try:
        loader.loadClass(_DELTA)
    except Py4JJavaError:
        raise Unsupported(
            "this Spark has no Delta: give --packages io.delta:delta-spark_2.13:VERSION, which needs a "
            "network the first time, and --conf spark.sql.extensions=… as Delta's documentation says"
        ) from None


def _check_checkpoint(files: Files, plan: Plan, source: Source) -> None:
    """A query whose checkpoint is gone may have left messages reserved, and nobody else will get them."""
    if source.journal or plan.checkpoint is not None:
        return
    where = plan.checkpoint_of(source)
    if files.exists(f"{where}/metadata") or not landed(files, plan.to, source.name):
        return
    if held := source.place.target().reservations():
        owners = sorted({each.owner for each in held})
        raise ReservationLost(
            f"{plan.to} was written from {source.name!r} before, and the checkpoint of that, {where}, is "
            f"gone, while {sum(each.rows for each in held):,} messages are reserved by "
            f"{', '.join(owners)}; they may be in the archive already. Put the checkpoint back, or give "
            "them back with `holdfast reservations release`, to archive them (again)"
        )


def _mark(files: Files, to: str, kind: Kind) -> None:
    """A folder holds messages or events, for good."""
    home = f"{to.rstrip('/')}/{FOLDER}"
    known = [name for name in files.names(home) if name in ("messages", "events")]
    if not known:
        files.put(f"{home}/{kind}", "")
    elif known != [kind]:
        raise InvalidArgument(
            f"{to} is an archive of {known[0]}, and these are {kind}, which have other columns; "
            "give another folder"
        )
