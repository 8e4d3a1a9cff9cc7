"""Publish: all subscriptions get a message, or none; it is the same message for all."""

from __future__ import annotations

from datetime import UTC, datetime

import pytest

from holdfast import Client, InvalidArgument, Outgoing, QueueFull, Topic, filters
from holdfast.engine.keys import TopicRef
from holdfast.message import MAX_BODY
from tests.clock import Clock
from tests.engine.look import bodies, counts, drain, numbered
from tests.engine.seats import seat_key, shared_bodies, take_all
from tests.raw import Raw


def test_every_subscription_gets_every_message_in_order(topic: Topic) -> None:
    seats = [topic.subscribe(name) for name in ("a", "b", "c")]
    topic.publish_many(numbered(3))
    topic.publish(b"4")
    for seat in seats:
        assert take_all(seat) == numbered(4)


def test_the_id_is_the_same_in_all_of_them(topic: Topic) -> None:
    seats = [topic.subscribe(name) for name in ("a", "b")]
    ids = topic.publish_many([b"1", b"2"])
    for seat in seats:
        assert [d.id for d in drain(seat)] == ids


def test_all_that_was_said_of_a_message_comes_with_it(topic: Topic, topic_clock: Clock) -> None:
    one, other = topic.subscribe("a"), topic.subscribe("b", mode="shared")
    mid = topic.publish(
        b"body", priority=7, attributes={"kind": "order", "k": "ä"}, group="g", ttl=60
    )
    for seat in (one, other):
        d = seat.receive()
        assert d is not None
        assert (d.id, d.body, d.priority, d.group) == (mid, b"body", 7, "g")
        assert d.attributes == {"kind": "order", "k": "ä"}
        assert (d.receives, d.sent_at, d.source) == (1, topic_clock.now, topic.name)
        assert d.expires_at == topic_clock.at(60)


def test_a_body_that_several_take_is_stored_once(topic: Topic, raw: Raw) -> None:
    seats = [topic.subscribe(f"c{n}") for n in range(5)]
    topic.publish(b"x" * 10_000)
    assert shared_bodies(topic, raw) == 1
    for seat in seats:
        [entry] = raw("LRANGE", seat_key(seat, "ready", "0"), 0, -1)
        assert len(entry) < 40
        assert [m.body for m in seat.inspect("ready")] == [b"x" * 10_000]


def test_a_body_that_one_takes_lies_in_its_queue(topic: Topic, raw: Raw) -> None:
    seat = topic.subscribe("only")
    topic.subscribe("other", filter=filters.exists("never"))
    topic.publish(b"x" * 1000)
    assert shared_bodies(topic, raw) == 0
    [entry] = raw("LRANGE", seat_key(seat, "ready", "0"), 0, -1)
    assert len(entry) > 1000


@pytest.mark.parametrize("body", [b"", b"\0" * 3, "ünï".encode(), bytes(range(256)) * 40])
def test_bodies_come_out_as_they_went_in(topic: Topic, body: bytes) -> None:
    seats = [topic.subscribe("a"), topic.subscribe("b")]
    topic.publish(body)
    assert [take_all(seat) for seat in seats] == [[body], [body]]


def test_without_a_subscription_the_topic_holds_the_messages(topic: Topic) -> None:
    topic.publish_many(numbered(3))
    assert counts(topic) == (3, 0, 0, 0)
    assert bodies(topic.inspect("ready")) == numbered(3)


def test_with_a_subscription_the_topic_holds_nothing_itself(topic: Topic) -> None:
    topic.subscribe("a")
    topic.publish_many(numbered(3))
    assert topic.stats().total == 0
    assert topic.stats().sent == 3


def test_a_message_nobody_wants_is_gone_and_counted(topic: Topic, raw: Raw) -> None:
    seat = topic.subscribe("a", filter=filters.equals("kind", "x"))
    topic.publish_many([b"1", Outgoing(b"2", attributes={"kind": "x"}), b"3"])
    stats = topic.stats()
    assert (stats.sent, stats.dropped, stats.total) == (3, 2, 0)
    assert take_all(seat) == [b"2"]
    assert shared_bodies(topic, raw) == 0


def test_each_filter_takes_its_own_part_of_one_call(topic: Topic, raw: Raw) -> None:
    seats = {
        "all": topic.subscribe("all"),
        "x": topic.subscribe("x", filter=filters.equals("k", "x")),
        "y": topic.subscribe("y", filter=filters.equals("k", "y")),
    }
    topic.publish_many([Outgoing(k.encode(), attributes={"k": k}) for k in "xyzxy"])
    assert shared_bodies(topic, raw) == 4
    assert take_all(seats["all"]) == [b"x", b"y", b"z", b"x", b"y"]
    assert take_all(seats["x"]) == [b"x", b"x"]
    assert take_all(seats["y"]) == [b"y", b"y"]
    assert shared_bodies(topic, raw) == 0


def test_a_delayed_message_comes_to_all_when_it_is_due(topic: Topic, topic_clock: Clock) -> None:
    seats = [topic.subscribe("a"), topic.subscribe("b")]
    topic.publish(b"by delay", delay=5)
    topic.publish(b"by due", due=topic_clock.at(6))
    for seat in seats:
        assert seat.receive() is None
        assert seat.stats().delayed == 2
    topic_clock.advance(10)
    for seat in seats:
        assert take_all(seat) == [b"by delay", b"by due"]


def test_a_topics_delay_holds_for_what_says_nothing_else(topic: Topic, topic_clock: Clock) -> None:
    topic.configure(delay=5)
    seats = [topic.subscribe("a"), topic.subscribe("b")]
    topic.publish(b"x")
    assert [counts(seat) for seat in seats] == [(0, 1, 0, 0)] * 2


def test_a_higher_priority_goes_first_in_each_subscription(topic: Topic) -> None:
    seats = [topic.subscribe("a"), topic.subscribe("b")]
    topic.publish_many([Outgoing(b"low"), Outgoing(b"high", priority=9)])
    assert [take_all(seat) for seat in seats] == [[b"high", b"low"]] * 2


def test_a_duplicate_within_the_window_is_stored_for_nobody(
    topic: Topic, topic_clock: Clock
) -> None:
    seats = [topic.subscribe("a"), topic.subscribe("b")]
    first = topic.publish(b"1", dedup_id="d")
    again, other = topic.publish_many([Outgoing(b"2", dedup_id="d"), Outgoing(b"3", dedup_id="e")])
    assert again == first
    assert (again.duplicate, other.duplicate) == (True, False)
    assert [take_all(seat) for seat in seats] == [[b"1", b"3"]] * 2
    assert topic.stats().duplicates == 1
    topic_clock.advance(topic.settings().dedup_window + 1)
    assert not topic.publish(b"4", dedup_id="d").duplicate
    assert take_all(seats[0]) == [b"4"]


def test_a_duplicate_of_what_the_topic_held_is_one_too(topic: Topic) -> None:
    first = topic.publish(b"1", dedup_id="d")
    seat = topic.subscribe("a")
    assert topic.publish(b"2", dedup_id="d") == first
    assert take_all(seat) == [b"1"]


def test_one_full_subscription_refuses_the_publish_for_all(topic: Topic, raw: Raw) -> None:
    free, full = topic.subscribe("free"), topic.subscribe("full")
    full.configure(max_length=3)
    topic.publish_many(numbered(2))
    with pytest.raises(QueueFull, match="holds 2 of at most 3"):
        topic.publish_many(numbered(2, 3))
    assert (counts(free), counts(full)) == ((2, 0, 0, 0), (2, 0, 0, 0))
    assert shared_bodies(topic, raw) == 2
    assert topic.stats().sent == 2
    topic.publish(b"3")
    assert [take_all(free), take_all(full)] == [numbered(3)] * 2


def test_a_full_subscription_may_drop_its_oldest_and_the_others_keep_theirs(
    topic: Topic, raw: Raw
) -> None:
    free, short = topic.subscribe("free"), topic.subscribe("short")
    short.configure(max_length=2, overflow="drop_oldest")
    for body in numbered(5):
        topic.publish(body)
    assert take_all(short) == numbered(2, 4)
    assert shared_bodies(topic, raw) == 5
    assert take_all(free) == numbered(5)
    assert shared_bodies(topic, raw) == 0
    assert (short.stats().dropped, free.stats().dropped) == (3, 0)


def test_what_a_topic_holds_may_be_limited_too(topic: Topic) -> None:
    topic.configure(max_length=2)
    topic.publish_many(numbered(2))
    with pytest.raises(QueueFull):
        topic.publish(b"3")
    topic.configure(overflow="drop_oldest")
    topic.publish(b"3")
    assert bodies(topic.inspect("ready")) == [b"2", b"3"]


def test_publishing_nothing_is_nothing(topic: Topic) -> None:
    assert topic.publish_many([]) == []
    assert topic.stats().sent == 0


def test_thousands_in_one_call_reach_all(topic: Topic, raw: Raw) -> None:
    seats = [topic.subscribe("a"), topic.subscribe("b", mode="shared")]
    ids = topic.publish_many(numbered(2500))
    assert len(set(ids)) == 2500
    for seat in seats:
        assert take_all(seat) == numbered(2500)
    assert shared_bodies(topic, raw) == 0


def test_a_body_that_is_too_long_is_refused_whole(topic: Topic) -> None:
    seat = topic.subscribe("a")
    with pytest.raises(InvalidArgument):
        topic.publish_many([b"ok", b"x" * (MAX_BODY + 1)])
    assert seat.stats().total == 0


@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        ({"delay": 1, "due": datetime(2030, 1, 1, tzinfo=UTC)}, "not both"),
        ({"priority": 10}, "priority"),
        ({"attributes": {"k": 1}}, "attribute"),
    ],
)
def test_wrong_arguments_are_refused(topic: Topic, arguments: dict[str, object], says: str) -> None:
    with pytest.raises(InvalidArgument, match=says):
        topic.publish(b"x", **arguments)  # type: ignore[arg-type]


def test_a_raw_publish_of_a_message_with_a_unique_name_is_refused(hf: Client, topic: Topic) -> None:
    from holdfast.engine import calls, topics

    packed = calls.pack(b"x", unique="name")
    ref = topic.refs()[0]
    assert isinstance(ref, TopicRef)
    with pytest.raises(InvalidArgument, match="no unique name"):
        hf.transport.run(topics.publish(ref, [packed], "", 0))
    assert topic.stats().total == 0


@pytest.mark.parametrize(
    "args",
    [(), ("", 0, 0), ("", 0, 0, "plain"), ("", 0, 0, "odd", b"x"), ("", 0, 0, "plain", b"x")],
)
def test_raw_calls_with_wrong_arguments_say_invalid(
    hf: Client, topic: Topic, args: tuple[str | int | bytes, ...]
) -> None:
    key = topic.refs()[0].key
    with pytest.raises(InvalidArgument):
        hf.transport.command("FCALL", "hf1_publish", 1, key, *args, key=key)


def test_a_topic_and_a_queue_of_the_same_name_are_two_things(hf: Client, topic: Topic) -> None:
    queue, seat = hf.queue(topic.name), topic.subscribe("a")
    queue.send(b"queue")
    topic.publish(b"topic")
    assert bodies(drain(queue)) == [b"queue"]
    assert take_all(seat) == [b"topic"]
    assert topic.name in hf.topics()
    assert topic.name in hf.queues()
    queue.delete()
    assert topic.name in hf.topics()


def test_ids_go_on_counting_over_holding_and_publishing(topic: Topic, topic_clock: Clock) -> None:
    held = topic.publish_many([b"1", b"2"])
    topic.subscribe("a")
    topic.subscribe("b")
    later = topic.publish_many([b"3", b"4"])
    topic.unsubscribe("a")
    topic.unsubscribe("b")
    last = topic.publish_many([b"5"])
    assert [*held, *later, *last] == [f"{topic_clock.ms}-{n}" for n in range(5)]
