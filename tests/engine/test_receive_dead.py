from __future__ import annotations

import pytest

from holdfast import Delivery, Queue
from tests.clock import Clock
from tests.engine.look import assert_each_in_one_state, bodies, counts, drain, numbered


@pytest.fixture
def dead(q: Queue, clock: Clock) -> list[str]:
    """Three dead letters, a second apart."""
    ids = q.send_many(numbered(3))
    for held in q.receive_many(3, lease=None):
        held.bury(f"reason {held.text}")
        clock.advance(1)
    return list(ids)


def test_dead_letters_are_leased_oldest_death_first_and_tell_why(
    q: Queue, clock: Clock, dead: list[str]
) -> None:
    got = q.receive_dead(2, lease=5)
    assert bodies(got) == [b"1", b"2"]
    assert [d.death.reason for d in got if d.death] == ["reason 1", "reason 2"]
    assert [d.receives for d in got] == [1, 1]
    assert_each_in_one_state(q, dead)
    assert counts(q) == (0, 0, 2, 1)
    assert bodies(q.receive_dead(5)) == [b"3"]
    assert q.stats().dead_received == 3


def test_an_acked_dead_letter_is_gone(q: Queue, dead: list[str]) -> None:
    for delivery in q.receive_dead(3):
        delivery.ack()
    assert q.stats().total == 0
    assert q.receive_dead() == []


def _expire(clock: Clock, delivery: Delivery) -> None:
    clock.advance(5)


@pytest.mark.parametrize("how", ["nack", "release", "bury", "expire"])
def test_anything_but_an_ack_makes_it_a_dead_letter_again_as_it_was(
    q: Queue, clock: Clock, dead: list[str], how: str
) -> None:
    before = q.inspect("dead")
    for delivery in q.receive_dead(3, lease=5):
        if how == "bury":
            delivery.bury("another reason")
        elif how != "expire":
            getattr(delivery, how)()
    if how == "expire":
        clock.advance(5)
        q.tend()
    after = q.inspect("dead")
    assert [(m.id, m.death, m.receives) for m in after] == [
        (m.id, m.death, m.receives) for m in before
    ]
    assert q.receive() is None


def test_an_expired_one_can_be_received_again_with_a_new_receipt(
    q: Queue, clock: Clock, dead: list[str]
) -> None:
    [first] = q.receive_dead(1, lease=5)
    clock.advance(5)
    [second] = q.receive_dead(1, lease=5)
    assert second.id == first.id
    assert not q.ack(first)
    second.ack()


def test_receive_does_not_give_dead_letters(q: Queue, dead: list[str]) -> None:
    assert drain(q) == []


def test_the_lease_of_a_dead_letter_can_be_extended(
    q: Queue, clock: Clock, dead: list[str]
) -> None:
    got = q.receive_dead(3, lease=5)
    got[1].extend(20)
    clock.advance(5)
    q.tend()
    assert bodies(q.inspect("dead")) == [b"1", b"3"]
    clock.advance(15)
    q.tend()
    assert bodies(q.inspect("dead")) == numbered(3)


def test_a_dead_letter_in_hand_is_not_redriven(q: Queue, dead: list[str]) -> None:
    q.receive_dead(1, lease=None)
    assert q.redrive() == dead[1:]


def test_a_pause_does_not_hold_dead_letters_back(q: Queue, dead: list[str]) -> None:
    q.pause()
    assert len(q.receive_dead(3)) == 3
