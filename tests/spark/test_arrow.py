"""Packed messages and notes as Arrow columns, and the schemas that Spark insists on."""

from __future__ import annotations

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st
from pyspark.sql.types import StructType

from holdfast.engine import notes
from holdfast.message import Message, Outgoing, envelope, utc
from holdfast.spark import arrow, events, schema
from holdfast.spark.options import parse

messages = st.builds(
    Outgoing,
    st.binary(max_size=300),
    priority=st.integers(0, 9),
    attributes=st.dictionaries(st.sampled_from("abc"), st.text(max_size=20), max_size=3),
    group=st.none() | st.sampled_from(["g", "größe"]),
    ttl=st.none() | st.integers(1, 1_000),
)


def packed(message: Outgoing, ms: int, seq: int, receives: int) -> bytes:
    head = ms.to_bytes(6, "big") + seq.to_bytes(4, "big") + receives.to_bytes(2, "big")
    return head + envelope(message)


records = st.builds(
    packed,
    messages,
    st.integers(0, 2**42),
    st.integers(0, 2**32 - 1),
    st.integers(0, 65_535),
)


@given(st.lists(records, max_size=20), st.integers(0, 255))
@pytest.mark.slow
def test_columns_say_what_the_messages_say(found: list[bytes], shard: int) -> None:
    batch = arrow.batch(arrow.columns(found, "orders", shard), schema.arrow(schema.MESSAGES))
    assert batch.num_rows == len(found)
    for row, record in zip(batch.to_pylist(), found, strict=True):
        message = Message(record, shard, "ready")
        assert dict(row["attributes"] or []) == message.attributes
        assert row["queue"] == "orders"
        for name in ("id", "body", "priority", "receives", "sent_at", "group"):
            assert row[name] == getattr(message, name), name


def test_a_message_being_delivered_counts_as_one_more_receive() -> None:
    found = arrow.columns([packed(Outgoing(b"x"), 1, 1, 4)], "q", 0, counted=1)
    assert list(found["receives"]) == [5]


def test_columns_that_the_schema_does_not_have_are_left_out() -> None:
    columns = schema.of(parse({"queue": "q", "url": "redis://h", "includeBody": "false"}, "read"))
    batch = arrow.batch(
        arrow.columns([packed(Outgoing(b"x"), 1, 1, 0)], "q", 0), schema.arrow(columns)
    )
    assert "body" not in batch.schema.names


@pytest.mark.parametrize("columns", [schema.MESSAGES, schema.LOOKED_AT, schema.EVENTS])
def test_times_are_in_utc_and_everything_may_be_null(columns: StructType) -> None:
    found = schema.arrow(columns)
    assert all(field.nullable for field in found)
    times = [field for field in found if pa.types.is_timestamp(field.type)]
    assert times
    assert {str(field.type) for field in times} == {"timestamp[us, tz=UTC]"}


def note(
    kind: int, ms: int, lease: int, reason: bytes, rows: list[tuple[int, int, int, int]]
) -> bytes:
    head = bytes([kind]) + ms.to_bytes(6, "big") + lease.to_bytes(6, "big")
    parts = [head + len(reason).to_bytes(2, "big") + reason]
    for seq, priority, size, at in rows:
        parts.append(ms.to_bytes(6, "big") + seq.to_bytes(4, "big") + bytes([priority]))
        parts.append((seq % 7).to_bytes(2, "big") + size.to_bytes(4, "big") + at.to_bytes(6, "big"))
    return b"".join(parts)


# Until the year 2109: past that, a float of seconds has no room for the milliseconds.
times = st.integers(0, 2**42)
some_notes = st.builds(
    note,
    st.integers(1, 14),  # also kinds that a newer engine may have
    times,
    st.just(0) | times,
    st.just(b"") | st.text(max_size=30).map(str.encode) | st.just(b"\xff\xfe"),
    st.lists(
        st.tuples(st.integers(0, 2**32 - 1), st.integers(0, 9), st.integers(0, 2**26), times),
        max_size=5,
    ),
)


@given(st.lists(some_notes, min_size=1, max_size=10), st.integers(0, 3))
@pytest.mark.slow
def test_events_say_what_the_notes_say(found: list[bytes], shard: int) -> None:
    names = [f"{i}-{i}".encode() for i in range(len(found))]
    columns = events.columns(names, found, "orders", shard)
    rows = arrow.batch(columns, schema.arrow(schema.EVENTS)).to_pylist()
    expected = [
        (name.decode(), position, event)
        for name, each in zip(names, found, strict=True)
        for position, event in enumerate(notes.expand(each, "orders", shard))
    ]
    assert len(rows) == len(expected) == sum(map(events.count, found))
    for row, (name, position, event) in zip(rows, expected, strict=True):
        assert (row["entry"], row["position"], row["shard"]) == (name, position, shard)
        assert (row["event"], row["queue"]) == (event.kind, event.queue)
        assert row["reason"] == (event.reason or None)
        assert row["lease_ms"] == (None if event.lease is None else round(event.lease * 1000))
        for field in ("id", "time", "priority", "receives", "size", "lease_until", "due"):
            assert row[field] == getattr(event, field), field


def test_moments_are_null_where_told() -> None:
    import numpy as np

    found = arrow.moments(np.array([1_000, 0]), np.array([False, True]))
    assert found.to_pylist() == [utc(1_000), None]
