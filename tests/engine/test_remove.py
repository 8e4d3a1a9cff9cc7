from __future__ import annotations

import pytest

from holdfast import Outgoing, Queue
from tests.clock import Clock
from tests.engine.look import assert_each_in_one_state, bodies, counts, drain, numbered
from tests.raw import Raw


@pytest.mark.parametrize("state", ["ready", "delayed", "leased", "dead", "leased dead letter"])
def test_remove_takes_a_message_away_in_whatever_state(q: Queue, clock: Clock, state: str) -> None:
    first, second = q.send_many([Outgoing(b, delay=5) for b in numbered(2)])
    if state != "delayed":
        clock.advance(5)
        q.tend()
    if state not in ("delayed", "ready"):
        held = q.receive_many(2, lease=None)
        if state != "leased":
            q.bury_many(held, "bad")
        if state == "leased dead letter":
            q.receive_dead(2)
    assert q.remove(first)
    assert q.get(first) is None
    assert_each_in_one_state(q, [second])
    assert q.stats().removed == 1
    assert not q.remove(first)


def test_a_removed_ready_message_is_skipped_and_its_neighbours_are_not(
    q: Queue, clock: Clock
) -> None:
    ids = q.send_many(numbered(5))
    assert q.remove(ids[1])
    assert q.remove(ids[3])
    assert counts(q) == (3, 0, 0, 0)
    assert bodies(q.inspect("ready")) == [b"1", b"3", b"5"]
    assert bodies(drain(q)) == [b"1", b"3", b"5"]


def test_a_receipt_of_a_removed_message_is_stale(q: Queue, clock: Clock) -> None:
    sent = q.send(b"x")
    held = q.receive()
    assert q.remove(sent)
    assert held is not None
    assert not q.ack(held)


def test_removing_what_was_never_there_says_so(q: Queue, clock: Clock) -> None:
    assert not q.remove("1-1")
    q.send(b"x")
    assert not q.remove("1-1")
    assert counts(q) == (1, 0, 0, 0)


def test_removing_one_of_a_batch_in_hand_leaves_the_rest_reclaimable(
    q: Queue, clock: Clock
) -> None:
    ids = q.send_many(numbered(3))
    q.receive_many(3, lease=5)
    assert q.remove(ids[0])
    clock.advance(5)
    assert bodies(drain(q)) == [b"2", b"3"]


def test_removing_everything_leaves_nothing_behind(q: Queue, clock: Clock, raw: Raw) -> None:
    for i in q.send_many([*numbered(3), Outgoing(b"d", delay=1), Outgoing(b"g", group="g")]):
        assert q.remove(i)
    assert counts(q) == (0, 0, 0, 0)
    assert q.receive() is None
    assert raw.keys(q) == {ref.key for ref in q.refs()}


def test_a_removed_message_frees_its_unique_name(q: Queue, clock: Clock) -> None:
    assert q.remove(q.ensure("job", b"a"))
    assert not q.ensure("job", b"b").duplicate
