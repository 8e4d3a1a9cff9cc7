"""df.write and df.writeStream, through Spark."""

from __future__ import annotations

import secrets
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from pyspark.errors import AnalysisException, PySparkException
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F
from pyspark.sql.types import (
    BinaryType,
    DataType,
    DoubleType,
    IntegerType,
    LongType,
    MapType,
    NullType,
    StringType,
    StructField,
    StructType,
)

import holdfast
from holdfast import InvalidArgument, Queue
from holdfast.spark import rows
from holdfast.spark.options import parse
from holdfast.spark.sink import BatchWriter, StreamWriter
from tests.raw import Raw

if TYPE_CHECKING:
    import pyarrow as pa


@pytest.fixture
def q(hf: holdfast.Client) -> Queue:
    return hf.queue(f"q{secrets.token_hex(4)}")


def write(df: DataFrame, url: str, **options: str) -> None:
    df.write.format("holdfast").mode("append").options(url=url, **options).save()


def texts(queue: Queue | holdfast.Subscription, state: str = "ready") -> list[str]:
    return [m.text for m in queue.inspect(state, 0, 100_000)]  # type: ignore[arg-type]


def columns(**types: DataType) -> StructType:
    return StructType([StructField(name, kind) for name, kind in types.items()])


# ---- which columns ---------------------------------------------------------------------------


def test_every_column_arrives(spark: SparkSession, server_url: str, q: Queue) -> None:
    df = spark.sql(
        "SELECT 'hello' AS body, map('kind', 'a', 'n', '1') AS attributes, 7 AS priority, "
        "'g' AS group, 'd' AS dedup_id UNION ALL SELECT 'plain', NULL, NULL, NULL, NULL"
    ).coalesce(1)
    write(df, server_url, queue=q.name)
    hello, plain = sorted(q.inspect("ready"), key=lambda m: m.text)
    assert (hello.body, hello.attributes) == (b"hello", {"kind": "a", "n": "1"})
    assert (hello.priority, hello.group) == (7, "g")
    assert q.send(b"other", dedup_id="d").duplicate
    assert (plain.body, plain.attributes) == (b"plain", {})
    assert (plain.priority, plain.group) == (0, None)


def test_delays_are_from_the_moment_of_sending(
    spark: SparkSession, server_url: str, q: Queue
) -> None:
    write(spark.sql("SELECT 'later' AS body, 3600000 AS delay_ms"), server_url, queue=q.name)
    later = q.inspect("delayed")[0]
    assert later.due
    assert (later.due - later.sent_at).total_seconds() == 3600


def test_bodies_may_be_bytes(spark: SparkSession, server_url: str, q: Queue) -> None:
    write(spark.sql("SELECT X'00ff80' AS BODY"), server_url, queue=q.name)
    assert q.inspect("ready")[0].body == b"\x00\xff\x80"


def test_a_topic_reaches_all_its_subscriptions(
    spark: SparkSession, server_url: str, hf: holdfast.Client
) -> None:
    topic = hf.topic(f"t{secrets.token_hex(4)}")
    one, other = topic.subscribe("one"), topic.subscribe("other")
    df = spark.range(100, numPartitions=2).selectExpr("CAST(id AS STRING) AS body")
    write(df, server_url, topic=topic.name)
    wanted = sorted(str(i) for i in range(100))
    assert sorted(texts(one)) == sorted(texts(other)) == wanted


def test_the_column_queue_says_where_to_unless_an_option_does(
    spark: SparkSession, server_url: str, hf: holdfast.Client, q: Queue
) -> None:
    mark = secrets.token_hex(4)
    df = spark.range(20).selectExpr(
        "CAST(id AS STRING) AS body", f"concat('{mark}-', id % 2) AS queue"
    )
    write(df, server_url)
    assert sorted(map(int, texts(hf.queue(f"{mark}-1")))) == list(range(1, 20, 2))
    write(df, server_url, queue=q.name)
    assert len(texts(q)) == 20


def test_nothing_is_left_of_a_job_but_its_messages(
    spark: SparkSession, server_url: str, hf: holdfast.Client, q: Queue
) -> None:
    q.configure(shards=3)
    write(spark.range(50).selectExpr("CAST(id AS STRING) AS body"), server_url, queue=q.name)
    assert q.stats().ready == 50
    for ref in q.refs():
        [found] = Raw(hf).everywhere("KEYS", f"{ref.key}:d:*")
        assert found == []


# ---- what is refused, when the write is planned --------------------------------------------------

BODY = StringType()


@pytest.mark.parametrize(
    ("schema", "says"),
    [
        (columns(text=BODY), r"a message has no text: it has body, .*to_json\(struct"),
        (
            columns(body=BODY, id=BODY, receives=LongType()),
            r"a message has no id, receives: .*select",
        ),
        (columns(priority=IntegerType()), r"there is no column body"),
        (columns(body=LongType()), r"column body must be BINARY or STRING, not BIGINT; .*to_json"),
        (columns(body=NullType()), r"column body must be BINARY or STRING, not VOID"),
        (
            columns(body=BODY, attributes=MapType(BODY, LongType())),
            r"column attributes must be MAP<STRING,STRING>, not MAP<STRING,BIGINT>; make it one: map",
        ),
        (columns(body=BODY, attributes=BODY), r"column attributes must be MAP<STRING,STRING>"),
        (
            columns(body=BODY, priority=DoubleType()),
            r"column priority must be INT, not DOUBLE; cast",
        ),
        (columns(body=BODY, delay_ms=BODY), r"column delay_ms must be LONG, not STRING; cast it"),
        (columns(body=BODY, group=LongType()), r"column group must be STRING, not BIGINT"),
        (columns(body=BODY, BODY=BODY), r"there are several columns body; keep one"),
    ],
)
def test_columns_that_do_not_fit(schema: StructType, says: str) -> None:
    with pytest.raises(InvalidArgument, match=says):
        rows.check(schema, routed=False)


def test_without_an_option_a_column_must_say_where_to() -> None:
    with pytest.raises(InvalidArgument, match=r"say where to write: .option\('queue', NAME\)"):
        rows.check(columns(body=BODY), routed=True)
    assert rows.check(columns(body=BinaryType(), Queue=BODY), routed=True) == ("body", "queue")


def test_a_column_of_nothing_but_null_is_not_given() -> None:
    assert rows.check(columns(body=BODY, group=NullType()), routed=False) == ("body", "group")


def test_nothing_can_be_overwritten() -> None:
    options = parse({"url": "redis://x", "queue": "q"}, "write")
    with pytest.raises(InvalidArgument, match=r"cannot be overwritten; use mode\('append'\)"):
        BatchWriter(options, columns(body=BODY), True)
    with pytest.raises(InvalidArgument, match=r"cannot be overwritten; use outputMode\('append'\)"):
        StreamWriter(options, columns(body=BODY), True)


def test_spark_says_why_a_write_was_refused_before_anything_is_sent(
    spark: SparkSession, server_url: str, q: Queue
) -> None:
    with pytest.raises(AnalysisException, match="InvalidArgument: a message has no id"):
        write(spark.sql("SELECT 'x' AS body, 1 AS id"), server_url, queue=q.name)
    df = spark.sql("SELECT 'x' AS body")
    for mode, says in (("overwrite", "cannot be overwritten"), ("errorifexists", "Append")):
        with pytest.raises(AnalysisException, match=says):
            df.write.format("holdfast").mode(mode).options(url=server_url, queue=q.name).save()
    assert q.stats().sent == 0


def test_a_bad_row_fails_the_job_with_our_message(
    spark: SparkSession, server_url: str, q: Queue
) -> None:
    df = spark.sql("SELECT 'x' AS body, 12 AS priority")
    with pytest.raises(PySparkException, match="row 0 of this partition: priority must be from 0"):
        write(df, server_url, queue=q.name)
    q.configure(max_length=1)
    with pytest.raises(PySparkException, match="QueueFull: the queue holds 0 of at most 1"):
        write(spark.range(5).selectExpr("'x' AS body").coalesce(1), server_url, queue=q.name)


# ---- once ------------------------------------------------------------------------------------


def test_tasks_that_fail_after_they_have_sent_send_each_row_once(
    spark: SparkSession, server_url: str, q: Queue, tmp_path: Path
) -> None:
    ended = str(tmp_path)

    def failing(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        """Attempts fail after most of their rows are in the server, and come in another order each time."""
        import random
        from pathlib import Path

        import pyarrow as pa
        from pyspark import TaskContext

        context = TaskContext.get()
        assert context is not None
        rows = [row for batch in batches for row in batch.to_pylist()]
        random.Random(context.attemptNumber()).shuffle(rows)
        for i in range(0, len(rows), 10):
            if context.partitionId() == 0 and i > 10 + 10 * context.attemptNumber() <= 20:
                Path(ended, str(context.attemptNumber())).touch()
                raise RuntimeError("this attempt ends here")
            part = rows[i : i + 10]
            yield pa.RecordBatch.from_pylist(part, schema=pa.schema([("body", pa.string())]))

    df = spark.range(200, numPartitions=2).selectExpr("CAST(id % 150 AS STRING) AS body")
    df = df.mapInArrow(failing, "body STRING")
    size = "spark.sql.execution.arrow.maxRecordsPerBatch"
    before = spark.conf.get(size)
    spark.conf.set(size, "10")
    try:
        write(df, server_url, queue=q.name, batchSize="5")
    finally:
        spark.conf.set(size, str(before))
    assert {path.name for path in tmp_path.iterdir()} == {"0", "1"}
    assert Counter(texts(q)) == Counter(str(i % 150) for i in range(200))


def numbers(folder: Path, name: str, start: int, end: int) -> None:
    folder.mkdir(exist_ok=True)
    (folder / name).write_text("".join(f"{i % 40}\n" for i in range(start, end)))


def copy(spark: SparkSession, source: Path, checkpoint: Path, url: str, queue: str) -> None:
    query = (
        spark.readStream.text(str(source))
        .select(F.col("value").alias("body"))
        .writeStream.format("holdfast")
        .options(url=url, queue=queue, checkpointLocation=str(checkpoint))
        .trigger(availableNow=True)
        .start()
    )
    query.awaitTermination()


def test_a_batch_that_is_repeated_after_a_restart_is_sent_once(
    spark: SparkSession, server_url: str, q: Queue, tmp_path: Path
) -> None:
    source, checkpoint = tmp_path / "in", tmp_path / "checkpoint"
    numbers(source, "a.txt", 0, 100)
    copy(spark, source, checkpoint, server_url, q.name)
    assert len(texts(q)) == 100
    numbers(source, "b.txt", 100, 150)
    copy(spark, source, checkpoint, server_url, q.name)
    wanted = Counter(str(i % 40) for i in range(150))
    assert Counter(texts(q)) == wanted
    # As if Spark had died between the end of batch 1 and writing down that it ended.
    for file in (checkpoint / "commits").glob("*1*"):
        file.unlink()
    copy(spark, source, checkpoint, server_url, q.name)
    assert Counter(texts(q)) == wanted
    numbers(source, "c.txt", 150, 160)
    copy(spark, source, checkpoint, server_url, q.name)
    assert Counter(texts(q)) == Counter(str(i % 40) for i in range(160))


def test_a_checkpoint_from_long_ago_is_refused(
    spark: SparkSession, server_url: str, q: Queue, tmp_path: Path
) -> None:
    source, checkpoint = tmp_path / "in", tmp_path / "checkpoint"
    for i in range(3):
        numbers(source, f"{i}.txt", i * 10, i * 10 + 10)
        copy(spark, source, checkpoint, server_url, q.name)
    for folder in ("commits", "offsets"):
        for file in [*(checkpoint / folder).glob("*1*"), *(checkpoint / folder).glob("*2*")]:
            file.unlink()
    with pytest.raises(PySparkException, match=r"batch 1 was sent .* come to batch 2"):
        copy(spark, source, checkpoint, server_url, q.name)
    assert len(texts(q)) == 30
