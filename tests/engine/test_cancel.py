from __future__ import annotations

import pytest

from holdfast import InvalidArgument, Queue, WrongType
from holdfast.engine import tasks
from holdfast.engine.keys import cancelled_key
from holdfast.message import parse_id
from tests.clock import Clock
from tests.engine.look import counts
from tests.raw import Raw


def mark(q: Queue, message_id: str, seconds: float) -> int:
    packed, shard = parse_id(message_id)
    return q.transport.run(tasks.cancel(q.refs()[shard], packed, seconds))


def marked(q: Queue, clock: Clock) -> set[bytes]:
    """As a worker looks: those whose mark is not over."""
    found: set[bytes] = set()
    for ref in q.refs():
        key = cancelled_key(ref)
        found |= set(q.transport.command("ZRANGEBYSCORE", key, f"({clock.ms}", "+inf", key=ref.key))
    return found


def test_a_mark_is_seen_until_it_ends(q: Queue, clock: Clock) -> None:
    sent = q.send(b"x")
    assert mark(q, sent, 10) == 1
    assert marked(q, clock) == {parse_id(sent)[0]}
    clock.advance(9.999)
    assert marked(q, clock) == {parse_id(sent)[0]}
    clock.advance(0.001)
    assert marked(q, clock) == set()


def test_the_message_stays_where_it_is(q: Queue, clock: Clock) -> None:
    sent = q.send(b"x")
    mark(q, sent, 10)
    assert counts(q) == (1, 0, 0, 0)
    got = q.receive()
    assert got is not None
    assert got.id == sent


def test_a_later_mark_may_be_longer_but_never_shorter(q: Queue, clock: Clock) -> None:
    sent = q.send(b"x")
    mark(q, sent, 10)
    mark(q, sent, 1)
    clock.advance(5)
    assert marked(q, clock)
    mark(q, sent, 10)
    clock.advance(9)
    assert marked(q, clock)


@pytest.mark.unsharded("both marks must be in one place")
@pytest.mark.slow
def test_marks_that_are_over_are_cleared_away_by_the_next(q: Queue, clock: Clock, raw: Raw) -> None:
    mark(q, "1-1", 1)
    mark(q, "1-2", 100)
    clock.advance(1)
    mark(q, "1-3", 1)
    found = set(raw("ZRANGE", cancelled_key(q.refs()[0]), 0, -1))
    assert found == {parse_id("1-2")[0], parse_id("1-3")[0]}


def test_all_marks_vanish_by_themselves_with_the_last_of_them(
    q: Queue, clock: Clock, raw: Raw
) -> None:
    mark(q, "1-1", 100)
    mark(q, "1-2", 10)
    assert 90_000 < raw("PTTL", cancelled_key(q.refs()[0])) <= 100_000


def test_a_deleted_queue_leaves_no_marks(q: Queue, clock: Clock, raw: Raw) -> None:
    mark(q, q.send(b"x"), 10)
    q.delete()
    assert not any(raw("EXISTS", cancelled_key(ref)) for ref in q.refs())


def test_a_key_of_another_type_is_an_error(q: Queue, clock: Clock, raw: Raw) -> None:
    raw("SET", cancelled_key(q.refs()[0]), "something else")
    with pytest.raises(WrongType):
        mark(q, "1-1", 10)


def test_a_mark_must_last(q: Queue) -> None:
    with pytest.raises(InvalidArgument, match=r"mark must be from 0\.001"):
        mark(q, "1-1", 0)
