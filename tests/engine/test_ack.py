from __future__ import annotations

from collections.abc import Callable

import pytest

from holdfast import InvalidArgument, LeaseLost, Queue
from holdfast.engine.keys import base
from tests.clock import Clock
from tests.engine.look import assert_each_in_one_state, bodies, counts, drain, numbered
from tests.raw import Raw, key


def test_an_acked_message_is_gone(q: Queue, clock: Clock) -> None:
    sent = q.send(b"x")
    got = q.receive()
    assert got is not None
    got.ack()
    assert q.get(sent) is None
    assert counts(q) == (0, 0, 0, 0)
    assert q.stats().acked == 1


def test_ack_many_returns_those_really_removed(q: Queue, clock: Clock) -> None:
    q.send_many(numbered(4))
    held = q.receive_many(4, lease=5)
    held[1].ack()
    assert q.ack_many(held) == [held[0], held[2], held[3]]
    assert q.ack_many(held) == []


def test_the_same_receipt_twice_in_one_call_counts_once(q: Queue, clock: Clock) -> None:
    q.send(b"x")
    held = q.receive()
    assert held is not None
    assert q.ack_many([held.receipt, held.id, held.receipt]) == [held.receipt]
    assert q.stats().acked == 1


def test_a_receipt_of_an_earlier_delivery_changes_nothing_and_says_so(
    q: Queue, clock: Clock
) -> None:
    sent = q.send(b"x")
    stale = q.receive(lease=1)
    clock.advance(1)
    current = q.receive(lease=10)
    assert stale is not None
    assert current is not None
    assert not q.ack(stale)
    with pytest.raises(LeaseLost, match="the lease is lost"):
        stale.ack()
    assert_each_in_one_state(q, [sent])
    assert counts(q) == (0, 0, 1, 0)
    current.ack()
    assert q.stats().total == 0


def test_a_receipt_stays_good_past_the_leases_end_while_nobody_else_has_it(
    q: Queue, clock: Clock
) -> None:
    q.send(b"x")
    held = q.receive(lease=1)
    clock.advance(100)
    assert held is not None
    held.ack()
    assert q.receive() is None


def test_a_receipt_is_stale_once_the_message_is_ready_again(q: Queue, clock: Clock) -> None:
    sent = q.send(b"x")
    held = q.receive(lease=1)
    clock.advance(1)
    q.tend()
    assert held is not None
    assert not q.ack(held)
    assert_each_in_one_state(q, [sent])


def test_a_bare_id_acks_whichever_delivery_is_current(q: Queue, clock: Clock) -> None:
    sent = q.send(b"x")
    q.receive(lease=1)
    clock.advance(1)
    q.receive(lease=10)
    assert q.ack(sent)
    assert q.stats().total == 0


def test_a_bare_id_of_a_message_that_is_not_out_acks_nothing(q: Queue, clock: Clock) -> None:
    ready, delayed = q.send(b"a"), q.send(b"b", delay=5)
    assert q.ack_many([ready, delayed, "1-1"]) == []
    assert counts(q) == (1, 1, 0, 0)


def test_a_receipt_can_be_stored_as_text_and_used_elsewhere(q: Queue, clock: Clock) -> None:
    q.send(b"x")
    held = q.receive()
    assert held is not None
    other = q._client.queue(q.name)
    assert other.ack(held.receipt)


def test_a_malformed_receipt_among_good_ones_removes_nothing(q: Queue, clock: Clock) -> None:
    q.send_many(numbered(2))
    held = q.receive_many(2)
    with pytest.raises(InvalidArgument, match="is not a message id"):
        q.ack_many([held[0].receipt, "nonsense"])
    assert counts(q) == (0, 0, 2, 0)


def test_acks_out_of_order_take_away_only_their_own(q: Queue, clock: Clock) -> None:
    q.send_many(numbered(10))
    held = q.receive_many(10, lease=5)
    q.ack_many([held[9], held[0], held[4]])
    clock.advance(5)
    assert bodies(drain(q)) == [b"2", b"3", b"4", b"6", b"7", b"8", b"9"]


def test_leaving_a_with_block_cleanly_acks_and_raising_nacks(q: Queue, clock: Clock) -> None:
    q.send(b"x")
    with pytest.raises(RuntimeError, match="no"), q.receive():  # type: ignore[union-attr]
        raise RuntimeError("no")
    [again] = q.inspect("ready")
    assert again.receives == 1
    with q.receive():  # type: ignore[union-attr]
        pass
    assert q.stats().total == 0


def test_a_batch_of_acks_is_one_call_and_few_commands(q: Queue, clock: Clock, raw: Raw) -> None:
    q.send_many(numbered(400))
    held = q.receive_many(400)
    assert len(held) == 400
    before = raw.calls()
    assert q.ack_many(held) == held
    after = raw.calls()
    changed = {c: after[c] - before.get(c, 0) for c in ("fcall", "hmget", "hdel", "zrem")}
    assert changed == {"fcall": 1, "hmget": 1, "hdel": 0, "zrem": 3}


@pytest.mark.only("standalone", reason="counts what one server was asked")
def test_the_ack_of_one_that_came_alone_is_six_commands(q: Queue, raw: Raw) -> None:
    for _ in range(2):
        q.send(b"x")
        held = q.receive()
        assert held is not None
        before = raw.calls()
        held.ack()
        after = raw.calls()
    changed = {c: n - before.get(c, 0) for c, n in after.items() if n != before.get(c, 0)}
    del changed["info"], changed["ping"]  # of the looking
    looks_and_ends = {"hmget": 1, "hget": 1, "hdel": 1, "zremrangebyscore": 1, "zrem": 1, "hset": 1}
    assert changed == {"fcall": 1, **looks_and_ends}


ALONE: dict[str, Callable[[Queue], object]] = {
    "plain": lambda q: q.send(b"x"),
    "in a batch of its own size": lambda q: q.send_many([b"x"]),
    "with a time to live": lambda q: q.send(b"x", ttl=60),
    "urgent": lambda q: q.send(b"x", priority=9),
    "of a group": lambda q: q.send(b"x", group="g"),
    "with a unique name": lambda q: q.ensure("u", b"x"),
}


@pytest.mark.unsharded("each shard keeps a hash and a journal")
@pytest.mark.parametrize("kind", ALONE)
@pytest.mark.parametrize("extended", [False, True])
@pytest.mark.parametrize("journal", [False, True])
def test_one_that_came_alone_leaves_nothing_behind(
    q: Queue, clock: Clock, raw: Raw, kind: str, extended: bool, journal: bool
) -> None:
    q.configure(journal=journal)
    for n in (1, 2):
        ALONE[kind](q)
        [held] = q.receive_many(1, lease=60)
        if extended:
            held.extend(50)
        held.ack()
        assert raw.keys(q) == {base(q.name)} | ({key(q, "journal")} if journal else set())
        assert not q.ack(held.receipt)
        assert q.stats().acked == n
        assert counts(q) == (0, 0, 0, 0)


@pytest.mark.parametrize("how", ["ack_many", "nack_many", "release_many"])
@pytest.mark.parametrize("redelivered", [0, 1, 3])
def test_a_whole_batch_that_went_to_others_is_stale_message_by_message(
    q: Queue, clock: Clock, how: str, redelivered: int
) -> None:
    ids = q.send_many(numbered(3))
    old = q.receive_many(3, lease=1)
    clock.advance(1)
    q.tend()
    current = q.receive_many(redelivered, lease=60) if redelivered else []
    before = q.stats()
    assert getattr(q, how)(old) == []
    assert q.extend_many(old, 60) == []
    assert q.stats() == before
    assert_each_in_one_state(q, ids)
    assert q.ack_many(current) == current


def test_a_batch_is_acked_whole_in_part_in_any_order_or_with_others(q: Queue, clock: Clock) -> None:
    q.send_many(numbered(9))
    first, second, third = (q.receive_many(3, lease=60) for _ in range(3))
    assert q.ack_many([*first, second[0]]) == [*first, second[0]]
    assert q.ack_many(second) == second[1:]
    assert set(q.ack_many(third[::-1])) == set(third)
    assert q.stats().total == 0


def test_a_whole_batch_of_which_one_was_removed_acks_the_rest(q: Queue, clock: Clock) -> None:
    q.send_many(numbered(3))
    held = q.receive_many(3, lease=60)
    assert q.remove(held[1].id)
    assert q.ack_many(held) == [held[0], held[2]]
    assert q.stats().acked == 2


def test_a_whole_batch_of_which_one_was_recovered_acks_the_rest(q: Queue, clock: Clock) -> None:
    q.send_many(numbered(3))
    held = q.receive_many(3, lease=60)
    [taken] = q.recover(1, elapsed=0)
    assert q.ack_many(held) == held[1:]
    assert q.ack_many([taken]) == [taken]
    assert q.stats().total == 0


@pytest.mark.parametrize("how", ["ack", "nack", "release", "bury", "extend"])
def test_a_stored_receipt_of_an_earlier_delivery_changes_nothing(
    q: Queue, clock: Clock, how: str
) -> None:
    q.send_many(numbered(2))
    old = [d.receipt for d in q.receive_many(2, lease=1)]
    clock.advance(1)
    current = q.receive_many(2, lease=60)
    assert [d.receipt.split("@")[0] for d in current] == [r.split("@")[0] for r in old]
    extra: dict[str, list[object]] = {"bury": ["why"], "extend": [99]}
    more = extra.get(how, [])
    before = q.stats()
    for receipt in old:
        assert not getattr(q, how)(receipt, *more)
    assert getattr(q, f"{how}_many")(old, *more) == []
    assert q.stats() == before
    assert q.ack_many([d.receipt for d in current]) == [d.receipt for d in current]
