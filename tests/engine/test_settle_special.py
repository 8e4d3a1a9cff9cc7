"""Settling what is more than a plain message: of a group, with a unique name, dead, shared by seats."""

from __future__ import annotations

from typing import Any

import pytest

from holdfast import Outgoing, Queue, Topic
from tests.clock import Clock
from tests.engine.look import assert_each_in_one_state, bodies, counts, drain
from tests.engine.seats import shared_bodies
from tests.engine.settling import ACTIONS, changed, each, settle
from tests.raw import Raw


@pytest.mark.parametrize("action", ["retry", "snooze"])
@pytest.mark.parametrize("body", [b"", b"changed"])
def test_a_delayed_one_of_a_group_keeps_its_place_and_comes_first(
    q: Queue, clock: Clock, action: str, body: bytes
) -> None:
    q.send_many([Outgoing(b"%d" % n, group="g") for n in range(3)])
    [held] = drain(q)
    how = {"action": action, "delay_ms": 5000, "envelope": changed(held, body) if body else b""}
    settle(q, (held, how))
    assert q.receive() is None, "another of its group overtook it"
    [waiting] = q.inspect("delayed")
    assert waiting.receives == 0
    clock.advance(5)
    [again] = drain(q)
    assert (again.id, again.receives) == (held.id, 1)
    assert again.packed[10:12] == b"\0\0", "the mark that it is held back is left on it"
    settle(q, (again, {}))
    assert [d.body for d in take_in_turn(q)] == [b"1", b"2"]
    assert nothing_is_taken(q)


@pytest.mark.parametrize("action", ["ack", "bury"])
def test_one_that_leaves_its_group_makes_room_for_the_next(
    q: Queue, clock: Clock, action: str
) -> None:
    q.send_many([Outgoing(b"%d" % n, group="g") for n in range(3)])
    seen = []
    for _ in range(3):
        [held] = drain(q)
        seen.append(held.body)
        settle(q, (held, {"action": action}))
    assert seen == [b"0", b"1", b"2"]
    assert nothing_is_taken(q)


@pytest.mark.parametrize("how", ["remove", "purge", "reschedule"])
def test_a_snoozed_one_that_is_taken_out_or_moved_leaves_its_group_free(
    q: Queue, clock: Clock, how: str
) -> None:
    q.send_many([Outgoing(b"%d" % n, group="g") for n in range(3)])
    [held] = drain(q)
    settle(q, (held, {"action": "snooze", "delay_ms": 60_000}))
    if how == "remove":
        assert q.remove(held.id)
    elif how == "purge":
        assert q.purge("delayed") == 1
    else:
        assert q.reschedule(held.id, delay=0)
    expected = [b"1", b"2"] if how != "reschedule" else [b"0", b"1", b"2"]
    assert [d.body for d in take_in_turn(q)] == expected
    assert nothing_is_taken(q)


def take_in_turn(q: Queue) -> list[Any]:
    taken = []
    while (got := q.receive()) is not None:
        taken.append(got)
        settle(q, (got, {}))
    return taken


def nothing_is_taken(q: Queue) -> bool:
    """No group holds a place for a message that is gone."""
    return all(not q.transport.command("EXISTS", r.below("slots"), key=r.key) for r in q.refs())


@pytest.mark.parametrize("action", ACTIONS)
def test_a_unique_name_is_free_once_its_message_is_out_of_the_queue(
    q: Queue, clock: Clock, action: str
) -> None:
    q.ensure("u", b"x")
    settle(q, *each(drain(q), action=action, delay_ms=1000))
    assert q.ensure("u", b"x").duplicate == (action not in ("ack", "bury"))


@pytest.mark.parametrize("action", ACTIONS)
def test_a_dead_letter_in_hand_goes_back_unless_it_is_acked(
    q: Queue, clock: Clock, action: str
) -> None:
    sent = q.send(b"x")
    q.bury_many(drain(q), "first")
    [held] = q.receive_dead(1)
    new = changed(held, b"other")
    settle(q, (held, {"action": action, "reason": "second", "delay_ms": 5, "envelope": new}))
    if action == "ack":
        assert q.stats().total == 0
        return
    assert_each_in_one_state(q, [sent])
    [dead] = q.inspect("dead")
    assert dead.death is not None
    assert (dead.body, dead.death.reason) == (b"x", "first")


@pytest.mark.parametrize("body", [b"", b"mine now"])
def test_a_message_that_subscriptions_share_is_let_go_of(
    topic: Topic, topic_clock: Clock, raw: Raw, body: bytes
) -> None:
    one, two = topic.subscribe("one"), topic.subscribe("two")
    topic_clock.advance(0)
    topic.publish(b"x", group="g")
    assert shared_bodies(topic, raw) == 1
    [held] = drain(one)
    new = changed(held, body) if body else b""
    settle(one, (held, {"action": "retry", "delay_ms": 1000, "envelope": new}))
    assert bodies(one.inspect("delayed")) == [body or b"x"]
    [other] = drain(two)
    settle(two, (other, {}))
    assert shared_bodies(topic, raw) == (0 if body else 1)
    topic_clock.advance(1)
    [again] = drain(one)
    assert again.body == (body or b"x")
    settle(one, (again, {}))
    assert shared_bodies(topic, raw) == 0


def test_a_snoozed_one_of_a_group_keeps_its_place_when_its_subscription_ends(
    topic: Topic, topic_clock: Clock
) -> None:
    one = topic.subscribe("one")
    topic_clock.advance(0)
    topic.publish_many([Outgoing(b"%d" % n, group="g") for n in range(3)])
    [held] = drain(one)
    settle(one, (held, {"action": "snooze", "delay_ms": 5000}))
    one.unsubscribe()
    assert counts(topic) == (2, 1, 0, 0)
    back = topic.subscribe("one")
    topic_clock.advance(0)
    assert back.receive() is None, "another of its group overtook it"
    topic_clock.advance(5)
    [again] = drain(back)
    assert (again.body, again.receives) == (b"0", 1)
