"""holdfast publish, observe, subscribe, unsubscribe, topics, subscriptions."""

from __future__ import annotations

import json
import os

import pytest

import holdfast
from holdfast import filters
from tests.cli.conftest import Run


@pytest.fixture
def topic(client: holdfast.Client, request: pytest.FixtureRequest) -> holdfast.Topic:
    """A topic of this test's own."""
    return client.topic(f"{request.node.name[:150]}-{os.getpid()}")


def bodies(seat: holdfast.Subscription) -> list[bytes]:
    return [m.body for m in seat.inspect("ready")]


def test_publish_prints_the_ids_and_every_subscription_has_them(
    run: Run, topic: holdfast.Topic
) -> None:
    seats = [topic.subscribe("a"), topic.subscribe("b")]
    result = run("publish", topic.name, "one", "two")
    assert (result.status, result.err) == (0, "")
    for seat in seats:
        assert [m.id for m in seat.inspect("ready")] == result.lines
        assert bodies(seat) == [b"one", b"two"]


def test_publish_takes_everything_that_can_be_said_of_a_message(
    run: Run, topic: holdfast.Topic
) -> None:
    seat = topic.subscribe("a")
    words = ["--priority", "7", "--group", "g", "-a", "k=v", "--dedup-id", "d", "--ttl", "1h"]
    first = run("publish", topic.name, "x", *words, "--json").object
    again = run("publish", topic.name, "x", *words, "--json").object
    assert again == {"id": first["id"], "duplicate": True}
    [message] = seat.inspect("ready")
    assert (message.priority, message.group, message.attributes) == (7, "g", {"k": "v"})
    assert message.expires_at is not None


def test_publish_takes_lines_and_json_lines(run: Run, topic: holdfast.Topic) -> None:
    seat = topic.subscribe("a")
    result = run("publish", topic.name, "--lines", stdin=b"1\n2\n")
    assert result.lines == [f"published 2 messages to {topic.name!r}"]
    run("publish", topic.name, "--jsonl", stdin=b'{"body": "3", "priority": 0}\n')
    assert bodies(seat) == [b"1", b"2", b"3"]


def test_publish_of_nothing_is_refused(run: Run, topic: holdfast.Topic) -> None:
    result = run("publish", topic.name)
    assert (result.status, result.out) == (64, "")
    assert "nothing to send" in result.err


def test_subscribe_says_so_and_what_was_waiting(run: Run, topic: holdfast.Topic) -> None:
    topic.publish_many([b"1", b"2"])
    result = run("subscribe", topic.name, "a")
    assert result.lines == [f"'a' is subscribed to {topic.name!r}"]
    assert result.err == "2 messages waiting for it\n"
    again = run("subscribe", topic.name, "a", "--json").object
    assert again == {"topic": topic.name, "consumer": "a", "peer": "", "ready": 2}


def test_subscribe_takes_peer_mode_and_filter(run: Run, topic: holdfast.Topic) -> None:
    text = '{"attribute": "k", "equals": "x"}'
    words = ["--peer", "p", "--mode", "shared", "--filter", text]
    result = run("subscribe", topic.name, "a", *words)
    assert result.lines == [f"peer 'p' of 'a' is subscribed to {topic.name!r}"]
    [info] = topic.subscriptions()
    assert (info.mode, info.filter) == ("shared", filters.equals("k", "x"))
    assert [p.name for p in info.peers] == ["p"]


@pytest.mark.parametrize(
    ("words", "says"),
    [
        (["--mode", "private"], "mode must be 'broadcast' or 'shared', not 'private'"),
        (["--filter", "{"], "--filter: a filter must be JSON"),
        (["--filter", "{}"], "--filter: a filter must be all, any"),
    ],
)
def test_subscribe_refuses_what_makes_no_sense(
    run: Run, topic: holdfast.Topic, words: list[str], says: str
) -> None:
    result = run("subscribe", topic.name, "a", *words)
    assert result.status == 64
    assert says in result.err
    assert topic.subscriptions() == []


def test_observe_prints_topic_receipt_and_body_and_ack_settles(
    run: Run, topic: holdfast.Topic
) -> None:
    who = f"who {topic.name}"
    seat = topic.subscribe(who)
    topic.publish(b"hello")
    result = run("observe", who)
    name, receipt, body = result.lines[0].split("\t")
    assert (name, body) == (topic.name, "hello")
    assert f"when done:  holdfast ack {topic.name!r}" in result.err.replace(
        f"holdfast ack {topic.name} ", f"holdfast ack {topic.name!r} "
    )
    assert f"--consumer '{who}'" in result.err
    assert run("ack", name, receipt).status == 3, "a queue of that name has no such receipt"
    assert run("ack", name, receipt, "--consumer", who).lines == [f"acked {receipt}"]
    assert seat.stats().total == 0
    assert run("ack", name, receipt, "--consumer", who).status == 3


def test_observe_with_ack_prints_bodies_only_and_is_done(
    run: Run, client: holdfast.Client, topic: holdfast.Topic
) -> None:
    who, other = f"who {topic.name}", client.topic(f"{topic.name} other")
    for each in (topic, other):
        each.subscribe(who)
        each.publish_many([b"1", b"2"])
    result = run("observe", who, "-n", "10", "--ack")
    assert sorted(result.lines) == ["1", "1", "2", "2"]
    assert [t.subscription(who).stats().total for t in (topic, other)] == [0, 0]


def test_observe_may_be_of_one_topic_and_one_peer(
    run: Run, client: holdfast.Client, topic: holdfast.Topic
) -> None:
    who, other = f"who {topic.name}", client.topic(f"{topic.name} other")
    for each in (topic, other):
        each.subscribe(who, peer="p")
        each.publish(each.name.encode())
    found = run("observe", who, "--topic", topic.name, "--peer", "p", "-n", "9", "--json").object
    assert (found["topic"], found["body"]) == (topic.name, topic.name)
    settled = run("nack", topic.name, found["receipt"], "--consumer", who, "--peer", "p")
    assert settled.lines == [f"nacked {found['receipt']}"]
    again = run("observe", who, "--topic", topic.name, "--peer", "p", "--json").object
    assert again["receives"] == 2
    longer = run(
        "extend", topic.name, again["receipt"], "--lease", "9m", "--consumer", who, "--peer", "p"
    )
    assert longer.status == 0


def test_what_observe_prints_as_json_can_be_published_again(
    run: Run, topic: holdfast.Topic
) -> None:
    seat = topic.subscribe("a")
    topic.publish(b"x", attributes={"k": "v"})
    line = run("observe", "a", "--topic", topic.name, "--json", "--ack").raw
    assert run("publish", topic.name, "--jsonl", stdin=line).status == 0
    [message] = seat.inspect("ready")
    assert (message.body, message.attributes) == (b"x", {"k": "v"})


def test_observe_of_nothing_says_why_and_exits_with_4(run: Run, topic: holdfast.Topic) -> None:
    seat = topic.subscribe("a")
    topic.publish(b"x", delay=60)
    result = run("observe", "a", "--topic", topic.name)
    assert (result.status, result.out) == (4, "")
    assert result.err == f"nothing to observe in {topic.name!r} now (1 delayed)\n"
    seat.purge()
    assert run("observe", "a", "--topic", topic.name, "--json").err == ""


def test_observe_by_somebody_who_is_not_subscribed_exits_with_3(
    run: Run, topic: holdfast.Topic
) -> None:
    for words in (["--topic", topic.name], []):
        result = run("observe", f"nobody {topic.name}", *words)
        assert result.status == 3
        assert "subscribe" in result.err


def test_a_peer_without_a_consumer_is_refused(run: Run) -> None:
    result = run("ack", "q", "1-1@1", "--peer", "p")
    assert result.status == 64
    assert "give --consumer too" in result.err


def test_unsubscribe_asks_where_messages_would_go(run: Run, topic: holdfast.Topic) -> None:
    topic.subscribe("a")
    topic.publish(b"x")
    refused = run("unsubscribe", topic.name, "a")
    assert refused.status == 64
    assert "say --yes to unsubscribe 'a', with 1 message" in refused.err
    done = run("unsubscribe", topic.name, "a", "--yes")
    assert done.lines == [f"'a' is not subscribed to {topic.name!r} any more"]
    assert topic.stats().ready == 1


def test_unsubscribe_of_an_empty_subscription_asks_nothing(run: Run, topic: holdfast.Topic) -> None:
    topic.subscribe("a", peer="p")
    topic.subscribe("a", peer="q")
    found = run("unsubscribe", topic.name, "a", "--peer", "p", "--json").object
    assert found == {"topic": topic.name, "unsubscribed": "a", "peer": "p"}
    assert [info.peer for info in topic.subscriptions()] == ["q"]


def test_unsubscribe_of_who_is_not_there_exits_with_3(run: Run, topic: holdfast.Topic) -> None:
    topic.subscribe("a", peer="p")
    for words in (["b"], ["a", "--peer", "q"]):
        result = run("unsubscribe", topic.name, *words)
        assert result.status == 3
        assert "is not subscribed" in result.err


def test_topics_lists_the_names(run: Run, topic: holdfast.Topic) -> None:
    topic.publish(b"x")
    assert topic.name in run("topics").lines
    assert topic.name in run("topics", "--json").object["topics"]
    topic.delete()
    assert topic.name not in run("topics").lines


def test_subscriptions_shows_who_is_there_and_what_waits(run: Run, topic: holdfast.Topic) -> None:
    topic.subscribe("a", peer="p")
    topic.subscribe("b", peer="q", mode="shared", filter=filters.exists("vip"))
    topic.publish_many([b"x", b"y"])
    result = run("subscriptions", topic.name)
    rows = [line.split() for line in result.lines if line.strip()]
    assert rows[2][:7] == ["a", "p", "broadcast", "2", "0", "0", "0"]
    assert rows[3][:7] == ["b", "q", "shared", "0", "0", "0", "0"]
    assert '{"attribute":"vip","exists":true}' in result.out
    first, second = run("subscriptions", topic.name, "--json").objects
    assert (first["consumer"], first["peer"], first["ready"]) == ("a", "p", 2)
    assert [peer["name"] for peer in second["peers"]] == ["q"]
    assert json.loads(second["filter"]) == {"attribute": "vip", "exists": True}


def test_subscriptions_of_a_topic_that_holds_says_so(run: Run, topic: holdfast.Topic) -> None:
    topic.publish(b"x")
    result = run("subscriptions", topic.name)
    assert result.err == f"nobody is subscribed to {topic.name!r}; it holds 1 message\n"


def test_a_topic_that_is_not_there_is_guessed_at(run: Run, topic: holdfast.Topic) -> None:
    topic.publish(b"x")
    result = run("subscriptions", topic.name + "s")
    assert result.status == 3
    assert result.err == (
        f"error: there is no topic {topic.name + 's'!r}; did you mean {topic.name!r}?\n"
    )
