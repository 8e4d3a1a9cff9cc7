"""Observe: receive from one's subscription, and be seen to be there."""

from __future__ import annotations

import time
from collections.abc import Callable
from functools import partial
from threading import Timer

import pytest

import holdfast
from holdfast import Client, InvalidArgument, NoSuchSubscription, Outgoing, Topic
from holdfast.engine import topics
from holdfast.engine.keys import TopicRef
from holdfast.message import utc
from holdfast.settings import AS_SET
from tests.clock import Clock
from tests.conftest import Servers, Setting
from tests.engine.look import bodies, counts, numbered
from tests.engine.seats import assert_nothing_left, take_all
from tests.raw import Raw


def test_observing_takes_up_to_so_many_in_order(topic: Topic) -> None:
    seat = topic.subscribe("a")
    topic.publish_many(numbered(5))
    assert bodies(seat.observe()) == [b"1"]
    assert bodies(seat.observe(3)) == numbered(3, 2)
    assert bodies(seat.observe(100)) == [b"5"]
    assert seat.observe() == []


def test_what_is_not_acked_comes_back_when_the_lease_ends(topic: Topic, topic_clock: Clock) -> None:
    seats = [topic.subscribe("a"), topic.subscribe("b")]
    topic.publish(b"x")
    for seat in seats:
        [first] = seat.observe(lease=5)
        topic_clock.advance(5)
        [second] = seat.observe(lease=5)
        assert (second.id, second.receives) == (first.id, 2)
        assert not seat.ack(first)
        assert seat.ack(second)


def test_a_lease_always_ends_since_a_peer_may_go_for_good(topic: Topic, topic_clock: Clock) -> None:
    seat = topic.subscribe("a")
    topic.publish(b"x")
    with pytest.raises(InvalidArgument, match="has a lease that ends"):
        seat.observe(lease=None)
    with pytest.raises(InvalidArgument, match="must be more than 0"):
        seat.observe(lease=0)
    # Which earlier releases and other languages write for "until settled".
    key = topic.refs()[0].key
    *_, until, _, _, _ = seat.transport.command(
        "FCALL", "hf1_observe", 1, key, "/a", "/a/", 1, 0, 0, key=key
    )
    assert utc(until) == topic_clock.at(topic.settings().lease or 0)


def test_a_lease_is_as_the_topic_is_set(topic: Topic, topic_clock: Clock) -> None:
    topic.configure(lease=7)
    seat = topic.subscribe("a")
    topic.publish(b"x")
    [d] = seat.observe()
    assert d.lease_until == topic_clock.at(7)


def test_where_the_topic_sets_no_lease_observing_has_one(topic: Topic, topic_clock: Clock) -> None:
    topic.configure(lease=None)
    seat = topic.subscribe("a")
    topic.publish(b"x")
    [d] = seat.observe()
    assert d.lease_until is not None
    assert d.lease_until > topic_clock.now


def test_a_silent_peer_gets_nothing_new_while_another_is_there(
    topic: Topic, topic_clock: Clock
) -> None:
    topic.configure(peer_timeout=30)
    live, silent = (topic.subscribe("a", peer=name) for name in ("live", "silent"))
    topic.publish(b"1")
    topic_clock.advance(31)
    live.observe()
    topic.publish(b"2")
    assert counts(silent) == (1, 0, 0, 0)
    assert counts(live) == (1, 0, 1, 0)


def test_a_peer_that_is_back_gets_what_it_had_and_what_comes(
    topic: Topic, topic_clock: Clock
) -> None:
    live, silent = (topic.subscribe("a", peer=name) for name in ("live", "silent"))
    topic.publish(b"1")
    topic_clock.advance(31)
    live.observe()
    topic.publish(b"missed")
    assert take_all(silent) == [b"1"]
    topic.publish(b"2")
    assert take_all(silent) == [b"2"]


def test_exactly_at_the_timeout_a_peer_is_still_there(topic: Topic, topic_clock: Clock) -> None:
    topic.configure(peer_timeout=10)
    live, silent = (topic.subscribe("a", peer=name) for name in ("live", "silent"))
    topic_clock.advance(10)
    live.observe()
    topic.publish(b"1")
    topic_clock.advance(0.001)
    topic.publish(b"2")
    assert counts(silent) == (1, 0, 0, 0)


def test_when_all_peers_are_silent_all_go_on_getting(topic: Topic, topic_clock: Clock) -> None:
    peers = [topic.subscribe("a", peer=name) for name in ("p", "q")]
    topic_clock.advance(3600)
    topic.publish(b"x")
    for peer in peers:
        assert take_all(peer) == [b"x"]


def test_the_only_peer_goes_on_getting_however_silent(topic: Topic, topic_clock: Clock) -> None:
    busy, only = topic.subscribe("busy"), topic.subscribe("only")
    topic_clock.advance(3600)
    busy.observe()
    topic.publish(b"x")
    assert take_all(only) == [b"x"]


def test_a_shared_subscription_goes_on_getting_however_silent(
    topic: Topic, topic_clock: Clock
) -> None:
    seat = topic.subscribe("a", peer="p", mode="shared")
    topic.subscribe("a", peer="q", mode="shared")
    topic_clock.advance(3600)
    topic.publish(b"x")
    assert take_all(seat) == [b"x"]


def test_touching_is_being_seen_without_taking(topic: Topic, topic_clock: Clock) -> None:
    live, busy = (topic.subscribe("a", peer=name) for name in ("live", "busy"))
    topic.publish(b"1")
    topic_clock.advance(31)
    live.observe()
    busy.touch()
    topic.publish(b"2")
    assert counts(busy) == (2, 0, 0, 0)
    with pytest.raises(NoSuchSubscription):
        topic.subscription("nobody").touch()


def test_who_waits_is_told_to_be_seen_again_in_time(topic: Topic, topic_clock: Clock) -> None:
    topic.configure(peer_timeout=8)
    seat = topic.subscribe("a", peer="p")
    [ref] = seat.refs()
    look = partial(topics.observe, TopicRef(topic.name), "a", "p", ref, 1, AS_SET)
    attend = partial(topics.attend, TopicRef(topic.name), "a", "p", ref)
    # Who does not wait need not come back.
    assert topic.transport.run(look(0)).next_ms == -1
    assert topic.transport.run(look(60_000)).next_ms == 4_000
    assert topic.transport.run(attend(60_000)) == (False, 4_000)
    # Unless something falls due before.
    topic.publish(b"x", delay=3)
    assert topic.transport.run(look(60_000)).next_ms == 3_000
    assert topic.transport.run(attend(60_000)) == (False, 3_000)


def test_a_waiting_peer_that_dies_is_silent_from_its_last_look_on(
    topic: Topic, topic_clock: Clock
) -> None:
    topic.configure(peer_timeout=8)
    dies, lives = topic.subscribe("a", peer="dies"), topic.subscribe("a", peer="lives")
    [ref] = dies.refs()
    topic.transport.run(topics.attend(TopicRef(topic.name), "a", "dies", ref, 60_000))
    topic_clock.advance(8)
    lives.observe()
    topic.publish(b"1")
    topic_clock.advance(1)
    lives.touch()
    topic.publish(b"2")
    assert take_all(lives) == [b"1", b"2"]
    assert take_all(dies) == [b"1"]


def test_a_handle_from_before_the_mode_changed_says_so_and_takes_nothing(topic: Topic) -> None:
    old = topic.subscribe("c")
    assert old.observe() == []
    topic.unsubscribe("c")
    new = topic.subscribe("c", mode="shared")
    topic.publish(b"x")
    with pytest.raises(NoSuchSubscription, match="in another mode"):
        old.observe()
    [d] = new.observe()
    d.ack()


def test_the_name_of_a_peer_survives_its_client(topic: Topic, hf: Client) -> None:
    topic.subscribe("a", peer="p")
    topic.publish(b"x")
    again = hf.topic(topic.name).subscription("a", peer="p")
    assert take_all(again) == [b"x"]


def test_a_subscription_silent_past_the_retention_is_given_up(
    topic: Topic, topic_clock: Clock, raw: Raw
) -> None:
    topic.configure(retention=100)
    live, silent = topic.subscribe("live"), topic.subscribe("silent")
    topic.publish_many(numbered(3))
    topic_clock.advance(60)
    live.observe(2)
    topic_clock.advance(41)
    topic.tend()
    assert [info.consumer for info in topic.subscriptions()] == ["live"]
    assert topic.stats().expired == 3
    with pytest.raises(NoSuchSubscription):
        silent.observe()
    topic_clock.advance(40)
    assert sorted(take_all(live)) == numbered(3)
    assert_nothing_left(topic, raw)


def test_exactly_at_the_retention_a_subscription_stays(topic: Topic, topic_clock: Clock) -> None:
    topic.configure(retention=100)
    topic.subscribe("a")
    topic_clock.advance(100)
    topic.tend()
    assert len(topic.subscriptions()) == 1
    topic_clock.advance(0.001)
    topic.tend()
    assert topic.subscriptions() == []


def test_a_shared_subscription_stays_while_one_of_its_peers_is_seen(
    topic: Topic, topic_clock: Clock
) -> None:
    topic.configure(retention=100)
    one = topic.subscribe("a", peer="p", mode="shared")
    topic.subscribe("a", peer="q", mode="shared")
    topic_clock.advance(99)
    one.observe()
    topic_clock.advance(99)
    topic.tend()
    assert len(topic.subscriptions()) == 1
    topic_clock.advance(2)
    topic.tend()
    assert topic.subscriptions() == []


@pytest.mark.parametrize("retention", [60, None])
def test_a_peer_of_a_shared_subscription_that_stays_away_is_forgotten(
    topic: Topic, topic_clock: Clock, retention: float | None
) -> None:
    topic.configure(retention=retention)
    stays = topic.subscribe("a", peer="stays", mode="shared")
    for n in range(5):
        topic.subscribe("a", peer=f"goes-{n}", mode="shared")
    other = topic.subscribe("b", peer="alone")
    topic_clock.advance(7 * 24 * 3600 if retention is None else retention)
    stays.observe()
    other.observe()
    topic.tend()
    assert [len(info.peers) for info in topic.subscriptions()] == [6, 1]
    topic_clock.advance(1)
    topic.tend()
    assert [[p.name for p in info.peers] for info in topic.subscriptions()] == [
        ["stays"],
        ["alone"],
    ]


def test_what_a_forgotten_last_subscription_had_is_held_until_it_is_too_old_itself(
    topic: Topic, topic_clock: Clock, raw: Raw
) -> None:
    topic.configure(retention=100)
    topic.subscribe("a")
    topic.publish(b"old")
    topic_clock.advance(50)
    topic.publish(b"young")
    topic_clock.advance(51)
    topic.tend()
    assert topic.subscriptions() == []
    assert bodies(topic.inspect("ready")) == [b"young"]
    assert topic.stats().expired == 1
    topic_clock.advance(50)
    topic.tend()
    assert topic.stats().expired == 2
    assert_nothing_left(topic, raw)


def test_nothing_at_the_head_keeps_what_was_held_too_long(
    topic: Topic, topic_clock: Clock, raw: Raw
) -> None:
    topic.configure(retention=100)
    topic.publish_many([Outgoing(b"x", group=f"g{n % 40}") for n in range(80)])
    topic.publish_many(numbered(30))
    topic.remove(topic.publish(b"x"))
    topic_clock.advance(50)
    topic.publish_many([Outgoing(b"young", group="g7"), Outgoing(b"young")])
    topic.publish_many(numbered(30))
    topic_clock.advance(51)
    topic.tend()
    assert topic.stats().expired == 110
    assert sorted(bodies(topic.inspect("ready", 0, 100))) == sorted([b"young"] * 2 + numbered(30))
    assert bodies(topic.inspect("ready", group="g7")) == [b"young"]
    topic_clock.advance(50)
    topic.tend()
    assert_nothing_left(topic, raw)


def test_many_that_were_held_too_long_go(topic: Topic, topic_clock: Clock, raw: Raw) -> None:
    topic.configure(retention=100)
    topic.publish_many(numbered(2500))
    topic_clock.advance(101)
    topic.publish(b"new")
    topic.tend()
    assert bodies(topic.inspect("ready")) == [b"new"]
    assert topic.stats().expired == 2500


def test_shared_bodies_that_were_held_too_long_are_freed(
    topic: Topic, topic_clock: Clock, raw: Raw
) -> None:
    topic.configure(retention=100)
    for name in ("a", "b"):
        topic.subscribe(name)
    topic.publish_many(numbered(3))
    for name in ("a", "b"):
        topic.unsubscribe(name)
    topic_clock.advance(101)
    topic.tend()
    assert topic.stats().expired == 3
    assert_nothing_left(topic, raw)


def test_without_a_retention_nothing_is_given_up(topic: Topic, topic_clock: Clock) -> None:
    topic.configure(retention=None)
    topic.subscribe("a")
    topic_clock.advance(10**8)
    topic.tend()
    assert len(topic.subscriptions()) == 1


def test_many_silent_subscriptions_are_all_given_up(topic: Topic, topic_clock: Clock) -> None:
    topic.configure(retention=100)
    for n in range(5):
        topic.subscribe(f"c{n}")
    topic.publish_many(numbered(3))
    topic_clock.advance(101)
    topic.tend()
    assert topic.subscriptions() == []
    assert topic.stats().expired == 5 * 3


def test_a_paused_subscription_gets_but_does_not_give(topic: Topic) -> None:
    one, other = topic.subscribe("a"), topic.subscribe("b")
    one.pause()
    topic.publish(b"x")
    assert one.observe() == []
    assert take_all(other) == [b"x"]
    one.resume()
    assert take_all(one) == [b"x"]


def test_a_consumer_observes_topics_wherever_they_lie(
    hf: Client, new_topic: Callable[[], Topic], topic: Topic
) -> None:
    topics = [new_topic() for _ in range(8)]
    who = f"consumer of {topic.name}"
    for each in topics:
        each.subscribe(who)
    assert hf.consumer(who).observe(100, wait=0.05) == []
    for each in topics:
        each.publish(each.name.encode())
    got = hf.consumer(who).observe(100)
    assert sorted(d.source for d in got) == sorted(each.name for each in topics)
    assert all(d.body.decode() == d.source for d in got)
    for d in got:
        d.ack()
    assert [each.subscription(who).stats().total for each in topics] == [0] * 8


def test_a_consumer_of_topics_on_several_nodes_is_woken_by_any(
    all_servers: Servers, setting: Setting, hf: Client, new_topic: Callable[[], Topic], topic: Topic
) -> None:
    topics = [new_topic() for _ in range(5)]
    who = f"consumer of {topic.name}"
    for each in topics:
        each.subscribe(who)
    with holdfast.connect(all_servers.url(setting.kind), check="off") as other:
        for each in topics:
            publish = Timer(0.05, other.topic(each.name).publish, [b"x"])
            publish.start()
            start = time.monotonic()
            got = hf.consumer(who).observe(wait=20)
            publish.join()
            assert [d.source for d in got] == [each.name]
            assert time.monotonic() - start < 8
            got[0].ack()


@pytest.mark.parametrize("count", [0, -1, 100_001])
def test_a_wrong_count_is_refused(topic: Topic, count: int) -> None:
    with pytest.raises(InvalidArgument, match="count"):
        topic.subscribe("a").observe(count)


@pytest.mark.parametrize(
    "args",
    [
        (),
        ("/a",),
        ("/a", "/a/"),
        ("/a", "/a/", "x", -1, 0),
        ("/a", "/a/", 1, "x", 0),
        ("/a", "/b/", 1, 0, 0),
    ],
)
def test_raw_calls_with_wrong_arguments_say_invalid(
    hf: Client, topic: Topic, args: tuple[str | int, ...]
) -> None:
    topic.subscribe("a")
    topic.publish(b"x")
    key = topic.refs()[0].key
    with pytest.raises(InvalidArgument):
        hf.transport.command("FCALL", "hf1_observe", 1, key, *args, key=key)
    assert topic.subscription("a").stats().ready == 1
