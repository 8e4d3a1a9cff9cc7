from __future__ import annotations

import pytest

from holdfast import Client, Outgoing, Queue, Stats, Topic, connect
from tests.clock import Clock
from tests.engine.look import numbered
from tests.raw import Raw


def test_a_queue_is_listed_once_something_was_sent_or_set(hf: Client, q: Queue) -> None:
    sent, configured, looked = (hf.queue(f"{q.name} {n}") for n in ("sent", "set", "looked at"))
    sent.send(b"x")
    configured.configure(lease=5)
    looked.receive()
    looked.stats()
    listed = hf.queues()
    assert listed == sorted(listed)
    assert {sent.name, configured.name} <= set(listed)
    assert looked.name not in listed


@pytest.mark.parametrize("name", ["a b", "ü", "{x}", "a#1", "a:b", "%7B", "*?[a]"])
def test_any_name_can_be_used_and_is_listed_as_it_is(hf: Client, q: Queue, name: str) -> None:
    queue = hf.queue(f"{q.name} {name}")
    queue.send(b"x")
    assert queue.name in hf.queues()
    got = queue.receive()
    assert got is not None
    got.ack()


def test_a_deleted_queue_is_gone_with_all_its_messages(
    hf: Client, q: Queue, clock: Clock, raw: Raw
) -> None:
    q.configure(journal=True, dedup_window=60)
    for _ in range(3):
        q.send_many(
            [*numbered(3), Outgoing(b"d", delay=60), Outgoing(b"g", group="g", dedup_id="x")]
        )
    q.ensure("job", b"x")
    q.receive_many(2)
    q.bury_many(q.receive_many(2), "bad")
    refs = q.refs()
    q.delete()
    assert q.name not in hf.queues()
    assert q.stats() == Stats()
    for ref in refs:
        left = [k for part in raw.everywhere("KEYS", f"{ref.key}*") for k in part]
        assert [k for k in left if raw("PTTL", k.decode()) == -1] == []


def test_a_deleted_queue_can_be_used_again_and_starts_afresh(q: Queue) -> None:
    q.configure(lease=99)
    q.send(b"x")
    q.delete()
    assert q.settings().lease == 30
    q.send(b"y")
    got = q.receive()
    assert got is not None
    assert got.body == b"y"


def test_delete_leaves_a_queue_that_got_a_message_meanwhile(q: Queue, raw: Raw) -> None:
    q.send_many([Outgoing(b"x", group="g")])
    shard = q.inspect("ready")[0].shard
    key = q.refs()[shard].key
    assert q.transport.command("FCALL", "hf1_delete", 1, key, key=key) == 0
    assert q.stats().ready == 1


def test_deleting_a_queue_that_does_not_exist_is_no_error(hf: Client, q: Queue) -> None:
    hf.queue(q.name + " never").delete()


def test_queues_are_apart(hf: Client, q: Queue) -> None:
    other = hf.queue(q.name + "2")
    q.send(b"x")
    assert other.receive() is None
    other.purge()
    assert q.stats().ready == 1


@pytest.mark.parametrize("how", ["one", "many", "full", "waited for"])
def test_a_queue_that_another_client_deleted_is_listed_when_it_is_used_again(
    hf: Client, q: Queue, how: str
) -> None:
    q.send(b"1")
    with connect(hf.url, check="off") as other:
        other.queue(q.name).delete()
        assert q.name not in hf.queues()
        if how == "waited for":
            other.queue(q.name).receive(wait=0.01)
    if how == "many":
        q.send_many([b"2", b"3"])
    elif how == "full":
        q.send(b"2", group="g", delay=1)
    else:
        q.send(b"2")
    assert q.name in hf.queues()


def test_a_topic_that_another_client_deleted_is_listed_when_it_is_used_again(
    hf: Client, topic: Topic
) -> None:
    topic.publish(b"1")
    with connect(hf.url, check="off") as other:
        other.topic(topic.name).delete()
    assert topic.name not in hf.topics()
    topic.publish(b"2")
    assert topic.name in hf.topics()
