"""Subscriptions: who is subscribed, with what filter, and who of them is there."""

from __future__ import annotations

from typing import Any

import pytest

from holdfast import Client, Topic, Unavailable, filters
from tests.clock import Clock


def test_a_topic_without_any_has_none(topic: Topic) -> None:
    assert topic.subscriptions() == []
    topic.publish(b"x")
    assert topic.subscriptions() == []


def test_each_broadcast_peer_has_its_own_and_shared_peers_have_one(
    topic: Topic, topic_clock: Clock
) -> None:
    wanted = filters.equals("kind", "x") | filters.exists("vip")
    topic.subscribe("all", peer="p")
    topic.subscribe("all")
    topic_clock.advance(1)
    topic.subscribe("some", peer="q", mode="shared", filter=wanted)
    topic.subscribe("some", peer="p", mode="shared", filter=wanted)
    first, second, third = topic.subscriptions()
    assert [(i.consumer, i.peer, i.mode) for i in (first, second, third)] == [
        ("all", "", "broadcast"),
        ("all", "p", "broadcast"),
        ("some", None, "shared"),
    ]
    assert (first.filter, third.filter) == (None, wanted)
    assert (first.since, third.since) == (topic_clock.at(-1), topic_clock.now)
    assert [[p.name for p in i.peers] for i in (first, second, third)] == [[""], ["p"], ["p", "q"]]


def test_peers_are_live_while_they_were_seen_lately(topic: Topic, topic_clock: Clock) -> None:
    topic.configure(peer_timeout=10)
    seen, silent = (topic.subscribe("a", peer=name) for name in ("seen", "silent"))
    topic_clock.advance(11)
    seen.observe()
    by_name = {info.peer: info.peers[0] for info in topic.subscriptions()}
    assert (by_name["seen"].live, by_name["silent"].live) == (True, False)
    assert by_name["seen"].last_seen == topic_clock.now
    assert by_name["silent"].last_seen == topic_clock.at(-11)
    silent.observe()
    assert all(info.peers[0].live for info in topic.subscriptions())


def test_since_is_when_it_was_made_and_not_when_it_was_made_again(
    topic: Topic, topic_clock: Clock
) -> None:
    topic.subscribe("a")
    topic_clock.advance(5)
    topic.subscribe("a")
    [info] = topic.subscriptions()
    assert info.since == topic_clock.at(-5)
    assert info.peers[0].last_seen == topic_clock.now


def test_a_new_peer_of_a_shared_subscription_is_listed_once_it_observes(topic: Topic) -> None:
    topic.subscribe("a", peer="p", mode="shared")
    topic.subscription("a", peer="q").observe()
    [info] = topic.subscriptions()
    assert [peer.name for peer in info.peers] == ["p", "q"]


def test_topics_are_listed_from_their_first_use_until_they_are_deleted(
    hf: Client, topic: Topic
) -> None:
    other = hf.topic(topic.name + " other")
    topic.publish(b"x")
    other.subscribe("a")
    assert {topic.name, other.name} <= set(hf.topics())
    topic.delete()
    other.delete()
    assert not {topic.name, other.name} & set(hf.topics())


def test_a_consumer_knows_its_topics(hf: Client, topic: Topic) -> None:
    name = f"consumer of {topic.name}"
    other = hf.topic(f"{topic.name} other")
    for each in (topic, other):
        each.subscribe(name, peer="p")
        each.subscribe(name, peer="q")
    assert hf.consumer(name).topics() == [topic.name, other.name]
    other.unsubscribe(name, peer="p")
    assert hf.consumer(name).topics() == [topic.name, other.name]
    other.unsubscribe(name, peer="q")
    assert hf.consumer(name).topics() == [topic.name]


def test_what_was_set_for_one_subscription_alone_stays(topic: Topic) -> None:
    topic.configure(lease=10, max_receives=3)
    mine, other = topic.subscribe("mine"), topic.subscribe("other")
    mine.configure(lease=60)
    topic.configure(max_receives=7)
    assert (mine.settings().lease, mine.settings().max_receives) == (60, 7)
    topic.configure(lease=20, ttl=5)
    assert (mine.settings().lease, mine.settings().ttl) == (60, 5)
    assert (other.settings().lease, other.settings().max_receives) == (20, 7)
    assert topic.subscribe("new").settings() == other.settings() == topic.settings()


def test_settings_of_a_topic_that_were_cut_off_half_way_are_completed_by_the_next_try(
    topic: Topic, monkeypatch: pytest.MonkeyPatch
) -> None:
    seats = [topic.subscribe(name) for name in ("a", "b")]
    run, calls_made = topic.transport.run, []

    def cut_off(call: Any) -> Any:
        if call.verb == "configure" and call.args != [b""]:
            calls_made.append(call)
            if len(calls_made) == 2:
                raise Unavailable("the connection is lost")
        return run(call)

    monkeypatch.setattr(topic.transport, "run", cut_off)
    with pytest.raises(Unavailable):
        topic.configure(lease=20)
    monkeypatch.undo()
    topic.configure(lease=20)
    assert [seat.settings().lease for seat in seats] == [20, 20]
    assert topic.settings().lease == 20
