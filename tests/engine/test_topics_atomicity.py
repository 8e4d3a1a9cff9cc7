"""An error inside a function of a topic: nothing is stored for anybody, and nothing is lost.

As in test_atomicity, one key in turn holds something of the wrong type while a transition runs.
"""

from __future__ import annotations

from collections.abc import Callable

import pytest

from holdfast import Outgoing, Subscription, Topic, WrongType
from tests.clock import Clock
from tests.engine.look import assert_each_in_one_state, numbered, states
from tests.engine.seats import assert_nothing_left, seat_key, topic_key
from tests.raw import Raw

pytestmark = pytest.mark.only(
    "standalone", "packed", reason="one server is enough to stop a function"
)

Broken = Callable[[Topic, Subscription], str]

# The keys of the topic, and those of the second of its subscriptions.
TOPIC_KEYS: dict[str, Broken] = {
    name: lambda topic, seat, name=name: topic_key(topic, name)  # type: ignore[misc]
    for name in ("seats", "bodies", "takers", "dedup", "dedup_until", "journal")
}
SEAT_KEYS: dict[str, Broken] = {
    f"seat {name}{tail}": lambda topic, seat, name=name, tail=tail: seat_key(seat, name, tail)  # type: ignore[misc]
    for name, tail in (
        ("ready", "0"),
        ("ready", "5"),
        ("group", "g"),
        ("slots", ""),
        ("due", ""),
        ("delayed", ""),
        ("journal", ""),
    )
}


def snapshot(topic: Topic, raw: Raw) -> dict[str, bytes]:
    """Everything below the topic, but what ends by itself."""
    return {key: raw("DUMP", key) for key in raw.keys(topic)}


@pytest.mark.parametrize("broken", [*TOPIC_KEYS, *SEAT_KEYS, "seat itself"])
def test_a_publish_that_fails_has_stored_nothing_for_anybody(
    topic: Topic, topic_clock: Clock, raw: Raw, broken: str
) -> None:
    topic.configure(journal=True)
    first, second = topic.subscribe("a"), topic.subscribe("b")
    seats = (first, second, topic.subscribe("c", mode="shared"))
    where = (
        second.refs()[0].key
        if broken == "seat itself"
        else {**TOPIC_KEYS, **SEAT_KEYS}[broken](topic, second)
    )
    kept = raw("DUMP", where)
    raw("DEL", where)
    raw("SET", where, "something else")
    before = snapshot(topic, raw)
    with pytest.raises(WrongType):
        topic.publish_many(
            [
                Outgoing(b"plain", dedup_id="d"),
                Outgoing(b"group", group="g"),
                Outgoing(b"later", delay=1),
                Outgoing(b"high", priority=5),
            ]
        )
    assert snapshot(topic, raw) == before
    raw("DEL", where)
    if kept:
        raw("RESTORE", where, 0, kept)
    topic.publish(b"plain", dedup_id="d")
    for seat in seats:
        assert [m.body for m in seat.inspect("ready")] == [b"plain"]


@pytest.mark.parametrize("broken", ["bodies", "takers", "seats", "seat ready0"])
def test_a_plain_publish_that_fails_has_stored_nothing_for_anybody(
    topic: Topic, topic_clock: Clock, raw: Raw, broken: str
) -> None:
    first, second = topic.subscribe("a"), topic.subscribe("b")
    where = {**TOPIC_KEYS, **SEAT_KEYS}[broken](topic, second)
    kept = raw("DUMP", where)
    raw("DEL", where)
    raw("SET", where, "something else")
    before = snapshot(topic, raw)
    with pytest.raises(WrongType):
        topic.publish_many(numbered(20))
    assert snapshot(topic, raw) == before
    raw("DEL", where)
    if kept:
        raw("RESTORE", where, 0, kept)
    ids = topic.publish_many(numbered(20))
    for seat in (first, second):
        assert_each_in_one_state(seat, ids)


ACTS: dict[str, Callable[[Subscription], object]] = {
    "observe": lambda s: s.observe(20),
    "ack": lambda s: s.ack_many(s.recover(100, elapsed=0)),
    "purge": lambda s: s.purge(),
    "remove": lambda s: s.remove(s.inspect("ready")[0].id),
    "expire": lambda s: s.observe(20),
    "unsubscribe": lambda s: s.unsubscribe(),
}


@pytest.mark.parametrize("broken", ["bodies", "takers"])
@pytest.mark.parametrize("act", ACTS)
def test_where_the_shared_bodies_are_out_of_reach_nothing_is_lost(
    topic: Topic, topic_clock: Clock, raw: Raw, act: str, broken: str
) -> None:
    one, other = topic.subscribe("a"), topic.subscribe("b")
    ids = topic.publish_many([Outgoing(b, ttl=99) for b in numbered(20)])
    held = one.observe(10, lease=50)
    if act == "expire":
        topic_clock.advance(99)
    where = topic_key(topic, broken)
    kept = raw("DUMP", where)
    raw("DEL", where)
    raw("SET", where, "something else")
    if act == "ack":
        with pytest.raises(WrongType):
            one.ack_many(held)
    else:
        with pytest.raises(WrongType):
            ACTS[act](one)
    raw("DEL", where)
    raw("RESTORE", where, 0, kept)
    topic_clock.set(topic_clock.ms)
    if act == "expire":
        for seat in (one, other):
            assert seat.observe(100) == []
        assert_nothing_left(topic, raw)
        return
    if act == "unsubscribe":
        one.unsubscribe()
    else:
        assert_each_in_one_state(one, ids)
    assert_each_in_one_state(other, ids)
    topic_clock.advance(60)
    for seat in (other,) if act == "unsubscribe" else (one, other):
        got = seat.observe(100)
        assert {d.id for d in got} == set(ids)
        seat.ack_many(got)
    assert_nothing_left(topic, raw)


@pytest.mark.parametrize("broken", ["seats", "seen"])
def test_observing_where_the_seats_are_out_of_reach_takes_nothing(
    topic: Topic, topic_clock: Clock, raw: Raw, broken: str
) -> None:
    seat = topic.subscribe("a")
    topic.publish(b"x")
    where = topic_key(topic, broken)
    kept = raw("DUMP", where)
    raw("DEL", where)
    raw("SET", where, "something else")
    for act in (lambda: seat.observe(), lambda: topic.subscribe("b"), topic.subscriptions):
        with pytest.raises(WrongType):
            act()
    raw("DEL", where)
    raw("RESTORE", where, 0, kept)
    assert states(seat) == {i: ["ready"] for i in states(seat)}
    assert len(topic.subscriptions()) == 1
    assert [d.body for d in seat.observe(10)] == [b"x"]


@pytest.mark.parametrize("broken", ["ready", "leased", "batches", "due", "dead", "died", "slots"])
def test_moving_to_what_is_out_of_reach_loses_nothing(
    topic: Topic, topic_clock: Clock, raw: Raw, broken: str
) -> None:
    """The last one unsubscribes, and the topic cannot take what it had."""
    seat = topic.subscribe("a")
    ids = topic.publish_many([*numbered(3), Outgoing(b"g", group="g"), Outgoing(b"l", delay=9)])
    seat.observe(1)
    for d in seat.observe(1):
        d.bury("bad")
    where = topic_key(topic, broken) + ("0" if broken == "ready" else "")
    raw("SET", where, "something else")
    if broken != "leased":
        with pytest.raises(WrongType):
            seat.unsubscribe()
    raw("DEL", where)
    found = {**states(seat)}
    for i, where_now in states(topic).items():
        found[i] = found.get(i, []) + where_now
    assert {i: len(at) for i, at in found.items()} == dict.fromkeys(ids, 1)
    seat.unsubscribe()
    assert set(states(topic)) == set(ids)
