"""Unsubscribe: what a consumer had not acked is gone; the last one's goes back to the topic."""

from __future__ import annotations

import pytest

from holdfast import Client, InvalidArgument, NoSuchSubscription, Outgoing, Topic
from holdfast.engine import topics
from holdfast.engine.keys import TopicRef
from tests.clock import Clock
from tests.engine.look import bodies, counts, drain, numbered
from tests.engine.seats import assert_nothing_left, shared_bodies, take_all
from tests.raw import Raw


def test_the_messages_of_one_of_several_are_gone(topic: Topic, raw: Raw) -> None:
    going, staying = topic.subscribe("going"), topic.subscribe("staying")
    topic.publish_many(numbered(5))
    going.receive_many(2)
    assert topic.unsubscribe("going")
    assert topic.stats().total == 0
    assert shared_bodies(topic, raw) == 5
    assert take_all(staying) == numbered(5)
    assert_nothing_left(topic, raw)


def test_the_messages_of_the_last_go_back_to_the_topic_in_every_state(
    topic: Topic, topic_clock: Clock
) -> None:
    seat = topic.subscribe("last")
    ids = topic.publish_many([*numbered(4), Outgoing(b"later", delay=5)])
    dead, held = seat.receive_many(2)
    dead.bury("bad")
    assert counts(seat) == (2, 1, 1, 1)
    assert seat.unsubscribe()
    assert counts(topic) == (3, 1, 0, 1)
    assert [m.id for m in topic.inspect("ready")] == [held.id, *ids[2:4]]
    heir = topic.subscribe("heir")
    assert counts(heir) == (3, 1, 0, 1)
    assert take_all(heir) == [b"2", b"3", b"4"]
    topic_clock.advance(5)
    assert take_all(heir) == [b"later"]
    [letter] = heir.receive_dead()
    assert letter.death is not None
    assert (letter.id, letter.death.reason) == (ids[0], "bad")


def test_a_dead_letter_that_was_in_hand_goes_back_as_one(topic: Topic, topic_clock: Clock) -> None:
    seat = topic.subscribe("last")
    topic.publish(b"x")
    for d in seat.observe():
        d.bury("bad")
    assert len(seat.receive_dead()) == 1
    seat.unsubscribe()
    assert counts(topic) == (0, 0, 0, 1)
    [letter] = topic.subscribe("heir").receive_dead()
    assert letter.death is not None
    assert (letter.body, letter.death.reason) == (b"x", "bad")


def test_thousands_go_back_in_order(topic: Topic, raw: Raw) -> None:
    seat = topic.subscribe("last")
    topic.publish_many(numbered(2500))
    seat.receive_many(1200)
    seat.unsubscribe()
    assert counts(topic) == (2500, 0, 0, 0)
    assert take_all(topic.subscribe("heir")) == numbered(2500)
    assert_nothing_left(topic, raw)


def test_a_message_that_was_in_hand_keeps_its_count_of_receives(topic: Topic) -> None:
    seat = topic.subscribe("last")
    topic.publish(b"x")
    failed = seat.receive()
    assert failed is not None
    failed.nack()
    seat.unsubscribe()
    d = topic.subscribe("heir").receive()
    assert d is not None
    assert d.receives == 2


def test_a_receipt_of_a_subscription_that_is_gone_settles_nothing(topic: Topic) -> None:
    seat = topic.subscribe("a")
    topic.publish(b"x")
    held = seat.receive()
    assert held is not None
    seat.unsubscribe()
    heir = topic.subscribe("a")
    assert not heir.ack(held)
    assert heir.stats().ready == 1


def test_the_last_of_several_takes_shared_bodies_back_with_it(topic: Topic, raw: Raw) -> None:
    seats = [topic.subscribe(name) for name in ("a", "b", "c")]
    topic.publish_many(numbered(3))
    for seat in seats:
        seat.unsubscribe()
    assert bodies(topic.inspect("ready")) == numbered(3)
    heir = topic.subscribe("heir")
    assert take_all(heir) == numbered(3)
    assert shared_bodies(topic, raw) == 0
    assert_nothing_left(topic, raw)


def test_held_messages_that_came_back_shared_can_be_purged(topic: Topic, raw: Raw) -> None:
    for name in ("a", "b"):
        topic.subscribe(name)
    topic.publish_many(numbered(3))
    for name in ("a", "b"):
        topic.unsubscribe(name)
    assert shared_bodies(topic, raw) == 3
    topic.purge()
    assert shared_bodies(topic, raw) == 0
    assert_nothing_left(topic, raw)


def test_of_a_consumer_with_several_peers_one_peers_messages_go_back(topic: Topic) -> None:
    peers = [topic.subscribe("a", peer=name) for name in ("p", "q")]
    topic.publish_many(numbered(3))
    for peer in peers:
        peer.receive()
    assert topic.unsubscribe("a")
    assert topic.subscriptions() == []
    assert bodies(topic.inspect("ready")) == numbered(3)


def test_one_peer_of_several_goes_alone(topic: Topic) -> None:
    p, q = (topic.subscribe("a", peer=name) for name in ("p", "q"))
    topic.publish(b"x")
    assert p.unsubscribe()
    with pytest.raises(NoSuchSubscription):
        p.observe()
    assert take_all(q) == [b"x"]
    assert topic.stats().total == 0


def test_a_shared_subscription_stays_until_its_last_peer_goes(topic: Topic) -> None:
    p, q = (topic.subscribe("a", peer=name, mode="shared") for name in ("p", "q"))
    topic.publish_many(numbered(2))
    assert p.unsubscribe()
    assert bodies(q.observe()) == [b"1"]
    assert q.unsubscribe()
    assert topic.subscriptions() == []
    assert bodies(topic.inspect("ready")) == numbered(2)


def test_a_consumer_of_a_shared_subscription_goes_with_all_its_peers(topic: Topic) -> None:
    for name in ("p", "q"):
        topic.subscribe("a", peer=name, mode="shared")
    topic.publish(b"x")
    assert topic.unsubscribe("a")
    assert topic.subscriptions() == []
    assert topic.stats().ready == 1


def test_a_consumer_whose_id_starts_as_anothers_is_left_alone(topic: Topic) -> None:
    for mode, one, other in (("shared", "ab", "a"), ("broadcast", "xy", "x")):
        topic.subscribe(one, mode=mode)  # type: ignore[arg-type]
        topic.subscribe(other, mode=mode)  # type: ignore[arg-type]
        topic.unsubscribe(other)
    assert [info.consumer for info in topic.subscriptions()] == ["ab", "xy"]
    assert all(info.peers for info in topic.subscriptions())


@pytest.mark.parametrize("peer", [None, "", "p"])
def test_unsubscribing_who_is_not_there_says_so(topic: Topic, peer: str | None) -> None:
    assert not topic.unsubscribe("nobody", peer=peer)
    topic.subscribe("a", peer="q")
    topic.subscribe("b", peer="q", mode="shared")
    if peer is not None:
        assert not topic.unsubscribe("a", peer=peer)
        assert not topic.unsubscribe("b", peer=peer)
    assert len(topic.subscriptions()) == 2


def test_twice_is_once(topic: Topic) -> None:
    topic.subscribe("a")
    assert topic.unsubscribe("a")
    assert not topic.unsubscribe("a")


def test_who_comes_back_starts_anew(topic: Topic) -> None:
    topic.subscribe("other")
    seat = topic.subscribe("a")
    seat.configure(max_receives=1)
    topic.publish(b"before")
    seat.unsubscribe()
    topic.publish(b"between")
    again = topic.subscribe("a")
    topic.publish(b"after")
    assert again.settings().max_receives != 1
    assert take_all(again) == [b"after"]


def once(hf: Client, topic: Topic, consumer: str) -> int:
    """One call of an unsubscribe that needs several."""
    ref = topic.refs()[0]
    assert isinstance(ref, TopicRef)
    return hf.transport.run(topics.unsubscribe(ref, consumer, None))


def test_a_last_unsubscribe_that_was_cut_off_loses_nothing_for_who_stays(
    hf: Client, topic: Topic
) -> None:
    topic.subscribe("a")
    topic.publish_many(numbered(2500))
    assert once(hf, topic, "a") == 0
    assert topic.stats().ready == 1000
    topic.publish(b"2501")
    seat = topic.subscribe("a")  # changed its mind
    assert topic.stats().total == 0
    assert take_all(seat) == numbered(2501)


def test_a_last_unsubscribe_that_was_cut_off_is_finished_by_the_next(
    hf: Client, topic: Topic
) -> None:
    topic.subscribe("a")
    topic.publish_many(numbered(2500))
    assert once(hf, topic, "a") == 0
    topic.publish(b"2501")
    assert topic.unsubscribe("a")
    assert take_all(topic.subscribe("b")) == numbered(2501)


def test_one_of_several_that_was_cut_off_gets_nothing_more_and_is_finished_by_tending(
    hf: Client, topic: Topic, raw: Raw
) -> None:
    going, staying = topic.subscribe("a"), topic.subscribe("b")
    going.configure(journal=True)  # such a queue is cleared a piece per call
    topic.publish_many(numbered(2500))
    assert once(hf, topic, "a") == 0
    topic.publish(b"2501")
    with pytest.raises(NoSuchSubscription):
        going.observe()
    assert [info.consumer for info in topic.subscriptions()] == ["b"]
    topic.tend()
    assert shared_bodies(topic, raw) == 2500  # the last one has one taker
    assert take_all(staying) == numbered(2501)
    assert_nothing_left(topic, raw)


def test_who_comes_back_to_what_was_being_left_starts_anew(
    hf: Client, topic: Topic, raw: Raw
) -> None:
    topic.subscribe("b")
    topic.subscribe("a")
    topic.publish_many(numbered(2500))
    assert once(hf, topic, "a") == 0
    seat = topic.subscribe("a")
    topic.publish(b"new")
    assert take_all(seat) == [b"new"]
    topic.subscription("b").purge()
    assert_nothing_left(topic, raw)


def test_groups_and_retries_that_go_back_keep_their_order(topic: Topic, topic_clock: Clock) -> None:
    seat = topic.subscribe("a")
    topic.publish_many([Outgoing(b, group="g") for b in numbered(3)])
    first = seat.receive()
    assert first is not None
    first.nack(delay=5)
    seat.unsubscribe()
    heir = topic.subscribe("b")
    assert heir.receive() is None, "the retry keeps its place: nobody may overtake it"
    topic_clock.advance(5)
    for expected in numbered(3):
        [d] = heir.receive_many(10)
        assert d.body == expected
        d.ack()
    heir.purge()


def test_grouped_messages_in_hand_go_back_before_the_others_of_their_group(topic: Topic) -> None:
    seat = topic.subscribe("a")
    topic.publish_many([Outgoing(b, group="g") for b in numbered(4)])
    seat.receive()
    seat.unsubscribe()
    heir = topic.subscribe("b")
    got = []
    while d := heir.receive():
        got.append(d.body)
        d.ack()
    assert got == numbered(4)


def test_groups_leave_nothing_behind(topic: Topic, topic_clock: Clock, raw: Raw) -> None:
    seat = topic.subscribe("a")
    topic.publish_many([Outgoing(b, group="g") for b in numbered(3)])
    for d in seat.receive_many(1):
        d.nack(delay=5)
    seat.unsubscribe()
    heir = topic.subscribe("b")
    topic_clock.advance(5)
    while got := drain(heir):
        heir.ack_many(got)
    assert_nothing_left(topic, raw)


def test_a_deleted_topic_leaves_nothing(hf: Client, topic: Topic, raw: Raw) -> None:
    for name in ("a", "b"):
        topic.subscribe(name, peer="p")
        topic.subscribe(name, peer="q")
    topic.publish_many([*numbered(1500), Outgoing(b"g", group="g"), Outgoing(b"later", delay=9)])
    topic.delete()
    assert raw.keys(topic) == set()
    assert topic.name not in hf.topics()
    assert topic.name not in hf.consumer("a").topics()


@pytest.mark.parametrize("args", [(), ("/a",), ("a", ""), ("/a", "/b/"), ("/a", "x")])
def test_raw_calls_with_wrong_arguments_say_invalid(
    hf: Client, topic: Topic, args: tuple[str, ...]
) -> None:
    topic.subscribe("a")
    key = topic.refs()[0].key
    with pytest.raises(InvalidArgument):
        hf.transport.command("FCALL", "hf1_unsubscribe", 1, key, *args, key=key)
    assert len(topic.subscriptions()) == 1


# ---- cut off half way ---------------------------------------------------------------------

MANY = 2_500  # three pieces


def begin_to_unsubscribe(topic: Topic, consumer: str, pieces: int = 1) -> None:
    """As a client does that dies after so many calls."""
    for _ in range(pieces):
        assert topic.transport.run(topics.unsubscribe(TopicRef(topic.name), consumer, None)) == 0


def begin_to_subscribe(topic: Topic, consumer: str) -> None:
    call = topics.subscribe(TopicRef(topic.name), consumer, "", "broadcast", None)
    assert not topic.transport.run(call)


@pytest.mark.parametrize("next_one", ["the same", "another"])
def test_what_was_being_given_back_stays_in_its_order(
    topic: Topic, raw: Raw, next_one: str
) -> None:
    topic.subscribe("a")
    topic.publish_many(numbered(MANY))
    begin_to_unsubscribe(topic, "a")
    topic.publish_many(numbered(10, MANY + 1))
    with pytest.raises(NoSuchSubscription):
        topic.observe("a")
    seat = topic.subscribe("a" if next_one == "the same" else "b")
    topic.publish_many(numbered(10, MANY + 11))
    assert take_all(seat) == numbered(MANY + 20)
    assert_nothing_left(topic, raw)


def test_what_was_being_given_back_goes_on_when_the_topic_is_tended(topic: Topic) -> None:
    topic.subscribe("a")
    topic.publish_many(numbered(MANY))
    begin_to_unsubscribe(topic, "a")
    topic.tend()
    assert topic.subscriptions() == []
    assert topic.stats().ready == MANY
    assert take_all(topic.subscribe("b")) == numbered(MANY)


def test_a_subscription_that_was_cut_off_is_completed_by_whoever_observes(
    topic: Topic, raw: Raw
) -> None:
    topic.publish_many(numbered(MANY))
    begin_to_subscribe(topic, "a")
    topic.publish_many(numbered(10, MANY + 1))
    assert take_all(topic.subscription("a")) == numbered(MANY + 10)
    assert_nothing_left(topic, raw)


def test_a_subscription_that_was_cut_off_is_completed_when_the_topic_is_tended(
    topic: Topic,
) -> None:
    topic.publish_many(numbered(MANY))
    begin_to_subscribe(topic, "a")
    topic.tend()
    assert topic.stats().ready == 0
    assert topic.subscription("a").stats().ready == MANY


def test_a_subscription_that_was_cut_off_and_given_up_leaves_everything_in_order(
    topic: Topic,
) -> None:
    topic.publish_many(numbered(MANY))
    begin_to_subscribe(topic, "a")
    topic.publish_many(numbered(10, MANY + 1))
    assert topic.unsubscribe("a")
    assert take_all(topic.subscribe("b")) == numbered(MANY + 10)


def test_deleting_a_topic_takes_along_what_was_being_given_up(topic: Topic, raw: Raw) -> None:
    topic.subscribe("a")
    topic.subscribe("b")
    topic.publish_many(numbered(MANY))
    begin_to_unsubscribe(topic, "a")
    topic.unsubscribe("b")
    topic.subscribe("c")
    begin_to_unsubscribe(topic, "c")
    topic.delete()
    assert raw.keys(topic) == set()
