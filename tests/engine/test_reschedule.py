from __future__ import annotations

import pytest

from holdfast import InvalidArgument, Outgoing, Queue
from tests.clock import Clock
from tests.engine.look import assert_each_in_one_state, bodies, counts, drain


def test_a_delayed_message_can_be_put_off(q: Queue, clock: Clock) -> None:
    sent = q.send(b"x", delay=5)
    assert q.reschedule(sent, delay=20)
    clock.advance(19.999)
    assert q.receive() is None
    clock.advance(0.001)
    assert q.receive() is not None


def test_a_delayed_message_can_be_brought_forward(q: Queue, clock: Clock) -> None:
    sent = q.send(b"x", delay=500)
    assert q.reschedule(sent, due=clock.at(5))
    assert q.inspect("delayed")[0].due == clock.at(5)
    clock.advance(5)
    assert q.receive() is not None


def test_bringing_it_forward_to_now_makes_it_ready(q: Queue, clock: Clock) -> None:
    sent = q.send(b"x", delay=500)
    assert q.reschedule(sent, delay=0)
    assert_each_in_one_state(q, [sent])
    assert counts(q) == (1, 0, 0, 0)


def test_a_message_that_is_not_delayed_is_left_as_it_is(q: Queue, clock: Clock) -> None:
    ready = q.send(b"x")
    assert not q.reschedule(ready, delay=5)
    held = q.receive()
    assert held is not None
    assert not q.reschedule(held.id, delay=5)
    assert not q.reschedule("1-1", delay=5)
    assert counts(q) == (0, 0, 1, 0)


def test_a_delayed_retry_of_a_group_goes_before_the_others(q: Queue, clock: Clock) -> None:
    q.send_many([Outgoing(b"1", group="g"), Outgoing(b"2", group="g")])
    held = q.receive()
    assert held is not None
    held.nack(delay=60)
    assert q.reschedule(held.id, delay=0)
    assert bodies(drain(q)) == [b"1"]


def test_one_of_delay_and_due_must_be_given(q: Queue, clock: Clock) -> None:
    sent = q.send(b"x", delay=5)
    with pytest.raises(InvalidArgument, match=r"^give delay or due$"):
        q.reschedule(sent)
    with pytest.raises(InvalidArgument, match=r"^give delay or due, not both$"):
        q.reschedule(sent, delay=5, due=clock.now)


def test_the_journal_tells_the_new_due_time(q: Queue, clock: Clock) -> None:
    q.configure(journal=True)
    mid = q.send(b"x", delay=60)
    assert q.reschedule(mid, delay=30)
    assert q.reschedule(mid, delay=0)
    _, later, now = q.journal()
    assert (later.kind, later.id, now.kind) == ("rescheduled", mid, "rescheduled")
    assert later.due is not None
    assert (later.due - later.time).total_seconds() == 30
    assert now.due is None
