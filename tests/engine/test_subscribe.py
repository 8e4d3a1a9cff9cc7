"""Subscribe: from then on messages are kept for a consumer; the first one gets what was held."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from holdfast import Client, InvalidArgument, NoSuchSubscription, Outgoing, Topic, filters
from holdfast.engine import topics
from holdfast.engine.keys import TopicRef
from tests.clock import Clock
from tests.engine.look import bodies, counts, drain, numbered
from tests.engine.seats import assert_nothing_left, shared_bodies, take_all
from tests.raw import Raw


def test_the_first_to_subscribe_gets_what_the_topic_held_in_order(topic: Topic) -> None:
    topic.publish_many(numbered(5))
    seat = topic.subscribe("first")
    topic.publish(b"6")
    assert take_all(seat) == numbered(6)
    assert topic.stats().total == 0


def test_the_second_gets_only_what_comes_later(topic: Topic) -> None:
    topic.publish(b"1")
    first, second = topic.subscribe("first"), topic.subscribe("second")
    topic.publish(b"2")
    assert take_all(first) == [b"1", b"2"]
    assert take_all(second) == [b"2"]


def test_thousands_that_were_held_come_in_order(topic: Topic, raw: Raw) -> None:
    topic.publish_many(numbered(3500))
    seat = topic.subscribe("first")
    assert take_all(seat) == numbered(3500)
    assert_nothing_left(topic, raw)


def test_held_messages_keep_priority_delay_group_and_age(topic: Topic, topic_clock: Clock) -> None:
    ids = topic.publish_many(
        [
            Outgoing(b"later", delay=5),
            Outgoing(b"low"),
            Outgoing(b"g1", group="g"),
            Outgoing(b"g2", group="g"),
            Outgoing(b"high", priority=3),
        ]
    )
    seat = topic.subscribe("a")
    assert counts(seat) == (4, 1, 0, 0)
    first = seat.receive_many(10)
    assert bodies(first) == [b"high", b"low", b"g1"]
    assert [d.id for d in first] == [ids[4], ids[1], ids[2]]
    seat.ack_many(first)
    assert take_all(seat) == [b"g2"]
    topic_clock.advance(5)
    assert take_all(seat) == [b"later"]


def test_held_messages_pass_the_filter_of_the_first(topic: Topic, raw: Raw) -> None:
    topic.publish_many([Outgoing(k.encode(), attributes={"k": k}) for k in "xyx"])
    topic.publish_many(
        [Outgoing(b"late", attributes={"k": "x"}, delay=99), Outgoing(b"no", delay=99)]
    )
    seat = topic.subscribe("a", filter=filters.equals("k", "x"))
    assert take_all(seat) == [b"x", b"x"]
    assert seat.stats().delayed == 1
    assert topic.stats().dropped == 2
    seat.purge()
    assert_nothing_left(topic, raw)


def test_held_messages_past_the_retention_are_not_handed_on(
    topic: Topic, topic_clock: Clock
) -> None:
    topic.configure(retention=60)
    topic.publish(b"old")
    topic_clock.advance(61)
    topic.publish(b"new")
    assert take_all(topic.subscribe("a")) == [b"new"]


def test_subscribing_again_keeps_everything(topic: Topic) -> None:
    seat = topic.subscribe("a")
    topic.publish_many(numbered(3))
    held = seat.receive()
    again = topic.subscribe("a")
    assert counts(again) == (2, 0, 1, 0)
    assert held is not None
    held.ack()
    assert take_all(again) == numbered(2, 2)


def test_subscribing_again_sets_the_filter_for_what_comes(topic: Topic) -> None:
    seat = topic.subscribe("a", filter=filters.equals("k", "x"))
    topic.publish_many([Outgoing(k.encode(), attributes={"k": k}) for k in "xy"])
    topic.subscribe("a", filter=filters.equals("k", "y"))
    topic.publish_many([Outgoing(k.encode(), attributes={"k": k}) for k in "xy"])
    assert take_all(seat) == [b"x", b"y"]
    topic.subscribe("a")
    topic.publish(b"any")
    assert take_all(seat) == [b"any"]


def test_each_broadcast_peer_gets_every_message(topic: Topic) -> None:
    peers = [topic.subscribe("a", peer=name) for name in ("", "p1", "p2")]
    topic.publish_many(numbered(3))
    for peer in peers:
        assert take_all(peer) == numbered(3)


def test_shared_peers_get_each_message_once_among_them(topic: Topic) -> None:
    peers = [topic.subscribe("a", peer=name, mode="shared") for name in ("p1", "p2", "p3")]
    topic.publish_many(numbered(6))
    got = [body for peer in peers for body in bodies(peer.observe(2))]
    assert got == numbered(6)
    assert [peer.observe(2) for peer in peers] == [[], [], []]


@pytest.mark.parametrize(("first", "second"), [("shared", "broadcast"), ("broadcast", "shared")])
def test_a_consumer_has_one_mode(topic: Topic, first: str, second: str) -> None:
    topic.subscribe("a", peer="p", mode=first)  # type: ignore[arg-type]
    with pytest.raises(InvalidArgument, match=f"is subscribed in {first} mode"):
        topic.subscribe("a", peer="q", mode=second)  # type: ignore[arg-type]
    topic.subscribe("b", peer="q", mode=second)  # type: ignore[arg-type]
    topic.unsubscribe("a")
    topic.subscribe("a", peer="q", mode=second)  # type: ignore[arg-type]


def test_settings_of_a_topic_hold_for_its_subscriptions_those_to_come_too(topic: Topic) -> None:
    early = topic.subscribe("early")
    topic.configure(max_receives=7, lease=11)
    late = topic.subscribe("late")
    for seat in (early, late):
        assert (seat.settings().max_receives, seat.settings().lease) == (7, 11)
    early.configure(max_receives=2)
    assert (early.settings().max_receives, early.settings().lease) == (2, 11)
    assert late.settings().max_receives == 7


def test_subscribing_again_keeps_a_subscriptions_own_settings(topic: Topic) -> None:
    topic.configure(max_receives=7)
    topic.subscribe("a").configure(max_receives=2)
    assert topic.subscribe("a").settings().max_receives == 2


def test_a_topic_has_no_shards(topic: Topic) -> None:
    with pytest.raises(InvalidArgument, match="no shards"):
        topic.configure(shards=2)
    with pytest.raises(InvalidArgument, match="no shards"):
        topic.subscribe("a").configure(shards=2)


def once(hf: Client, topic: Topic, consumer: str, held: int) -> bool:
    """One call of a subscribe that needs several."""
    ref = topic.refs()[0]
    assert isinstance(ref, TopicRef)
    done = hf.transport.run(topics.subscribe(ref, consumer, "", "broadcast", None))
    assert topic.stats().ready == held
    return done


def test_what_is_published_while_held_messages_move_comes_after_them(
    hf: Client, topic: Topic
) -> None:
    topic.publish_many(numbered(2500))
    assert not once(hf, topic, "a", held=1500)
    topic.publish(b"2501")
    assert topic.stats().ready == 1501
    seat = topic.subscribe("a")
    topic.publish(b"2502")
    assert take_all(seat) == numbered(2502)


def test_a_second_who_comes_while_held_messages_move_waits_for_the_first(
    hf: Client, topic: Topic
) -> None:
    topic.publish_many(numbered(2500))
    assert not once(hf, topic, "a", held=1500)
    second = topic.subscribe("b")
    topic.publish(b"2501")
    assert take_all(topic.subscription("a")) == numbered(2501)
    assert take_all(second) == [b"2501"]


def test_a_subscribe_that_was_cut_off_can_be_observed_and_goes_on(hf: Client, topic: Topic) -> None:
    topic.publish_many(numbered(1500))
    assert not once(hf, topic, "a", held=500)
    seat = topic.subscription("a")
    assert take_all(seat) == numbered(1500)
    topic.subscribe("a")
    assert take_all(seat) == []


def test_a_subscribe_that_was_cut_off_can_be_taken_back(hf: Client, topic: Topic) -> None:
    topic.publish_many(numbered(1500))
    assert not once(hf, topic, "a", held=500)
    assert topic.unsubscribe("a")
    assert topic.stats().ready == 1500
    assert take_all(topic.subscribe("b")) == numbered(1500)


def test_a_handle_without_a_subscription_says_so(topic: Topic) -> None:
    nobody = topic.subscription("nobody")
    acts: list[Callable[[], object]] = [nobody.observe, nobody.stats, nobody.receive]
    for act in acts:
        with pytest.raises(NoSuchSubscription, match=r"nobody.* is not subscribed to this topic"):
            act()


def test_a_peer_of_a_shared_subscription_sits_where_the_others_do(topic: Topic) -> None:
    topic.subscribe("a", peer="p", mode="shared")
    topic.publish(b"x")
    assert bodies(topic.subscription("a", peer="new").observe()) == [b"x"]


def test_another_peer_of_a_broadcast_consumer_must_subscribe(topic: Topic) -> None:
    topic.subscribe("a", peer="p")
    with pytest.raises(NoSuchSubscription):
        topic.subscription("a", peer="q").observe()


@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        ({"consumer": ""}, "consumer"),
        ({"consumer": "a", "peer": "x" * 2000}, "peer"),
        ({"consumer": "a", "mode": "private"}, "broadcast"),
        ({"consumer": "a", "filter": {"all": []}}, "must be a Filter"),
    ],
)
def test_wrong_arguments_are_refused(topic: Topic, arguments: dict[str, str], says: str) -> None:
    with pytest.raises(InvalidArgument, match=says):
        topic.subscribe(**arguments)  # type: ignore[arg-type]
    assert topic.subscriptions() == []


@pytest.mark.parametrize(
    "args",
    [
        (),
        ("/a",),
        ("/a", "/a/"),
        ("/a", "/a/", "broadcast"),
        ("a", "/a/", "broadcast", ""),
        ("/a", "a", "broadcast", ""),
        ("/a", "/b/", "broadcast", ""),
        ("/a/b", "/a/b/", "broadcast", ""),
        ("/a", "/a/b/c", "broadcast", ""),
        ("/a", "/a/:r0", "broadcast", ""),
        ("/a", "/a/", "odd", ""),
        ("", "/", "broadcast", ""),
        ("/", "//", "broadcast", ""),
        ("/a", "/a/", "shared", "{"),
        ("/a", "/a/", "shared", '"x"'),
        ("/a", "/a/", "shared", '{"all": 5}'),
        ("/a", "/a/", "shared", '{"all": ["x"]}'),
        ("/a", "/a/", "shared", '{"attribute": "k"}'),
        ("/a", "/a/", "shared", '{"attribute": "k", "in": "x"}'),
        ("/a", "/a/", "shared", '{"attribute": "k", "prefix": 5}'),
    ],
)
def test_raw_calls_with_wrong_arguments_say_invalid_and_change_nothing(
    hf: Client, topic: Topic, args: tuple[str, ...]
) -> None:
    key = topic.refs()[0].key
    with pytest.raises(InvalidArgument):
        hf.transport.command("FCALL", "hf1_subscribe", 1, key, *args, key=key)
    assert topic.subscriptions() == []
    topic.publish(b"x", attributes={"k": "v"})
    assert topic.stats().ready == 1


def test_bodies_that_came_back_shared_are_moved_and_freed(topic: Topic, raw: Raw) -> None:
    seats = [topic.subscribe("a"), topic.subscribe("b")]
    topic.publish_many([Outgoing(b"1", attributes={"k": "x"}), Outgoing(b"2")])
    for seat in seats:
        seat.unsubscribe()
    assert shared_bodies(topic, raw) == 2
    last = topic.subscribe("c", filter=filters.exists("k"))
    assert shared_bodies(topic, raw) == 1
    assert bodies(drain(last)) == [b"1"]
    last.purge()
    assert_nothing_left(topic, raw)


def test_a_new_subscription_takes_the_dead_letters_that_its_filter_wants(
    topic: Topic, raw: Raw
) -> None:
    first = topic.subscribe("first")
    for kind in ("x", "y", "x"):
        topic.publish(b"body", attributes={"kind": kind})
    for d in first.observe(3):
        d.bury("bad")
    first.unsubscribe()
    assert topic.stats().dead == 3
    seat = topic.subscribe("second", filter=filters.equals("kind", "x"))
    assert [m.attributes for m in seat.inspect("dead")] == [{"kind": "x"}] * 2
    seat.purge("dead")
    assert_nothing_left(topic, raw)
