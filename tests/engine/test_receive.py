from __future__ import annotations

import pytest

from holdfast import Outgoing, Queue
from tests.clock import Clock
from tests.engine.look import assert_each_in_one_state, bodies, counts, drain, numbered
from tests.raw import Raw


def test_receive_of_an_empty_queue_gives_none(q: Queue) -> None:
    assert q.receive() is None
    assert q.receive_many(10) == []


def test_messages_come_in_the_order_they_were_sent(q: Queue, clock: Clock) -> None:
    q.send_many(numbered(100))
    assert bodies(q.receive_many(30)) == numbered(30)
    assert bodies(drain(q)) == numbered(70, 31)


@pytest.mark.unsharded("order over several sends is a promise of one shard")
def test_order_holds_over_several_sends(q: Queue, clock: Clock) -> None:
    for body in numbered(20):
        q.send(body)
    assert [q.receive().body for _ in range(20)] == numbered(20)  # type: ignore[union-attr]


def test_a_received_message_is_leased_and_nowhere_else(q: Queue, clock: Clock) -> None:
    ids = q.send_many(numbered(3))
    q.receive_many(2)
    assert_each_in_one_state(q, ids)
    assert counts(q) == (1, 0, 2, 0)


def test_while_a_lease_is_valid_nobody_else_gets_the_message(q: Queue, clock: Clock) -> None:
    q.send(b"x")
    assert q.receive(lease=10) is not None
    clock.advance(9.999)
    assert q.receive() is None


def test_a_message_comes_back_when_its_lease_ends(q: Queue, clock: Clock) -> None:
    q.send(b"x")
    first = q.receive(lease=10)
    clock.advance(10)
    second = q.receive()
    assert first is not None
    assert second is not None
    assert second.id == first.id
    assert (first.receives, second.receives) == (1, 2)
    assert q.stats().requeued == 1


def test_the_lease_is_the_queues_unless_said_otherwise(q: Queue, clock: Clock) -> None:
    q.configure(lease=42)
    q.send_many([b"a", b"b", b"c"])
    ends = [d.lease_until for d in (*q.receive_many(1), *q.receive_many(1, lease=7))]
    assert ends == [clock.at(42), clock.at(7)]
    third = q.receive(lease=None)
    assert third is not None
    assert third.lease_until is None


def test_a_lease_without_end_never_ends(q: Queue, clock: Clock) -> None:
    q.send(b"x")
    held = q.receive(lease=None)
    clock.advance(10 * 365 * 86_400)
    assert q.receive() is None
    assert held is not None
    held.ack()


def test_a_lease_of_less_than_a_millisecond_is_not_one_without_end(q: Queue, clock: Clock) -> None:
    q.send(b"x")
    held = q.receive(lease=0.0001)
    assert held is not None
    assert held.lease_until is not None


def test_delay_does_not_eat_lease(q: Queue, clock: Clock) -> None:
    q.send(b"x", delay=100)
    clock.advance(100)
    got = q.receive(lease=10)
    assert got is not None
    assert got.lease_until == clock.at(10)


def test_reclaimed_messages_go_back_to_the_head_in_their_order(q: Queue, clock: Clock) -> None:
    q.send_many(numbered(6))
    q.receive_many(2, lease=5)
    q.receive_many(2, lease=5)
    clock.advance(5)
    assert bodies(drain(q)) == numbered(6)


def test_messages_whose_leases_were_extended_one_by_one_come_back_in_their_order(
    q: Queue, clock: Clock
) -> None:
    q.send_many(numbered(6))
    held = q.receive_many(4, lease=5)
    for delivery in (held[2], held[0]):
        delivery.extend(6)
    clock.advance(7)
    assert bodies(drain(q)) == numbered(6)


def test_receive_promotes_what_is_due_and_reclaims_what_has_expired(q: Queue, clock: Clock) -> None:
    q.send_many([b"leased", Outgoing(b"delayed", delay=5)])
    q.receive(lease=5)
    clock.advance(5)
    assert sorted(bodies(drain(q))) == [b"delayed", b"leased"]


def test_receives_counts_deliveries_but_not_releases(q: Queue, clock: Clock) -> None:
    q.send(b"x")
    seen = []
    for give_back in ("release", "nack", "release", "nack"):
        got = q.receive()
        assert got is not None
        seen.append(got.receives)
        getattr(got, give_back)()
    assert seen == [1, 1, 2, 2]


def test_past_max_receives_a_message_is_dead_with_reason_and_times(q: Queue, clock: Clock) -> None:
    q.configure(max_receives=2)
    sent = q.send(b"poison")
    for _ in range(2):
        assert q.receive(lease=1) is not None
        clock.advance(1)
    assert q.receive() is None
    [dead] = q.inspect("dead")
    assert dead.id == sent
    assert dead.receives == 2
    assert dead.death is not None
    assert dead.death.reason == "max_receives"
    assert dead.death.error == "the lease ended without an ack"
    assert dead.death.at == clock.now


def test_receive_goes_on_to_the_next_when_it_moves_a_poison_message(q: Queue, clock: Clock) -> None:
    q.configure(max_receives=1)
    q.send_many([b"poison", b"good"])
    q.receive(lease=1)
    clock.advance(1)
    got = q.receive()
    assert got is not None
    assert got.body == b"good"
    assert q.stats().dead == 1


def test_without_max_receives_a_message_never_dies(q: Queue, clock: Clock) -> None:
    q.configure(max_receives=None)
    q.send(b"x")
    for n in range(1, 30):
        got = q.receive(lease=1)
        assert got is not None
        assert got.receives == n
        clock.advance(1)


def test_a_batch_of_deliveries_costs_a_handful_of_commands(
    q: Queue, clock: Clock, raw: Raw
) -> None:
    q.send_many(numbered(500))
    q.receive()
    before = raw.calls()
    got = q.receive_many(400)
    after = raw.calls()
    assert len(got) == 400
    inside = {c: after[c] - before.get(c, 0) for c in ("lrange", "ltrim", "hset", "zadd")}
    assert inside == {"lrange": 1, "ltrim": 1, "hset": 1, "zadd": 3}


def test_reclaiming_is_bounded_per_call_and_goes_on_with_the_next(q: Queue, clock: Clock) -> None:
    q.send_many(numbered(3500))
    assert len(drain(q, lease=1)) == 3500
    clock.advance(1)
    got = drain(q)
    assert sorted(bodies(got)) == sorted(numbered(3500))


def test_a_waiting_receive_returns_at_once_when_there_is_something(q: Queue) -> None:
    q.send(b"x")
    got = q.receive(wait=30)
    assert got is not None
    assert got.body == b"x"
