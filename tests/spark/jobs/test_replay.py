from __future__ import annotations

import secrets
from collections.abc import Sequence
from dataclasses import replace
from datetime import UTC, date, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import SparkSession

import holdfast
from holdfast import InvalidArgument, Queue
from holdfast.spark import schema
from holdfast.spark.jobs import replay
from holdfast.spark.jobs.archive import with_day
from holdfast.spark.jobs.replay import Day, Plan
from holdfast.spark.place import Place

START = datetime(2026, 3, 1, 23, 59, 50, tzinfo=UTC)
Row = tuple[Any, ...]


def message(n: int, queue: str = "orders", **more: Any) -> Row:
    """The n-th message, sent n seconds after the start; as schema.MESSAGES has it."""
    sent = START + timedelta(seconds=n)
    id_ = f"{round(sent.timestamp() * 1000)}-{n}"
    values = {
        "queue": queue,
        "id": id_,
        "body": f"{n}".encode(),
        "attributes": {"even": str(n % 2 == 0).lower()},
        "priority": 0,
        "receives": 1,
        "sent_at": sent,
        "group": None,
    } | more
    return tuple(values[name] for name in schema.MESSAGES.fieldNames())


def archive(spark: SparkSession, folder: Path, rows: Sequence[Row]) -> str:
    df = with_day(spark.createDataFrame(rows, schema.MESSAGES), "sent_at")
    df.repartition(3).write.partitionBy("queue", "day").parquet(str(folder))
    return str(folder)


@pytest.fixture
def q(hf: holdfast.Client) -> Queue:
    return hf.queue(f"again-{secrets.token_hex(4)}")


@pytest.fixture
def orders(spark: SparkSession, tmp_path: Path) -> str:
    return archive(spark, tmp_path / "lake", [message(n) for n in range(20)])


@pytest.fixture
def plan(orders: str, server_url: str, q: Queue) -> Plan:
    return Plan(orders, Place(server_url, None, q.name))


def texts(queue: Queue) -> list[str]:
    return [m.text for m in queue.inspect("ready", 0, 1000)]


def test_messages_are_sent_again_in_their_order_with_all_they_had(
    spark: SparkSession, tmp_path: Path, server_url: str, q: Queue
) -> None:
    rows = [message(n, priority=3, group="g") for n in range(12)]
    # Of one millisecond: the number in the id decides, and it is a number.
    rows += [message(30, id=f"1772409620000-{n}", body=f"{30 + n}".encode()) for n in range(12)]
    path = archive(spark, tmp_path / "lake", list(reversed(rows)))
    summary = replay.run(spark, Plan(path, Place(server_url, None, q.name)))
    assert (summary.read, summary.matched, summary.sent, summary.duplicates) == (24, 24, 24, 0)
    grouped = q.inspect("ready", 0, 100, group="g")
    assert [m.text for m in grouped] == [str(n) for n in range(12)]
    assert {(m.priority, m.group) for m in grouped} == {(3, "g")}
    assert grouped[4].attributes == {"even": "true"}
    plain = [m.text for m in q.inspect("ready", 0, 100) if m.group is None]
    assert plain == [str(n) for n in range(30, 42)]


def test_a_second_run_sends_nothing_twice_whatever_its_filter(
    spark: SparkSession, plan: Plan, q: Queue
) -> None:
    first = replay.run(spark, replace(plan, where="attributes.even = 'true'"))
    assert (first.read, first.matched, first.sent) == (20, 10, 10)
    second = replay.run(spark, plan)
    assert (second.matched, second.sent, second.duplicates) == (20, 10, 10)
    assert sorted(map(int, texts(q))) == list(range(20))


def test_a_filter_may_look_at_the_text_the_day_and_every_column(
    spark: SparkSession, plan: Plan, q: Queue
) -> None:
    where = "CAST(text AS INT) > 5 AND day = DATE'2026-03-02' AND receives = 1 AND queue = 'orders'"
    summary = replay.run(spark, replace(plan, where=where))
    assert texts(q) == [str(n) for n in range(10, 20)]
    assert summary.days == (Day("orders", date(2026, 3, 2), 10),)


def test_a_dry_run_counts_by_queue_and_day_and_sends_nothing(
    spark: SparkSession, tmp_path: Path, server_url: str, q: Queue
) -> None:
    rows = [message(n) for n in range(15)] + [message(n, queue="bills") for n in range(3)]
    path = archive(spark, tmp_path / "lake", rows)
    summary = replay.run(spark, Plan(path, Place(server_url, None, q.name), dry_run=True))
    assert summary.days == (
        Day("bills", date(2026, 3, 1), 3),
        Day("orders", date(2026, 3, 1), 10),
        Day("orders", date(2026, 3, 2), 5),
    )
    assert (summary.matched, summary.sent, summary.dry_run) == (18, 0, True)
    assert q.stats().sent == 0


def test_a_queue_whose_name_looks_like_a_number_keeps_it(
    spark: SparkSession, tmp_path: Path, server_url: str, q: Queue
) -> None:
    path = archive(spark, tmp_path / "lake", [message(1, queue="007")])
    summary = replay.run(
        spark, Plan(path, Place(server_url, None, q.name), where="queue = '007'", dry_run=True)
    )
    assert summary.days == (Day("007", date(2026, 3, 1), 1),)


def test_messages_of_two_queues_with_the_same_id_are_two(
    spark: SparkSession, tmp_path: Path, server_url: str, q: Queue
) -> None:
    long = "q" * 200
    rows = [message(1), message(1, queue="others"), message(1, queue=long)]
    path = archive(spark, tmp_path / "lake", rows)
    assert replay.run(spark, Plan(path, Place(server_url, None, q.name))).sent == 3
    assert replay.run(spark, Plan(path, Place(server_url, None, q.name))).duplicates == 3


def _due(q: Queue) -> list[tuple[str, float]]:
    """Text and delay in seconds, by due time; what is ready has none."""
    found = [(m.text, 0.0) for m in q.inspect("ready", 0, 100)]
    for m in q.inspect("delayed", 0, 100):
        assert m.due
        found.append((m.text, (m.due - m.sent_at).total_seconds()))
    return sorted(found, key=lambda each: each[1])


def test_a_rate_spreads_messages_over_time(spark: SparkSession, plan: Plan, q: Queue) -> None:
    summary = replay.run(spark, replace(plan, rate=0.01, where="CAST(text AS INT) < 4"))
    assert _due(q) == [("0", 0), ("1", 100), ("2", 200), ("3", 300)]
    assert summary.lasts == 300


def test_a_shift_keeps_the_gaps_that_there_were(
    spark: SparkSession, tmp_path: Path, server_url: str, q: Queue
) -> None:
    path = archive(spark, tmp_path / "lake", [message(n) for n in (7, 400, 5000)])
    summary = replay.run(spark, Plan(path, Place(server_url, None, q.name), shift=True))
    assert _due(q) == [("7", 0), ("400", 393), ("5000", 4993)]
    assert summary.lasts == 4993


def test_nothing_that_matches_is_no_error(spark: SparkSession, plan: Plan, q: Queue) -> None:
    summary = replay.run(spark, replace(plan, where="false", shift=True))
    assert (summary.read, summary.matched, summary.sent, summary.days) == (20, 0, 0, ())


@pytest.mark.parametrize(
    ("changes", "says"),
    [
        ({"where": "nonsense = 1"}, r"nonsense.* cannot be resolved"),
        ({"where": "priority ="}, r"[Ss]yntax error"),
        ({"rate": 0}, r"rate must be a number more than 0"),
        ({"rate": 1, "shift": True}, r"a rate sets new gaps, a shift keeps the old ones"),
        ({"path": "/nowhere/at/all"}, r"there is no archive at /nowhere/at/all"),
    ],
)
def test_what_cannot_be_is_refused_in_one_line(
    spark: SparkSession, plan: Plan, q: Queue, changes: dict[str, Any], says: str
) -> None:
    with pytest.raises(InvalidArgument, match=says) as refused:
        replay.run(spark, replace(plan, **changes))
    assert "\n" not in str(refused.value)
    assert "stacktrace" not in str(refused.value)
    assert q.stats().sent == 0


def test_a_folder_that_is_no_archive_of_messages_is_refused(
    spark: SparkSession, plan: Plan, tmp_path: Path
) -> None:
    (tmp_path / "lake" / "_landing").mkdir()
    (tmp_path / "lake" / "_landing" / "events").touch()
    with pytest.raises(InvalidArgument, match="is an archive of events"):
        replay.run(spark, plan)
    (tmp_path / "other").mkdir()
    with pytest.raises(InvalidArgument, match="is no archive: it has no folders queue="):
        replay.run(spark, replace(plan, path=str(tmp_path / "other")))


def test_a_queue_that_keeps_no_dedup_ids_is_refused(
    spark: SparkSession, plan: Plan, q: Queue
) -> None:
    q.configure(dedup_window=0)
    with pytest.raises(InvalidArgument, match="its dedup_window is 0"):
        replay.run(spark, plan)
    assert q.stats().sent == 0
