from __future__ import annotations

from datetime import UTC, datetime, timedelta

import pytest

from holdfast import Client, Outgoing, Queue, Stats
from tests.clock import Clock
from tests.engine.look import assert_each_in_one_state, bodies, counts, drain, numbered
from tests.raw import Raw


def test_a_sent_message_is_ready_and_nowhere_else(q: Queue, clock: Clock) -> None:
    sent = q.send(b"hello")
    assert_each_in_one_state(q, [sent])
    assert counts(q) == (1, 0, 0, 0)
    assert q.stats().sent == 1
    assert not sent.duplicate


def test_ids_are_the_servers_time_and_a_number_that_grows(q: Queue, clock: Clock) -> None:
    first = q.send_many(numbered(3))
    assert [i.split("-")[0] for i in first] == [str(clock.ms)] * 3
    assert [int(i.split("-")[1]) for i in first] == [0, 1, 2]


@pytest.mark.unsharded("ids grow within a shard")
def test_ids_grow_even_when_the_clock_steps_back(q: Queue, clock: Clock) -> None:
    ids = [q.send(b"a")]
    clock.advance(-3600)
    ids.append(q.send(b"b"))
    clock.advance(3601)
    ids.append(q.send(b"c"))
    as_numbers = [tuple(map(int, i.split("-"))) for i in ids]
    assert as_numbers == sorted(set(as_numbers))
    assert as_numbers[1] == (as_numbers[0][0], 1)


@pytest.mark.parametrize("body", [b"", b"\x00\xff\xfe", b"x" * 100_000, bytes(range(256))])
def test_bodies_are_bytes_and_come_back_as_they_were(q: Queue, clock: Clock, body: bytes) -> None:
    q.send(body)
    got = q.receive()
    assert got is not None
    assert got.body == body


def test_text_is_sent_as_utf8_and_other_values_as_json(q: Queue, clock: Clock) -> None:
    q.send_many(["grüße", {"n": 1}, bytearray(b"ba"), memoryview(b"mv")])
    assert bodies(drain(q)) == ["grüße".encode(), b'{"n":1}', b"ba", b"mv"]


def test_everything_said_about_a_message_travels_with_it(q: Queue, clock: Clock) -> None:
    q.send(b"x", priority=7, attributes={"kind": "test", "ü": "ß"}, group="g", ttl=60)
    got = q.receive()
    assert got is not None
    assert (got.priority, got.attributes, got.group) == (7, {"kind": "test", "ü": "ß"}, "g")
    assert got.expires_at == clock.at(60)
    assert got.sent_at == clock.now


def test_a_delayed_message_is_not_ready_before_its_time(q: Queue, clock: Clock) -> None:
    q.send(b"later", delay=10)
    assert counts(q) == (0, 1, 0, 0)
    clock.advance(9.999)
    assert q.receive() is None
    clock.advance(0.001)
    got = q.receive()
    assert got is not None
    assert got.body == b"later"


def test_a_delay_may_be_a_timedelta_or_a_point_in_time(q: Queue, clock: Clock) -> None:
    q.send_many([Outgoing(b"a", delay=timedelta(seconds=5)), Outgoing(b"b", due=clock.at(6))])
    assert [m.due for m in q.inspect("delayed")] == [clock.at(5), clock.at(6)]


def test_a_due_time_that_has_passed_means_now(q: Queue, clock: Clock) -> None:
    q.send_many([Outgoing(b"a", due=datetime(2001, 1, 1, tzinfo=UTC)), Outgoing(b"b", delay=0)])
    assert bodies(drain(q)) == [b"a", b"b"]


def test_delays_of_years_are_kept(q: Queue, clock: Clock) -> None:
    q.send(b"x", delay=timedelta(days=3650))
    clock.advance(3650 * 86_400 - 1)
    assert q.receive() is None
    clock.advance(1)
    assert q.receive() is not None


def test_due_messages_come_in_the_order_of_their_due_times(q: Queue, clock: Clock) -> None:
    q.send_many([Outgoing(b"c", delay=3), Outgoing(b"a", delay=1), Outgoing(b"b", delay=2)])
    clock.advance(10)
    assert bodies(drain(q)) == [b"a", b"b", b"c"]


def test_the_queues_own_delay_applies_to_messages_without_one(q: Queue, clock: Clock) -> None:
    q.configure(delay=5)
    q.send_many([Outgoing(b"own", delay=1), b"queue's", Outgoing(b"none", delay=0)])
    assert counts(q) == (1, 2, 0, 0)
    clock.advance(1)
    assert bodies(drain(q)) == [b"none", b"own"]
    clock.advance(4)
    assert bodies(drain(q)) == [b"queue's"]


def test_equal_messages_are_different_messages(q: Queue, clock: Clock) -> None:
    ids = q.send_many([Outgoing(b"same", delay=1)] * 5 + [b"same"] * 5)
    assert len(set(ids)) == 10
    clock.advance(1)
    assert len(drain(q)) == 10


def test_sending_nothing_writes_nothing(q: Queue) -> None:
    assert q.send_many([]) == []
    assert q.stats().sent == 0


def test_a_batch_is_one_call_and_few_commands(q: Queue, clock: Clock, raw: Raw) -> None:
    q.send(b"warm up")
    before = raw.calls()
    q.send_many(numbered(500))
    after = raw.calls()
    assert after["fcall"] - before["fcall"] == 1
    assert after["rpush"] - before["rpush"] == 1


def test_a_send_said_to_be_a_repetition_gets_the_first_answer(q: Queue, raw: Raw) -> None:
    envelope = b"\x00\x00\x00\x00\x00\x00"
    first = raw.fcall("send", q.name, "me", 1, 0, "plain", envelope)
    assert raw.fcall("send", q.name, "me", 1, 1, "plain", envelope) == first
    assert q.stats().sent == 1
    second = raw.fcall("send", q.name, "me", 2, 1, "plain", envelope)
    assert second[:2] != first[:2]
    assert q.stats().sent == 2


def test_the_memory_of_a_senders_last_call_ends_by_itself(q: Queue, raw: Raw) -> None:
    raw.fcall("send", q.name, "me", 1, 0, "plain", b"\x00\x00\x00\x00\x00\x00")
    assert 0 < raw("PTTL", q.refs()[0].key + ":p:me") <= 60_000


def test_a_queue_that_nobody_has_written_to_has_empty_stats(hf: Client, q: Queue) -> None:
    assert hf.queue(q.name + " untouched").stats() == Stats()
