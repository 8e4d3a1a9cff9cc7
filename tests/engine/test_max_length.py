"""`max_length` counts, per shard, what waits: ready and delayed."""

from __future__ import annotations

import pytest

from holdfast import Outgoing, Queue, QueueFull
from tests.clock import Clock
from tests.engine.look import bodies, counts, drain, numbered


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
