"""The journal archive as a DataFrame, or a plain word about what is wrong with the folder.

Read twice: once as Parquet describes itself, to see what is missing, then with the types that events
have. Without them Spark guesses the type of `queue` from the folder names, and a queue named 007
becomes the number 7.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from pyspark.errors import PySparkException
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F
from pyspark.sql.types import DateType, StructField, StructType

from holdfast.errors import InvalidArgument
from holdfast.spark.schema import EVENTS

_HOW = "write one with `holdfast spark archive --journal QUEUE --to PATH`"
_NAMED = 20


@dataclass(frozen=True, slots=True)
class Extent:
    """What an archive covers; times in ms, 0 where it is empty."""

    events: int
    first_ms: int
    last_ms: int


def read(spark: SparkSession, path: str, queues: Sequence[str] | None = None) -> DataFrame:
    """The events under `path`, of all queues or of those named. Raises InvalidArgument."""
    found = _as_it_is(spark, path)
    missing = [name for name in EVENTS.names if name not in found.columns]
    if missing:
        raise InvalidArgument(
            f"{path!r} is not an archive of a journal: it lacks the columns {', '.join(missing)}; "
            + _HOW
        )
    fields = list(EVENTS.fields)
    if "day" in found.columns:
        fields.append(StructField("day", DateType()))
    events = spark.read.schema(StructType(fields)).parquet(path)
    if queues is None:
        return events
    _check_queues(events, path, queues)
    return events.where(F.col("queue").isin(*queues))


def _as_it_is(spark: SparkSession, path: str) -> DataFrame:
    try:
        return spark.read.parquet(path)
    except PySparkException as error:
        why = {
            "PATH_NOT_FOUND": "there is no such folder",
            "UNABLE_TO_INFER_SCHEMA": "it holds no Parquet files: nothing was archived there yet, "
            "or it is another folder than you think",
        }.get(error.getCondition() or "")
        said = (error.getMessage() or str(error)).partition("\n")[0]
        raise InvalidArgument(
            f"cannot read an archive at {path!r}: {why or said}; {_HOW}"
        ) from error


def _check_queues(events: DataFrame, path: str, queues: Sequence[str]) -> None:
    if not queues:
        raise InvalidArgument("name at least one queue, or none to report on all of them")
    known = {row.queue for row in events.select("queue").distinct().collect()}
    unknown = [name for name in queues if name not in known]
    if unknown:
        some = ", ".join(sorted(known)[:_NAMED]) + (", …" if len(known) > _NAMED else "")
        raise InvalidArgument(
            f"there are no events of {', '.join(map(repr, unknown))} in {path!r}; "
            f"there are some of: {some or 'no queue at all'}"
        )


def extent(events: DataFrame) -> Extent:
    """How many events there are, and from when to when."""
    row = events.agg(
        F.count("*").alias("events"),
        F.min(F.unix_millis("time")).alias("first"),
        F.max(F.unix_millis("time")).alias("last"),
    ).first()
    assert row is not None
    return Extent(row["events"], row["first"] or 0, row["last"] or 0)
