from __future__ import annotations

import secrets
from dataclasses import replace
from typing import Any

import pytest
from pyspark.sql import SparkSession

import holdfast
from holdfast import InvalidArgument, Outgoing, Queue, Subscription
from holdfast.spark.jobs import redrive, running
from holdfast.spark.jobs.redrive import Plan
from holdfast.spark.place import Place
from tests.clock import Clock


@pytest.fixture
def q(hf: holdfast.Client) -> Queue:
    return hf.queue(f"q{secrets.token_hex(4)}")


@pytest.fixture
def clock(q: Queue) -> Clock:
    return Clock(q)


@pytest.fixture
def plan(server_url: str, q: Queue) -> Plan:
    return Plan(Place(server_url, None, q.name))


def bury(q: Queue, clock: Clock, *numbers: int) -> None:
    """Dead letters, one a second, in the order of `numbers`; thirds of them died of heat."""
    low = min(numbers)
    q.send_many(
        [
            Outgoing(f"{n}", attributes={"kind": "ab"[n % 2]} if n % 5 else None)
            for n in range(low, low + len(numbers))
        ]
    )
    held = {int(d.text): d for d in q.receive_many(len(numbers))}
    for n in numbers:
        clock.advance(1)
        held[n].bury("heat" if n % 3 == 0 else "cold")


def test_dead_letters_are_grouped_by_reason_and_attributes(
    spark: SparkSession, q: Queue, clock: Clock, plan: Plan
) -> None:
    bury(q, clock, *range(1, 11))
    by = ("reason", "attributes.kind", "length(text) > 1")
    summary = redrive.run(spark, replace(plan, by=by, dry_run=True))
    found = {group.by: group.dead for group in summary.groups}
    assert found == {
        ("cold", "a", "false"): 3,
        ("cold", "b", "false"): 2,
        ("heat", "b", "false"): 2,
        ("heat", "a", "false"): 1,
        ("cold", None, "false"): 1,
        ("cold", None, "true"): 1,
    }
    assert [group.dead for group in summary.groups] == [3, 2, 2, 1, 1, 1]
    first = next(group for group in summary.groups if group.by[:2] == ("heat", "b"))
    deaths = {m.text: m.death.at for m in q.inspect("dead") if m.death}
    assert (first.first, first.last) == (deaths["3"], deaths["9"])
    assert (summary.dead, summary.picked, summary.moved) == (10, 10, 0)
    assert q.stats().dead == 10


def test_those_that_sql_picks_are_moved_in_the_order_in_which_they_died(
    spark: SparkSession, q: Queue, clock: Clock, plan: Plan
) -> None:
    bury(q, clock, 7, 3, 9, 1, 8, 6, 2, 4, 5)
    where = "reason = 'heat' OR CAST(text AS INT) > 7"
    summary = redrive.run(spark, replace(plan, where=where))
    assert (summary.dead, summary.picked, summary.moved) == (9, 4, 4)
    assert [(m.text, m.receives) for m in q.inspect("ready")] == [
        ("3", 0),
        ("9", 0),
        ("8", 0),
        ("6", 0),
    ]
    assert sorted(m.text for m in q.inspect("dead")) == ["1", "2", "4", "5", "7"]


def test_a_condition_that_is_null_picks_nothing(
    spark: SparkSession, q: Queue, clock: Clock, plan: Plan
) -> None:
    bury(q, clock, 4, 5, 6)
    summary = redrive.run(spark, replace(plan, where="attributes.kind != 'a'"))
    assert (summary.dead, summary.picked, summary.moved) == (3, 0, 0)


def test_letters_of_one_moment_are_moved_as_they_were_sent(
    spark: SparkSession, q: Queue, clock: Clock, plan: Plan
) -> None:
    q.send_many([str(n) for n in range(25)])
    for delivery in q.receive_many(25):
        delivery.bury("x")
    redrive.run(spark, plan)
    assert [m.text for m in q.inspect("ready", 0, 100)] == [str(n) for n in range(25)]


def test_a_rate_lets_them_fall_due_one_by_one_over_all_shards(
    spark: SparkSession, q: Queue, plan: Plan, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(redrive, "_CALL", 4)
    q.configure(shards=3)
    clock = Clock(q)
    q.send_many([Outgoing(str(n), group=f"g{n}") for n in range(10)])
    while some := q.receive_many(10):
        for delivery in some:
            clock.advance(1)
            delivery.bury("x")
    assert len({m.shard for m in q.inspect("dead")}) == 3
    summary = redrive.run(spark, replace(plan, rate=0.1))
    due = [(m.due - clock.now).total_seconds() for m in q.inspect("delayed") if m.due]
    assert sorted(due) == [10 * n for n in range(1, 10)]
    assert q.stats().ready == 1
    assert (summary.moved, summary.lasts) == (10, 90)


def test_many_are_moved_in_few_calls(
    spark: SparkSession, q: Queue, clock: Clock, plan: Plan
) -> None:
    q.send_many([b"%d" % n for n in range(2500)])
    for delivery in q.receive_many(2500):
        delivery.bury("x")
    summary = redrive.run(spark, plan)
    assert (summary.picked, summary.moved) == (2500, 2500)
    assert [m.text for m in q.inspect("ready", 0, 5000)] == [str(n) for n in range(2500)]


def test_it_stops_between_two_calls(
    spark: SparkSession, q: Queue, clock: Clock, plan: Plan
) -> None:
    bury(q, clock, 1, 2, 3)
    stop = running.Stop()
    stop.set()
    summary = redrive.run(spark, plan, stop=stop)
    assert (summary.picked, summary.moved, summary.stopped) == (3, 0, True)
    assert q.stats().dead == 3


def test_letters_that_are_dead_no_longer_are_left_out(
    server_url: str, q: Queue, clock: Clock
) -> None:
    bury(q, clock, 1, 2, 3)
    ids = [m.id for m in q.inspect("dead")]
    q.redrive(ids=ids[1:2])
    assert redrive.move(Place(server_url, None, q.name), ids, 0, running.Stop()) == 2


def test_a_subscription_has_dead_letters_too(
    spark: SparkSession, server_url: str, hf: holdfast.Client
) -> None:
    topic = hf.topic(f"t{secrets.token_hex(4)}")
    one, other = topic.subscribe("one"), topic.subscribe("other")
    topic.publish(b"x")

    def die(subscription: Subscription) -> None:
        for delivery in subscription.observe():
            delivery.bury("x")

    die(one)
    die(other)
    place = Place(server_url, None, None, topic.name, "one")
    assert redrive.run(spark, Plan(place)).moved == 1
    assert (one.stats().ready, other.stats().dead) == (1, 1)


@pytest.mark.parametrize(
    ("changes", "says"),
    [
        ({"where": "nonsense = 1"}, r"nonsense.* cannot be resolved"),
        ({"where": "reason ="}, r"[Ss]yntax error"),
        ({"where": "reason"}, r"boolean|BOOLEAN"),
        ({"by": ("nonsense",)}, r"nonsense.* cannot be resolved"),
        ({"by": ()}, r"at least one thing to group by"),
        ({"rate": -1}, r"rate must be a number more than 0"),
    ],
)
def test_what_cannot_be_is_refused_before_anything_moves(
    spark: SparkSession,
    q: Queue,
    clock: Clock,
    plan: Plan,
    changes: dict[str, Any],
    says: str,
) -> None:
    bury(q, clock, 1, 2)
    with pytest.raises(InvalidArgument, match=says) as refused:
        redrive.run(spark, replace(plan, **changes))
    assert "\n" not in str(refused.value)
    assert q.stats().dead == 2
