from __future__ import annotations

import pytest

from holdfast import Outgoing, Queue
from tests.clock import Clock
from tests.engine.look import bodies, drain, numbered


def test_higher_priorities_come_first(q: Queue, clock: Clock) -> None:
    q.send_many([Outgoing(str(p).encode(), priority=p) for p in (0, 5, 9, 3, 7, 1)])
    assert bodies(drain(q)) == [b"9", b"7", b"5", b"3", b"1", b"0"]


def test_inside_a_priority_the_order_is_that_of_sending(q: Queue, clock: Clock) -> None:
    q.send_many([Outgoing(b"%d" % n, priority=n % 2) for n in range(20)])
    expected = [b"%d" % n for n in range(1, 20, 2)] + [b"%d" % n for n in range(0, 20, 2)]
    assert bodies(drain(q)) == expected


@pytest.mark.unsharded("one message of each send lies in a shard of its own")
def test_a_later_message_of_a_higher_priority_overtakes(q: Queue, clock: Clock) -> None:
    q.send_many(numbered(3))
    assert bodies(q.receive_many(1)) == [b"1"]
    q.send(b"urgent", priority=9)
    assert bodies(drain(q)) == [b"urgent", b"2", b"3"]


def test_a_returned_message_goes_to_the_head_of_its_own_priority(q: Queue, clock: Clock) -> None:
    q.send_many([Outgoing(b"%d%s" % (p, s), priority=p) for p in (1, 2) for s in (b"a", b"b")])
    [first] = q.receive_many(1)
    first.nack()
    assert bodies(drain(q)) == [b"2a", b"2b", b"1a", b"1b"]


def test_one_receive_takes_from_several_priorities_in_order(q: Queue, clock: Clock) -> None:
    q.send_many([Outgoing(b"%d" % p, priority=p) for p in range(10) for _ in range(3)])
    got = q.receive_many(10)
    assert bodies(got) == [b"9"] * 3 + [b"8"] * 3 + [b"7"] * 3 + [b"6"]


def test_priorities_have_their_say_among_due_messages(q: Queue, clock: Clock) -> None:
    q.send_many([Outgoing(b"low", delay=1), Outgoing(b"high", delay=2, priority=5)])
    clock.advance(2)
    assert bodies(drain(q)) == [b"high", b"low"]


@pytest.mark.unsharded("ages are compared within a shard")
def test_with_aging_a_message_gains_one_level_for_each_interval(q: Queue, clock: Clock) -> None:
    q.configure(aging=10)
    q.send(b"old", priority=0)
    clock.advance(29)
    q.send(b"3", priority=3)
    assert bodies(q.receive_many(1)) == [b"3"]
    q.send(b"3", priority=3)
    clock.advance(11)
    assert bodies(q.receive_many(1)) == [b"3"]  # old: 4, newer: 3 + 1; the higher level wins ties
    q.send(b"3", priority=3)
    assert bodies(q.receive_many(2)) == [b"old", b"3"]


@pytest.mark.unsharded("ages are compared within a shard")
def test_with_aging_low_priorities_do_not_starve(q: Queue, clock: Clock) -> None:
    q.configure(aging=1)
    q.send(b"low")
    seen = []
    for _ in range(30):
        q.send(b"high", priority=9)
        clock.advance(1)
        seen += bodies(q.receive_many(1))
    assert b"low" in seen[:12]


def test_with_aging_order_inside_a_level_stays(q: Queue, clock: Clock) -> None:
    q.configure(aging=10)
    q.send_many([Outgoing(b"%d" % n, priority=n % 3) for n in range(30)])
    clock.advance(5)
    got = drain(q)
    for level in range(3):
        mine = [d.body for d in got if d.priority == level]
        assert mine == [b"%d" % n for n in range(30) if n % 3 == level]


def test_with_aging_many_can_be_received_at_once(q: Queue, clock: Clock) -> None:
    q.configure(aging=10)
    q.send_many(numbered(1500))
    assert len(q.receive_many(800)) == 800
    assert len(drain(q)) == 700


def test_with_aging_receive_goes_past_a_removed_message(q: Queue, clock: Clock) -> None:
    q.configure(aging=10)
    ids = q.send_many([b"removed", b"good"])
    q.remove(ids[0])
    got = q.receive()
    assert got is not None
    assert got.body == b"good"


def test_with_aging_receive_goes_past_an_expired_message(q: Queue, clock: Clock) -> None:
    q.configure(aging=10)
    q.send_many([Outgoing(b"old", ttl=1), b"good"])
    clock.advance(1)
    got = q.receive()
    assert got is not None
    assert got.body == b"good"


def test_with_aging_receive_goes_past_the_place_of_an_emptied_group(q: Queue, clock: Clock) -> None:
    q.configure(aging=10)
    ids = q.send_many([Outgoing(b"removed", group="g"), Outgoing(b"good", group="h")])
    q.remove(ids[0])
    got = q.receive()
    assert got is not None
    assert got.body == b"good"
