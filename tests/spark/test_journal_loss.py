"""A journal trimmed, or deleted, before it was read: an error, or not, as the user chose."""

from __future__ import annotations

import json

import pytest
from pyspark.sql.streaming.datasource import ReadMaxRows

import holdfast
from holdfast.errors import AcceptTheState, InvalidArgument
from tests.spark.journals import ALL, between, journaled, stream, trim
from tests.spark.looking import events, rows


@pytest.fixture
def q(hf: holdfast.Client) -> holdfast.Queue:
    return journaled(hf)


def test_entries_trimmed_before_they_were_read_are_an_error(
    q: holdfast.Queue, hf: holdfast.Client, server_url: str
) -> None:
    for _ in range(5):
        q.send(b"x")
    reader = stream(server_url, q.name)
    start = reader.initialOffset()
    end = reader.latestOffset(start, ReadMaxRows(2))
    for _ in range(5):
        q.send(b"y")
    trim(hf, q, 8)  # exactly those that were read
    assert len(between(reader, end, reader.latestOffset(end, ALL))) == 8
    trim(hf, q, 7)  # and one more
    with pytest.raises(
        AcceptTheState, match=r"1 entries after .* were trimmed.*failOnDataLoss=false"
    ):
        reader.latestOffset(end, ALL)
    lenient = stream(server_url, q.name, failOnDataLoss=False)
    assert len(between(lenient, end, lenient.latestOffset(end, ALL))) == 7
    # A batch that was planned before, and is replayed.
    planned = lenient.latestOffset(end, ALL)
    with pytest.raises(AcceptTheState, match="trimmed"):
        reader.partitions(end, planned)


@pytest.mark.parametrize("partitions", [1, 4])
def test_a_trim_in_the_middle_of_a_batch_is_noticed(
    q: holdfast.Queue, hf: holdfast.Client, server_url: str, partitions: int
) -> None:
    for _ in range(300):
        q.send(b"x")
    reader = stream(server_url, q.name, fetchSize=10, minPartitions=partitions)
    start = reader.initialOffset()
    parts = reader.partitions(start, reader.latestOffset(start, ALL))
    rows(reader, parts)
    reading = reader.read(parts[0])
    next(reading)
    trim(hf, q, 10)
    with pytest.raises(AcceptTheState, match="while they were read"):
        for _ in reading:
            pass
    lenient = stream(server_url, q.name, failOnDataLoss=False)
    assert len(rows(lenient, parts)) == 10


def test_a_queue_deleted_and_made_anew_is_an_error(
    q: holdfast.Queue, hf: holdfast.Client, server_url: str
) -> None:
    q.send_many([b"a"])
    q.send_many([b"b"])
    reader = stream(server_url, q.name)
    end = reader.latestOffset(reader.initialOffset(), ALL)
    q.delete()
    q.configure(journal=True)
    for _ in range(3):
        q.send(b"new")
    with pytest.raises(AcceptTheState, match="deleted and made anew"):
        reader.latestOffset(end, ALL)
    lenient = stream(server_url, q.name, failOnDataLoss=False)
    found = between(lenient, end, lenient.latestOffset(end, ALL))
    assert len(found) == 3


def test_a_start_that_was_trimmed_is_an_error(
    q: holdfast.Queue, hf: holdfast.Client, server_url: str
) -> None:
    for _ in range(5):
        q.send(b"x")
    first = events(server_url, q.name)[0]["entry"]
    trim(hf, q, 3)
    start = json.dumps({"0": first})
    with pytest.raises(AcceptTheState, match="is not there any more"):
        events(server_url, q.name, startingOffsets=start)
    assert len(events(server_url, q.name, startingOffsets=start, failOnDataLoss=False)) == 3
    assert len(events(server_url, q.name)) == 3
    assert len(events(server_url, q.name, startingOffsets="2020-01-01")) == 3


def test_another_source_s_offset_is_refused(q: holdfast.Queue, server_url: str) -> None:
    reader = stream(server_url, q.name)
    queue = {"v": 1, "owner": "spark-1", "seq": 1, "rows": "5", "parts": 1}
    with pytest.raises(InvalidArgument, match="another query's"):
        reader.latestOffset(queue, ALL)
    with pytest.raises(InvalidArgument, match="newer Holdfast"):
        reader.latestOffset({"v": 2, "s0": "1-1"}, ALL)
