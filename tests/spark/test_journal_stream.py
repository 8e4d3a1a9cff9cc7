"""The journal as a stream in Spark: stopped, restarted, replayed, in a cluster."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.streaming.query import StreamingQuery

import holdfast
from tests.conftest import Servers
from tests.spark.journals import journaled, keys
from tests.spark.looking import texts


@pytest.fixture
def q(hf: holdfast.Client) -> holdfast.Queue:
    return journaled(hf)


def load(spark: SparkSession, url: str, queue: str, **options: object) -> DataFrame:
    given = {"url": url, "journal": queue} | texts(options)
    return spark.readStream.format("holdfast").options(**given).load()


def run(frame: DataFrame, to: Path, checkpoint: Path) -> StreamingQuery:
    """Everything that is there, into Parquet."""
    query = (
        frame.writeStream.format("parquet")
        .option("path", str(to))
        .option("checkpointLocation", str(checkpoint))
        .trigger(availableNow=True)
        .start()
    )
    query.awaitTermination()
    return query


def check_complete(spark: SparkSession, lake: Path, q: holdfast.Queue) -> None:
    found = [row.asDict() for row in spark.read.parquet(str(lake)).collect()]
    assert len(set(keys(found))) == len(found)
    assert sorted((r["id"], r["event"]) for r in found) == sorted(
        (e.id, e.kind) for e in q.journal(10_000)
    )


def test_a_stream_goes_on_from_its_checkpoint_and_writes_each_event_once(
    spark: SparkSession, q: holdfast.Queue, server_url: str, tmp_path: Path
) -> None:
    for _ in range(30):
        q.send_many([b"x"] * 10)
    frame = load(spark, server_url, q.name, maxRowsPerTrigger=120)
    query = run(frame, tmp_path / "lake", tmp_path / "checkpoint")
    sizes = [p["numInputRows"] for p in query.recentProgress if p["numInputRows"]]
    assert sizes == [120, 120, 60]
    check_complete(spark, tmp_path / "lake", q)

    q.ack_many(q.receive_many(50))
    run(load(spark, server_url, q.name), tmp_path / "lake", tmp_path / "checkpoint")
    check_complete(spark, tmp_path / "lake", q)


def test_a_batch_that_was_not_committed_comes_again_the_same(
    spark: SparkSession, q: holdfast.Queue, server_url: str, tmp_path: Path
) -> None:
    batches: list[tuple[int, set[tuple[Any, ...]]]] = []

    def note(frame: DataFrame, number: int) -> None:
        batches.append((number, set(keys([row.asDict() for row in frame.collect()]))))

    def start(**options: object) -> None:
        frame = load(spark, server_url, q.name, **options)
        writer = frame.writeStream.foreachBatch(note).trigger(availableNow=True)
        writer.option("checkpointLocation", str(tmp_path)).start().awaitTermination()

    for _ in range(20):
        q.send_many([b"x"] * 5)
    start(maxRowsPerTrigger=40)
    assert [number for number, _ in batches] == [0, 1, 2]
    # As after a crash between the batch and its commit.
    for name in ("2", ".2.crc"):
        (tmp_path / "commits" / name).unlink(missing_ok=True)
    q.send_many([b"later"] * 5)
    start(minPartitions=3)  # other options than when it was planned
    assert batches[3] == batches[2]
    assert len(batches) == 5
    assert len(batches[4][1]) == 5


def test_progress_shows_how_far_the_journal_is(
    spark: SparkSession, q: holdfast.Queue, server_url: str, tmp_path: Path
) -> None:
    q.send_many([b"x"] * 5)
    query = run(load(spark, server_url, q.name), tmp_path / "lake", tmp_path / "checkpoint")
    source = next(p for p in query.recentProgress if p["numInputRows"])["sources"][0]
    assert json.loads(source["latestOffset"])["n0"] == 1
    assert json.loads(source["endOffset"])["s0"] == json.loads(source["latestOffset"])["s0"]


def test_the_stream_of_a_sharded_queue_in_a_cluster_is_complete(
    spark: SparkSession, all_servers: Servers, tmp_path: Path
) -> None:
    url, hf = all_servers.url("cluster"), all_servers.client("cluster")
    assert url is not None
    q = journaled(hf, shards=3)
    for _ in range(30):
        q.send_many([b"x"] * 4)
    q.ack_many(q.receive_many(60))
    frame = load(spark, url, q.name, maxRowsPerTrigger=100)
    run(frame, tmp_path / "lake", tmp_path / "checkpoint")
    assert {e.id.count("-") for e in q.journal()} == {1, 2}, "several shards have events"
    check_complete(spark, tmp_path / "lake", q)
