"""A queue as a stream, through Spark."""

from __future__ import annotations

import itertools
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from pyspark.errors import StreamingQueryException
from pyspark.sql import DataFrame, SparkSession

import holdfast
from holdfast import Outgoing
from tests import servers

_numbers = itertools.count(1)


@pytest.fixture
def q(hf: holdfast.Client) -> holdfast.Queue:
    return hf.queue(f"streaming {next(_numbers)}")


def stream(spark: SparkSession, q: holdfast.Queue, **options: str) -> DataFrame:
    found = {"url": q._client.url, "queue": q.name, **options}
    return spark.readStream.format("holdfast").options(**found).load()


def to_parquet(rows: DataFrame, folder: Path) -> Any:
    query = (
        rows.writeStream.format("parquet")
        .option("path", str(folder / "out"))
        .option("checkpointLocation", str(folder / "checkpoint"))
        .trigger(availableNow=True)
        .start()
    )
    query.awaitTermination()
    return query


def test_a_queue_goes_into_parquet_and_is_empty_then(
    spark: SparkSession, q: holdfast.Queue, tmp_path: Path
) -> None:
    ids = q.send_many(Outgoing(b"%d" % n, attributes={"n": str(n)}) for n in range(2_500))
    query = to_parquet(stream(spark, q, maxRowsPerTrigger="1000"), tmp_path)
    assert [p.numInputRows for p in query.recentProgress] == [1000, 1000, 500]
    assert '"ready" : 2500' in query.recentProgress[0].sources[0].latestOffset.replace('":', '" :')
    found = spark.read.parquet(str(tmp_path / "out"))
    rows = {row["id"]: row for row in found.collect()}
    assert set(rows) == set(ids)
    assert rows[ids[7]]["body"] == b"7"
    assert rows[ids[7]]["attributes"] == {"n": "7"}
    assert (q.stats().total, q.stats().acked) == (0, 2_500)


def test_several_actions_on_one_batch_see_the_same_rows(
    spark: SparkSession, q: holdfast.Queue, tmp_path: Path
) -> None:
    q.send_many([b"%d" % n for n in range(100)])
    seen: list[tuple[int, int]] = []

    def both(batch: DataFrame, number: int) -> None:
        seen.append((batch.count(), batch.select("id").distinct().count()))

    rows = stream(spark, q).writeStream.foreachBatch(both)
    rows = rows.option("checkpointLocation", str(tmp_path)).trigger(availableNow=True)
    rows.start().awaitTermination()
    assert seen == [(100, 100)]
    assert q.stats().acked == 100


def test_a_subscription_is_a_stream_too(
    spark: SparkSession, hf: holdfast.Client, tmp_path: Path
) -> None:
    topic = hf.topic(f"prices {next(_numbers)}")
    first, second = topic.subscribe("lake"), topic.subscribe("till")
    topic.publish_many([b"%d" % n for n in range(300)])
    rows = (
        spark.readStream.format("holdfast")
        .options(url=hf.url, topic=topic.name, subscription="lake")
        .load()
    )
    to_parquet(rows, tmp_path)
    found = spark.read.parquet(str(tmp_path / "out")).collect()
    assert {row["body"] for row in found} == {b"%d" % n for n in range(300)}
    assert {row["queue"] for row in found} == {f"{topic.name}/lake"}
    assert (first.stats().total, second.stats().ready) == (0, 300)


def test_the_error_of_a_failed_query_says_what_to_do(
    spark: SparkSession, q: holdfast.Queue, tmp_path: Path
) -> None:
    q.send(b"x")
    to_parquet(stream(spark, q), tmp_path)
    q.delete()
    q.send(b"y")
    with pytest.raises(StreamingQueryException, match=r"ReservationLost: .* give both a new place"):
        to_parquet(stream(spark, q), tmp_path)
    assert q.stats().ready == 1


@pytest.mark.parametrize(
    ("options", "says"),
    [
        ({"queues": "a"}, "did you mean 'queue'"),
        ({"queue": "a", "startingOffsets": "latest"}, "a queue has no offsets"),
        ({"topic": "a"}, "topic and subscription"),
        ({"queue": "a", "maxRowsPerTrigger": "many"}, "must be a whole number"),
    ],
)
def test_wrong_options_are_refused_at_once(
    spark: SparkSession, options: dict[str, str], says: str
) -> None:
    with pytest.raises(Exception, match=says):
        spark.readStream.format("holdfast").options(**options).load()


def test_state_is_refused_for_a_stream(
    spark: SparkSession, q: holdfast.Queue, tmp_path: Path
) -> None:
    with pytest.raises(StreamingQueryException, match=r"other states can be read with spark\.read"):
        to_parquet(stream(spark, q, state="dead"), tmp_path)


@pytest.fixture
def cluster(tmp_path: Path) -> Iterator[holdfast.Client]:
    with servers.cluster(tmp_path / "valkey") as nodes:
        url = "redis://" + ",".join(f"{host}:{port}" for host, port in nodes)
        with holdfast.connect(url, check="off") as client:
            yield client


def test_a_sharded_queue_on_a_cluster_is_read_exactly_once(
    spark: SparkSession, cluster: holdfast.Client, tmp_path: Path
) -> None:
    q = cluster.queue("sharded")
    q.configure(shards=6)
    ids = [i for part in range(30) for i in q.send_many([b"%d" % part] * 100)]
    assert all(shard.ready for shard in q.shard_stats())
    nodes = cluster.transport.address
    rows = (
        spark.readStream.format("holdfast")
        .options(url=nodes.url, queue=q.name, maxRowsPerTrigger="700")
        .load()
    )
    query = to_parquet(rows, tmp_path)
    assert sum(p.numInputRows for p in query.recentProgress) == 3_000
    found = [row["id"] for row in spark.read.parquet(str(tmp_path / "out")).collect()]
    assert sorted(found) == sorted(ids)
    assert (q.stats().total, q.stats().acked) == (0, 3_000)
