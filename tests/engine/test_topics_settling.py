"""A subscription keeps every promise of a queue, also for a body that it shares with others."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from holdfast import Outgoing, Subscription, Topic
from tests.clock import Clock
from tests.engine.look import assert_each_in_one_state, bodies, counts, drain, numbered, states
from tests.engine.seats import assert_nothing_left, shared_bodies, take_all, topic_key
from tests.raw import Raw

Pair = tuple[Subscription, Subscription]


@pytest.fixture
def pair(topic: Topic, topic_clock: Clock) -> Pair:
    """Two subscriptions that share every body."""
    return topic.subscribe("one"), topic.subscribe("other", mode="shared")


def test_an_ack_is_one_subscriptions_own(topic: Topic, pair: Pair, raw: Raw) -> None:
    topic.publish(b"x")
    one, other = pair
    [d] = one.observe()
    d.ack()
    assert shared_bodies(topic, raw) == 1
    assert bodies(other.inspect("ready")) == [b"x"]
    assert take_all(other) == [b"x"]
    assert_nothing_left(topic, raw)


@pytest.mark.parametrize("count", [1, 3, 20, 1500])
def test_whole_batches_parts_and_single_acks_leave_nothing(
    topic: Topic, pair: Pair, raw: Raw, count: int
) -> None:
    one, other = pair
    topic.publish_many(numbered(count))
    held = drain(one)
    for d in held[: len(held) // 3]:
        d.ack()
    one.ack_many(held[len(held) // 3 :])
    assert shared_bodies(topic, raw) == count
    other.ack_many(drain(other))
    assert_nothing_left(topic, raw)


def test_a_nacked_message_comes_back_to_that_subscription_alone(topic: Topic, pair: Pair) -> None:
    one, other = pair
    topic.publish(b"x")
    [d] = one.observe()
    d.nack()
    [again] = one.observe()
    assert (again.body, again.receives) == (b"x", 2)
    [first] = other.observe()
    assert first.receives == 1


def test_a_retry_may_be_delayed(topic: Topic, pair: Pair, topic_clock: Clock) -> None:
    one, _ = pair
    topic.publish(b"x")
    [d] = one.observe()
    d.nack(delay=5)
    assert one.observe() == []
    [waiting] = one.inspect("delayed")
    assert waiting.body == b"x"
    topic_clock.advance(5)
    assert bodies(one.observe()) == [b"x"]


def test_a_lease_can_be_extended(topic: Topic, pair: Pair, topic_clock: Clock) -> None:
    one, _ = pair
    topic.publish(b"x")
    [d] = one.observe(lease=5)
    d.extend(60)
    topic_clock.advance(30)
    assert one.observe() == []
    d.ack()
    assert one.stats().total == 0


def test_dead_letters_keep_their_body_and_can_be_redriven(
    topic: Topic, pair: Pair, raw: Raw
) -> None:
    one, other = pair
    topic.configure(max_receives=1)
    ids = topic.publish_many(numbered(3))
    one.nack_many(one.observe(3))
    assert counts(one) == (0, 0, 0, 3)
    assert take_all(other) == numbered(3)
    assert shared_bodies(topic, raw) == 3
    assert bodies(one.inspect("dead")) == numbered(3)
    [letter] = one.receive_dead()
    assert letter.body == b"1"
    letter.ack()
    assert one.redrive() == ids[1:]
    assert take_all(one) == numbered(2, 2)
    assert_nothing_left(topic, raw)


def test_a_buried_one_tells_why_and_has_its_body(topic: Topic, pair: Pair) -> None:
    one, _ = pair
    topic.publish(b"x", attributes={"k": "v"})
    [d] = one.observe()
    d.bury("bad")
    found = one.get(d.id)
    assert found is not None
    assert found.death is not None
    assert (found.body, found.attributes, found.death.reason) == (b"x", {"k": "v"}, "bad")


def test_recover_takes_over_what_somebody_holds(
    topic: Topic, pair: Pair, topic_clock: Clock
) -> None:
    one, _ = pair
    topic.publish_many(numbered(2))
    one.observe(2, lease=600)
    topic_clock.advance(60)
    assert bodies(one.recover(10, elapsed=60)) == numbered(2)


@pytest.mark.parametrize("state", ["ready", "delayed", "leased", "dead"])
def test_purging_any_state_frees_the_bodies(topic: Topic, pair: Pair, raw: Raw, state: str) -> None:
    one, other = pair
    topic.publish_many(
        [Outgoing(b, delay=9 if state == "delayed" else None) for b in numbered(1200)]
    )
    if state in ("leased", "dead"):
        held = one.observe(1200)
        if state == "dead":
            one.bury_many(held, "bad")
    one.purge(state)  # type: ignore[arg-type]
    assert counts(one) == (0, 0, 0, 0)
    assert shared_bodies(topic, raw) == 1200
    other.purge()
    assert_nothing_left(topic, raw)


@pytest.mark.parametrize("state", ["ready", "delayed", "leased", "dead"])
def test_one_message_can_be_looked_at_and_removed_in_any_state(
    topic: Topic, pair: Pair, raw: Raw, state: str
) -> None:
    one, other = pair
    mid = topic.publish(b"x", delay=9 if state == "delayed" else None)
    if state in ("leased", "dead"):
        [d] = one.observe()
        if state == "dead":
            d.bury("bad")
    found = one.get(mid)
    assert found is not None
    assert (found.state, found.body) == (state, b"x")
    assert [m.body for m in one.inspect(state)] == [b"x"]  # type: ignore[arg-type]
    assert one.remove(mid)
    assert one.get(mid) is None
    assert shared_bodies(topic, raw) == 1
    assert other.remove(mid)
    assert shared_bodies(topic, raw) == 0


def test_a_delayed_one_can_be_rescheduled(topic: Topic, pair: Pair, topic_clock: Clock) -> None:
    one, other = pair
    mid = topic.publish(b"x", delay=99)
    assert one.reschedule(mid, delay=0)
    assert bodies(one.observe()) == [b"x"]
    assert other.observe() == []


def test_expired_messages_free_their_bodies(
    topic: Topic, pair: Pair, topic_clock: Clock, raw: Raw
) -> None:
    topic.publish_many([Outgoing(b, ttl=5) for b in numbered(20)])
    topic_clock.advance(5)
    for seat in pair:
        assert seat.observe() == []
        assert seat.stats().expired == 20
    assert_nothing_left(topic, raw)


def test_a_group_is_strict_in_each_subscription(topic: Topic, pair: Pair) -> None:
    topic.publish_many([Outgoing(b, group="g") for b in numbered(3)] + [Outgoing(b"free")])
    for seat in pair:
        assert sorted(bodies(seat.observe(10))) == [b"1", b"free"]
    one, other = pair
    [held] = [d for d in one.inspect("leased") if d.group]
    one.ack(held.id)
    assert bodies(one.observe(10)) == [b"2"]
    assert other.observe(10) == []


def test_groups_leave_nothing(topic: Topic, pair: Pair, raw: Raw) -> None:
    topic.publish_many([Outgoing(b, group=f"g{n % 3}") for n, b in enumerate(numbered(30))])
    for seat in pair:
        while got := drain(seat):
            seat.ack_many(got)
    assert_nothing_left(topic, raw)


def test_settings_with_aging_deliver_the_bodies_too(
    topic: Topic, pair: Pair, topic_clock: Clock
) -> None:
    topic.configure(aging=10)
    topic.publish_many([Outgoing(b"low"), Outgoing(b"high", priority=2)])
    assert take_all(pair[0]) == [b"high", b"low"]


def test_events_tell_the_size_of_a_body_that_lies_elsewhere(topic: Topic, pair: Pair) -> None:
    one, _ = pair
    one.configure(journal=True)
    topic.publish(b"x" * 500)
    take_all(one)
    found = [(event.kind, event.size) for event in one.journal()]
    assert [kind for kind, _ in found] == ["sent", "received", "acked"]
    assert all(size >= 500 for _, size in found)
    assert len({size for _, size in found}) == 1


def test_events_of_a_topic_tell_what_was_published(topic: Topic, pair: Pair) -> None:
    topic.configure(journal=True)
    mid = topic.publish(b"x" * 500)
    assert [(e.kind, e.id) for e in topic.journal()] == [("sent", mid)]


def test_a_body_that_was_damaged_goes_to_the_dead_letters(
    topic: Topic, pair: Pair, raw: Raw
) -> None:
    topic.publish(b"hello")
    where = topic_key(topic, "bodies")
    [field] = raw("HKEYS", where)
    raw("HSET", where, field, raw("HGET", where, field)[:-1] + b"!")
    one, _ = pair
    assert one.observe() == []
    [letter] = one.inspect("dead")
    assert letter.death is not None
    assert "checksum" in letter.death.reason


def test_a_body_that_is_missing_is_a_dead_letter_and_not_an_empty_message(
    topic: Topic, pair: Pair, raw: Raw
) -> None:
    topic.publish(b"hello")
    raw("DEL", topic_key(topic, "bodies"))
    one, _ = pair
    assert one.observe() == []
    assert counts(one) == (0, 0, 0, 1)


ACTS: dict[str, Callable[[Subscription], object]] = {
    "ack": lambda s: s.ack_many(s.observe(3)),
    "nack": lambda s: s.nack_many(s.observe(3)),
    "nack later": lambda s: s.nack_many(s.observe(3), delay=4),
    "release": lambda s: s.release_many(s.observe(3)),
    "bury": lambda s: s.bury_many(s.observe(3), "bad"),
    "observe": lambda s: s.observe(3),
    "receive_dead": lambda s: (s.bury_many(s.observe(3), "bad"), s.receive_dead(2)),
}


@pytest.mark.parametrize("act", ACTS)
def test_whatever_one_does_each_message_is_in_one_state_and_the_other_has_all(
    topic: Topic, pair: Pair, act: str
) -> None:
    one, other = pair
    ids = topic.publish_many(numbered(10))
    ACTS[act](one)
    left = ids[3:] if act == "ack" else ids
    assert_each_in_one_state(one, left)
    assert set(states(other)) == set(ids)
    assert take_all(other) == numbered(10)
    assert_each_in_one_state(one, left)
