from __future__ import annotations

import pytest

from holdfast import Delivery, InvalidArgument, Queue
from holdfast.engine import tasks
from tests.clock import Clock
from tests.engine.look import assert_each_in_one_state, counts, drain, numbered
from tests.engine.settling import receipt, settle


def unname(q: Queue, held: Delivery) -> list[int]:
    packed, shard = receipt(held)
    return q.transport.run(tasks.unname(q.refs()[shard], [packed]))


def test_the_name_may_be_used_again_while_the_message_is_in_hand(q: Queue, clock: Clock) -> None:
    first = q.ensure("u", b"1")
    [held] = drain(q)
    assert q.ensure("u", b"2").duplicate
    assert unname(q, held) == []
    second = q.ensure("u", b"2")
    assert not second.duplicate
    assert_each_in_one_state(q, [first, second])
    assert counts(q) == (1, 0, 1, 0)


@pytest.mark.parametrize("action", ["ack", "bury", "retry"])
def test_what_becomes_of_the_first_leaves_the_name_to_the_second(
    q: Queue, clock: Clock, action: str
) -> None:
    q.ensure("u", b"1")
    [held] = drain(q)
    unname(q, held)
    second = q.ensure("u", b"2")
    settle(q, (held, {"action": action}))
    assert q.ensure("u", b"3") == second


def test_it_may_be_repeated(q: Queue, clock: Clock) -> None:
    q.ensure("u", b"1")
    [held] = drain(q)
    assert unname(q, held) == unname(q, held) == []
    second = q.ensure("u", b"2")
    assert unname(q, held) == []
    assert q.ensure("u", b"3") == second


def test_a_stale_receipt_frees_no_name(q: Queue, clock: Clock) -> None:
    first = q.ensure("u", b"1")
    [stale] = drain(q, lease=1)
    clock.advance(1)
    drain(q)
    assert unname(q, stale) == [0]
    assert q.ensure("u", b"2") == first


@pytest.mark.unsharded("one call is for one shard")
def test_many_at_once_and_those_without_a_name(q: Queue, clock: Clock) -> None:
    q.send_many(numbered(2))
    q.ensure("u", b"3")
    q.ensure("v", b"4")
    held = drain(q)
    q.ack(held[0])
    receipts = [receipt(d)[0] for d in held]
    assert q.transport.run(tasks.unname(q.refs()[0], receipts)) == [0]
    assert not q.ensure("u", b"x").duplicate
    assert not q.ensure("v", b"x").duplicate
    assert counts(q) == (2, 0, 3, 0)


def test_it_needs_a_receipt(q: Queue, clock: Clock) -> None:
    with pytest.raises(InvalidArgument, match="at least one receipt"):
        q.transport.run(tasks.unname(q.refs()[0], []))
