"""A queue as a stream: the reader by itself, called as Spark calls it."""

from __future__ import annotations

import itertools
from collections import Counter
from typing import Any

import pytest
from pyspark.sql.streaming.datasource import ReadAllAvailable, ReadMaxFiles, ReadMaxRows

import holdfast
from holdfast import InvalidArgument, ReservationLost
from holdfast.engine.keys import QueueRef
from holdfast.spark.offsets import Offset, decode
from holdfast.spark.options import parse
from holdfast.spark.ranges import split
from holdfast.spark.stream import Part, QueueStreamReader
from tests import servers

_numbers = itertools.count(1)


@pytest.fixture
def q(hf: holdfast.Client) -> holdfast.Queue:
    return hf.queue(f"stream {next(_numbers)}")


def reader(q: holdfast.Queue, **options: str) -> QueueStreamReader:
    url = q._client.url
    return QueueStreamReader(parse({"url": url, "queue": q.name, **options}, "readStream"))


class Query:
    """What Spark does with a reader, without Spark."""

    def __init__(self, made: QueueStreamReader, *, available_now: bool = False) -> None:
        self.reader = made
        self.start = made.initialOffset()
        if available_now:
            made.prepareForTriggerAvailableNow()

    def plan(self) -> dict[str, Any] | None:
        end = self.reader.latestOffset(self.start, self.reader.getDefaultReadLimit())
        return None if end == self.start else end

    def rows(self, end: dict[str, Any]) -> list[dict[str, Any]]:
        found = []
        for part in self.reader.partitions(self.start, end):
            for batch in self.reader.read(part):
                found += batch.to_pylist()
        return found

    def batch(self) -> list[dict[str, Any]]:
        """One micro-batch, done."""
        end = self.plan()
        if end is None:
            return []
        found = self.rows(end)
        self.start = end
        return found


def test_a_batch_has_all_columns(q: holdfast.Queue) -> None:
    sent = q.send(b"hello", attributes={"kind": "x"}, priority=3, group="g")
    [row] = Query(reader(q)).batch()
    assert row.pop("sent_at").timestamp() * 1000 == int(sent.split("-")[0])
    assert row == {
        "queue": q.name,
        "id": sent,
        "body": b"hello",
        "attributes": [("kind", "x")],
        "priority": 3,
        "receives": 1,
        "group": "g",
    }


def test_columns_that_are_not_wanted_are_left_out_and_the_reservation_put_in(
    q: holdfast.Queue,
) -> None:
    q.send(b"hello")
    query = Query(
        reader(q, includeBody="false", includeAttributes="false", includeReservation="true")
    )
    [row] = query.batch()
    assert set(row) == {"queue", "id", "priority", "receives", "sent_at", "group", "reservation"}
    assert row["reservation"] == f"{decode(query.start).owner}/1"


def test_messages_are_acked_when_the_next_batch_is_asked_for(q: holdfast.Queue) -> None:
    q.send_many([b"x"] * 30)
    query = Query(reader(q, maxRowsPerTrigger="20"))
    assert len(query.batch()) == 20
    assert (q.stats().reserved, q.stats().acked) == (20, 0)
    assert len(query.batch()) == 10
    assert (q.stats().reserved, q.stats().acked) == (10, 20)
    assert query.batch() == []
    assert (q.stats().total, q.stats().acked) == (0, 30)


def test_a_planned_batch_is_the_same_for_a_reader_that_starts_anew(q: holdfast.Queue) -> None:
    q.send_many([b"%d" % n for n in range(30)])
    first = Query(reader(q, maxRowsPerTrigger="20"))
    end = first.plan()
    assert end is not None
    rows = first.rows(end)
    q.send_many([b"later"] * 5)
    again = Query(reader(q, maxRowsPerTrigger="7", minPartitions="3"))
    again.start = first.start
    assert again.rows(end) == rows


def test_a_batch_planned_and_not_yet_reserved_is_made_by_whoever_comes_next(
    q: holdfast.Queue,
) -> None:
    q.send_many([b"x"] * 30)
    first = Query(reader(q, maxRowsPerTrigger="20"))
    end = first.plan()
    assert end is not None
    again = Query(reader(q), available_now=True)
    again.start = first.start
    assert len(again.rows(end)) == 20
    q.send_many([b"later"] * 50)
    again.start = end
    assert len(again.batch()) == 10, "what was there at the start, and no more"
    assert again.batch() == []


def test_stop_acks_nothing(q: holdfast.Queue) -> None:
    q.send_many([b"x"] * 5)
    query = Query(reader(q))
    query.batch()
    query.reader.stop()
    assert q.stats().reserved == 5


def test_what_others_took_in_the_meantime_makes_a_shorter_batch(q: holdfast.Queue) -> None:
    q.send_many([b"x"] * 10)
    query = Query(reader(q))
    end = query.plan()
    assert end is not None
    q.ack_many(q.receive_many(4))
    assert len(query.rows(end)) == 6
    query.start = end
    assert query.batch() == []
    assert q.stats().total == 0


def test_available_now_is_what_was_there_at_the_start(q: holdfast.Queue) -> None:
    q.send_many([b"x"] * 10)
    query = Query(reader(q, maxRowsPerTrigger="6"), available_now=True)
    q.send_many([b"later"] * 10)
    assert [len(query.batch()) for _ in range(3)] == [6, 4, 0]
    assert q.stats().ready == 10


def test_everything_is_read_where_spark_sets_no_limit(q: holdfast.Queue) -> None:
    q.send_many([b"x"] * 10)
    made = reader(q, maxRowsPerTrigger="6")
    assert made.getDefaultReadLimit() == ReadMaxRows(6)
    end = made.latestOffset(made.initialOffset(), ReadAllAvailable())
    assert decode(end).rows == (10,)
    with pytest.raises(InvalidArgument, match="cannot be read by"):
        made.latestOffset(made.initialOffset(), ReadMaxFiles(1))


def test_a_trigger_waits_for_enough_rows_but_not_for_ever(q: holdfast.Queue) -> None:
    made = reader(q, minRowsPerTrigger="10", maxTriggerDelay="1h")
    query = Query(made)
    q.send_many([b"x"] * 9)
    assert query.plan() is None
    q.send(b"x")
    assert len(query.batch()) == 10
    q.send(b"x")
    assert query.plan() is None
    hasty = Query(reader(q, minRowsPerTrigger="10", maxTriggerDelay="1ms"))
    servers.wait_until(hasty.plan, 10, "a row that has waited long enough")


def test_available_now_does_not_wait_for_enough_rows(q: holdfast.Queue) -> None:
    q.send_many([b"x"] * 3)
    query = Query(reader(q, minRowsPerTrigger="10", maxTriggerDelay="1h"), available_now=True)
    assert len(query.batch()) == 3


def test_a_paused_queue_has_nothing_for_a_stream(q: holdfast.Queue) -> None:
    q.send(b"x")
    q.pause()
    query = Query(reader(q))
    assert query.plan() is None
    q.resume()
    assert len(query.batch()) == 1


def test_delayed_messages_come_when_they_are_due(q: holdfast.Queue) -> None:
    q.set_clock(1_700_000_000_000)
    q.send(b"x", delay=60)
    query = Query(reader(q))
    assert query.plan() is None
    q.set_clock(1_700_000_060_000)
    assert len(query.batch()) == 1


def test_progress_tells_how_much_is_waiting(q: holdfast.Queue) -> None:
    q.send_many([b"x"] * 7)
    assert reader(q).reportLatestOffset() == {"ready": 7}


def test_a_corrupt_message_is_buried_and_the_rest_goes_on(
    q: holdfast.Queue, hf: holdfast.Client
) -> None:
    ids = q.send_many([b"good", b"bad", b"good"])
    key = QueueRef(q.name).below("ready") + "0"
    record = hf.transport.command("LINDEX", key, 1, key=key)
    hf.transport.command("LSET", key, 1, record[:-1] + b"!", key=key)
    query = Query(reader(q))
    assert [row["id"] for row in query.batch()] == [ids[0], ids[2]]
    assert query.batch() == []
    [dead] = q.inspect("dead")
    assert dead.death is not None
    assert (dead.id, dead.death.reason) == (ids[1], "corrupt")


def test_a_reservation_with_a_ttl_ends_and_its_reader_is_told(q: holdfast.Queue) -> None:
    q.set_clock(1_700_000_000_000)
    q.send_many([b"x"] * 5)
    query = Query(reader(q, reservationTtl="30s"))
    end = query.plan()
    assert end is not None
    query.rows(end)
    q.set_clock(1_700_000_030_000)
    q.tend()
    assert q.stats().ready == 5
    with pytest.raises(ReservationLost, match="was given back"):
        query.rows(end)


def test_a_queue_that_was_deleted_is_data_loss_unless_that_is_accepted(q: holdfast.Queue) -> None:
    q.send_many([b"x"] * 5)
    query = Query(reader(q))
    query.batch()
    q.delete()
    q.send_many([b"new"] * 3)
    with pytest.raises(ReservationLost, match="was never read"):
        query.plan()
    query.reader = reader(q, failOnDataLoss="false")
    assert len(query.batch()) == 3
    assert query.batch() == []
    assert q.stats().total == 0


def test_shards_that_come_later_are_read_too(q: holdfast.Queue) -> None:
    q.send_many([b"x"] * 5)
    query = Query(reader(q))
    assert len(query.batch()) == 5
    q.configure(shards=3)
    q.send_many([b"%d" % n for n in range(60)])
    assert len(query.batch()) == 60
    q.send_many([b"%d" % n for n in range(60)])
    assert len(query.batch()) == 60
    assert query.batch() == []
    assert q.stats().total == 0


def test_the_name_of_the_owner_is_seen_in_the_list_of_readers(q: holdfast.Queue) -> None:
    q.send(b"x")
    Query(reader(q, ownerName="archive")).batch()
    [found] = q.readers()
    assert found.owner.startswith("archive-")


@pytest.mark.parametrize(
    "offset",
    [
        {},
        {"v": 1},
        {"v": 2, "owner": "a", "seq": 1, "rows": "1", "parts": 1},
        {"v": 1, "owner": "a", "seq": "x", "rows": "1", "parts": 1},
        {"s0": "1-1", "v": 1},
    ],
)
def test_what_is_not_an_offset_of_a_queue_is_refused(offset: dict[str, Any]) -> None:
    with pytest.raises(InvalidArgument, match="checkpoint"):
        decode(offset)


def test_offsets_come_back_as_they_were() -> None:
    offset = Offset("me", 7, (3, 0, 9), 4)
    assert decode(offset.encode()) == offset


@pytest.mark.parametrize("parts", [1, 2, 3, 7, 100])
@pytest.mark.parametrize("rows", [[0], [1], [10], [5, 0, 7], [0, 0, 1], [1000, 1]])
def test_splitting_gives_each_row_to_one_part(rows: list[int], parts: int) -> None:
    found = split(rows, parts)
    assert len(found) <= parts
    seen = Counter(
        (r.shard, at) for part in found for r in part for at in range(r.start, r.start + r.count)
    )
    assert seen == Counter((shard, at) for shard, n in enumerate(rows) for at in range(n))
    sizes = [sum(r.count for r in part) for part in found]
    assert not sizes or max(sizes) <= -(-sum(rows) // parts)


def test_a_part_does_not_show_a_password() -> None:
    options = parse({"url": "redis://:secret@localhost", "queue": "q"}, "readStream")
    assert "secret" not in repr(options) + repr(Part("me", 1, []))
