"""The journal as Spark reads it: what events say, where a read starts and ends, how much at once."""

from __future__ import annotations

import json
from datetime import timedelta

import pytest
from pyspark.sql import SparkSession
from pyspark.sql.streaming.datasource import ReadMaxRows

import holdfast
from holdfast.errors import InvalidArgument
from holdfast.message import utc
from tests.clock import Clock
from tests.spark.journals import ALL, between, journaled, keys, stream
from tests.spark.looking import Row, events


@pytest.fixture
def q(hf: holdfast.Client) -> holdfast.Queue:
    return journaled(hf)


def live_a_little(q: holdfast.Queue, clock: Clock) -> None:
    """Events of many kinds, with and without all that an event can have."""
    q.configure(max_receives=2)
    q.send_many([b"a", b"bb", b"ccc"])
    q.send(b"later", delay=5, priority=7)
    clock.advance(1)
    first, second, third = q.receive_many(3, lease=10)
    first.ack()
    second.nack(delay=2, error="not now")
    third.bury("poison")
    clock.advance(10)
    for delivery in q.receive_many(10, lease=30):
        delivery.extend(60)
        delivery.release()
    q.redrive()
    q.purge()


def test_events_are_those_that_the_client_tells(hf: holdfast.Client, server_url: str) -> None:
    q = journaled(hf)
    clock = Clock(q)
    live_a_little(q, clock)
    told = q.journal()
    found = sorted(
        events(server_url, q.name), key=lambda row: tuple(map(int, row["entry"].split("-")))
    )
    assert len(told) > 15
    assert {row["event"] for row in found} >= {"sent", "received", "requeued", "dead", "redriven"}
    same = ("id", "time", "priority", "receives", "size", "lease_until", "due")
    assert [(e.kind, e.reason or None, *(getattr(e, name) for name in same)) for e in told] == [
        (row["event"], row["reason"], *(row[name] for name in same)) for row in found
    ]
    assert [e.lease for e in told] == [
        row["lease_ms"] / 1000 if row["lease_ms"] else None for row in found
    ]
    assert {row["reason"] for row in found if row["event"] == "dead"} == {"poison"}
    assert len(set(keys(found))) == len(found)
    assert [row["position"] for row in found[:3]] == [0, 1, 2]
    assert {row["shard"] for row in found} == {0}
    assert {row["queue"] for row in found} == {q.name}


def test_spark_reads_a_journal_with_sql(
    spark: SparkSession, q: holdfast.Queue, server_url: str
) -> None:
    q.send_many([b"x"] * 50)
    q.ack_many(q.receive_many(20))
    frame = spark.read.format("holdfast").options(url=server_url, journal=q.name).load()
    found = {row["event"]: row["count"] for row in frame.groupBy("event").count().collect()}
    assert found == {"sent": 50, "received": 20, "acked": 20}


@pytest.mark.parametrize("partitions", [1, 3, 10])
def test_partitions_cover_every_event_once(
    hf: holdfast.Client, server_url: str, partitions: int
) -> None:
    q = journaled(hf, shards=3)
    for i in range(120):
        q.send_many([b"x"] * (i % 4 + 1))
    found = events(server_url, q.name, minPartitions=partitions, fetchSize=7)
    assert len(set(keys(found))) == len(found) == sum(i % 4 + 1 for i in range(120))
    assert {row["id"] for row in found} == {e.id for e in q.journal()}


def test_a_long_note_does_not_make_a_long_batch(q: holdfast.Queue, server_url: str) -> None:
    for _ in range(30):
        q.send_many([b"x"] * 100)
    reader = stream(server_url, q.name, fetchSize=200)
    start = reader.initialOffset()
    end = reader.latestOffset(start, ALL)
    sizes = [
        batch.num_rows for part in reader.partitions(start, end) for batch in reader.read(part)
    ]
    assert sum(sizes) == 3_000
    assert max(sizes) <= 300


# ---- where it starts and ends -------------------------------------------------------------------


def test_a_stream_starts_with_the_earliest_entry_and_goes_on_where_it_was(
    q: holdfast.Queue, server_url: str
) -> None:
    q.send_many([b"a", b"b"])
    reader = stream(server_url, q.name)
    start = reader.initialOffset()
    first = reader.latestOffset(start, ALL)
    assert len(between(reader, start, first)) == 2
    assert reader.latestOffset(first, ALL) == first
    assert between(reader, first, first) == []
    [third] = q.send_many([b"c"])
    second = reader.latestOffset(first, ALL)
    assert [row["id"] for row in between(reader, first, second)] == [third]


def test_latest_is_when_the_query_was_first_asked_and_stays_so_in_a_replay(
    q: holdfast.Queue, server_url: str
) -> None:
    q.send(b"before")
    reader = stream(server_url, q.name, startingOffsets="latest")
    assert reader.latestOffset(reader.initialOffset(), ALL) == reader.initialOffset()
    sent = q.send(b"after")
    # Spark asks for the initial offset again as long as there is no batch.
    planned = reader.latestOffset(reader.initialOffset(), ALL)
    assert [row["id"] for row in between(reader, reader.initialOffset(), planned)] == [sent]
    q.send(b"much later")
    # The driver dies in batch 0; the new one finds another latest, and the planned end.
    again = stream(server_url, q.name, startingOffsets="latest")
    assert [row["id"] for row in between(again, again.initialOffset(), planned)] == [sent]


def test_offsets_and_moments_choose_a_part_of_a_journal(q: holdfast.Queue, server_url: str) -> None:
    sent, entries = [], []
    for i in range(5):
        sent.append(q.send(f"{i}"))
        entries.append(events(server_url, q.name)[-1]["entry"])

    def chosen(**options: object) -> list[str]:
        found = events(server_url, q.name, **options)
        return sorted((row["id"] for row in found), key=sent.index)

    after_two = json.dumps({"0": entries[1]})
    assert chosen(startingOffsets=after_two) == sent[2:]
    assert chosen(endingOffsets=after_two) == sent[:2]
    assert (
        chosen(startingOffsets=after_two, endingOffsets=json.dumps({"0": entries[3]})) == sent[2:4]
    )
    assert chosen(startingOffsets='{"0": "0-0"}') == sent
    assert chosen(startingOffsets="latest") == []
    last = utc(int(entries[-1].split("-")[0]))
    assert chosen(startingOffsets=last.isoformat())[-1] == sent[-1]
    assert chosen(startingOffsets=(last + timedelta(milliseconds=1)).isoformat()) == []
    assert chosen(startingOffsets="2020-01-01") == sent
    assert chosen(endingOffsets="2020-01-01T00:00:00Z") == []
    reader = stream(server_url, q.name, startingOffsets=after_two)
    start = reader.initialOffset()
    end = reader.latestOffset(start, ALL)
    assert [row["id"] for row in between(reader, start, end)] == sent[2:]


@pytest.mark.parametrize("given", ["yesterday", '{"0": 5', '{"0": "x"}', '{"a": "1-1"}', "[]"])
def test_a_start_that_makes_no_sense_is_refused(
    q: holdfast.Queue, server_url: str, given: str
) -> None:
    with pytest.raises(InvalidArgument, match="startingOffsets must be earliest, latest"):
        events(server_url, q.name, startingOffsets=given)


def test_a_journal_that_is_off_is_an_error_and_not_an_empty_stream(
    hf: holdfast.Client, server_url: str
) -> None:
    name = journaled(hf).name + "-off"
    hf.queue(name).send(b"x")
    with pytest.raises(InvalidArgument, match="switch it on"):
        stream(server_url, name).initialOffset()


# ---- how much at once ---------------------------------------------------------------------------


def test_a_trigger_takes_no_more_rows_than_it_may_but_one_entry_always(
    hf: holdfast.Client, server_url: str
) -> None:
    q = journaled(hf, shards=2)
    for size in (3, 3, 3, 3, 20, 1, 1):
        q.send_many([b"x"] * size)
    total = len(q.journal())
    reader = stream(server_url, q.name)
    at, sizes = reader.initialOffset(), []
    found: list[Row] = []
    while (end := reader.latestOffset(at, ReadMaxRows(7))) != at:
        batch = between(reader, at, end)
        sizes.append((len(batch), len({(row["shard"], row["entry"]) for row in batch})))
        found, at = found + batch, end
    assert all(n <= 7 or entries == 1 for n, entries in sizes), sizes
    assert len(sizes) > 3
    assert len(set(keys(found))) == len(found) == total


def test_shards_go_forward_together_when_limited(hf: holdfast.Client, server_url: str) -> None:
    q = journaled(hf, shards=2)
    for _ in range(40):
        q.send_many([b"x"] * 2)
    reader = stream(server_url, q.name)
    start = reader.initialOffset()
    batch = between(reader, start, reader.latestOffset(start, ReadMaxRows(20)))
    assert {row["shard"] for row in batch} == {0, 1}
    assert len(batch) == 20


def test_the_option_is_the_default_limit(q: holdfast.Queue, server_url: str) -> None:
    assert stream(server_url, q.name, maxRowsPerTrigger=5).getDefaultReadLimit() == ReadMaxRows(5)
    assert stream(server_url, q.name).getDefaultReadLimit() == ALL


def test_available_now_ends_with_what_was_there_at_the_start(
    hf: holdfast.Client, server_url: str
) -> None:
    q = journaled(hf, shards=2)
    for _ in range(6):
        q.send_many([b"x"] * 2)
    reader = stream(server_url, q.name)
    reader.prepareForTriggerAvailableNow()
    at, found = reader.initialOffset(), []
    while (end := reader.latestOffset(at, ReadMaxRows(3))) != at:
        found += between(reader, at, end)
        at = end
        q.send_many([b"later"] * 2)
        assert len(found) <= 12, "it would never end"
    assert len(set(keys(found))) == 12


def test_shards_that_come_later_are_read_from_their_beginning(
    hf: holdfast.Client, server_url: str
) -> None:
    q = journaled(hf)
    q.send_many([b"x"] * 4)
    reader = stream(server_url, q.name)
    first = reader.latestOffset(reader.initialOffset(), ALL)
    q.configure(shards=3)
    for _ in range(9):
        q.send_many([b"x"] * 3)
    second = reader.latestOffset(first, ALL)
    found = between(reader, first, second)
    assert {row["shard"] for row in found} == {0, 1, 2}
    assert len(set(keys(found))) == 27
    assert reader.latestOffset(second, ALL) == second
