"""Names of topics, consumers and peers may be anything, and none is taken for another."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st
from redis.crc import key_slot

from holdfast import Client, Topic
from holdfast.engine.keys import (
    CATALOGUE,
    REGISTRY,
    TOPICS,
    QueueRef,
    SeatRef,
    TopicRef,
    consumer_seat,
    names_of,
    peer_seat,
    suffixed,
    topics_of,
)
from tests.engine.seats import take_all

# Names made of what could confuse a key most.
tricky = st.text(
    st.sampled_from("ab/{}#%:1257BDFtcr") | st.characters(codec="utf-8"), min_size=1, max_size=8
)
peers = st.just("") | tricky

AWKWARD = ["a", "a/", "/a", "a/b", "a:r0", "a%2Fb", "a}", "{a}", "a#t", "%", "", "ä/✓", "a b", "*"]


@given(tricky, tricky, tricky, peers, peers)
def test_no_two_seats_share_a_base(topic: str, a: str, b: str, p: str, r: str) -> None:
    ref = TopicRef(topic)
    seats = {(a, p): peer_seat(a, p), (b, r): peer_seat(b, r)}
    seats |= {(a,): consumer_seat(a), (b,): consumer_seat(b)}  # type: ignore[dict-item]
    assert len({SeatRef(ref, seat).key for seat in seats.values()}) == len(seats)


@given(tricky, tricky, st.integers(0, 255))
def test_topics_queues_and_consumers_share_no_base(a: str, b: str, shard: int) -> None:
    keys = {TopicRef(a).key, QueueRef(b, shard).key, topics_of(b), REGISTRY, TOPICS}
    assert len(keys) == 5
    assert (TopicRef(a).key == TopicRef(b).key) == (a == b)


@given(tricky, tricky, peers, tricky)
def test_no_key_of_a_seat_is_a_key_of_its_topic(c: str, d: str, peer: str, group: str) -> None:
    ref = TopicRef("t")
    keys = [
        suffixed(base, name, group if name == "group" else "")
        for base in (ref.key, ref.key + consumer_seat(c), ref.key + peer_seat(d, peer))
        for name in CATALOGUE
    ]
    assert len(set(keys)) == len(keys)


@given(tricky, tricky, peers)
def test_all_keys_of_a_topic_lie_in_one_slot(topic: str, consumer: str, peer: str) -> None:
    ref = TopicRef(topic)
    seat = SeatRef(ref, peer_seat(consumer, peer))
    assert len({key_slot(key.encode()) for key in (ref.key, seat.key, seat.below("ready"))}) == 1


@given(tricky, peers)
def test_names_can_be_read_back_from_a_seat(consumer: str, peer: str) -> None:
    assert names_of(peer_seat(consumer, peer)) == (consumer, peer)
    assert names_of(consumer_seat(consumer)) == (consumer, None)


@pytest.mark.slow
def test_awkward_consumers_and_peers_keep_apart(topic: Topic) -> None:
    seats = {
        (consumer, peer): topic.subscribe(consumer, peer=peer)
        for consumer in AWKWARD
        if consumer
        for peer in AWKWARD
    }
    listed = {(info.consumer, info.peer) for info in topic.subscriptions()}
    assert listed == set(seats)
    topic.publish(b"x")
    for seat in seats.values():
        assert take_all(seat) == [b"x"]
    for consumer in filter(None, AWKWARD):
        topic.unsubscribe(consumer)
        assert consumer not in {info.consumer for info in topic.subscriptions()}
    assert topic.subscriptions() == []


def test_awkward_topics_keep_apart(hf: Client, topic: Topic) -> None:
    topics = [hf.topic(f"{topic.name} {name}") for name in AWKWARD]
    for each in topics:
        each.subscribe("c", mode="shared")
    for n, each in enumerate(topics):
        each.publish(str(n).encode())
    for n, each in enumerate(topics):
        assert take_all(each.subscription("c")) == [str(n).encode()]
    for each in topics:
        each.delete()


def test_awkward_groups_and_attributes_come_through(topic: Topic) -> None:
    seats = [topic.subscribe("a"), topic.subscribe("b")]
    for name in filter(None, AWKWARD):
        topic.publish(b"x", group=name, attributes={name: name})
    for seat in seats:
        got = seat.observe(100)
        assert {d.group for d in got} == set(filter(None, AWKWARD))
        assert all(d.attributes == {d.group: d.group} for d in got)
