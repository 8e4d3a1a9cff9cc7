"""From events to lives: each rule by a story whose answer is known, and many stories made up at random."""

from __future__ import annotations

from typing import Any

import pytest
from pyspark.sql import SparkSession

from holdfast.spark.jobs.report.lives import lives
from holdfast.spark.jobs.report.steps import steps
from tests.spark.jobs.random_stories import tell
from tests.spark.jobs.stories import (
    START,
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

NOW = 1000.0  # when the archive ends, in seconds from the start


STORIES: dict[str, tuple[list[Said], dict[str, Any]]] = {
    "sent, received, acked": (
        [sent(0), received(2), acked(5)],
        {
            "outcome": "acked",
            "complete": True,
            "sent_at": moment(0),
            "first_ready_at": moment(0),
            "first_received_at": moment(2),
            "settled_at": moment(5),
            "deliveries": 1,
            "retries": 0,
            "deaths": 0,
            "dead_reason": None,
            "redriven": 0,
            "delayed_ms": 0,
            "time_in_queue_ms": 2000,
            "time_in_hand_ms": 3000,
            "total_ms": 5000,
        },
    ),
    "a delayed message does not wait until it is due": (
        [sent(0, due=10), received(12), acked(13)],
        {
            "delayed_ms": 10_000,
            "time_in_queue_ms": 2000,
            "first_ready_at": moment(10),
            "total_ms": 3000,
        },
    ),
    "rescheduled to later": (
        [sent(0, due=10), Said("rescheduled", 5, due=20), received(21), acked(22)],
        {
            "delayed_ms": 20_000,
            "time_in_queue_ms": 1000,
            "first_ready_at": moment(20),
            "total_ms": 2000,
            "complete": True,
        },
    ),
    "rescheduled to now": (
        [sent(0, due=100), Said("rescheduled", 5), received(6), acked(7)],
        {"delayed_ms": 5000, "time_in_queue_ms": 1000, "first_ready_at": moment(5)},
    ),
    "two deliveries add up": (
        [sent(0), received(1), nacked(3, 1), received(7, 1), acked(12, 1)],
        {
            "deliveries": 2,
            "retries": 1,
            "nacked": 1,
            "time_in_queue_ms": 1000 + 4000,
            "time_in_hand_ms": 2000 + 5000,
            "total_ms": 12_000,
        },
    ),
    "the delay before another try is not waiting": (
        [sent(0), received(1), nacked(2, 1, due=60), received(61, 1), acked(62, 1)],
        {"delayed_ms": 58_000, "time_in_queue_ms": 2000, "total_ms": 62_000},
    ),
    "every way to come back": (
        [
            sent(0),
            received(1),
            nacked(2, 1, error=""),
            received(3, 1),
            lease_ended(33, 2),
            received(34, 2),
            Said("requeued", 36, 2),  # released: not a failure
            received(37, 2),
            Said("requeued", 39, 3, reason="recovered"),
            received(39, 3),
            acked(40, 3),
        ],
        {
            "deliveries": 5,
            "retries": 3,
            "nacked": 1,
            "lease_ended": 1,
            "recovered": 1,
            "released": 1,
            "buried": 0,
            "complete": True,
        },
    ),
    "a release with a text of its own is still a release": (
        [sent(0), received(1), Said("requeued", 2, 0, reason="shutting down"), received(3)],
        {"released": 1, "nacked": 0, "retries": 0, "outcome": "leased"},
    ),
    "buried": (
        [sent(0), received(1), dead(4, 1, "no such customer")],
        {
            "outcome": "dead",
            "dead_reason": "no such customer",
            "buried": 1,
            "deaths": 1,
            "retries": 0,
            "settled_at": moment(4),
            "time_in_hand_ms": 3000,
        },
    ),
    "the last try was nacked": (
        [sent(0), received(1), dead(4, 1)],
        {"outcome": "dead", "dead_reason": "max_receives", "nacked": 1, "lease_ended": 0},
    ),
    "the last try ran out of its lease": (
        [sent(0), received(1), dead(31, 1)],
        {"outcome": "dead", "dead_reason": "max_receives", "nacked": 0, "lease_ended": 1},
    ),
    "an extended lease ends later": (
        [sent(0), received(1), Said("extended", 20, lease=30), dead(40, 1)],
        {"nacked": 1, "lease_ended": 0, "time_in_hand_ms": 39_000, "complete": True},
    ),
    "a lease without an end cannot run out": (
        [sent(0), received(1), lease_ended(31, 1), received(32, 1, lease=None), dead(999, 2)],
        {"nacked": 1, "lease_ended": 1},
    ),
    "dead, redriven, acked": (
        [sent(0), received(1), dead(2, 1), Said("redriven", 100), received(103), acked(104)],
        {
            "outcome": "acked",
            "deaths": 1,
            "dead_reason": "max_receives",
            "redriven": 1,
            "settled_at": moment(104),
            "time_in_queue_ms": 1000 + 3000,
            "time_in_hand_ms": 1000 + 1000,
            "total_ms": 104_000,
            "complete": True,
        },
    ),
    "redriven at a rate": (
        [sent(0), received(1), dead(2, 1), Said("redriven", 10, due=15), received(15), acked(16)],
        {"delayed_ms": 5000, "time_in_queue_ms": 1000},
    ),
    "died twice, of different things": (
        [sent(0), received(1), dead(2, 1, "a"), Said("redriven", 3), received(4), dead(5, 1, "b")],
        {"deaths": 2, "dead_reason": "b", "buried": 2, "settled_at": moment(5)},
    ),
    "a dead letter looked at and given back died once": (
        [
            sent(0),
            received(1),
            dead(2, 1, "bad"),
            Said("dead_received", 10, 1, lease=30),
            Said("dead", 20, 1, reason="returned"),
        ],
        {
            "outcome": "dead",
            "deaths": 1,
            "dead_reason": "bad",
            "settled_at": moment(2),
            "deliveries": 1,
            "time_in_hand_ms": 1000,
            "complete": True,
        },
    ),
    "a dead letter in hand is dead": (
        [sent(0), received(1), dead(2, 1, "bad"), Said("dead_received", 10, 1, lease=30)],
        {"outcome": "dead", "settled_at": moment(2)},
    ),
    "a dead letter that is acked is acked": (
        [sent(0), received(1), dead(2, 1), Said("dead_received", 10, 1, lease=30), acked(12, 1)],
        {"outcome": "acked", "deaths": 1, "settled_at": moment(12), "complete": True},
    ),
    "buried with the engine's word for something else": (
        [sent(0), received(1), dead(2, 1, "returned")],
        {"deaths": 1, "dead_reason": "returned", "buried": 1},
    ),
    "expired before anybody came": (
        [sent(0), Said("expired", 60)],
        {
            "outcome": "expired",
            "deliveries": 0,
            "settled_at": moment(60),
            "time_in_queue_ms": 60_000,
            "total_ms": None,
        },
    ),
    "dropped to make room": (
        [sent(0), Said("dropped", 7)],
        {"outcome": "dropped", "settled_at": moment(7), "time_in_queue_ms": 7000},
    ),
    "removed while delayed": (
        [sent(0, due=100), Said("removed", 10)],
        {"outcome": "removed", "delayed_ms": 10_000, "time_in_queue_ms": 0, "complete": True},
    ),
    "removed while leased": (
        [sent(0), received(1), Said("removed", 4)],
        {"outcome": "removed", "time_in_hand_ms": 3000, "complete": True},
    ),
    "still ready": ([sent(0)], {"outcome": "ready", "settled_at": None, "complete": True}),
    "still delayed": ([sent(0, due=NOW + 1)], {"outcome": "delayed", "settled_at": None}),
    "due by the end of the archive": ([sent(0, due=NOW)], {"outcome": "ready"}),
    "still leased": (
        [sent(0), received(3)],
        {"outcome": "leased", "time_in_hand_ms": 0, "time_in_queue_ms": 3000},
    ),
    "reserved by a Spark batch": (
        [sent(0), Said("received", 3, reason="reserved")],
        {"outcome": "reserved", "deliveries": 1},
    ),
    "reserved and committed": (
        [sent(0), Said("received", 3, reason="reserved"), acked(9)],
        {"outcome": "acked", "time_in_hand_ms": 6000, "complete": True},
    ),
    "reserved and released": (
        [sent(0), Said("received", 3, reason="reserved"), Said("requeued", 9), received(10)],
        {"outcome": "leased", "released": 1, "retries": 0, "complete": True},
    ),
    "condemned in a reservation": (
        [sent(0), Said("received", 3, reason="reserved"), dead(9, 1, "not JSON")],
        {"outcome": "dead", "dead_reason": "not JSON", "buried": 1, "complete": True},
    ),
    "the journal was not on when it was sent": (
        [received(1, 2), acked(5, 2)],
        {
            "complete": False,
            "sent_at": None,
            "first_ready_at": None,
            "outcome": "acked",
            "deliveries": 1,
            "time_in_hand_ms": 4000,
            "total_ms": None,
        },
    ),
    "all that is left is its end": (
        [acked(5)],
        {"complete": False, "outcome": "acked", "deliveries": 0, "settled_at": moment(5)},
    ),
    "the journal was off in between": (
        [sent(0), acked(50)],
        {"complete": False, "outcome": "acked", "total_ms": None},
    ),
    "its first known event is a retry": (
        [Said("requeued", 1, 2, reason=""), received(2, 2), acked(3, 2)],
        {"complete": False, "nacked": 1, "retries": 1},
    ),
    "all in one millisecond": (
        [sent(0), received(0), nacked(0, 1), received(0, 1), acked(0, 1)],
        {"outcome": "acked", "deliveries": 2, "retries": 1, "complete": True, "total_ms": 0},
    ),
    "entries count, not times: the clock stepped back": (
        [sent(10), received(5), acked(7)],
        {"outcome": "acked", "complete": True, "time_in_queue_ms": 0, "time_in_hand_ms": 2000},
    ),
    "entries are numbers, not text": (
        [
            Said("sent", 0, entry="999-10"),
            Said("received", 0, entry="1000-9"),
            Said("acked", 0, entry="1000-10"),
        ],
        {"outcome": "acked", "complete": True},
    ),
    "the same note": (
        [
            Said("sent", 0, entry="5-0", position=3),
            Said("received", 0, entry="5-0", position=20),
            Said("acked", 0, entry="5-0", position=100),
        ],
        {"outcome": "acked", "complete": True},
    ),
    "an event of a later version is passed over": (
        [sent(0), Said("event-13", 1), received(2), acked(3)],
        {"outcome": "acked", "complete": True, "time_in_queue_ms": 2000},
    ),
}


def _lives(
    spark: SparkSession, rows: list[dict[str, Any]]
) -> dict[tuple[str, str], dict[str, Any]]:
    now_ms = round((START.timestamp() + NOW) * 1000)
    found = lives(steps(frame(spark, rows)), now_ms).toArrow().to_pylist()
    assert len(found) == len({(row["queue"], row["id"]) for row in found})
    return {(row["queue"], row["id"]): row for row in found}


@pytest.fixture(scope="module")
def told(spark: SparkSession) -> dict[str, dict[str, Any]]:
    """All stories in one run, each on a queue of its own; and each event twice, in disorder."""
    rows = [row for queue, (said, _) in STORIES.items() for row in story(queue, *said)]
    found = _lives(spark, [*reversed(rows), *rows])
    return {queue: life for (queue, _), life in found.items()}


@pytest.mark.parametrize("name", STORIES)
@pytest.mark.slow
def test_a_life_is_as_told(told: dict[str, dict[str, Any]], name: str) -> None:
    expected = STORIES[name][1]
    assert {key: told[name][key] for key in expected} == expected


def test_ids_shared_by_subscriptions_are_different_messages(spark: SparkSession) -> None:
    found = _lives(
        spark,
        [*story("prices/a", sent(0), received(1), acked(2)), *story("prices/b", sent(0))],
    )
    assert {queue: life["outcome"] for (queue, _), life in found.items()} == {
        "prices/a": "acked",
        "prices/b": "ready",
    }


def test_random_stories_are_told_back(spark: SparkSession) -> None:
    rows, expected = tell(messages=400, seed=7)
    found = _lives(spark, rows)
    assert found.keys() == expected.keys()
    for key, life in expected.items():
        assert {name: found[key][name] for name in life} == life, key
