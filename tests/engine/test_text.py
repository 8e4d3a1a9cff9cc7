"""The text forms of send, receive, ack and nack: for redis-cli and clients in other languages."""

from __future__ import annotations

import pytest

from holdfast import InvalidArgument, Queue
from tests.clock import Clock
from tests.engine.look import counts
from tests.raw import Raw

pytestmark = pytest.mark.unsharded("a text call is addressed to one shard's key")


def test_what_is_sent_as_text_is_an_ordinary_message(q: Queue, clock: Clock, raw: Raw) -> None:
    ids = raw.fcall("send_text", q.name, "", "7", b"plain", b"\0\xff\r\n", "ünï".encode(), b"")
    got = q.receive_many(10)
    assert [d.body for d in got] == [b"plain", b"\0\xff\r\n", "ünï".encode(), b""]
    assert [d.id.encode() for d in got] == ids
    assert {d.priority for d in got} == {7}


def test_the_checksum_of_a_text_send_is_the_one_that_clients_check(
    q: Queue, clock: Clock, raw: Raw
) -> None:
    bodies = [bytes([n]) * n for n in range(256)]
    raw.fcall("send_text", q.name, "", "0", *bodies)
    assert [d.body for d in q.receive_many(300)] == bodies
    assert q.stats().dead == 0


def test_a_text_send_can_be_delayed(q: Queue, clock: Clock, raw: Raw) -> None:
    raw.fcall("send_text", q.name, "+5000", "0", b"later")
    assert q.receive() is None
    clock.advance(5)
    received = q.receive()
    assert received is not None
    assert received.body == b"later"


@pytest.mark.parametrize("how", ["receipt", "id"])
def test_text_receive_and_ack_are_the_same_as_the_packed_ones(
    q: Queue, clock: Clock, raw: Raw, how: str
) -> None:
    q.send_many([b"a", b"b"])
    q.send(b"c", attributes={"k": "v"}, group="g", ttl=60)
    q.ensure("only", b"d")
    got = raw.fcall("receive_text", q.name, "10", "-1")
    assert [(body, times) for _, body, times in got] == [(b"a", 1), (b"b", 1), (b"c", 1), (b"d", 1)]
    names = [r if how == "receipt" else r.partition(b"@")[0] for r, _, _ in got]
    assert raw.fcall("ack_text", q.name, *names, "1-1") == names
    assert counts(q) == (0, 0, 0, 0)


def test_a_stale_text_receipt_changes_nothing(q: Queue, clock: Clock, raw: Raw) -> None:
    q.send(b"x")
    [[receipt, _, _]] = raw.fcall("receive_text", q.name, "1", "1000")
    clock.advance(2)
    [[again, _, times]] = raw.fcall("receive_text", q.name, "1", "1000")
    assert times == 2
    assert raw.fcall("ack_text", q.name, receipt) == []
    assert raw.fcall("ack_text", q.name, again) == [again]


def test_text_nack_gives_back_retries_or_buries(q: Queue, clock: Clock, raw: Raw) -> None:
    q.send_many([b"release", b"retry", b"bury"])
    [a, b, c] = [r for r, _, _ in raw.fcall("receive_text", q.name, "3", "-1")]
    assert raw.fcall("nack_text", q.name, "release", "0", "", a) == [a]
    assert raw.fcall("nack_text", q.name, "retry", "5000", "boom", b) == [b]
    assert raw.fcall("nack_text", q.name, "bury", "0", "hopeless", c, "1-1") == [c]
    assert counts(q) == (1, 1, 0, 1)
    [dead] = q.inspect("dead")
    assert dead.death is not None
    assert dead.death.reason == "hopeless"


def test_a_corrupt_message_is_never_handed_out_as_text(q: Queue, clock: Clock, raw: Raw) -> None:
    q.send_many([b"good", b"bad"])
    key = q.refs()[0].key + ":r0"
    record = raw("LINDEX", key, 1)
    raw("LSET", key, 1, record[:-1] + b"?")
    assert [body for _, body, _ in raw.fcall("receive_text", q.name, "10", "-1")] == [b"good"]
    [dead] = q.inspect("dead")
    assert dead.death is not None
    assert dead.death.reason == "corrupt: the checksum does not match"


def test_a_malformed_receipt_is_refused_and_no_other_is_acked(
    q: Queue, clock: Clock, raw: Raw
) -> None:
    q.send(b"x")
    [[receipt, _, _]] = raw.fcall("receive_text", q.name, "1", "-1")
    with pytest.raises(InvalidArgument, match="a receipt looks like"):
        raw.fcall("ack_text", q.name, receipt, "nonsense")
    assert counts(q) == (0, 0, 1, 0)


@pytest.mark.parametrize("action", ["release", "retry", "bury"])
@pytest.mark.parametrize("form", ["nack", "nack_text"])
def test_a_reason_that_is_too_long_is_refused_and_nothing_is_given_back(
    q: Queue, clock: Clock, raw: Raw, form: str, action: str
) -> None:
    """A length of 16 bits could not tell it, and what lies behind it would be out of place."""
    q.configure(journal=True)
    q.send_many([b"one", b"two"])
    held = q.receive()
    assert held is not None
    receipt: bytes | str = held.wire if form == "nack" else held.receipt
    for size in (8_001, 65_536, 70_000):
        with pytest.raises(InvalidArgument, match="must have 0 to 8000 bytes"):
            raw.fcall(form, q.name, action, "0", "x" * size, receipt)
    assert counts(q) == (1, 0, 1, 0)
    raw.fcall(form, q.name, action, "0", "x" * 8_000, receipt)
    assert q.redrive() == ([held.id] if action == "bury" else [])
    assert sorted(d.body for d in q.receive_many(10)) == [b"one", b"two"]
    assert [e.reason for e in q.journal() if e.reason] == ["x" * 8_000]
