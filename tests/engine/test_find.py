"""A ready message is found by its id in bounded steps, from the end of its list to the head."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from holdfast import Message, Outgoing, Queue
from holdfast.engine import calls
from holdfast.message import parse_id
from tests.clock import Clock
from tests.engine.look import counts, drain, numbered


def steps(q: Queue, message_id: str, source: bytes = b"0") -> Iterator[Message | None]:
    """`find`, one call at a time: None for each step that did not see it, then the message."""
    packed, shard = parse_id(message_id)
    cursor = (-1, 0)
    while cursor[0] != 0:
        call = calls.find(q.refs()[shard], packed, source, cursor, False, None)
        found = q.transport.run(call)
        if isinstance(found, Message):
            yield found
            return
        yield None
        cursor = found


@pytest.mark.parametrize("place", [0, 1, 999, 1000, 1001, 2499])
def test_a_message_is_found_wherever_it_lies(q: Queue, clock: Clock, place: int) -> None:
    ids = q.send_many(numbered(2500))
    found = q.get(ids[place])
    assert found is not None
    assert (found.id, found.body, found.state) == (ids[place], b"%d" % (place + 1), "ready")
    assert q.remove(ids[place])
    assert q.get(ids[place]) is None
    assert counts(q) == (2499, 0, 0, 0)


def test_a_long_list_is_searched_in_steps_of_a_thousand(q: Queue, clock: Clock) -> None:
    ids = q.send_many(numbered(2500))
    assert len(list(steps(q, ids[0]))) == 3
    assert len(list(steps(q, ids[2400]))) == 1


def test_a_message_of_any_priority_or_group_is_found(q: Queue, clock: Clock) -> None:
    ids = q.send_many(
        [Outgoing(b"p%d" % p, priority=p) for p in range(10)]
        + [Outgoing(b"g%d" % n, group=f"g{n % 7}") for n in range(30)]
    )
    for i in ids:
        found = q.get(i)
        assert found is not None
        assert found.id == i
    for i in ids:
        assert q.remove(i)
    assert counts(q) == (0, 0, 0, 0)


def test_one_of_hundreds_of_groups_is_found(q: Queue, clock: Clock) -> None:
    ids = q.send_many([Outgoing(b"x", group=f"g{n}") for n in range(700)])
    for i in (ids[0], ids[350], ids[699]):
        assert q.get(i) is not None


def test_it_is_found_while_others_receive(q: Queue, clock: Clock) -> None:
    ids = q.send_many(numbered(3500))
    search = steps(q, ids[1000])
    assert next(search) is None
    assert len(q.receive_many(900)) == 900
    assert [m.id for m in search if m] == [ids[1000]]


def test_it_is_found_while_others_give_back(q: Queue, clock: Clock) -> None:
    ids = q.send_many(numbered(3500))
    held = q.receive_many(1000)
    search = steps(q, ids[1400])
    assert next(search) is None  # 2500..3499
    assert q.release_many(held) == held
    assert [m.id for m in search if m] == [ids[1400]]


def test_it_is_found_when_it_is_itself_given_back_meanwhile(q: Queue, clock: Clock) -> None:
    ids = q.send_many(numbered(2500))
    held = q.receive_many(1)
    search = steps(q, ids[0])
    assert next(search) is None
    held[0].nack()
    assert [m.id for m in search if m] == [ids[0]]


def test_it_is_found_while_others_send(q: Queue, clock: Clock) -> None:
    ids = q.send_many(numbered(2500))
    search = steps(q, ids[3])
    assert next(search) is None
    for _ in q.refs():
        q.send_many(numbered(1500))
    assert [m.id for m in search if m] == [ids[3]]


def test_the_search_ends_when_it_is_not_there(q: Queue, clock: Clock) -> None:
    ids = q.send_many(numbered(2500))
    drain(q)
    assert list(steps(q, ids[0])) == [None]
    q.send_many(numbered(2500))
    assert q.get("1-1") is None
