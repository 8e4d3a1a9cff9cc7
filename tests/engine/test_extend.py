from __future__ import annotations

from collections.abc import Callable

import pytest

from holdfast import InvalidArgument, LeaseLost, Queue
from tests.clock import Clock
from tests.engine.look import assert_each_in_one_state, bodies, counts, drain, numbered
from tests.raw import Raw


def test_extend_moves_the_end_of_the_lease_counted_from_now(q: Queue, clock: Clock) -> None:
    q.send(b"x")
    held = q.receive(lease=10)
    assert held is not None
    clock.advance(8)
    held.extend(10)
    assert held.lease_until == clock.at(10)
    [seen] = q.inspect("leased")
    assert seen.lease_until == clock.at(10)
    clock.advance(9.999)
    assert q.receive() is None
    clock.advance(0.001)
    assert q.receive() is not None


def test_extend_can_shorten_a_lease(q: Queue, clock: Clock) -> None:
    q.send(b"x")
    held = q.receive(lease=100)
    assert held is not None
    held.extend(1)
    clock.advance(1)
    assert q.receive() is not None


def test_the_receipt_stays_valid(q: Queue, clock: Clock) -> None:
    q.send(b"x")
    held = q.receive(lease=1)
    assert held is not None
    held.extend(10)
    clock.advance(5)
    q.tend()
    held.ack()
    assert q.stats().total == 0


def test_extending_one_of_a_batch_leaves_the_others_as_they_are(q: Queue, clock: Clock) -> None:
    q.send_many(numbered(3))
    held = q.receive_many(3, lease=5)
    held[1].extend(20)
    clock.advance(5)
    assert sorted(bodies(drain(q, lease=60))) == [b"1", b"3"]
    clock.advance(15)
    assert bodies(drain(q)) == [b"2"]


def test_extending_all_that_is_left_of_a_batch_costs_one_entry(
    q: Queue, clock: Clock, raw: Raw
) -> None:
    q.send_many(numbered(100))
    held = q.receive_many(100, lease=5)
    q.ack_many(held[:40])
    before = raw.calls()
    assert q.extend_many(held[40:], 20) == held[40:]
    after = raw.calls()
    assert after["zadd"] - before["zadd"] == 1
    clock.advance(19)
    assert q.receive() is None
    clock.advance(1)
    assert bodies(drain(q)) == numbered(60, 41)


def test_extending_by_none_means_until_settled(q: Queue, clock: Clock) -> None:
    q.send_many(numbered(2))
    held = q.receive_many(2, lease=5)
    held[0].extend(None)
    assert held[0].lease_until is None
    assert q.inspect("leased")[0].lease_until is None
    clock.advance(1_000_000)
    assert bodies(drain(q, lease=None)) == [b"2"]
    held[0].ack()


def test_a_whole_batch_extended_without_end_can_be_given_one_again(q: Queue, clock: Clock) -> None:
    q.send_many(numbered(2))
    held = q.receive_many(2, lease=5)
    q.extend_many(held, None)
    clock.advance(1000)
    assert q.receive() is None
    q.extend_many(held, 5)
    clock.advance(5)
    assert bodies(drain(q)) == numbered(2)


def test_extending_by_zero_gives_the_message_back_at_once(q: Queue, clock: Clock) -> None:
    q.send_many(numbered(3))
    held = q.receive_many(3, lease=60)
    held[0].extend(0)
    assert counts(q) == (1, 0, 2, 0)
    again = q.receive(lease=60)
    assert again is not None
    assert (again.id, again.receives) == (held[0].id, 2)
    with pytest.raises(LeaseLost):
        held[0].extend(60)
    assert q.extend_many(held, 0) == held[1:]
    assert counts(q) == (2, 0, 1, 0)


def test_a_whole_batch_extended_by_zero_comes_back_in_order(q: Queue, clock: Clock) -> None:
    ids = q.send_many(numbered(9))
    held = q.receive_many(9, lease=60)
    assert q.extend_many(held, 0) == held
    again = q.receive_many(9)
    assert {d.receives for d in again} == {2}
    assert sorted(bodies(again)) == sorted(numbered(9))
    assert_each_in_one_state(q, ids)


def test_extending_by_zero_is_a_failed_delivery_and_may_be_the_last(q: Queue, clock: Clock) -> None:
    q.configure(max_receives=2)
    q.send(b"x")
    for _ in range(2):
        held = q.receive()
        assert held is not None
        held.extend(0)
    [dead] = q.inspect("dead")
    assert dead.death is not None
    assert dead.death.reason == "max_receives"
    assert dead.death.error == "the lease was ended by its holder"


def test_a_dead_letter_extended_by_zero_is_a_dead_letter_again(q: Queue, clock: Clock) -> None:
    q.send(b"x")
    q.bury(q.receive(), "why")  # type: ignore[arg-type]
    [held] = q.receive_dead(1, lease=60)
    held.extend(0)
    assert counts(q) == (0, 0, 0, 1)


def test_what_was_given_back_by_zero_is_not_settled_again_at_the_end_of_its_block(
    q: Queue, clock: Clock
) -> None:
    q.send(b"x")
    held = q.receive()
    assert held is not None
    with held:
        held.extend(0)
    assert counts(q) == (1, 0, 0, 0)


def test_zero_as_an_earlier_release_writes_it_still_means_until_settled(
    q: Queue, clock: Clock
) -> None:
    q.send(b"x")
    held = q.receive(lease=5)
    assert held is not None
    ref = q.refs()[held.shard]
    [until] = q.transport.command("FCALL", "hf1_extend", 1, ref.key, 0, held.wire, key=ref.key)
    assert until == 0
    clock.advance(1000)
    assert counts(q) == (0, 0, 1, 0)
    assert q.ack(held)


@pytest.mark.parametrize("take", ["receive", "receive_dead", "recover", "consume"])
def test_a_lease_of_zero_is_refused_and_the_word_for_until_settled_told(
    q: Queue, clock: Clock, take: str
) -> None:
    q.send(b"x")
    calls: dict[str, Callable[[], object]] = {
        "receive": lambda: q.receive(lease=0),
        "receive_dead": lambda: q.receive_dead(1, lease=0),
        "recover": lambda: q.recover(1, elapsed=0, lease=0),
        "consume": lambda: next(iter(q.consume(lease=0))),
    }
    with pytest.raises(InvalidArgument, match="write None for one that lasts until"):
        calls[take]()
    with pytest.raises(InvalidArgument, match="write None for one that lasts until"):
        q.configure(lease=0)
    assert counts(q) == (1, 0, 0, 0)


def test_a_stale_receipt_extends_nothing(q: Queue, clock: Clock) -> None:
    q.send(b"x")
    stale = q.receive(lease=1)
    clock.advance(1)
    current = q.receive(lease=10)
    assert stale is not None
    assert current is not None
    with pytest.raises(LeaseLost, match="cannot extend"):
        stale.extend(1000)
    assert q.extend_many([stale, current], 20) == [current]
    assert q.stats().extended == 1
    clock.advance(20)
    assert q.receive() is not None


def test_an_extended_message_can_be_extended_settled_and_reclaimed_any_number_of_times(
    q: Queue, clock: Clock
) -> None:
    q.send_many(numbered(2))
    held = q.receive_many(2, lease=5)
    for _ in range(5):
        held[0].extend(5)
        held[1].extend(5)
        clock.advance(4)
        assert q.receive() is None
    held[0].ack()
    clock.advance(1)
    assert bodies(drain(q)) == [b"2"]
    assert counts(q) == (0, 0, 1, 0)
