"""Batch reads of a queue's messages in every state."""

from __future__ import annotations

from datetime import timedelta
from itertools import count

import pytest
from pyspark.sql import SparkSession

import holdfast
from holdfast import Outgoing
from holdfast.engine.keys import base, suffixed
from holdfast.message import utc
from tests.clock import Clock
from tests.conftest import Servers
from tests.raw import Raw
from tests.spark.looking import Row, look, rows, state_reader

_numbers = count(1)


@pytest.fixture
def q(hf: holdfast.Client) -> holdfast.Queue:
    return hf.queue(f"batch{next(_numbers)}")


def by_id(found: list[Row]) -> dict[str, Row]:
    assert len({row["id"] for row in found}) == len(found), "seen twice"
    return {row["id"]: row for row in found}


def test_spark_reads_what_is_ready_and_takes_nothing(
    spark: SparkSession, q: holdfast.Queue, server_url: str
) -> None:
    sent = q.send_many(
        [Outgoing(f"m{i}", attributes={"n": str(i)}, priority=i % 3) for i in range(100)]
    )
    before = q.stats()
    frame = spark.read.format("holdfast").option("url", server_url).option("queue", q.name).load()
    found = {row["id"]: row for row in frame.collect()}
    assert set(found) == set(sent)
    row = found[sent[7]]
    assert bytes(row["body"]) == b"m7"
    assert row["attributes"] == {"n": "7"}
    assert (row["priority"], row["receives"], row["queue"]) == (1, 0, q.name)
    assert frame.columns == [
        "queue", "id", "body", "attributes", "priority", "receives", "sent_at", "group",
    ]  # fmt: skip
    after = q.stats()
    assert (after.ready, after.received) == (100, before.received)


def test_spark_reads_all_states_with_sql(
    spark: SparkSession, q: holdfast.Queue, server_url: str
) -> None:
    q.send_many([b"a", b"b", b"c"])
    q.send(b"later", delay=3600)
    with_error = q.receive(lease=60)
    assert with_error is not None
    with_error.bury("no good")
    options = {"url": server_url, "queue": q.name, "state": "all"}
    spark.read.format("holdfast").options(**options).load().createOrReplaceTempView("looked_at")
    found = spark.sql(
        "SELECT state, count(*) n, max(reason) reason, count(due) due FROM looked_at GROUP BY state"
    ).collect()
    assert {tuple(row) for row in found} == {
        ("ready", 2, None, 0),
        ("delayed", 1, None, 1),
        ("dead", 1, "no good", 0),
    }


def test_an_empty_queue_and_one_that_nobody_made_have_no_rows(
    spark: SparkSession, q: holdfast.Queue, server_url: str
) -> None:
    for state in ("ready", "all"):
        options = {"url": server_url, "queue": q.name, "state": state}
        assert spark.read.format("holdfast").options(**options).load().count() == 0
    assert q.name not in [queue.name for queue in hf_queues(server_url)]


def hf_queues(url: str) -> list[holdfast.Queue]:
    with holdfast.connect(url, check="off") as client:
        return [client.queue(name) for name in client.queues()]


def test_leased_messages_show_their_lease_and_keep_it(q: holdfast.Queue, server_url: str) -> None:
    clock = Clock(q)
    sent = q.send_many([f"m{i}".encode() for i in range(30)])
    held = q.receive_many(20, lease=40)
    q.configure(lease=None)
    alone = q.receive()
    assert alone is not None
    found = by_id(look(server_url, q.name, state="leased", fetchSize=7))
    assert set(found) == set(sent[:21])
    row = found[held[3].id]
    assert (row["state"], row["receives"], row["body"]) == ("leased", 1, held[3].body)
    assert row["received_at"] == clock.now
    assert row["lease_until"] == clock.at(40)
    assert found[alone.id]["lease_until"] is None
    q.ack_many(held)
    assert q.stats().leased == 1


def test_delayed_messages_show_when_they_fall_due(q: holdfast.Queue, server_url: str) -> None:
    clock = Clock(q)
    sent = q.send_many([Outgoing(b"x", delay=10 + i) for i in range(25)])
    found = by_id(look(server_url, q.name, state="delayed", fetchSize=10, minPartitions=3))
    assert [found[message]["due"] for message in sent] == [clock.at(10 + i) for i in range(25)]
    assert q.stats().delayed == 25


def test_dead_letters_show_why_and_when(q: holdfast.Queue, server_url: str) -> None:
    clock = Clock(q)
    q.configure(max_receives=1)
    q.send(b"x")
    taken = q.receive()
    assert taken is not None
    clock.advance(5)
    taken.nack(error="boom")
    [row] = look(server_url, q.name, state="dead")
    assert (row["state"], row["error"], row["receives"]) == ("dead", "boom", 1)
    assert row["died_at"] == clock.now
    assert row["reason"]
    assert q.stats().dead == 1


def test_reserved_messages_show_too(q: holdfast.Queue, server_url: str) -> None:
    sent = q.send_many([b"a", b"b", b"c"])
    q.reserve("spark-1", 1, [2])
    found = by_id(look(server_url, q.name, state="reserved"))
    assert set(found) == set(sent[:2])
    assert found[sent[0]]["body"] == b"a"
    assert {row["state"] for row in look(server_url, q.name, state="all")} == {"ready", "reserved"}
    assert q.stats().reserved == 2


def test_groups_wait_in_lists_of_their_own_and_are_read_too(
    q: holdfast.Queue, server_url: str
) -> None:
    sent = q.send_many([Outgoing(f"{i}", group=f"g{i % 7}") for i in range(70)])
    sent += q.send_many([b"plain", b"as well"])
    removed = sent[-1]
    assert q.remove(removed)
    found = by_id(look(server_url, q.name, fetchSize=3, minPartitions=4))
    assert set(found) == set(sent) - {removed}
    assert found[sent[8]]["group"] == "g1"


def test_groups_alone_are_read_where_nothing_else_is_ready(
    q: holdfast.Queue, server_url: str
) -> None:
    q.configure(group_limit=1)
    sent = q.send_many([Outgoing(f"{i}", group="g") for i in range(3)])
    assert q.receive() is not None  # the group's only place: no token is in the ready list now
    assert set(by_id(look(server_url, q.name))) == set(sent[1:])


@pytest.mark.parametrize("partitions", [1, 2, 5, 64])
def test_partitions_cover_every_message_once(
    q: holdfast.Queue, server_url: str, partitions: int
) -> None:
    q.configure(shards=3)
    sent = q.send_many([Outgoing(f"{i}", priority=i % 4) for i in range(1_000)])
    reader = state_reader(server_url, queue=q.name, minPartitions=partitions, fetchSize=33)
    planned = reader.partitions()
    assert len(planned) == partitions
    sizes = [len(rows(reader, [part])) for part in planned]
    assert max(sizes) - min(sizes) <= 1, "cut into equal parts"
    assert set(by_id(rows(reader, planned))) == set(sent)


def test_few_messages_are_one_partition(q: holdfast.Queue, server_url: str) -> None:
    q.configure(shards=4)
    q.send_many([Outgoing(b"x", priority=i % 10) for i in range(100)])
    assert len(state_reader(server_url, queue=q.name).partitions()) == 1


def test_what_is_sent_after_the_plan_is_not_shown(q: holdfast.Queue, server_url: str) -> None:
    sent = q.send_many([f"{i}".encode() for i in range(50)])
    reader = state_reader(server_url, queue=q.name, fetchSize=20)
    planned = reader.partitions()
    q.send_many([b"later"] * 35)
    assert set(by_id(rows(reader, planned))) == set(sent)


def test_a_message_that_stays_is_seen_once_while_others_come_and_go(
    q: holdfast.Queue, server_url: str
) -> None:
    sent = q.send_many([f"{i}".encode() for i in range(600)])
    reader = state_reader(server_url, queue=q.name, fetchSize=20, minPartitions=3)
    found: list[Row] = []
    for part in reversed(reader.partitions()):
        for batch in reader.read(part):
            found += batch.to_pylist()
            q.ack_many(q.receive_many(8))  # from the head
            q.send_many([b"new"] * 13)  # to the tail, and past a page together
    stayed = {message.id for message in q.inspect("ready", 0, 10_000)} & set(sent)
    assert len(stayed) > 200, "the test must leave something to see"
    assert stayed <= set(by_id(found)) <= set(sent)


def test_a_body_that_is_damaged_is_shown_as_such(
    q: holdfast.Queue, hf: holdfast.Client, server_url: str
) -> None:
    sent = q.send_many([Outgoing(b"good"), Outgoing(b"bad", attributes={"a": "b"}), Outgoing(b"x")])
    raw, key = Raw(hf), suffixed(base(q.name), "ready", "0")
    record = bytearray(raw("LINDEX", key, 1))
    record[-9] ^= 1  # in the middle of its attributes
    raw("LSET", key, 1, bytes(record))
    found = by_id(look(server_url, q.name, state="ready"))
    assert (found[sent[1]]["body"], found[sent[1]]["reason"]) == (None, "corrupt")
    assert found[sent[1]]["attributes"] is None
    assert (found[sent[0]]["body"], found[sent[0]]["reason"]) == (b"good", None)
    assert by_id(look(server_url, q.name))[sent[1]]["body"] is None


def test_body_and_attributes_can_be_left_out(
    spark: SparkSession, q: holdfast.Queue, server_url: str
) -> None:
    q.send(b"x", attributes={"a": "b"})
    frame = (
        spark.read.format("holdfast")
        .options(url=server_url, queue=q.name, includeBody="false", includeAttributes="false")
        .load()
    )
    assert "body" not in frame.columns
    assert "attributes" not in frame.columns
    assert frame.count() == 1


def test_a_subscription_is_read_with_bodies_that_lie_at_the_topic(
    hf: holdfast.Client, server_url: str
) -> None:
    topic = hf.topic(f"prices{next(_numbers)}")
    one, other = topic.subscribe("billing", mode="shared"), topic.subscribe("audit", mode="shared")
    sent = [topic.publish(f"p{i}", attributes={"n": str(i)}) for i in range(30)]
    dead = one.receive()
    assert dead is not None
    dead.bury("no")
    where = {"topic": topic.name, "subscription": "billing", "state": "all", "fetchSize": 4}
    reader = state_reader(server_url, **where)
    found = by_id(rows(reader, reader.partitions()))
    assert sorted(bytes(row["body"]).decode() for row in found.values()) == sorted(
        f"p{i}" for i in range(30)
    )
    assert found[dead.id]["state"] == "dead"
    assert {row["queue"] for row in found.values()} == {f"{topic.name}/billing"}
    assert len(sent) == 30
    assert other.stats().ready == 30


@pytest.mark.slow
def test_large_bodies_come_in_small_pages(q: holdfast.Queue, server_url: str) -> None:
    q.send_many([bytes(1024 * 1024)] * 40)
    reader = state_reader(server_url, queue=q.name)
    sizes = [batch.num_rows for part in reader.partitions() for batch in reader.read(part)]
    assert sum(sizes) == 40
    q.send_many([bytes(1024 * 1024)] * 100)
    sizes = [batch.num_rows for part in reader.partitions() for batch in reader.read(part)]
    assert max(sizes[1:]) <= 16


def test_sent_at_is_the_server_s_time(q: holdfast.Queue, server_url: str) -> None:
    clock = Clock(q)
    q.send(b"x")
    clock.advance(timedelta(hours=30).total_seconds())
    q.send(b"y")
    times = sorted(row["sent_at"] for row in look(server_url, q.name))
    assert times == [utc(clock.ms - 30 * 3_600_000), clock.now]


def test_a_sharded_queue_of_a_cluster_is_read_whole(
    spark: SparkSession, all_servers: Servers
) -> None:
    url, hf = all_servers.url("cluster"), all_servers.client("cluster")
    assert url is not None
    q = hf.queue(f"batch{next(_numbers)}")
    q.configure(shards=3)
    sent = q.send_many([f"{i}".encode() for i in range(300)])
    q.receive_many(50, lease=60)
    frame = spark.read.format("holdfast").options(url=url, queue=q.name, state="all").load()
    found = frame.collect()
    assert {row["id"] for row in found} == set(sent)
    assert len(found) == 300
    assert sum(row["state"] == "leased" for row in found) == 50
