from __future__ import annotations

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
