from __future__ import annotations

from holdfast import Outgoing, Queue
from holdfast.settings import IF_SET
from tests.clock import Clock
from tests.engine.look import assert_each_in_one_state, bodies, counts, drain, numbered


def test_recover_takes_over_what_has_been_in_hand_long_enough(q: Queue, clock: Clock) -> None:
    q.send_many(numbered(4))
    old = q.receive_many(2, lease=None)
    clock.advance(10)
    young = q.receive_many(2, lease=None)
    got = q.recover(10, elapsed=10, lease=5)
    assert bodies(got) == [b"1", b"2"]
    assert [d.receives for d in got] == [2, 2]
    assert q.ack_many(old) == []
    assert q.ack_many(young) == young
    assert q.ack_many(got) == got


def test_recover_takes_the_oldest_deliveries_first_and_no_more_than_asked(
    q: Queue, clock: Clock
) -> None:
    q.send_many(numbered(6))
    for _ in range(3):
        q.receive_many(2, lease=None)
        clock.advance(1)
    assert bodies(q.recover(3, elapsed=0)) == numbered(3)
    # Those are the youngest now.
    assert bodies(q.recover(3, elapsed=0)) == numbered(3, 4)


def test_one_call_never_gives_the_same_message_twice(q: Queue, clock: Clock) -> None:
    q.send_many(numbered(5))
    drain(q, lease=None)
    assert sorted(bodies(q.recover(100, elapsed=0))) == numbered(5)


def test_a_recovered_delivery_has_a_new_lease(q: Queue, clock: Clock) -> None:
    q.send(b"x")
    q.receive(lease=None)
    clock.advance(1)
    [got] = q.recover(1, elapsed=1, lease=5)
    assert got.lease_until == clock.at(5)
    clock.advance(5)
    again = q.receive()
    assert again is not None
    assert again.receives == 3


def test_those_past_max_receives_die_and_the_rest_is_given(q: Queue, clock: Clock) -> None:
    q.configure(max_receives=2)
    ids = q.send_many(numbered(3))
    q.receive().nack()  # type: ignore[union-attr]
    assert len(drain(q, lease=None)) == 3
    got = q.recover(10, elapsed=0)
    assert bodies(got) == [b"2", b"3"]
    [dead] = q.inspect("dead")
    assert dead.body == b"1"
    assert dead.death is not None
    assert dead.death.error == "recovered after 0 ms or more in hand"
    assert_each_in_one_state(q, ids)


def test_recover_of_part_of_a_batch_leaves_the_rest_in_hand(q: Queue, clock: Clock) -> None:
    ids = q.send_many(numbered(5))
    held = q.receive_many(5, lease=None)
    got = q.recover(2, elapsed=0)
    assert bodies(got) == [b"1", b"2"]
    assert_each_in_one_state(q, ids)
    assert q.ack_many(held) == held[2:]
    assert q.ack_many(got) == got
    assert q.stats().total == 0


def test_recover_of_nothing_gives_nothing(q: Queue, clock: Clock) -> None:
    assert q.recover(10, elapsed=0) == []
    q.send(b"ready")
    assert q.recover(10, elapsed=0) == []
    assert counts(q) == (1, 0, 0, 0)


def test_a_recovered_grouped_message_keeps_its_groups_place(q: Queue, clock: Clock) -> None:
    q.send_many([Outgoing(b, group="g") for b in numbered(2)])
    q.receive(lease=None)
    [got] = q.recover(1, elapsed=0)
    assert q.receive() is None
    got.ack()
    assert bodies(drain(q)) == [b"2"]


def test_a_dead_letter_in_hand_goes_back_to_the_dead(q: Queue, clock: Clock) -> None:
    q.send(b"x")
    q.receive().bury("why")  # type: ignore[union-attr]
    q.receive_dead(lease=None)
    assert q.recover(1, elapsed=0) == []
    [dead] = q.inspect("dead")
    assert dead.death is not None
    assert dead.death.reason == "why"


def test_recover_counts_as_requeued_and_received(q: Queue, clock: Clock) -> None:
    q.send_many(numbered(3))
    drain(q, lease=None)
    q.recover(10, elapsed=0)
    s = q.stats()
    assert (s.received, s.requeued) == (6, 3)


def test_with_neither_lease_nor_limit_set_a_message_goes_round_until_it_is_acked(
    q: Queue, clock: Clock
) -> None:
    q.send(b"x")
    [first] = q.receive_many(1, lease=IF_SET)
    assert first.lease_until is None
    clock.advance(3600)
    assert q.receive() is None
    for times in range(2, 12):
        [again] = q.recover(1, elapsed=0, lease=IF_SET)
        assert (again.receives, again.lease_until) == (times, None)
    assert q.ack(again.id)


def test_a_lease_and_a_limit_that_somebody_set_hold_for_those_who_leave_it_open(
    q: Queue, clock: Clock
) -> None:
    q.configure(lease=10, max_receives=2)
    q.send(b"x")
    [first] = q.receive_many(1, lease=IF_SET)
    assert first.lease_until is not None
    clock.advance(10)
    assert q.receive_many(1, lease=IF_SET)
    assert q.recover(1, elapsed=0, lease=IF_SET) == []
    assert q.stats().dead == 1


def test_what_is_set_before_a_queue_grows_is_set_for_all_its_shards_and_nothing_else(
    q: Queue, clock: Clock
) -> None:
    q.configure(delay=1)
    q.configure(shards=4)
    q.configure(delay=0)
    q.send_many([b"%d" % n for n in range(8)])
    got = q.receive_many(8, lease=IF_SET)
    assert got
    assert all(d.lease_until is None for d in got)
