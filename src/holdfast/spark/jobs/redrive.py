"""redrive: which dead letters there are, why, and another life for those that are chosen by SQL.

Dead letters are read once, and of each only its id, its death and what they are grouped by is kept, so
that counts and choice are of the same moment and bodies stay with the tasks that look at them. The moves
are made from here, a thousand ids a call, in the order of death; there is nothing for tasks to share, and
the order would not survive it. A letter that somebody else took or redrove in the meantime is
left out by the server.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from datetime import datetime
from itertools import islice

from py4j.protocol import Py4JError
from pyspark import StorageLevel
from pyspark.errors import PySparkException
from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql import functions as F

import holdfast
from holdfast.engine import calls
from holdfast.engine.calls import gap_us
from holdfast.errors import InvalidArgument
from holdfast.message import parse_id, utc
from holdfast.spark.jobs import faults, ids, places, running
from holdfast.spark.place import Place

_CALL = 1000
_ATTRIBUTE = "attributes."
_PICKED, _KEY = "_picked", "_by"


@dataclass(frozen=True, slots=True)
class Plan:
    """`where`: SQL over the columns of a dead letter, and `text`, its body as text; None: all. `by`: what
    to group by: a column, `attributes.NAME`, or SQL. `rate`: so many a second."""

    place: Place
    where: str | None = None
    by: Sequence[str] = ("reason",)
    rate: float | None = None
    dry_run: bool = False
    options: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Group:
    """Dead letters that are alike. `by`: their values, in the order of the plan's."""

    by: tuple[str | None, ...]
    dead: int
    picked: int
    first: datetime
    last: datetime


@dataclass(frozen=True, slots=True)
class RedriveSummary:
    queue: str
    by: tuple[str, ...]
    groups: tuple[Group, ...]
    """The largest first."""
    dead: int
    picked: int
    moved: int
    """0 for a dry run. Fewer than picked: the others were dead no longer, or it was stopped."""
    lasts: float
    """Seconds until the last of them is ready."""
    dry_run: bool
    stopped: bool


# ---- the steps ----------------------------------------------------------------------------


def dead(spark: SparkSession, place: Place, options: Mapping[str, str]) -> DataFrame:
    """The dead letters that there are now, with `text`."""
    reader = spark.read.format("holdfast").options(**{**options, **places.options(place)})
    return reader.option("state", "dead").load().withColumn("text", F.col("body").cast("string"))


def key(by: str) -> Column:
    """What a word of `by` means, as text."""
    if by.startswith(_ATTRIBUTE):
        return F.col("attributes").getItem(by.removeprefix(_ATTRIBUTE))
    return F.expr(by).cast("string")


def sorted_out(rows: DataFrame, where: str | None, by: Sequence[str]) -> DataFrame:
    """Id, time of death, what they are grouped by, and whether each is picked."""
    if where is not None:
        rows.where(where)  # an error here is about the SQL, not about how it is used below
    picked = F.lit(True) if where is None else F.coalesce(F.expr(where), F.lit(False))
    keys = F.array(*[key(each) for each in by]).cast("array<string>")
    return rows.select("id", "died_at", keys.alias(_KEY), picked.alias(_PICKED))


def grouped(letters: DataFrame) -> DataFrame:
    return (
        letters.groupBy(_KEY)
        .agg(
            F.count(F.lit(1)).alias("dead"),
            F.count_if(F.col(_PICKED)).alias("picked"),
            F.min(F.unix_millis("died_at")).alias("first"),
            F.max(F.unix_millis("died_at")).alias("last"),
        )
        .sort(F.desc("dead"), _KEY)
    )


def in_order(letters: DataFrame) -> DataFrame:
    """Ids of those that are picked, in the order in which they died."""
    return letters.where(_PICKED).sort("died_at", *ids.order()).select("id")


# ---- running them -------------------------------------------------------------------------


def run(spark: SparkSession, plan: Plan, *, stop: running.Stop | None = None) -> RedriveSummary:
    """Moves what is picked back to the queue, as if never tried. Raises InvalidArgument for SQL that
    cannot be, before anything is moved. After a failure, or a stop, run it again for the rest."""
    gap = gap_us(plan.rate)
    if not plan.by:
        raise InvalidArgument("name at least one thing to group by, such as reason")
    stop = stop or running.Stop()
    moved = 0
    try:
        rows = dead(spark, plan.place, plan.options)
        with _kept(sorted_out(rows, plan.where, plan.by)) as letters:
            groups = tuple(
                Group(
                    tuple(row[_KEY]),
                    row["dead"],
                    row["picked"],
                    utc(row["first"]),
                    utc(row["last"]),
                )
                for row in grouped(letters).collect()
            )
            picked = sum(group.picked for group in groups)
            if picked and not plan.dry_run:
                found = in_order(letters).toLocalIterator(prefetchPartitions=True)
                moved = move(plan.place, (row["id"] for row in found), gap, stop)
    except (PySparkException, Py4JError) as error:
        raise faults.translated(error) from error
    return RedriveSummary(
        plan.place.name,
        tuple(plan.by),
        groups,
        sum(group.dead for group in groups),
        picked,
        moved,
        max((picked if plan.dry_run else moved) - 1, 0) * gap / 1_000_000,
        plan.dry_run,
        stop.is_set(),
    )


def move(place: Place, chosen: Iterable[str], gap: int, stop: running.Stop) -> int:
    """Redrive these, in this order; how many were still dead. `gap`: µs from one to the next, over all
    shards together."""
    target, left, moved = place.target(), iter(chosen), 0
    if isinstance(target, holdfast.Queue):
        target.refresh()
    refs = {ref.shard: ref for ref in target.refs()}
    while not stop.is_set() and (some := list(islice(left, _CALL))):
        by_shard: dict[int, list[bytes]] = {}
        for packed, shard in map(parse_id, some):
            by_shard.setdefault(shard, []).append(packed)
        for shard, mine in by_shard.items():
            # A shard that is gone was empty when it went.
            if shard in refs:
                moved += len(target.transport.run(calls.redrive(refs[shard], mine, gap, moved)))
    if moved:
        target._wake_home()
    return moved


@contextmanager
def _kept(letters: DataFrame) -> Iterator[DataFrame]:
    """Read once: what is moved is no longer there to be read again."""
    kept = letters.persist(StorageLevel.MEMORY_AND_DISK)
    try:
        kept.count()
        yield kept
    finally:
        kept.unpersist()
