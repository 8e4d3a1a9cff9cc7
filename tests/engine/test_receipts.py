"""A receipt names one delivery for ever, whatever happens to the queue."""

from __future__ import annotations

import pytest

from holdfast import Queue, Topic
from tests.clock import Clock
from tests.engine.look import counts, numbered
from tests.engine.settling import SETTLE
from tests.raw import Raw, key


@pytest.mark.parametrize("how", SETTLE)
def test_a_whole_batch_of_a_deleted_queue_settles_nothing_of_the_next_one(
    q: Queue, how: str
) -> None:
    q.send_many(numbered(10))
    old = q.receive_many(10)
    q.delete()
    q.send_many(numbered(10))
    current = q.receive_many(10)
    assert SETTLE[how](q, old) == []
    assert q.ack_many(current) == current


@pytest.mark.parametrize("how", SETTLE)
def test_a_whole_batch_of_a_subscription_settles_nothing_of_the_one_that_follows_it(
    topic: Topic, how: str
) -> None:
    topic.subscribe("c")
    topic.publish_many(numbered(10))
    old = topic.observe("c", 10)
    topic.subscribe("other")
    topic.unsubscribe("c")
    seat = topic.subscribe("c")
    topic.publish_many(numbered(10))
    current = topic.observe("c", 10)
    assert SETTLE[how](seat, old) == []
    assert seat.ack_many(current) == current


@pytest.mark.unsharded("exact numbers")
def test_a_queue_that_is_deleted_goes_on_counting_where_the_clock_is_behind(
    q: Queue, raw: Raw
) -> None:
    """As if more batches had been given than fit into the time, or the clock had stepped back."""
    q.send_many(numbered(3))
    ahead = q.receive_many(3)[0].batch.number + 64 * 60_000
    raw.set_last_batch(q, ahead)
    q.delete()
    assert 0 < raw("PTTL", key(q, "last_numbers")) <= 61_000
    q.send_many(numbered(3))
    assert q.receive_many(3)[0].batch.number == ahead + 1


@pytest.mark.unsharded("ids of one shard")
def test_a_queue_deleted_and_used_within_a_millisecond_gives_no_id_twice(q: Queue) -> None:
    seen: set[str] = set()
    for _ in range(20):
        sent = q.send(b"x")
        assert sent not in seen
        seen.add(sent)
        q.delete()


@pytest.mark.unsharded("each shard has numbers of its own")
def test_batches_of_one_millisecond_have_different_numbers(q: Queue, clock: Clock) -> None:
    q.send_many(numbered(300))
    numbers = [d.batch.number for d in (q.receive() for _ in range(300)) if d]
    assert numbers == sorted(set(numbers))
    assert counts(q) == (0, 0, 300, 0)


@pytest.mark.unsharded("exact numbers")
def test_a_large_receive_has_consecutive_batches(q: Queue) -> None:
    q.send_many(numbered(2500))
    held = q.receive_many(2500)
    first = held[0].batch.number
    assert [d.batch.number - first for d in held] == [i // 1000 for i in range(2500)]
    assert len(q.ack_many(held)) == 2500
