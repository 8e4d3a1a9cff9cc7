"""archive: what was in a queue is in the folder, once, and no longer in the queue."""

from __future__ import annotations

import shutil
from datetime import UTC, date, datetime
from pathlib import Path

import pytest
from pyspark.sql import DataFrame, SparkSession

import holdfast
from holdfast.errors import HoldfastError, InvalidArgument, ReservationLost, Unsupported
from holdfast.spark.jobs import archive, running
from holdfast.spark.jobs.archive import Plan, Source
from holdfast.spark.place import Place


@pytest.fixture
def orders(hf: holdfast.Client, request: pytest.FixtureRequest) -> holdfast.Queue:
    return hf.queue(request.node.name[:150])


@pytest.fixture
def source(orders: holdfast.Queue, server_url: str) -> Source:
    return Source(Place(server_url, None, orders.name))


def bodies(spark: SparkSession, path: Path) -> list[str]:
    rows = spark.read.parquet(str(path)).selectExpr("cast(body AS STRING) AS text").collect()
    return sorted(row.text for row in rows)


def test_messages_land_in_folders_by_queue_and_day_and_are_acked(
    spark: SparkSession, orders: holdfast.Queue, source: Source, tmp_path: Path
) -> None:
    orders.send(b"one", attributes={"tea": "green"}, priority=5, group="g")
    orders.send_many([b"two", b"three"])
    told = list[running.Batch]()
    plan = Plan([source], str(tmp_path), once=True)
    summary = archive.run(spark, plan, watch=told.append)
    assert (summary.rows, summary.open) == (3, 0)
    assert [(batch.rows, batch.backlog) for batch in told] == [(3, 0)]
    assert orders.stats().total == 0
    rows = spark.read.parquet(str(tmp_path))
    first = rows.where("cast(body AS STRING) = 'one'").collect()[0]
    assert (first.attributes, first.priority, first.group) == ({"tea": "green"}, 5, "g")
    days = {first.sent_at.astimezone(UTC).date() for first in rows.select("sent_at").collect()}
    assert {path.name for path in tmp_path.glob("queue=*/day=*")} == {f"day={day}" for day in days}


@pytest.mark.parametrize("zone", ["Pacific/Kiritimati", "Pacific/Pago_Pago"])
def test_the_day_is_that_of_utc_whatever_the_session_believes(
    spark: SparkSession, zone: str
) -> None:
    other = spark.newSession()
    other.conf.set("spark.sql.session.timeZone", zone)
    moments = "timestamp'2026-01-01 00:00:00Z', timestamp'2026-01-01 23:59:59.999Z'"
    rows = other.sql(f"SELECT explode(array({moments})) AS sent_at")
    found = archive.with_day(rows, "sent_at").select("day").collect()
    assert [row.day for row in found] == [date(2026, 1, 1)] * 2


def test_a_batch_that_failed_half_way_is_written_once_when_started_again(
    spark: SparkSession,
    orders: holdfast.Queue,
    source: Source,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    orders.send_many([f"{n}".encode() for n in range(20)])
    write = archive.write_parquet

    def fail(rows: DataFrame, folder: str) -> None:
        write(rows, folder)
        raise OSError("the disk is full")

    plan = Plan([source], str(tmp_path), once=True)
    with monkeypatch.context() as patched:
        patched.setattr(archive, "write_parquet", fail)
        with pytest.raises(HoldfastError, match="the disk is full") as failure:
            archive.run(spark, plan)
    assert "20 messages stay reserved" in failure.value.__notes__[0]
    assert orders.stats().reserved == 20
    orders.send(b"20")
    # With other options than before: the batch is what it was.
    summary = archive.run(
        spark, Plan([source], str(tmp_path), once=True, options={"fetchSize": "3"})
    )
    assert summary.open == 0
    assert bodies(spark, tmp_path) == sorted(f"{n}" for n in range(21))
    assert orders.stats().total == 0


def test_stopping_acks_what_was_written(
    spark: SparkSession, orders: holdfast.Queue, source: Source, tmp_path: Path
) -> None:
    orders.send_many([b"x"] * 10)
    stop = running.Stop()
    # There will be no second look at the queue, by which the query itself would ack the batch.
    plan = Plan([source], str(tmp_path), every=3600, options={"maxRowsPerTrigger": "4"})
    summary = archive.run(spark, plan, stop=stop, watch=lambda batch: stop.set())
    stats = orders.stats()
    assert (stats.acked, stats.reserved, stats.ready) == (4, 0, 6)
    assert (summary.rows, summary.open) == (4, 0)
    assert summary.sources[0].stopped
    assert len(bodies(spark, tmp_path)) == 4


def test_queues_and_subscriptions_share_a_folder(
    spark: SparkSession, hf: holdfast.Client, orders: holdfast.Queue, source: Source, tmp_path: Path
) -> None:
    topic = hf.topic(f"t-{orders.name}"[:100])
    topic.subscribe("lake")
    topic.publish(b"news")
    orders.send(b"order")
    seat = Source(Place(source.place.url, None, None, topic.name, "lake"))
    summary = archive.run(spark, Plan([source, seat], str(tmp_path), once=True))
    assert [tally.rows for tally in summary.sources] == [1, 1]
    found = spark.read.parquet(str(tmp_path)).select("queue").collect()
    assert {row.queue for row in found} == {orders.name, f"{topic.name}/lake"}
    topic.delete()


def test_a_journal_is_copied_and_nothing_is_taken(
    spark: SparkSession, orders: holdfast.Queue, source: Source, tmp_path: Path
) -> None:
    orders.configure(journal=True)
    orders.send_many([b"x"] * 3)
    journal = Source(source.place, journal=True)
    assert archive.run(spark, Plan([journal], str(tmp_path), once=True)).rows == 3
    assert orders.stats().ready == 3
    assert archive.run(spark, Plan([journal], str(tmp_path), once=True)).rows == 0
    events = spark.read.parquet(str(tmp_path))
    assert [row.event for row in events.select("event").collect()] == ["sent"] * 3
    assert {row.day for row in events.select("day").collect()} <= {date.today(), _utc_today()}
    with pytest.raises(InvalidArgument, match="archive of events"):
        archive.run(spark, Plan([source], str(tmp_path), once=True))


def _utc_today() -> date:
    return datetime.now(UTC).date()


def test_messages_of_a_lost_checkpoint_are_not_forgotten(
    spark: SparkSession, orders: holdfast.Queue, source: Source, tmp_path: Path
) -> None:
    orders.send_many([b"x"] * 3)
    plan = Plan([source], str(tmp_path), once=True)
    archive.run(spark, plan)
    shutil.rmtree(plan.checkpoint_of(source))
    # Nothing was in flight: nothing to worry about.
    assert archive.run(spark, plan).rows == 0
    shutil.rmtree(plan.checkpoint_of(source))
    orders.send(b"in flight")
    orders.reserve("gone", 1, [1])
    with pytest.raises(
        ReservationLost, match=r"1 messages are reserved by gone.*reservations release"
    ):
        archive.run(spark, plan)
    orders.release_reserved("gone")
    assert archive.run(spark, plan).rows == 1


def test_what_cannot_be_archived_is_refused_before_anything_is_taken(
    spark: SparkSession, orders: holdfast.Queue, source: Source, tmp_path: Path
) -> None:
    orders.send(b"x")
    journal = Source(source.place, journal=True)
    for sources, why in (
        ([], "at least one"),
        ([source, source], "named twice"),
        ([source, journal], "different columns"),
    ):
        with pytest.raises(InvalidArgument, match=why):
            archive.run(spark, Plan(sources, str(tmp_path), once=True))
    with pytest.raises(InvalidArgument, match="parquet or delta"):
        archive.run(spark, Plan([source], str(tmp_path), once=True, format="csv"))
    with pytest.raises(Unsupported, match=r"--packages io\.delta"):
        archive.run(spark, Plan([source], str(tmp_path), once=True, format="delta"))
    assert orders.stats().ready == 1
