"""`max_length` counts, per shard, what waits: ready and delayed."""

from __future__ import annotations

from typing import Any

import pytest

from holdfast import Outgoing, Queue, QueueFull, Topic
from tests.clock import Clock
from tests.engine.look import bodies, counts, drain, numbered
from tests.raw import Raw


def test_a_full_queue_refuses_and_stores_nothing_of_the_batch(q: Queue, clock: Clock) -> None:
    q.configure(max_length=3)
    q.send_many([Outgoing(b, group="g") for b in numbered(2)])
    with pytest.raises(QueueFull, match="the queue holds 2 of at most 3 messages"):
        q.send_many([Outgoing(b, group="g") for b in numbered(2)])
    assert counts(q) == (2, 0, 0, 0)
    q.send(b"x", group="g")
    assert counts(q) == (3, 0, 0, 0)


def test_delayed_messages_count(q: Queue, clock: Clock) -> None:
    q.configure(max_length=2)
    q.send_many([Outgoing(b"a", group="g", delay=5), Outgoing(b"b", group="g")])
    with pytest.raises(QueueFull):
        q.send(b"c", group="g")


def test_leased_messages_do_not_count_and_can_always_come_back(q: Queue, clock: Clock) -> None:
    q.configure(max_length=2)
    q.send_many(numbered(2))
    held = q.receive_many(2)
    q.send_many([Outgoing(b, dedup_id="a") for b in numbered(1)])
    assert q.nack_many(held) == held
    assert counts(q) == (3, 0, 0, 0)


def test_duplicates_need_no_room(q: Queue, clock: Clock) -> None:
    q.configure(max_length=1)
    first = q.send(b"a", dedup_id="x")
    assert q.send(b"a", dedup_id="x") == first


def test_a_raised_or_removed_limit_takes_effect_at_once(q: Queue, clock: Clock) -> None:
    q.configure(max_length=1)
    q.send(b"a", group="g")
    with pytest.raises(QueueFull):
        q.send(b"b", group="g")
    q.configure(max_length=None)
    q.send(b"b", group="g")


@pytest.mark.unsharded("the limit holds per shard")
def test_drop_oldest_lets_the_oldest_go(q: Queue, clock: Clock) -> None:
    q.configure(max_length=3, overflow="drop_oldest")
    q.send_many(numbered(3))
    q.send_many(numbered(2, 4))
    assert q.stats().dropped == 2
    assert bodies(drain(q)) == numbered(3, 3)


@pytest.mark.unsharded("the limit holds per shard")
def test_drop_oldest_takes_the_lowest_priority_first(q: Queue, clock: Clock) -> None:
    q.configure(max_length=3, overflow="drop_oldest")
    q.send_many([Outgoing(b"low", priority=1), Outgoing(b"high", priority=9), b"lowest"])
    q.send(b"new", priority=5)
    assert bodies(drain(q)) == [b"high", b"new", b"low"]


@pytest.mark.unsharded("the limit holds per shard")
def test_drop_oldest_refuses_what_could_never_fit(q: Queue, clock: Clock) -> None:
    q.configure(max_length=2, overflow="drop_oldest")
    q.send(b"a")
    with pytest.raises(QueueFull):
        q.send_many(numbered(3))
    assert bodies(drain(q)) == [b"a"]


@pytest.mark.unsharded("the limit holds per shard")
def test_drop_oldest_makes_room_out_of_expired_messages(q: Queue, clock: Clock) -> None:
    q.configure(max_length=2, overflow="drop_oldest", ttl=5)
    q.send_many(numbered(2))
    clock.advance(5)
    q.send(b"new")
    assert bodies(drain(q)) == [b"new"]


@pytest.mark.parametrize("in_flight", [False, True])
def test_drop_oldest_makes_room_out_of_messages_that_wait_behind_their_group(
    q: Queue, clock: Clock, in_flight: bool
) -> None:
    q.configure(max_length=4, overflow="drop_oldest")
    q.send_many([Outgoing(b, group="g") for b in numbered(4)])
    held = q.receive_many(1) if in_flight else []
    q.send_many([Outgoing(b, group="g") for b in numbered(2, 5)])
    assert q.stats().ready == 4
    q.ack_many(held)
    seen = []
    while got := q.receive():
        seen.append(got.body)
        got.ack()
    assert seen == numbered(4, 3)


@pytest.mark.unsharded("the limit holds per shard")
def test_a_dropped_message_frees_its_unique_name(q: Queue, clock: Clock) -> None:
    q.configure(max_length=1, overflow="drop_oldest")
    q.ensure("job", b"a")
    q.send(b"b")
    assert not q.ensure("job", b"c").duplicate


@pytest.mark.unsharded("the limit holds per shard")
@pytest.mark.parametrize("overflow", ["reject", "drop_oldest"])
@pytest.mark.parametrize(
    "where",
    [
        pytest.param([{}, {"ttl": 5}, {}], id="between others"),
        pytest.param([{"group": "g"}, {"group": "g", "ttl": 5}, {}], id="behind its group"),
        pytest.param([{}, {"group": "g", "ttl": 5}, {}], id="first of its group"),
        pytest.param([{}, {"delay": 60, "ttl": 5}, {}], id="delayed"),
        pytest.param([{}, {"priority": 9, "ttl": 5}, {}], id="of another priority"),
        pytest.param([{"ttl": 5}, {}, {}], id="at the head"),
    ],
)
def test_what_has_expired_takes_no_room(
    q: Queue, clock: Clock, overflow: str, where: list[dict[str, Any]]
) -> None:
    q.configure(max_length=3, overflow=overflow)
    for n, said in enumerate(where):
        q.send(b"expired" if "ttl" in said else b"%d" % n, **said)
    clock.advance(5)
    q.send(b"new")
    assert q.stats().expired == 1
    assert q.stats().dropped == 0
    got = bodies(q.receive_many(10))
    assert sorted(got) == sorted([*(b"%d" % n for n in range(3) if "ttl" not in where[n]), b"new"])


@pytest.mark.unsharded("the limit holds per shard")
def test_what_has_expired_takes_no_room_in_a_subscription(topic: Topic, topic_clock: Clock) -> None:
    topic.configure(max_length=2)
    seats = [topic.subscribe("a"), topic.subscribe("b")]
    topic.publish_many([Outgoing(b"expired", ttl=5), b"live"])
    with pytest.raises(QueueFull):
        topic.publish(b"too much")
    topic_clock.advance(5)
    topic.publish(b"new")
    for seat in seats:
        assert bodies(seat.observe(5)) == [b"live", b"new"]


@pytest.mark.unsharded("the limit holds per shard")
def test_drop_oldest_drops_no_more_than_it_must(q: Queue, clock: Clock) -> None:
    q.configure(max_length=6, overflow="drop_oldest")
    sent = [Outgoing(b, ttl=5 if n % 2 else None) for n, b in enumerate(numbered(6))]
    q.send_many(sent)
    clock.advance(5)
    q.send_many([b"x"] * 4)
    assert q.stats().dropped == 1
    assert bodies(drain(q)) == [b"3", b"5", *[b"x"] * 4]


@pytest.mark.unsharded("the limit holds per shard")
@pytest.mark.slow
def test_a_long_queue_is_looked_through_a_piece_at_a_time(q: Queue, clock: Clock) -> None:
    """What expired lies where it is found last: nobody is held for long, and it is found."""
    q.configure(max_length=12_000)
    for start in range(0, 12_000, 1000):
        q.send_many(
            [Outgoing(b"%d" % n, ttl=5 if n == 1500 else 3600) for n in range(start, start + 1000)]
        )
    clock.advance(5)
    refused = 0
    while True:
        try:
            q.send(b"new")
            break
        except QueueFull:
            refused += 1
            assert refused < 5
    assert refused > 0
    assert q.stats().expired == 1


@pytest.mark.only("standalone", reason="counts what one server was asked")
def test_a_full_queue_in_which_nothing_can_have_expired_is_not_looked_through(
    q: Queue, clock: Clock, raw: Raw
) -> None:
    q.configure(max_length=100)
    q.send_many([Outgoing(b, ttl=60) for b in numbered(100)])

    def looks() -> int:
        before = raw.calls().get("lrange", 0)
        with pytest.raises(QueueFull):
            q.send(b"x")
        return raw.calls().get("lrange", 0) - before

    assert looks() > 0
    assert looks() == 0
    held = q.receive_many(2)
    q.send(b"short", ttl=5)
    q.release(held[0])
    assert looks() == 0
    clock.advance(5)
    q.send(b"x")
    assert q.stats().expired == 1


@pytest.mark.unsharded("the limit holds per shard")
def test_a_shorter_ttl_of_the_queue_makes_room_at_once(q: Queue, clock: Clock) -> None:
    q.configure(max_length=2, ttl=60)
    q.send_many(numbered(2))
    clock.advance(5)
    with pytest.raises(QueueFull):
        q.send(b"x")
    q.configure(ttl=5)
    q.send(b"x")
    assert bodies(drain(q)) == [b"x"]
