from __future__ import annotations

import pytest

from holdfast import InvalidArgument, Message, Outgoing, Queue
from tests.clock import Clock
from tests.engine.look import assert_each_in_one_state, bodies, counts, drain, numbered


def bury(q: Queue, n: int, reason: str = "bad") -> list[str]:
    """`n` dead letters in one shard, in their order."""
    ids: list[str] = [*q.send_many(numbered(n))]
    held = drain(q, lease=None)
    assert q.bury_many(held, reason) == held
    return ids


def test_dead_letters_become_ready_in_the_order_they_died(q: Queue, clock: Clock) -> None:
    ids = bury(q, 5)
    assert q.redrive() == ids
    assert_each_in_one_state(q, ids)
    assert bodies(drain(q)) == numbered(5)
    assert q.stats().redriven == 5


def test_the_order_is_that_of_death_not_of_sending(q: Queue, clock: Clock) -> None:
    q.send_many(numbered(3))
    for held in reversed(q.receive_many(3)):
        held.bury("bad")
        clock.advance(1)
    q.redrive()
    assert bodies(drain(q)) == [b"3", b"2", b"1"]


def test_a_redriven_message_is_as_if_never_tried(q: Queue, clock: Clock) -> None:
    q.configure(max_receives=1)
    q.send(b"x", attributes={"a": "b"}, priority=4)
    q.receive().nack(error="no")  # type: ignore[union-attr]
    q.redrive()
    got = q.receive()
    assert got is not None
    assert (got.receives, got.attributes, got.priority) == (1, {"a": "b"}, 4)


def test_up_to_a_count(q: Queue, clock: Clock) -> None:
    ids = bury(q, 5)
    assert q.redrive(2) == ids[:2]
    assert counts(q) == (2, 0, 0, 3)
    assert q.redrive(10) == ids[2:]
    assert q.redrive(1) == []


def test_those_with_these_ids(q: Queue, clock: Clock) -> None:
    ids = bury(q, 5)
    assert q.redrive(ids=[ids[1], ids[3], "1-1"]) == [ids[1], ids[3]]
    assert bodies(drain(q)) == [b"2", b"4"]
    assert counts(q) == (0, 0, 2, 3)


def test_ids_in_any_order_are_redriven_in_the_order_they_died(q: Queue, clock: Clock) -> None:
    ids = bury(q, 4)
    q.redrive(ids=[ids[3], ids[0], ids[2]])
    assert bodies(drain(q)) == [b"1", b"3", b"4"]


def test_an_id_given_twice_is_redriven_once(q: Queue, clock: Clock) -> None:
    ids = bury(q, 2)
    assert q.redrive(ids=[ids[0], ids[0]]) == [ids[0]]
    assert_each_in_one_state(q, ids)


def test_ids_of_messages_that_are_not_dead_are_left_alone(q: Queue, clock: Clock) -> None:
    dead = bury(q, 1)
    ready = q.send(b"ready")
    assert q.redrive(ids=[ready, *dead]) == dead
    assert counts(q) == (2, 0, 0, 0)


def test_those_for_which_a_function_says_so(q: Queue, clock: Clock) -> None:
    bury(q, 6)

    def even(message: Message) -> bool:
        assert message.death is not None
        assert message.death.reason == "bad"
        return int(message.body) % 2 == 0

    assert len(q.redrive(where=even)) == 3
    assert bodies(drain(q)) == [b"2", b"4", b"6"]


def test_count_and_where_together(q: Queue, clock: Clock) -> None:
    ids = bury(q, 6)
    assert q.redrive(2, where=lambda m: int(m.body) > 2) == ids[2:4]


def test_a_dry_run_says_which_and_moves_nothing(q: Queue, clock: Clock) -> None:
    ids = bury(q, 4)
    before = q.stats()
    assert q.redrive(dry_run=True) == ids
    assert q.redrive(2, dry_run=True) == ids[:2]
    assert q.redrive(where=lambda m: m.body == b"3", dry_run=True) == [ids[2]]
    assert q.redrive(ids=[ids[1], "1-1"], dry_run=True) == [ids[1]]
    assert q.stats() == before


def test_a_rate_spaces_them_out(q: Queue, clock: Clock) -> None:
    bury(q, 5)
    q.redrive(rate=2)
    assert counts(q) == (1, 4, 0, 0)
    seen = bodies(drain(q))
    for _ in range(4):
        clock.advance(0.499)
        assert q.receive() is None
        clock.advance(0.001)
        seen += bodies(drain(q))
    assert seen == numbered(5)


def test_a_rate_is_kept_over_more_than_one_call(q: Queue, clock: Clock) -> None:
    bury(q, 2500)
    q.redrive(rate=1000)
    due = [m.due for m in q.inspect("delayed", 0, 3000)]
    assert due == [clock.at(n / 1000) for n in range(1, 2500)]


@pytest.mark.only("standalone-shards", "cluster-shards", reason="about several shards")
def test_a_rate_is_kept_over_all_shards(q: Queue, clock: Clock) -> None:
    for _ in range(6):
        q.send(b"x")
    q.bury_many(drain(q), "bad")
    q.redrive(rate=1)
    due = sorted(m.due for m in q.inspect("delayed", 0, 10) if m.due)
    assert due == [clock.at(n) for n in range(1, 6)]


def test_more_than_a_thousand_at_once_keep_their_order(q: Queue, clock: Clock) -> None:
    ids = bury(q, 2500)
    assert q.redrive() == ids
    assert bodies(q.inspect("ready", 0, 3000)) == numbered(2500)


def test_redrive_of_grouped_letters_keeps_one_in_flight(q: Queue, clock: Clock) -> None:
    q.send_many([Outgoing(b, group="g") for b in numbered(3)])
    while got := q.receive():
        got.bury("bad")
    q.redrive()
    assert bodies(drain(q)) == [b"1"]


def test_redrive_of_nothing_moves_nothing(q: Queue, clock: Clock) -> None:
    assert q.redrive() == []
    assert q.redrive(ids=[]) == []
    assert q.redrive(where=lambda m: True) == []


@pytest.mark.parametrize("rate", [0, -1, 1_000_001, "fast", True, float("nan")])
def test_a_bad_rate_is_refused(q: Queue, clock: Clock, rate: float) -> None:
    bury(q, 1)
    with pytest.raises(InvalidArgument, match="rate must be"):
        q.redrive(rate=rate)
    assert counts(q) == (0, 0, 0, 1)
