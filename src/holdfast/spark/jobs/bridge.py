"""bridge: from a queue or subscription, through SQL or a function, to a queue, a topic or a folder.

    messages (+ text, + value) ─► checks ─► SQL or function ─► the target
                                    └─► dead letters of the source, with the reason

The SQL is real streaming SQL on the view `messages`: what is stateless (SELECT, WHERE, EXPLODE, a join
with a table) just runs, what needs state over batches (GROUP BY) needs a watermark, as Spark will say. A
query per batch was rejected: it looks the same for simple SQL and gives other results for the rest.
It runs in a session of its own with ANSI mode off: a value that cannot be computed is NULL, since an error
in one row would stop the stream at this batch for good. `--expect` finds such rows.

Exactly once: the source's reservation gives the same rows to a batch that is done again, the sink's
ledger leaves out what was sent, a folder is written by `landing`. This wants SQL that gives the same
for the same rows: rand() and current_timestamp() do not.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field

from pyspark.errors import PySparkException
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F
from pyspark.sql.streaming.query import StreamingQuery
from pyspark.sql.types import StructType

from holdfast.errors import InvalidArgument
from holdfast.spark import register
from holdfast.spark import rows as sink_rows
from holdfast.spark.jobs import checking, checkpoints, faults, inferring, places, running
from holdfast.spark.jobs.files import Files
from holdfast.spark.jobs.landing import Landing
from holdfast.spark.place import Place

VIEW = "messages"
# What the sink makes of a column with such a name; others are the body's.
_SENT = ("body", "attributes", "priority", "delay_ms", "group", "dedup_id")
Transform = Callable[[DataFrame], DataFrame]


@dataclass(frozen=True, slots=True)
class Plan:
    """`to`: a place to send to, or a folder. `schema`: of JSON bodies, as DDL; `infer`: from so many
    messages that wait, if there is none. `options`: further ones of the data source."""

    source: Place
    to: Place | str
    checkpoint: str
    sql: str | None = None
    transform: Transform | None = None
    schema: str | None = None
    infer: int = 0
    expect: Sequence[str] = ()
    once: bool = False
    every: float = 1.0
    options: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Summary:
    source: str
    to: str
    tally: running.Tally
    dead: int
    """Messages that did not pass; they are dead letters of the source."""
    written: int
    schema: str | None
    open: int
    """Messages of a batch that was begun, and will be done when the job is started again."""


# ---- the steps ----------------------------------------------------------------------------


def checked(
    messages: DataFrame, place: Place, schema: StructType | None, expect: Sequence[str]
) -> DataFrame:
    """What the SQL sees: messages with `text`, with `value` if there is a schema, and no bad ones."""
    found = checking.with_text(messages)
    if schema is not None:
        found = checking.with_value(found, schema)
    return checking.without_problems(checking.expecting(found, expect), place)


def transformed(messages: DataFrame, sql: str | None, transform: Transform | None) -> DataFrame:
    """The result of the user's SQL or function; of neither, the messages as they are."""
    if transform is not None:
        found = transform(messages)
        if not isinstance(found, DataFrame):
            raise InvalidArgument(
                f"the function must return a DataFrame, and returned {type(found).__name__}"
            )
    else:
        messages.createOrReplaceTempView(VIEW)
        found = messages.sparkSession.sql(sql or f"SELECT * FROM {VIEW}")
    if not found.isStreaming:
        raise InvalidArgument(f"the result does not come from {VIEW}; select FROM {VIEW}")
    if _sources(found) > 1:
        raise InvalidArgument(
            f"{VIEW} is read more than once, and each would get its own share of the queue; read it "
            "once: use CASE, LATERAL VIEW explode(…), or two bridges on a topic's subscriptions"
        )
    return found


def outgoing(rows: DataFrame) -> DataFrame:
    """As the sink takes them. Rows without a `body` become one, as JSON, of all their columns but
    those that a message has (attributes, priority, …); with a `body`, other columns are left out."""
    names = {name.lower(): name for name in rows.columns}
    sent = [F.col(f"`{names[name]}`").alias(name) for name in _SENT if name in names]
    if "body" in names:
        return rows.select(*sent)
    rest = [name for low, name in names.items() if low not in _SENT and low != "queue"]
    if not rest:
        raise InvalidArgument(
            f"there is nothing for a body: the result has only {', '.join(rows.columns)}"
        )
    return rows.select(F.to_json(F.struct(*[f"`{n}`" for n in rest])).alias("body"), *sent)


def _sources(rows: DataFrame) -> int:
    plan: str = rows._jdf.queryExecution().analyzed().toString()
    return plan.count("StreamingRelation")


# ---- running them -------------------------------------------------------------------------


def run(
    spark: SparkSession,
    plan: Plan,
    *,
    stop: running.Stop | None = None,
    watch: running.Watch = running.quiet,
    say: Callable[[str], None] = lambda text: None,
) -> Summary:
    """Bridges until there is no more (`once`), or until `stop` is set. `say` hears what schema was
    inferred. Raises the typed error of whatever went wrong; it goes on where it was when started again."""
    if plan.sql and plan.transform:
        raise InvalidArgument("give SQL or a function, not both")
    mine = spark.newSession()
    mine.conf.set("spark.sql.ansi.enabled", "false")
    register(mine)
    files = Files(mine, plan.checkpoint)
    schema = inferring.schema(mine, files, plan, say)
    start = _start(mine, plan, schema)
    with checkpoints.settling([(files, plan.checkpoint, plan.source)]) as left:
        [tally] = running.follow([(plan.source.name, start)], stop or running.Stop(), watch)
    return Summary(
        plan.source.name,
        plan.to if isinstance(plan.to, str) else plan.to.name,
        tally,
        tally.counts.get("dead", 0),
        tally.counts.get("written", 0),
        schema.simpleString() if schema else None,
        sum(left),
    )


def _start(spark: SparkSession, plan: Plan, schema: StructType | None) -> running.Start:
    """Everything that can be wrong with the SQL is found here, before anything is taken."""
    options = {**plan.options, **places.options(plan.source), "includeReservation": "true"}
    messages = spark.readStream.format("holdfast").options(**options).load()
    try:
        good = checked(messages, plan.source, schema, plan.expect)
        rows = transformed(good, plan.sql, plan.transform)
        if isinstance(plan.to, Place):
            rows = outgoing(rows)
            sink_rows.check(rows.schema, routed=False)
    except PySparkException as error:
        raise faults.translated(error) from error
    counted = rows.observe("result", F.count(F.lit(1)).alias("written"))
    writer = counted.writeStream.queryName(f"bridge {plan.source.name}")
    writer = running.triggered(writer, plan.once, plan.every)
    writer = writer.option("checkpointLocation", plan.checkpoint)
    if isinstance(plan.to, Place):
        return writer.format("holdfast").options(**places.options(plan.to)).start
    to = plan.to

    def land(batch: DataFrame, number: int) -> None:
        session = batch.sparkSession
        landing = Landing(Files(session, to), to, plan.source.name, running.query_id(session))
        landing.land(batch, number, lambda rows, folder: rows.write.parquet(folder))

    def start() -> StreamingQuery:
        return writer.foreachBatch(land).start()

    return start
