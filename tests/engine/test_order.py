"""What comes back goes to the head in the order in which it was sent, however much it is."""

from __future__ import annotations

import random

import pytest

from holdfast import Delivery, Outgoing, Queue, ReservationLost
from tests.clock import Clock
from tests.engine.look import ALL, assert_each_in_one_state, bodies, counts, drain, numbered
from tests.raw import Raw

pytestmark = pytest.mark.unsharded("exact order over all messages is a promise of one shard")


def ended(reply: list[object]) -> tuple[int, list[object]]:
    """How many messages an answer of receive has; whether there is more, and when."""
    return len(reply) - 5, reply[-3:-1]


@pytest.mark.slow
@pytest.mark.parametrize("batch", [1, 7, 1000])
def test_thousands_of_leases_that_end_together_come_back_in_order(
    q: Queue, clock: Clock, batch: int
) -> None:
    n = 2_500 if batch == 1 else 5_000
    q.send_many(numbered(n))
    while q.receive_many(batch, lease=5):
        pass
    q.send_many(numbered(10, n + 1))
    clock.advance(5)
    assert bodies(q.receive_many(500)) == numbered(500)
    assert bodies(drain(q)) == numbered(n + 10 - 500, 501)


@pytest.mark.slow
def test_leases_of_different_lengths_come_back_in_order(q: Queue, clock: Clock) -> None:
    chance = random.Random(4)
    ids = q.send_many(numbered(6_000))
    while held := q.receive_many(chance.choice([1, 3, 9, 40, 200]), lease=chance.randint(1, 40)):
        q.extend_many(chance.sample(held, len(held) // 3), chance.randint(1, 40))
        if chance.random() < 0.3:
            q.release_many(held[: len(held) // 2])
    clock.advance(40)
    assert bodies(drain(q)) == numbered(6_000)
    assert_each_in_one_state(q, ids)


@pytest.mark.slow
def test_batches_that_reach_over_each_other_come_back_in_order(q: Queue, clock: Clock) -> None:
    """Each has some of the first and some of the last."""
    q.send_many(numbered(4_000))
    held = q.receive_many(4_000, lease=5)
    for start in range(4):
        q.release_many(held[start::4])
        assert len(q.receive_many(1_000, lease=5)) == 1_000
    clock.advance(5)
    assert bodies(drain(q)) == numbered(4_000)


@pytest.mark.slow
def test_nothing_goes_out_before_all_are_back_and_nobody_is_told_that_it_is_empty(
    q: Queue, clock: Clock, raw: Raw
) -> None:
    q.send_many(numbered(2_500))
    drain(q, lease=5)
    q.send(b"fresh")
    clock.advance(5)
    for ready in (1_001, 2_001):
        assert ended(raw.fcall("receive", q.name, 10, -1, 0)) == (0, [1, 0])
        assert q.stats().ready == ready
    assert bodies(q.receive_many(3)) == numbered(3)


@pytest.mark.slow
def test_a_reader_gets_nothing_before_all_are_back(q: Queue, clock: Clock, raw: Raw) -> None:
    q.send_many(numbered(2_500))
    drain(q, lease=5)
    clock.advance(5)
    assert raw.fcall("reserve", q.name, "reader", 1, 100, 100, 0, 0) == [0, 0]
    assert q.reserve("reader", 1, [2_000]) == [2_000]
    assert bodies(drain(q)) == numbered(500, 2_001)


@pytest.mark.slow
def test_groups_come_back_in_order(q: Queue, clock: Clock) -> None:
    q.configure(group_limit=2)
    q.send_many([Outgoing(str(n).encode(), group=f"g{n % 900}") for n in range(3_600)])
    assert len(drain(q, lease=5)) == 1_800
    clock.advance(5)
    seen: dict[str | None, list[int]] = {}
    while held := q.receive_many(1_000):
        for d in held:
            seen.setdefault(d.group, []).append(int(d.body))
        q.ack_many(held)
    assert len(seen) == 900
    assert all(numbers == sorted(numbers) for numbers in seen.values())


@pytest.mark.slow
def test_dead_letters_in_hand_come_back_too(q: Queue, clock: Clock) -> None:
    q.send_many(numbered(2_500))
    q.bury_many(q.receive_many(2_500), "why")
    assert len(q.receive_dead(2_500, lease=5)) == 2_500
    clock.advance(5)
    assert len(q.receive_dead(2_500, lease=5)) == 2_500
    assert counts(q) == (0, 0, 2_500, 0)


def half_back(q: Queue, clock: Clock, raw: Raw) -> list[Delivery]:
    """Two batches that reach over each other, of which the last thousand have come back; the first of
    those that have not has a lease of its own."""
    q.send_many(numbered(1_600))
    held = q.receive_many(1_600, lease=5)
    q.release_many(held[::2])
    q.release_many(held[1::2])
    first, second = held[1::2], held[::2]
    assert {d.id for d in q.receive_many(800, lease=5)} == {d.id for d in first}
    again = q.receive_many(800, lease=5)
    assert {d.id for d in again} == {d.id for d in second}
    assert q.extend(again[0], 600)
    clock.advance(5)
    raw.fcall("tend", q.name, 0)
    assert counts(q) == (1_000, 0, 600, 0)
    return again


@pytest.mark.slow
def test_what_is_left_of_a_batch_can_be_seen_and_settled(q: Queue, clock: Clock, raw: Raw) -> None:
    again = half_back(q, clock, raw)
    assert len(q.inspect("leased", 0, ALL)) == 600
    done = q.ack_many(again)
    assert done[0] == again[0]
    assert len(done) == 300, "an ack counts while nobody else has the message"
    assert len(drain(q)) == 1_300
    assert q.stats().acked == 300


@pytest.mark.slow
def test_one_with_a_lease_of_its_own_stays_in_hand(q: Queue, clock: Clock, raw: Raw) -> None:
    own, *_ = half_back(q, clock, raw)
    assert len(drain(q, lease=1_000)) == 1_599
    assert q.extend(own, 600)
    clock.advance(600)
    assert bodies(q.receive_many(5)) == [own.body]


@pytest.mark.slow
def test_the_rest_can_be_purged_or_recovered(q: Queue, clock: Clock, raw: Raw) -> None:
    half_back(q, clock, raw)
    assert len(q.recover(100, elapsed=0)) == 100
    assert q.purge("leased") == 600
    assert counts(q) == (1_000, 0, 0, 0)


@pytest.mark.slow
def test_a_reservation_that_is_being_released_is_finished_by_whoever_comes(
    q: Queue, clock: Clock, raw: Raw
) -> None:
    q.send_many(numbered(3_500))
    q.reserve("reader", 1, [3_000])
    assert raw.fcall("release", q.name, "reader", 1) == [3_000, 0]
    assert ended(raw.fcall("receive", q.name, 10, -1, 0)) == (0, [1, 0])
    with pytest.raises(ReservationLost, match="was given back"):
        q.reserve("reader", 1, [10])
    assert bodies(drain(q)) == numbered(3_500)
    assert raw.fcall("release", q.name, "reader", 1) == [0, 1]
    assert q.reservations() == []


@pytest.mark.slow
@pytest.mark.parametrize("between", [True, False])
def test_all_that_a_reader_has_comes_back_in_order(
    q: Queue, clock: Clock, raw: Raw, between: bool
) -> None:
    q.send_many(numbered(12_500))
    for seq in range(1, 13):
        assert q.reserve("reader", seq, [1_000]) == [1_000]
    if between:
        assert raw.fcall("release", q.name, "reader", 0) == [12_000, 0]
    else:
        assert q.release_reserved("reader") == 12_000
    assert bodies(drain(q)) == numbered(12_500)
    assert q.release_reserved("reader") == 0
    assert q.reserve("reader", 13, [5]) == [0]


@pytest.mark.slow
def test_groups_of_a_released_reservation_stay_in_order(q: Queue, clock: Clock, raw: Raw) -> None:
    q.send_many([Outgoing(str(n).encode(), group=f"g{n % 7}") for n in range(3_000)])
    assert q.reserve("reader", 1, [2_500]) == [2_500]
    raw.fcall("release", q.name, "reader", 1)
    seen: dict[str | None, list[int]] = {}
    while d := q.receive():
        seen.setdefault(d.group, []).append(int(d.body))
        d.ack()
    assert seen == {f"g{g}": list(range(g, 3_000, 7)) for g in range(7)}


@pytest.mark.slow
def test_a_reservation_that_is_being_released_is_not_committed(
    q: Queue, clock: Clock, raw: Raw
) -> None:
    q.send_many(numbered(2_500))
    q.reserve("reader", 1, [2_500])
    raw.fcall("release", q.name, "reader", 1)
    assert q.commit("reader", 1) == 0
    assert bodies(drain(q)) == numbered(2_500)


def test_reservations_that_end_together_come_back_in_order(q: Queue, clock: Clock) -> None:
    q.send_many(numbered(300))
    for seq in (1, 2, 3):
        q.reserve("reader", seq, [100], ttl=5)
    clock.advance(5)
    assert bodies(drain(q)) == numbered(300)
