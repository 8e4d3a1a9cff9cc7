"""What is packed is what comes back, whatever is in it."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from holdfast import Message, Outgoing, Queue
from holdfast.engine.calls import pack
from holdfast.errors import InvalidArgument
from holdfast.message import corrupt, format_id, parse_id, parse_receipt, split_dead
from tests.clock import START
from tests.raw import Raw

pytestmark = pytest.mark.only("standalone", reason="the same bytes travel everywhere")

names = st.text(
    st.characters(exclude_categories=("C", "Z")) | st.just(" "), min_size=1, max_size=200
).filter(str.isprintable)
outgoing = st.builds(
    Outgoing,
    body=st.binary(max_size=2000) | st.text(max_size=500),
    priority=st.integers(0, 9),
    attributes=st.none() | st.dictionaries(names, st.text(max_size=50), max_size=5),
    group=st.none() | names,
    ttl=st.none() | st.integers(1, 10**9) | st.timedeltas(timedelta(seconds=1), timedelta(900)),
    dedup_id=st.none() | names,
)


def as_bytes(body: Any) -> bytes:
    return body.encode() if isinstance(body, str) else bytes(body)


def same(sent: Outgoing, got: Message) -> None:
    assert got.body == as_bytes(sent.body)
    assert got.size == len(got.body)
    assert got.attributes == dict(sent.attributes or {})
    assert (got.priority, got.group) == (sent.priority, sent.group)
    if sent.ttl is None:
        assert got.expires_at is None
    else:
        seconds = sent.ttl.total_seconds() if isinstance(sent.ttl, timedelta) else sent.ttl
        assert got.expires_at is not None
        assert abs((got.expires_at - got.sent_at).total_seconds() - seconds) < 0.0015


@settings(max_examples=200)
@given(messages=st.lists(outgoing, min_size=1, max_size=4))
@pytest.mark.slow
def test_what_is_sent_is_received(q: Queue, messages: list[Outgoing]) -> None:
    q.set_clock(START)
    q.configure(dedup_window=0, group_limit=100)
    ids = q.send_many(messages)
    sent: dict[str, Outgoing] = {
        i: m for i, m in zip(ids, messages, strict=True) if not i.duplicate
    }
    got = q.receive_many(10)
    assert {d.id for d in got} == set(sent)
    for delivery in got:
        same(sent[delivery.id], delivery)
    for seen in q.inspect("leased", 0, 10):
        same(sent[seen.id], seen)
    q.bury_many(got[:1], "why")
    for seen in q.inspect("dead"):
        same(sent[seen.id], seen)
    q.purge()


@given(message=outgoing, bit=st.integers(0, 10**9))
@pytest.mark.slow
def test_a_flipped_bit_in_what_was_packed_is_noticed(message: Outgoing, bit: int) -> None:
    record = bytearray(bytes(12) + pack(message).envelope)
    assert corrupt([bytes(record)]) == []
    at = 14 * 8 + bit % ((len(record) - 14) * 8)
    record[at // 8] ^= 1 << at % 8
    assert corrupt([bytes(record)]) == [0]


@given(st.integers(0, 2**48 - 1), st.integers(0, 2**32 - 1), st.integers(0, 255))
def test_an_id_reads_as_it_was_written(ms: int, seq: int, shard: int) -> None:
    packed = ms.to_bytes(6, "big") + seq.to_bytes(4, "big")
    assert parse_id(format_id(packed, shard)) == (packed, shard)


@pytest.mark.parametrize(
    "text",
    [
        "",
        "1",
        "1-",
        "-1",
        "a-b",
        "1-1-1-1",
        "1-1-",
        "1-1\n",
        " 1-1",
        f"{2**48}-0",
        f"1-{2**32}",
        "1-1-1000",
        "١-١",
        None,
        5,
        b"1-1",
    ],
)
def test_what_cannot_be_an_id_is_refused(text: object) -> None:
    with pytest.raises(InvalidArgument, match="is not a message id"):
        parse_id(text)


@pytest.mark.parametrize("text", ["1-1@x", "1-1@-1", f"1-1@{2**48}", "1-1@1@1", "1-1@²"])
def test_what_cannot_be_a_receipt_is_refused(text: str) -> None:
    with pytest.raises(InvalidArgument, match="is not a receipt; receipts look like"):
        parse_receipt(text)


@given(reason=st.text(max_size=300), error=st.text(max_size=300), rest=st.binary(max_size=50))
def test_a_dead_head_reads_as_lua_writes_it(reason: str, error: str, rest: bytes) -> None:
    r, e = reason.encode("utf-8", "replace"), error.encode("utf-8", "replace")
    value = (
        (5_000).to_bytes(6, "big")
        + len(r).to_bytes(2, "big")
        + r
        + len(e).to_bytes(2, "big")
        + e
        + rest
    )
    death, record = split_dead(value)
    assert (death.reason, death.error, record) == (r.decode(), e.decode(), rest)


def test_lua_and_python_agree_on_where_things_lie(q: Queue, raw: Raw) -> None:
    q.set_clock(START)
    q.send(b"body", priority=7, group="grp", ttl=9, attributes={"a": "b"})
    key = q.refs()[0].key
    [record] = raw("LRANGE", f"{key}:g:grp", 0, -1)
    assert record[:12] == START.to_bytes(6, "big") + bytes(6)
    assert record[12:14] == bytes([7, 1 | 2 | 4])
    assert record[18:24] == (9000).to_bytes(6, "big")
    assert record[24:29] == b"\x00\x03grp"
    assert record.endswith(b"body")
