from __future__ import annotations

import pytest

from holdfast import LeaseLost, Queue
from tests.clock import Clock
from tests.engine.look import assert_each_in_one_state, bodies, counts, drain, numbered


def test_retry_counts_and_makes_the_message_ready_at_the_head(q: Queue, clock: Clock) -> None:
    q.send_many(numbered(3))
    first = q.receive()
    assert first is not None
    first.nack()
    got = drain(q)
    assert bodies(got) == numbered(3)
    assert [d.receives for d in got] == [2, 1, 1]


def test_retry_with_a_delay_waits_for_it(q: Queue, clock: Clock) -> None:
    sent = q.send(b"x")
    held = q.receive()
    assert held is not None
    held.nack(delay=10)
    assert_each_in_one_state(q, [sent])
    assert counts(q) == (0, 1, 0, 0)
    clock.advance(9.999)
    assert q.receive() is None
    clock.advance(0.001)
    again = q.receive()
    assert again is not None
    assert again.receives == 2


def test_release_does_not_count(q: Queue, clock: Clock) -> None:
    q.configure(max_receives=1)
    q.send(b"x")
    for _ in range(5):
        held = q.receive()
        assert held is not None
        assert held.receives == 1
        held.release()
    assert counts(q) == (1, 0, 0, 0)


def test_released_messages_go_to_the_head_in_their_order(q: Queue, clock: Clock) -> None:
    q.send_many(numbered(6))
    held = q.receive_many(3)
    assert q.release_many(held) == held
    assert bodies(drain(q)) == numbered(6)


def test_bury_makes_a_dead_letter_with_the_reason(q: Queue, clock: Clock) -> None:
    sent = q.send(b"x", attributes={"a": "b"})
    held = q.receive()
    assert held is not None
    held.bury("cannot ever work")
    assert_each_in_one_state(q, [sent])
    [dead] = q.inspect("dead")
    assert dead.death is not None
    assert (dead.death.reason, dead.death.error) == ("cannot ever work", "")
    assert dead.death.at == clock.now
    assert (dead.body, dead.attributes, dead.receives) == (b"x", {"a": "b"}, 1)
    assert q.stats().buried == 1


def test_the_last_permitted_retry_makes_a_dead_letter_with_the_error(
    q: Queue, clock: Clock
) -> None:
    q.configure(max_receives=3)
    sent = q.send(b"x")
    for n in range(3):
        held = q.receive()
        assert held is not None
        held.nack(error=f"failed {n}", delay=0 if n < 2 else 60)
    assert_each_in_one_state(q, [sent])
    [dead] = q.inspect("dead")
    assert dead.death is not None
    assert (dead.death.reason, dead.death.error) == ("max_receives", "failed 2")
    assert dead.receives == 3


@pytest.mark.parametrize("how", ["nack", "release", "bury"])
def test_a_stale_receipt_gives_nothing_back(q: Queue, clock: Clock, how: str) -> None:
    q.send(b"x")
    stale = q.receive(lease=1)
    clock.advance(1)
    current = q.receive(lease=10)
    assert stale is not None
    assert current is not None
    before = q.stats()
    with pytest.raises(LeaseLost, match=f"cannot {how}"):
        getattr(stale, how)(*(["why"] if how == "bury" else []))
    assert q.stats() == before
    current.ack()


def test_nack_many_returns_those_really_given_back(q: Queue, clock: Clock) -> None:
    q.send_many(numbered(3))
    held = q.receive_many(3)
    held[1].ack()
    assert q.nack_many(held) == [held[0], held[2]]
    assert q.nack_many(["1-1"]) == []
    assert counts(q) == (2, 0, 0, 0)
    assert q.bury_many(held, "too late") == []


def test_one_call_can_retry_some_and_bury_others(q: Queue, clock: Clock) -> None:
    q.configure(max_receives=2)
    ids = q.send_many(numbered(4))
    first = q.receive_many(2)
    q.nack_many(first)
    held = drain(q)
    assert len(held) == 4
    assert q.nack_many(held, delay=5, error="again") == held
    assert_each_in_one_state(q, ids)
    assert bodies(q.inspect("dead")) == [b"1", b"2"]
    assert bodies(q.inspect("delayed")) == [b"3", b"4"]


def test_messages_of_several_priorities_return_to_their_own_levels(q: Queue, clock: Clock) -> None:
    for priority in (0, 5, 9, 5):
        q.send(str(priority).encode(), priority=priority, group="home")
    seen = []
    while got := q.receive():
        if got.receives == 1:
            got.nack()
        else:
            seen.append(got.priority)
            got.ack()
    assert seen == [0, 5, 9, 5]


def test_a_long_error_is_cut_not_refused(q: Queue, clock: Clock) -> None:
    q.configure(max_receives=1)
    q.send(b"x")
    held = q.receive()
    assert held is not None
    held.nack(error="ü" * 50_000)
    [dead] = q.inspect("dead")
    assert dead.death is not None
    assert dead.death.error.startswith("üüü")
    assert len(dead.death.error) == 4_000
