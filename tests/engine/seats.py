"""What tests ask of a topic and its subscriptions again and again."""

from __future__ import annotations

from holdfast import Subscription, Topic
from holdfast.engine.keys import suffixed
from tests.engine.look import bodies, drain
from tests.raw import Raw


def topic_key(topic: Topic, lua_name: str) -> str:
    """A key of a topic, by its name in the catalogue."""
    return suffixed(topic.refs()[0].key, lua_name)


def seat_key(seat: Subscription, lua_name: str, tail: str = "") -> str:
    return suffixed(seat.refs()[0].key, lua_name, tail)


def take_all(seat: Subscription) -> list[bytes]:
    """Bodies of all that can be observed now; they are acked."""
    got = drain(seat)
    if got:
        assert len(seat.ack_many(got)) == len(got)
    return bodies(got)


def shared_bodies(topic: Topic, raw: Raw) -> int:
    """How many envelopes lie at the topic; as many are counted, or the test fails."""
    stored = set(raw("HKEYS", topic_key(topic, "bodies")))
    counted = set(raw("HKEYS", topic_key(topic, "takers")))
    assert stored == counted
    return len(stored)


def assert_nothing_left(topic: Topic, raw: Raw) -> None:
    """Of an emptied topic there are left: its own hash, who is subscribed, and a hash each."""
    seats = {info.seat for info in topic.subscriptions()}
    base = topic.refs()[0].key
    expected = {base} | {base + seat for seat in seats}
    if seats:
        expected |= {topic_key(topic, "seats"), topic_key(topic, "seen")}
    assert raw.keys(topic) == expected
