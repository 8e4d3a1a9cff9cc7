"""A real queue with its journal on: the lives that the report finds are the ones that were lived."""

from __future__ import annotations

from itertools import count
from typing import Any

from pyspark.sql import SparkSession

import holdfast
from holdfast.spark.jobs.report.lives import lives
from holdfast.spark.jobs.report.steps import steps
from tests.clock import Clock

_numbers = count(1)


def _lives(
    spark: SparkSession, url: str, q: holdfast.Queue, clock: Clock
) -> dict[str, dict[str, Any]]:
    journal = spark.read.format("holdfast").option("url", url).option("journal", q.name).load()
    rows = lives(steps(journal), clock.ms).toArrow().to_pylist()
    return {row["id"]: row for row in rows}


def _queue(hf: holdfast.Client, **settings: Any) -> tuple[holdfast.Queue, Clock]:
    q = hf.queue(f"report-{next(_numbers)}")
    q.configure(journal=True, **settings)
    return q, Clock(q)


def _one(q: holdfast.Queue) -> holdfast.Delivery:
    delivery = q.receive()
    assert delivery is not None
    return delivery


def test_every_way_through_a_queue_is_found_in_its_journal(
    spark: SparkSession, hf: holdfast.Client, server_url: str
) -> None:
    q, clock = _queue(hf, lease=30, max_receives=3)
    expected: dict[str, dict[str, Any]] = {}

    plain = q.send(b"plain", priority=4)
    clock.advance(2)
    d = _one(q)
    clock.advance(3)
    q.ack(d)
    expected[plain] = {
        "outcome": "acked",
        "priority": 4,
        "deliveries": 1,
        "time_in_queue_ms": 2000,
        "time_in_hand_ms": 3000,
        "total_ms": 5000,
        "settled_at": clock.now,
    }

    late = q.send(b"late", delay=60)
    clock.advance(61)
    d = _one(q)
    q.ack(d)
    expected[late] = {"outcome": "acked", "delayed_ms": 60_000, "time_in_queue_ms": 1000}

    tried = q.send(b"tried")
    q.nack(_one(q), delay=10, error="boom")
    clock.advance(10)
    _one(q)  # crashes
    clock.advance(31)
    d = _one(q)
    q.release(d)
    clock.advance(1)
    d = _one(q)
    clock.advance(5)
    q.extend(d, 60)
    clock.advance(40)
    q.ack(d)
    expected[tried] = {
        "outcome": "acked",
        "deliveries": 4,
        "retries": 2,
        "nacked": 1,
        "lease_ended": 1,
        "released": 1,
        "delayed_ms": 10_000,
        "time_in_queue_ms": 1000,
        "time_in_hand_ms": (31 + 45) * 1000,
    }

    crashed = q.send(b"crashed to the end")
    for _ in range(3):
        _one(q)
        clock.advance(30)
    q.tend()
    expected[crashed] = {
        "outcome": "dead",
        "dead_reason": "max_receives",
        "deliveries": 3,
        "retries": 2,
        "lease_ended": 3,
        "nacked": 0,
        "settled_at": clock.now,
    }

    nacked = q.send(b"nacked to the end")
    for _ in range(3):
        q.nack(_one(q))
    expected[nacked] = {"outcome": "dead", "nacked": 3, "retries": 2, "lease_ended": 0}

    buried = q.send(b"buried, looked at, redriven, acked")
    q.bury(_one(q), "no such customer")
    q.redrive(ids=[buried])
    clock.advance(4)
    q.ack(_one(q))
    expected[buried] = {
        "outcome": "acked",
        "buried": 1,
        "deaths": 1,
        "dead_reason": "no such customer",
        "redriven": 1,
        "time_in_queue_ms": 4000,
    }

    given_up = q.send(b"buried, acked as a dead letter")
    q.bury(_one(q), "bad")
    looked_at = {d.id: d for d in q.receive_dead(10)}
    others = [d for name, d in looked_at.items() if name != given_up]
    q.release_many(others)
    q.ack(looked_at[given_up])
    expected[given_up] = {"outcome": "acked", "deaths": 1, "dead_reason": "bad", "deliveries": 1}
    expected[crashed]["deaths"] = expected[nacked]["deaths"] = 1  # given back is not dying again

    moved = q.send(b"rescheduled", delay=100)
    q.reschedule(moved, delay=5)
    clock.advance(6)
    q.ack(_one(q))
    expected[moved] = {"outcome": "acked", "delayed_ms": 5000, "time_in_queue_ms": 1000}

    expired = q.send(b"expired", ttl=3)
    clock.advance(4)
    q.tend()
    expected[expired] = {"outcome": "expired", "deliveries": 0, "time_in_queue_ms": 4000}

    removed = q.send(b"removed", delay=1000)
    q.remove(removed)
    expected[removed] = {"outcome": "removed", "settled_at": clock.now}

    held = q.send(b"in hand")
    _one(q)
    expected[held] = {"outcome": "leased", "deliveries": 1}
    waiting, put_off = q.send(b"ready"), q.send(b"delayed", delay=1000)
    expected[waiting] = {"outcome": "ready", "deliveries": 0}
    expected[put_off] = {"outcome": "delayed", "deliveries": 0}

    found = _lives(spark, server_url, q, clock)
    assert found.keys() == expected.keys()
    for name, life in expected.items():
        assert {key: found[name][key] for key in life} == life, name
        assert found[name]["complete"], name

    outcomes = [life["outcome"] for life in found.values()]
    stats = q.stats()
    assert (stats.ready, stats.delayed, stats.leased, stats.dead) == tuple(
        outcomes.count(state) for state in ("ready", "delayed", "leased", "dead")
    )


def test_recovered_deliveries_and_what_gave_way(
    spark: SparkSession, hf: holdfast.Client, server_url: str
) -> None:
    q, clock = _queue(hf, max_length=2, overflow="drop_oldest")
    dropped, recovered, waiting = q.send(b"a"), q.send(b"b"), q.send(b"c")
    assert _one(q).id == recovered
    clock.advance(10)
    (d,) = q.recover(1, elapsed=5)
    q.ack(d)
    found = _lives(spark, server_url, q, clock)
    assert {name: life["outcome"] for name, life in found.items()} == {
        dropped: "dropped",
        recovered: "acked",
        waiting: "ready",
    }
    assert found[recovered]["recovered"] == 1
    assert found[recovered]["deliveries"] == 2
    assert found[recovered]["time_in_hand_ms"] == 10_000


def test_what_was_sent_before_the_journal_is_incomplete(
    spark: SparkSession, hf: holdfast.Client, server_url: str
) -> None:
    q = hf.queue(f"report-{next(_numbers)}")
    clock = Clock(q)
    before = q.send(b"before")
    q.configure(journal=True)
    after = q.send(b"after")
    for d in q.receive_many(2):
        q.ack(d)
    found = _lives(spark, server_url, q, clock)
    assert {name: life["complete"] for name, life in found.items()} == {before: False, after: True}
    assert {life["outcome"] for life in found.values()} == {"acked"}


def test_reservations_are_deliveries_too(
    spark: SparkSession, hf: holdfast.Client, server_url: str
) -> None:
    q, clock = _queue(hf)
    done, condemned, given_back = q.send(b"a"), q.send(b"b"), q.send(b"c")
    q.reserve("reader", 1, [2])
    q.reserve("reader", 2, [1])
    clock.advance(7)
    q.condemn("reader", 1, {condemned: "not JSON"})
    q.commit("reader", 1)
    q.release_reserved("reader", 2)
    q.reserve("another", 1, [1])
    found = _lives(spark, server_url, q, clock)
    assert {name: life["outcome"] for name, life in found.items()} == {
        done: "acked",
        condemned: "dead",
        given_back: "reserved",
    }
    assert all(life["complete"] for life in found.values())
    assert found[done]["time_in_hand_ms"] == 7000
    assert (found[condemned]["dead_reason"], found[condemned]["buried"]) == ("not JSON", 1)
    assert (found[given_back]["released"], found[given_back]["deliveries"]) == (1, 2)
    assert found[given_back]["retries"] == 0
