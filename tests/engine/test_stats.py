from __future__ import annotations

from holdfast import Outgoing, Queue, Stats
from tests.clock import Clock
from tests.engine.look import drain, numbered


def test_every_counter_tells_what_happened(q: Queue, clock: Clock) -> None:
    q.configure(max_receives=2)
    ids = q.send_many(
        [Outgoing(b, dedup_id=f"d{b!r}", group="home") for b in numbered(1)] + numbered(9, 2)
    )
    q.send(b"1", dedup_id="d" + repr(b"1"), group="home")
    held = {d.id: d for d in drain(q, lease=10)}
    assert len(held) == 10
    mine = [held[i] for i in ids]
    q.ack_many(mine[:3])
    q.extend_many(mine[3:5], 20)
    q.nack(mine[5])
    q.bury(mine[6], "bad")
    assert q.remove(mine[7].id)
    clock.advance(10)
    q.tend()
    q.receive_dead(1, lease=None)
    s = q.stats()
    assert (s.sent, s.duplicates) == (10, 1)
    assert (s.received, s.acked, s.extended) == (10, 3, 2)
    assert (s.requeued, s.buried, s.dead_received) == (3, 1, 1)
    assert (s.removed, s.dropped, s.expired) == (1, 0, 0)
    assert (s.ready, s.leased, s.dead, s.total) == (3, 3, 0, 6)
    q.nack_many([d.id for d in q.inspect("leased")])
    assert len(q.redrive()) == 1
    assert q.stats().redriven == 1


def test_the_next_due_time_is_that_of_the_first_thing_to_happen(q: Queue, clock: Clock) -> None:
    assert q.tend() is None
    q.send(b"x", delay=30)
    assert q.stats().next_due == clock.ms + 30_000
    q.send(b"y", delay=10)
    assert q.stats().next_due == clock.ms + 10_000
    assert q.tend() == 10


def test_the_age_of_the_oldest_ready_message(q: Queue, clock: Clock) -> None:
    assert q.stats().oldest_age == 0
    q.send_many([b"a", b"b"])
    clock.advance(7)
    assert q.stats().oldest_age == 7


def test_the_age_of_the_oldest_ready_message_is_known_behind_a_removed_one(
    q: Queue, clock: Clock
) -> None:
    ids = q.send_many([b"a", b"b"])
    q.remove(ids[0])
    clock.advance(7)
    assert q.stats().oldest_age == 7


def test_the_last_id_is_told(q: Queue, clock: Clock) -> None:
    ids = q.send_many(numbered(3))
    s = q.stats()
    assert ids[-1].startswith(f"{s.last_ms}-{s.last_seq}")


def test_stats_of_shards_add_up(q: Queue, clock: Clock) -> None:
    for body in numbered(7):
        q.send(body, delay=5 if body == b"7" else 0)
    each = q.shard_stats()
    assert len(each) == len(q.refs())
    assert sum(each[1:], each[0]) == q.stats()
    assert (q.stats().ready, q.stats().delayed, q.stats().now) == (6, 1, clock.ms)


def test_adding_takes_sums_of_counts_and_the_telling_one_of_times() -> None:
    a = Stats(ready=1, now=10, next_due=5, oldest_ready=0, last_ms=7, last_seq=1, paused_until=3)
    b = Stats(ready=2, now=11, next_due=0, oldest_ready=4, last_ms=6, last_seq=9, paused_until=2)
    both = a + b
    assert both == Stats(
        ready=3, now=11, next_due=5, oldest_ready=4, last_ms=7, last_seq=1, paused_until=3
    )
