from __future__ import annotations

import pytest

from holdfast import InvalidArgument, Outgoing, Queue
from tests.clock import Clock
from tests.engine.look import counts, drain, numbered
from tests.raw import Raw


def one_in_each_state(q: Queue, **extra: str) -> None:
    q.send_many([Outgoing(b, priority=9, **extra) for b in (b"dead", b"leased")])  # type: ignore[arg-type]
    held = q.receive_many(2, lease=None)
    if len(held) < 2:  # a group lets one out at a time
        held[0].bury("bad")
        assert q.receive(lease=None) is not None
    else:
        held[0].bury("bad")
    q.send_many([Outgoing(b"ready", **extra), Outgoing(b"delayed", delay=60, **extra)])  # type: ignore[arg-type]
    assert counts(q) == (1, 1, 1, 1)


@pytest.mark.parametrize("extra", [{}, {"group": "g"}], ids=["plain", "grouped"])
@pytest.mark.parametrize("state", ["ready", "delayed", "leased", "dead"])
def test_purge_takes_one_state_and_leaves_the_others(
    q: Queue, clock: Clock, state: str, extra: dict[str, str]
) -> None:
    one_in_each_state(q, **extra)
    assert q.purge(state) == 1  # type: ignore[arg-type]
    expected = [1, 1, 1, 1]
    expected[["ready", "delayed", "leased", "dead"].index(state)] = 0
    assert list(counts(q)) == expected
    assert q.stats().removed == 1
    assert q.purge(state) == 0  # type: ignore[arg-type]


@pytest.mark.parametrize("extra", [{}, {"group": "g"}], ids=["plain", "grouped"])
@pytest.mark.parametrize("journal", [False, True])
def test_purge_of_everything_leaves_nothing(
    q: Queue, clock: Clock, raw: Raw, extra: dict[str, str], journal: bool
) -> None:
    q.configure(journal=journal)
    one_in_each_state(q, **extra)
    assert q.purge() == 4
    assert counts(q) == (0, 0, 0, 0)
    assert q.receive() is None
    left = {ref.key for ref in q.refs()}
    assert {k for k in raw.keys(q) if not k.endswith(":j")} == left


@pytest.mark.slow
def test_thousands_of_each_state_go(q: Queue, clock: Clock) -> None:
    for extra in ({}, {"group": "g"}):
        q.send_many([Outgoing(b, **extra) for b in numbered(2500)])  # type: ignore[arg-type]
        assert q.purge("ready") == 2500
        assert q.stats().ready == 0
    q.configure(journal=True)
    q.send_many([Outgoing(b, delay=5) for b in numbered(2500)])
    assert q.purge("delayed") == 2500
    q.send_many(numbered(2500))
    assert len(drain(q)) == 2500
    assert q.purge("leased") == 2500
    assert counts(q) == (0, 0, 0, 0)


def test_a_receipt_of_a_purged_message_is_stale(q: Queue, clock: Clock) -> None:
    q.send(b"x")
    held = q.receive()
    q.purge("leased")
    assert held is not None
    assert not q.ack(held)
    assert q.stats().acked == 0


def test_a_purged_queue_works_on(q: Queue, clock: Clock) -> None:
    q.send_many([Outgoing(b, priority=p) for p in range(3) for b in numbered(3)])
    q.purge()
    q.send_many(numbered(2))
    assert len(drain(q)) == 2


def test_purging_a_queue_that_does_not_exist_makes_none(q: Queue, raw: Raw) -> None:
    before = raw.keys(q)
    assert q.purge() == 0
    assert raw.keys(q) == before


def test_an_unknown_state_is_refused_before_anything_goes(q: Queue, clock: Clock) -> None:
    q.send(b"x")
    with pytest.raises(
        InvalidArgument,
        match=r"^state must be one of ready, delayed, leased, reserved, dead, not 'gone'$",
    ):
        q.purge("ready", "gone")  # type: ignore[arg-type]
    assert counts(q) == (1, 0, 0, 0)
