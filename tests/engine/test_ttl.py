from __future__ import annotations

import pytest

from holdfast import Outgoing, Queue
from tests.clock import Clock
from tests.engine.look import bodies, counts, drain, numbered


def test_an_expired_message_is_not_delivered(q: Queue, clock: Clock) -> None:
    q.send_many([Outgoing(b"a", ttl=10), b"b"])
    clock.advance(10)
    assert bodies(drain(q)) == [b"b"]
    assert q.stats().expired == 1
    assert counts(q) == (0, 0, 1, 0)


def test_until_its_time_it_is_delivered(q: Queue, clock: Clock) -> None:
    q.send(b"a", ttl=10)
    clock.advance(9.999)
    assert bodies(drain(q)) == [b"a"]


def test_the_queues_ttl_applies_to_messages_without_one(q: Queue, clock: Clock) -> None:
    q.configure(ttl=10)
    q.send_many([b"queue's", Outgoing(b"longer", ttl=20), Outgoing(b"shorter", ttl=5)])
    clock.advance(10)
    assert bodies(drain(q)) == [b"longer"]
    assert q.stats().expired == 2


def test_receive_goes_on_to_the_next_past_any_number_of_expired_ones(
    q: Queue, clock: Clock
) -> None:
    q.send_many([*(Outgoing(b"old", ttl=1) for _ in range(1500)), b"good"])
    clock.advance(1)
    got = q.receive()
    assert got is not None
    assert got.body == b"good"
    assert q.stats().expired == 1500


def test_a_message_that_expires_in_hand_can_still_be_acked(q: Queue, clock: Clock) -> None:
    q.send(b"a", ttl=5)
    held = q.receive(lease=60)
    clock.advance(10)
    q.tend()
    assert held is not None
    held.ack()
    assert q.stats().expired == 0


def test_a_message_that_expires_in_hand_is_not_delivered_again(q: Queue, clock: Clock) -> None:
    q.send(b"a", ttl=5)
    q.receive(lease=10)
    clock.advance(10)
    assert q.receive() is None
    assert q.stats().expired == 1
    assert q.stats().total == 0


def test_ttl_is_counted_from_sending_not_from_falling_due(q: Queue, clock: Clock) -> None:
    q.send(b"a", ttl=5, delay=10)
    clock.advance(10)
    assert q.receive() is None
    assert q.stats().total == 0


def test_tend_clears_expired_messages_where_nobody_receives(q: Queue, clock: Clock) -> None:
    q.send_many([Outgoing(b, ttl=1) for b in numbered(50)])
    clock.advance(1)
    q.tend()
    assert counts(q) == (0, 0, 0, 0)
    assert q.stats().expired == 50


@pytest.mark.unsharded("what lies at the head of one list")
@pytest.mark.parametrize("own", [True, False])
@pytest.mark.parametrize("what", ["token", "tombstone"])
def test_nothing_at_the_head_keeps_tend_from_what_has_expired_behind_it(
    q: Queue, clock: Clock, what: str, own: bool
) -> None:
    ttl = 5 if own else None
    if not own:
        q.configure(ttl=5)
    if what == "token":
        q.send(b"lives", group="g", ttl=100)
    else:
        q.remove(q.send(b"x", ttl=ttl))
    q.send_many([Outgoing(b, ttl=ttl) for b in numbered(30)])
    clock.advance(5)
    q.tend()
    lives = [b"lives"] if what == "token" else []
    assert counts(q) == (len(lives), 0, 0, 0)
    assert q.stats().expired == 30
    assert bodies(drain(q)) == lives


def test_tend_expires_what_waits_in_groups(q: Queue, clock: Clock) -> None:
    q.send_many([Outgoing(b"x", group=g, ttl=5) for g in "abab"])
    q.send_many([Outgoing(b"lives", group="b")])
    clock.advance(5)
    q.tend()
    assert counts(q) == (1, 0, 0, 0)
    assert q.stats().groups == 1
    assert bodies(drain(q)) == [b"lives"]
    assert q.stats().expired == 4


@pytest.mark.unsharded("how far one call looks")
def test_tend_finds_what_has_expired_behind_any_number_that_live(q: Queue, clock: Clock) -> None:
    q.send_many([Outgoing(b"x", group=f"g{n}") for n in range(150)])
    q.send_many([Outgoing(b"lives", priority=n % 2) for n in range(900)])
    q.send_many([Outgoing(b"x", ttl=5, priority=n % 2) for n in range(100)])
    clock.advance(5)
    for _ in range(20):
        q.tend()
    assert counts(q) == (1050, 0, 0, 0)
    assert q.stats().expired == 100
    assert len(drain(q)) == 1050


def test_dead_letters_do_not_expire(q: Queue, clock: Clock) -> None:
    q.send(b"a", ttl=5)
    q.receive().bury("bad")  # type: ignore[union-attr]
    clock.advance(60)
    q.tend()
    assert counts(q) == (0, 0, 0, 1)
    assert bodies(q.receive_dead()) == [b"a"]


def test_an_expired_grouped_message_makes_way_for_the_next(q: Queue, clock: Clock) -> None:
    q.send_many([Outgoing(b"a", group="g", ttl=1), Outgoing(b"b", group="g")])
    clock.advance(1)
    assert bodies(drain(q) or drain(q)) == [b"b"]


def test_an_expired_message_frees_its_unique_name(q: Queue, clock: Clock) -> None:
    q.ensure("job", b"a", ttl=1)
    clock.advance(1)
    assert q.receive() is None
    assert not q.ensure("job", b"b").duplicate


@pytest.mark.slow
@pytest.mark.only("standalone", reason="how far one call looks")
def test_a_group_that_is_gone_when_tend_comes_back_to_it_hides_nothing_of_the_next(
    q: Queue, clock: Clock
) -> None:
    first = q.send_many([Outgoing(b"x", group="a") for _ in range(1100)])
    q.send_many([Outgoing(b"lives", group="b") for _ in range(1100)])
    q.send_many([Outgoing(b"x", group="b", ttl=5) for _ in range(10)])
    clock.advance(5)
    q.tend()
    for message_id in first:
        assert q.remove(message_id)
    q.receive().ack()  # type: ignore[union-attr]  # it meets the empty group, and clears it away
    for _ in range(20):
        q.tend()
    assert counts(q) == (1099, 0, 0, 0)
    assert q.stats().expired == 10
