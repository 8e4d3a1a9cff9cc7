"""From lives and steps to the tables of a report."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import timedelta
from typing import Any

import pytest
from pyspark.sql import DataFrame, SparkSession

from holdfast.spark.jobs.report import metrics, timeline
from holdfast.spark.jobs.report.archive import Extent, extent
from holdfast.spark.jobs.report.lives import lives
from holdfast.spark.jobs.report.steps import steps
from tests.spark.jobs.stories import (
    Said,
    acked,
    dead,
    frame,
    lease_ended,
    moment,
    nacked,
    received,
    sent,
    story,
)

END = 10.0  # seconds after the start, when the last event happens


def _rows() -> Iterator[dict[str, Any]]:
    # 100 messages on "a" that wait 1 … 100 ms and take twice as long in hand.
    for i in range(1, 101):
        said = sent(0), received(i / 1000), acked(3 * i / 1000)
        yield from story("a", *said, id=f"{i}-0", priority=i % 2)
    # On "b": one nacked and crashed, one buried and redriven, one dead, one incomplete, one ready,
    # two removed, one delayed.
    said_1 = (
        sent(1),
        received(2),
        nacked(3, 1, "boom"),
        received(3, 1),
        lease_ended(5, 2),
        received(6, 2),
        acked(7, 2),
    )
    yield from story("b", *said_1, id="1-0")
    redriven = Said("redriven", 4)
    yield from story(
        "b", sent(1), received(2), dead(3, 1, "bad"), redriven, received(5), acked(6), id="2-0"
    )
    yield from story("b", sent(1), received(2), dead(3, 1, "bad"), id="3-0")
    yield from story("b", received(0, 1), acked(9, 1), id="4-0")
    yield from story("b", sent(1), id="5-0")
    yield from story("b", sent(2, due=4), Said("removed", END), id="6-0")
    yield from story("b", sent(2, due=9), Said("removed", 5), id="7-0")
    yield from story("b", sent(END, due=END + 0.4), id="8-0")


class Made:
    def __init__(self, events: DataFrame) -> None:
        self.extent = extent(events)
        self.cut = timeline.buckets(self.extent)
        self.steps = steps(events).persist()
        self.lives = lives(self.steps, self.extent.last_ms).persist()


@pytest.fixture(scope="module")
def made(spark: SparkSession) -> Iterator[Made]:
    found = Made(frame(spark, _rows()))
    yield found
    found.lives.unpersist()
    found.steps.unpersist()


def _by(table: DataFrame, *keys: str) -> dict[Any, dict[str, Any]]:
    rows = table.toArrow().to_pylist()
    found = {tuple(row[k] for k in keys): row for row in rows}
    assert len(found) == len(rows)
    return found


@pytest.mark.slow
def test_outcomes_add_up_to_the_messages(made: Made) -> None:
    table = _by(metrics.queues(made.lives), "queue")
    assert table["a",]["messages"] == table["a",]["acked"] == 100
    b = table["b",]
    assert (b["messages"], b["incomplete"]) == (8, 1)
    assert (b["acked"], b["dead"], b["ready"], b["removed"]) == (3, 1, 1, 2)
    assert (b["deliveries"], b["retries"], b["nacked"], b["lease_ended"]) == (7, 2, 1, 1)
    assert (b["deaths"], b["redriven"], b["buried"]) == (2, 1, 2)


@pytest.mark.slow
def test_percentiles_are_per_queue_per_priority_and_of_all(made: Made) -> None:
    table = _by(metrics.latency(made.lives), "queue", "priority")
    a = table["a", None]
    assert a["messages"] == 100
    waited = [a[f"time_in_queue_{cut}_ms"] for cut in ("p50", "p95", "p99", "max")]
    assert waited == [50, 95, 99, 100]
    assert a["time_in_hand_p95_ms"] == 190
    assert a["total_p95_ms"] == 285
    assert table["a", 0]["time_in_queue_max_ms"] == 100
    assert table["a", 1]["time_in_queue_max_ms"] == 99
    # The incomplete, the removed and the ready one of "b" tell no time.
    assert table["b", None]["messages"] == 3
    assert table[None, None]["messages"] == 103


@pytest.mark.slow
def test_messages_are_counted_by_deliveries(made: Made) -> None:
    table = _by(metrics.attempts(made.lives), "queue", "deliveries")
    assert table["a", 1]["messages"] == 100
    assert {k[1]: row["messages"] for k, row in table.items() if k[0] == "b"} == {1: 2, 2: 1, 3: 1}


@pytest.mark.slow
def test_deliveries_are_counted_by_how_they_ended(made: Made) -> None:
    table = _by(metrics.endings(made.steps), "queue", "ending")
    counts = {k[1]: row["deliveries"] for k, row in table.items() if k[0] == "b"}
    assert counts == {"acked": 3, "nacked": 1, "lease_ended": 1, "buried": 2}


@pytest.mark.slow
def test_failures_keep_the_words_of_the_consumer(made: Made) -> None:
    table = _by(metrics.failures(made.steps), "queue", "ending", "reason")
    assert table["b", "nacked", "boom"]["deliveries"] == 1
    assert table["b", "buried", "bad"]["messages"] == 2


@pytest.mark.slow
def test_dead_letters_tell_deaths_from_those_still_dead(made: Made) -> None:
    table = _by(metrics.dead_letters(made.steps, made.lives), "queue", "reason")
    assert list(table) == [("b", "bad")]
    bad = table["b", "bad"]
    assert (bad["deaths"], bad["still_dead"]) == (2, 1)
    assert bad["first_at"] == bad["last_at"] == moment(3)


@pytest.mark.slow
def test_the_slowest_come_first(made: Made) -> None:
    found = metrics.slowest(made.lives, 3).toArrow().to_pylist()
    assert [(row["queue"], row["id"], row["total_ms"]) for row in found] == [
        ("b", "1-0", 6000),
        ("b", "2-0", 5000),
        ("b", "3-0", 2000),
    ]


# ---- over time ------------------------------------------------------------------------------


@pytest.mark.slow
def test_throughput_has_a_row_for_every_second_also_the_quiet_ones(made: Made) -> None:
    assert made.cut.name == "second"
    table = _by(timeline.throughput(made.steps, made.cut), "queue", "bucket")
    assert len(table) == 2 * 11
    assert table["a", moment(0)]["sent"] == 100
    assert table["a", moment(8)] == {
        "queue": "a",
        "bucket": moment(8),
        **dict.fromkeys(timeline.HAPPENED, 0),
    }
    three = table["b", moment(3)]
    assert (three["requeued"], three["received"], three["dead"]) == (1, 1, 2)


@pytest.mark.slow
def test_backlog_follows_each_message_through_its_states(made: Made) -> None:
    table = _by(timeline.backlog(made.steps, made.cut, made.extent.last_ms), "queue", "bucket")
    seen = [
        tuple(table["b", moment(s)][name] for name in ("ready", "delayed", "in_hand", "dead"))
        for s in range(11)
    ]
    # The incomplete one is in hand from 0 to 9; 5-0 is ready from 1 on; 6-0 is delayed from 2 to 4;
    # 7-0 is delayed from 2 to 5, when it is removed, and never ready; 8-0 falls due
    # within the last second, but after the last event.
    assert seen == [
        (0, 0, 1, 0),
        (4, 0, 1, 0),
        (1, 2, 4, 0),
        (1, 2, 2, 2),
        (3, 1, 2, 1),
        (3, 0, 2, 1),
        (2, 0, 2, 1),
        (2, 0, 1, 1),
        (2, 0, 1, 1),
        (2, 0, 0, 1),
        (1, 1, 0, 1),
    ]
    last = table["a", moment(10)]
    assert (last["ready"], last["in_hand"]) == (0, 0)


@pytest.mark.parametrize(
    ("span", "name"),
    [
        (timedelta(0), "second"),
        (timedelta(minutes=3), "second"),
        (timedelta(minutes=30), "10 seconds"),
        (timedelta(hours=3), "minute"),
        (timedelta(days=1), "10 minutes"),
        (timedelta(days=8), "hour"),
        (timedelta(days=200), "day"),
        (timedelta(days=365 * 200), "365 days"),
    ],
)
def test_buckets_are_as_small_as_there_is_room_for(span: timedelta, name: str) -> None:
    first = round(moment(0.5).timestamp() * 1000)
    cut = timeline.buckets(Extent(2, first, first + round(span.total_seconds() * 1000)))
    assert cut.name == name
    assert cut.first_ms <= first < cut.first_ms + cut.size_ms
    assert (cut.last_ms - cut.first_ms) // cut.size_ms < timeline.MOST
