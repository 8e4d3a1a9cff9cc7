from __future__ import annotations

import pytest

from holdfast import InvalidArgument, Outgoing, Queue, Topic
from holdfast.engine import calls
from tests.clock import Clock
from tests.engine.look import bodies, counts, drain
from tests.raw import Raw, key


def test_a_second_send_with_the_same_dedup_id_answers_with_the_first_id(
    q: Queue, clock: Clock
) -> None:
    first = q.send(b"a", dedup_id="order-1")
    second = q.send(b"b", dedup_id="order-1")
    assert second == first
    assert (first.duplicate, second.duplicate) == (False, True)
    assert bodies(drain(q)) == [b"a"]
    assert q.stats().duplicates == 1


def test_it_is_known_after_the_message_is_acked(q: Queue, clock: Clock) -> None:
    first = q.send(b"a", dedup_id="x")
    q.receive().ack()  # type: ignore[union-attr]
    assert q.send(b"a", dedup_id="x") == first
    assert q.stats().total == 0


def test_the_window_ends_to_the_millisecond(q: Queue, clock: Clock) -> None:
    q.configure(dedup_window=10)
    q.send(b"a", dedup_id="x")
    clock.advance(9.999)
    assert q.send(b"b", dedup_id="x").duplicate
    clock.advance(0.001)
    assert not q.send(b"c", dedup_id="x").duplicate


def test_a_new_window_starts_with_the_next_send_not_with_a_duplicate(
    q: Queue, clock: Clock
) -> None:
    q.configure(dedup_window=10)
    q.send(b"a", dedup_id="x")
    clock.advance(8)
    q.send(b"b", dedup_id="x")
    clock.advance(8)
    assert not q.send(b"c", dedup_id="x").duplicate
    # The first window's end must not close the second one.
    assert q.receive() is not None
    assert q.send(b"d", dedup_id="x").duplicate


def test_duplicates_inside_one_batch_are_found(q: Queue, clock: Clock) -> None:
    messages = [Outgoing(b, dedup_id=i) for b, i in ((b"1", "x"), (b"2", "y"), (b"3", "x"))]
    ids = q.send_many([*messages, b"4"])
    assert [i.duplicate for i in ids] == [False, False, True, False]
    assert ids[2] == ids[0]
    assert len(set(ids)) == 3
    assert counts(q) == (3, 0, 0, 0)


def test_ids_of_a_mixed_batch_belong_to_their_messages(q: Queue, clock: Clock) -> None:
    q.send(b"0", dedup_id="dup")
    ids = q.send_many([Outgoing(b"%d" % n, dedup_id="dup" if n % 2 else None) for n in range(6)])
    for n in (0, 2, 4):
        found = q.get(ids[n])
        assert found is not None
        assert found.body == b"%d" % n


def test_a_window_of_zero_remembers_nothing(q: Queue, clock: Clock) -> None:
    q.configure(dedup_window=0)
    q.send(b"a", dedup_id="x")
    assert not q.send(b"b", dedup_id="x").duplicate


def test_a_delayed_message_is_a_duplicate_too(q: Queue, clock: Clock) -> None:
    q.send(b"a", dedup_id="x", delay=5)
    assert q.send(b"b", dedup_id="x").duplicate


def test_thousands_of_windows_are_cleared_away(q: Queue, clock: Clock) -> None:
    q.configure(dedup_window=1)
    q.send_many([Outgoing(b"x", dedup_id=f"d{n}") for n in range(2500)])
    q.purge("ready")
    clock.advance(1)
    for _ in range(3):
        q.tend()
    for ref in q.refs():
        assert q.transport.command("EXISTS", ref.below("dedup"), key=ref.key) == 0
        assert q.transport.command("EXISTS", ref.below("dedup_until"), key=ref.key) == 0


@pytest.mark.parametrize("window", [2, 500])
def test_a_window_of_a_messages_own_counts_and_not_the_queues(
    q: Queue, clock: Clock, window: int
) -> None:
    q.configure(dedup_window=10)
    [first] = q.send_many([Outgoing(b"a", dedup_id="x", dedup_window=window)])
    clock.advance(window - 0.001)
    q.tend()
    assert q.send(b"b", dedup_id="x") == first
    clock.advance(0.001)
    assert not q.send(b"c", dedup_id="x").duplicate


def test_a_window_of_its_own_counts_where_the_queue_remembers_nothing(
    q: Queue, clock: Clock
) -> None:
    q.configure(dedup_window=0)
    messages = [Outgoing(b"a", dedup_id="x", dedup_window=5), Outgoing(b"b", dedup_id="y")]
    assert not any(i.duplicate for i in q.send_many(messages))
    assert [i.duplicate for i in q.send_many(messages)] == [True, False]


@pytest.mark.unsharded("one call is for one shard")
def test_messages_of_one_call_have_each_its_own_window(q: Queue, clock: Clock, raw: Raw) -> None:
    messages = [
        Outgoing(b"1", dedup_id="short", dedup_window=1),
        Outgoing(b"2", dedup_id="long", dedup_window=1000, delay=5),
        Outgoing(b"3", dedup_id="queue"),
        Outgoing(b"4", group="g"),
        Outgoing(b"5", dedup_id="short", dedup_window=1000),
    ]
    ids = q.send_many(messages)
    assert [i.duplicate for i in ids] == [False, False, False, False, True]
    assert counts(q) == (3, 1, 0, 0)
    found = raw("ZRANGE", key(q, "dedup_until"), 0, -1, "WITHSCORES")
    ends = dict(zip(found[::2], map(int, found[1::2]), strict=True))
    assert ends == {
        b"short": clock.ms + 1_000,
        b"queue": clock.ms + 300_000,
        b"long": clock.ms + 1_000_000,
    }
    clock.advance(1)
    q.tend()
    assert [q.send(b"x", dedup_id=i).duplicate for i in ("short", "queue", "long")] == [
        False,
        True,
        True,
    ]


def test_a_published_message_has_its_own_window_too(topic: Topic, topic_clock: Clock) -> None:
    topic.configure(dedup_window=10)
    [first] = topic.publish_many([Outgoing(b"a", dedup_id="x", dedup_window=100)])
    topic_clock.advance(99)
    assert topic.publish(b"b", dedup_id="x") == first
    topic_clock.advance(1)
    assert not topic.publish(b"c", dedup_id="x").duplicate


@pytest.mark.unsharded("a function is called on one shard")
def test_what_is_sent_with_a_ledger_can_have_its_own_window(
    q: Queue, clock: Clock, raw: Raw
) -> None:
    packed = calls.pack(b"a")
    for known in (0, 1):
        head = ("send", "run", 0, 0, known, 60_000, b"", "timed")
        raw.fcall("send_once", q.name, *head, "", "x", 5_000, packed.envelope)
    assert q.stats().duplicates == 1
    clock.advance(5)
    assert not q.send(b"b", dedup_id="x").duplicate


def test_a_window_without_a_dedup_id_is_refused(q: Queue) -> None:
    with pytest.raises(InvalidArgument, match="a dedup_window needs a dedup_id"):
        q.send_many([Outgoing(b"x", dedup_window=5)])
    with pytest.raises(InvalidArgument, match=r"dedup_window must be from 0\.001"):
        q.send_many([Outgoing(b"x", dedup_id="x", dedup_window=0)])
