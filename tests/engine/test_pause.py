from __future__ import annotations

from datetime import timedelta

from holdfast import Queue
from tests.clock import Clock
from tests.engine.look import bodies, counts, drain


def test_a_paused_queue_hands_nothing_out_until_resumed(q: Queue, clock: Clock) -> None:
    q.send(b"x")
    q.pause()
    assert q.stats().paused
    clock.advance(1_000_000)
    assert q.receive() is None
    q.resume()
    assert not q.stats().paused
    assert bodies(drain(q)) == [b"x"]


def test_a_pause_can_end_by_itself(q: Queue, clock: Clock) -> None:
    q.send(b"x")
    q.pause(10)
    clock.advance(9.999)
    assert q.receive() is None
    clock.advance(0.001)
    assert q.receive() is not None


def test_a_pause_may_be_a_timedelta_or_a_point_in_time(q: Queue, clock: Clock) -> None:
    for until in (timedelta(seconds=10), clock.at(10)):
        q.pause(until)
        assert q.stats().paused_until == clock.ms + 10_000


def test_a_pause_until_a_time_that_has_passed_is_none(q: Queue, clock: Clock) -> None:
    q.pause()
    q.pause(clock.at(-5))
    assert not q.stats().paused


def test_everything_else_goes_on(q: Queue, clock: Clock) -> None:
    q.send_many([b"a", b"b", b"c"])
    held = q.receive_many(3, lease=5)
    q.pause()
    held[0].ack()
    held[1].nack(delay=1)
    q.send(b"d")
    clock.advance(5)
    q.tend()
    assert counts(q) == (3, 0, 0, 0)
    assert q.receive() is None


def test_leases_end_and_delays_fall_due_while_paused(q: Queue, clock: Clock) -> None:
    q.send(b"x", delay=1)
    q.pause()
    clock.advance(1)
    assert q.receive() is None
    assert counts(q) == (1, 0, 0, 0)
