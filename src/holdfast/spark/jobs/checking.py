"""Which messages a bridge takes: JSON that fits, and what is expected of it. The others die, with a reason.

A message that fails is condemned while it is read: a note at its reservation, which turns into a dead
letter in the same step that acks the others. Condemning is idempotent, so it can be done in a task, which
Spark may run twice, and in a batch that is done again. Nothing waits for it and nothing is lost: until
the batch is done the message is reserved like the rest.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import TYPE_CHECKING

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F
from pyspark.sql.types import StringType, StructField, StructType

from holdfast.spark.place import Place

if TYPE_CHECKING:
    import pyarrow as pa

PROBLEM = "_problem"
_CORRUPT = "_corrupt"
_SHOWN = 60
Batches = Callable[[Iterator["pa.RecordBatch"]], Iterator["pa.RecordBatch"]]


def with_text(messages: DataFrame) -> DataFrame:
    """A further column, `text`: the body as a string; NULL if it is not UTF-8."""
    text = F.col("body").cast("string")
    return messages.withColumn("text", F.when(F.is_valid_utf8(text), text))


def with_value(messages: DataFrame, schema: StructType) -> DataFrame:
    """A further column, `value`: the JSON object in `text`. What is none, or does not fit, has a problem."""
    wide = StructType([*schema.fields, StructField(_CORRUPT, StringType())])
    options = {"mode": "PERMISSIVE", "columnNameOfCorruptRecord": _CORRUPT}
    parsed = messages.withColumn("value", F.from_json("text", wide, options))
    bad = F.col("value").isNull() | F.col(f"value.{_CORRUPT}").isNotNull()
    what = (
        F.when(F.col("text").isNull(), F.lit("not text"))
        .when(F.try_parse_json("text").isNull(), F.concat(F.lit("not JSON: "), _start_of("text")))
        .otherwise(F.concat(F.lit("does not fit the schema: "), _start_of("text")))
    )
    found = with_problem(parsed, F.when(bad, F.concat(F.lit("bridge: "), what)))
    return found.withColumn("value", F.col("value").dropFields(_CORRUPT))


def with_problem(messages: DataFrame, problem: Column) -> DataFrame:
    """The first problem that a message has is the one it dies of."""
    if PROBLEM in messages.columns:
        problem = F.coalesce(F.col(PROBLEM), problem)
    return messages.withColumn(PROBLEM, problem)


def expecting(messages: DataFrame, expectations: Sequence[str]) -> DataFrame:
    """Messages for which one of these SQL conditions is not true (it may be NULL) have a problem."""
    for text in expectations:
        holds = F.coalesce(F.expr(text).cast("boolean"), F.lit(False))
        messages = with_problem(messages, F.when(~holds, F.lit(f"bridge: expected {text}")))
    return messages


def without_problems(messages: DataFrame, place: Place) -> DataFrame:
    """The good ones; the others are condemned on the way. Needs the column `reservation`."""
    if PROBLEM not in messages.columns:
        return messages.drop("reservation")
    counted = messages.observe("checked", F.count(PROBLEM).alias("dead"))
    return counted.mapInArrow(_condemn(place), messages.schema).drop(PROBLEM, "reservation")


def _condemn(place: Place) -> Batches:
    def step(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        for batch in batches:
            problems = batch.column(PROBLEM)
            if problems.null_count == len(problems):
                yield batch
                continue
            bad = batch.filter(problems.is_valid())
            by_reservation: dict[str, dict[str, str]] = {}
            for name, message, why in zip(
                bad.column("reservation").to_pylist(),
                bad.column("id").to_pylist(),
                bad.column(PROBLEM).to_pylist(),
                strict=True,
            ):
                by_reservation.setdefault(name, {})[message] = why
            for name, reasons in by_reservation.items():
                owner, _, seq = name.rpartition("/")
                place.target().condemn(owner, int(seq), reasons)
            yield batch.filter(problems.is_null())

    return step


def _start_of(column: str) -> Column:
    short = F.substring(column, 1, _SHOWN)
    return F.when(F.length(column) > _SHOWN, F.concat(short, F.lit("…"))).otherwise(short)
