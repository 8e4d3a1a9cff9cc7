"""Memory comes back: an emptied queue is its own hash, whatever went through it."""

from __future__ import annotations

from holdfast import Outgoing, Queue
from tests.clock import Clock
from tests.engine.look import drain, numbered
from tests.raw import Raw


def assert_empty(q: Queue, raw: Raw) -> None:
    assert q.stats().total == 0
    assert raw.keys(q) == {ref.key for ref in q.refs()}
    for ref in q.refs():
        assert set(raw("HKEYS", ref.key)) <= {b"state", b"settings", b"last", b"done"}


def ack_all(q: Queue) -> None:
    while held := drain(q, lease=None):
        assert len(q.ack_many(held)) == len(held)


def test_plain_messages_leave_nothing(q: Queue, clock: Clock, raw: Raw) -> None:
    for _ in range(4):
        q.send_many(numbered(1500))
    ack_all(q)
    assert_empty(q, raw)


def test_batches_with_a_lease_acked_whole_leave_nothing(q: Queue, clock: Clock, raw: Raw) -> None:
    q.send_many(numbered(1500))
    while held := q.receive_many(700, lease=60):
        assert q.ack_many(held) == held
    assert_empty(q, raw)


def test_what_a_sender_leaves_for_retries_ends_by_itself(q: Queue, clock: Clock, raw: Raw) -> None:
    for _ in range(6):
        q.send_many([b"x", b"y"])
    ack_all(q)
    left = [
        key.decode()
        for ref in q.refs()
        for part in raw.everywhere("KEYS", f"{ref.key}:*")
        for key in part
    ]
    assert left
    assert all(":p:" in key and 0 < raw("PTTL", key) <= 60_000 for key in left)


def test_messages_acked_one_by_one_and_out_of_order_leave_nothing(
    q: Queue, clock: Clock, raw: Raw
) -> None:
    q.send_many(numbered(30))
    for d in sorted(drain(q), key=lambda d: d.body):
        d.ack()
    assert_empty(q, raw)


def test_priorities_leave_nothing(q: Queue, clock: Clock, raw: Raw) -> None:
    q.send_many([Outgoing(b"x", priority=p) for p in range(10)])
    ack_all(q)
    assert_empty(q, raw)


def test_groups_leave_nothing(q: Queue, clock: Clock, raw: Raw) -> None:
    q.configure(group_limit=2)
    q.send_many([Outgoing(b"x", group=f"g{n % 7}") for n in range(50)])
    first = q.receive_many(3)
    q.nack_many(first, delay=5)
    ack_all(q)
    clock.advance(5)
    ack_all(q)
    assert_empty(q, raw)


def test_delayed_messages_leave_nothing(q: Queue, clock: Clock, raw: Raw) -> None:
    q.send_many([Outgoing(b"x", delay=n) for n in range(50)])
    clock.advance(50)
    ack_all(q)
    assert_empty(q, raw)


def test_dedup_ids_leave_nothing_after_their_window(q: Queue, clock: Clock, raw: Raw) -> None:
    q.configure(dedup_window=10)
    q.send_many([Outgoing(b"x", dedup_id=f"d{n}") for n in range(50)])
    ack_all(q)
    clock.advance(10)
    q.tend()
    assert_empty(q, raw)


def test_unique_names_leave_nothing(q: Queue, clock: Clock, raw: Raw) -> None:
    for n in range(10):
        q.ensure(f"u{n}", b"x", group=f"g{n}" if n % 2 else None)
    ack_all(q)
    assert_empty(q, raw)


def test_dead_and_redriven_messages_leave_nothing(q: Queue, clock: Clock, raw: Raw) -> None:
    q.send_many([Outgoing(b"x", group=f"g{n % 3}" if n % 2 else None) for n in range(20)])
    while held := drain(q, lease=None):
        q.bury_many(held, "bad")
    q.redrive(5, rate=1)
    for d in q.receive_dead(5):
        d.ack()
    q.redrive()
    clock.advance(5)
    ack_all(q)
    assert_empty(q, raw)


def test_expired_leases_and_extended_ones_leave_nothing(q: Queue, clock: Clock, raw: Raw) -> None:
    q.configure(max_receives=None)
    q.send_many(numbered(20))
    for n in range(5):
        held = drain(q, lease=5)
        for d in held[n::3]:
            d.extend(7)
        q.extend_many(held[:2], 0)
        q.release_many(held[:2])
        clock.advance(7)
    ack_all(q)
    assert_empty(q, raw)


def test_recovered_messages_leave_nothing(q: Queue, clock: Clock, raw: Raw) -> None:
    q.send_many(numbered(20))
    drain(q, lease=5)
    q.recover(7, elapsed=0, lease=5)
    got = q.recover(20, elapsed=0, lease=5)
    q.ack_many(got[:13])
    clock.advance(5)
    ack_all(q)
    assert_empty(q, raw)


def test_expired_messages_leave_nothing(q: Queue, clock: Clock, raw: Raw) -> None:
    q.send_many([Outgoing(b"x", ttl=1, group="g" if n % 2 else None) for n in range(10)])
    clock.advance(1)
    for _ in range(12):
        assert q.receive() is None
    assert_empty(q, raw)


def test_dropped_messages_leave_nothing(q: Queue, clock: Clock, raw: Raw) -> None:
    q.configure(max_length=3, overflow="drop_oldest")
    for n in range(30):
        q.send(b"x", priority=n % 4)
    ack_all(q)
    assert_empty(q, raw)


def test_a_waiter_leaves_nothing(q: Queue, raw: Raw) -> None:
    assert q.receive(wait=0.01) is None
    assert q.receive_dead(wait=0.01) == []
    clock = Clock(q)
    q.send(b"x")
    clock.set(2**41)
    ack_all(q)
    q.receive_dead()
    q.tend()
    assert_empty(q, raw)


def test_a_batch_acked_whole_after_some_of_it_was_extended_leaves_nothing(
    q: Queue, clock: Clock, raw: Raw
) -> None:
    q.send_many(numbered(6))
    for lease in (None, 90):
        held = q.receive_many(3, lease=60)
        held[1].extend(lease)
        assert q.ack_many(held) == held
    assert_empty(q, raw)
