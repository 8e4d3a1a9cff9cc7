"""Queues behave the same through every door."""

from __future__ import annotations

import threading
import time

import pytest

from tests.conformance.doors import Door
from tests.servers import wait_until


def test_messages_come_out_in_order_once_and_are_gone_when_acked(door: Door, name: str) -> None:
    ids = door.send_many(name, [b"a", b"\x00\xff\r\n", b""])
    got = door.receive(name, 5)
    assert [(g.source, g.id, g.body) for g in got] == [
        (name, ids[0], b"a"),
        (name, ids[1], b"\x00\xff\r\n"),
        (name, ids[2], b""),
    ]
    assert door.receive(name, 5) == []
    receipts = [g.receipt for g in got]
    assert door.ack(name, *receipts) == receipts
    assert door.ack(name, *receipts) == []
    stats = door.stats(name)
    assert (stats["ready"], stats["leased"], stats["acked"]) == (0, 0, 3)


def test_everything_said_about_a_message_arrives(door: Door, name: str) -> None:
    mid = door.send(
        name, b"x", priority=4, group="g", attributes={"kind": "ü", "n": "1"}, ttl=600, dedup_id="d"
    )
    assert door.send(name, b"again", dedup_id="d") == mid
    [got] = door.receive(name, 5)
    assert (got.id, got.priority, got.group, got.receives) == (mid, 4, "g", 1)
    assert got.attributes == {"kind": "ü", "n": "1"}


def test_higher_priority_goes_first(door: Door, name: str) -> None:
    for priority in (0, 9, 5):
        door.send(name, b"%d" % priority, priority=priority)
    assert [g.body for g in door.receive(name, 3)] == [b"9", b"5", b"0"]


def test_a_group_is_in_one_pair_of_hands_at_a_time(door: Door, name: str) -> None:
    for body in (b"1", b"2"):
        door.send(name, body, group="g")
    [first] = door.receive(name, 5)
    assert door.receive(name, 5) == []
    door.ack(name, first.receipt)
    assert [g.body for g in door.receive(name, 5)] == [b"2"]


def test_a_delayed_message_waits_and_can_be_moved(door: Door, name: str) -> None:
    mid = door.send(name, b"x", delay=3600)
    assert door.receive(name) == []
    assert door.state(name, mid) == "delayed"
    assert door.reschedule(name, mid, 0)
    assert [g.id for g in door.receive(name, wait=5)] == [mid]
    assert not door.reschedule(name, mid, 0)


def test_a_lease_that_ends_brings_the_message_back_and_its_receipt_is_stale(
    door: Door, name: str
) -> None:
    door.send(name, b"x")
    [first] = door.receive(name, lease=0.2)
    [again] = door.receive(name, wait=5)
    assert (again.id, again.receives) == (first.id, 2)
    assert door.ack(name, first.receipt) == []
    assert door.ack(name, again.receipt) == [again.receipt]


def test_a_bare_id_acks_whichever_delivery_is_current(door: Door, name: str) -> None:
    mid = door.send(name, b"x")
    door.receive(name)
    assert door.ack(name, mid) == [mid]


@pytest.mark.slow
def test_extend_keeps_the_message(door: Door, other: Door, name: str) -> None:
    door.send(name, b"x")
    [got] = door.receive(name, lease=0.2)
    assert door.extend(name, got.receipt, lease=600) == [got.receipt]
    assert other.receive(name, wait=0.5) == []
    assert door.ack(name, got.receipt) == [got.receipt]
    assert door.extend(name, got.receipt, lease=600) == []


def test_a_lease_of_none_lasts_until_the_message_is_settled(door: Door, name: str) -> None:
    door.send(name, b"x")
    door.send(name, b"y")
    [first] = door.receive(name, lease=None)
    [second] = door.receive(name, lease=0.2)
    assert door.extend(name, second.receipt, lease=None) == [second.receipt]
    receipts = [first.receipt, second.receipt]
    assert door.extend(name, *receipts, lease=600) == receipts
    assert door.ack(name, *receipts) == receipts


def test_extend_by_zero_gives_the_message_back_and_counts(door: Door, name: str) -> None:
    door.send(name, b"x")
    [first] = door.receive(name, lease=600)
    assert door.extend(name, first.receipt, lease=0) == [first.receipt]
    [again] = door.receive(name)
    assert (again.id, again.receives) == (first.id, 2)
    assert door.ack(name, first.receipt) == []


def test_a_lease_of_zero_is_refused_where_it_would_begin(door: Door, name: str) -> None:
    door.send(name, b"x")
    with pytest.raises(door.refusal, match="must be more than 0"):
        door.receive(name, lease=0)


def test_the_three_ways_to_give_back(door: Door, name: str) -> None:
    door.send(name, b"x")
    [got] = door.receive(name)
    assert door.nack(name, got.receipt, action="retry", text="failed") == [got.receipt]
    [got] = door.receive(name)
    assert got.receives == 2
    door.nack(name, got.receipt, action="release")
    [got] = door.receive(name)
    assert got.receives == 2
    door.nack(name, got.receipt, action="retry", delay=600)
    assert door.state(name, got.id) == "delayed"
    door.reschedule(name, got.id, 0)
    [got] = door.receive(name, wait=5)
    door.nack(name, got.receipt, action="bury", text="hopeless")
    assert door.state(name, got.id) == "dead"
    assert door.receive(name) == []


def test_dead_letters_are_received_under_a_lease_and_redriven_in_order(
    door: Door, name: str
) -> None:
    ids = door.send_many(name, [b"a", b"b", b"c"])
    door.nack(name, *[g.receipt for g in door.receive(name, 3)], action="bury")
    [dead] = door.receive_dead(name)
    assert dead.id == ids[0]
    assert door.ack(name, dead.receipt) == [dead.receipt]
    assert door.redrive(name, 1) == [ids[1]]
    assert door.redrive(name) == [ids[2]]
    assert [g.id for g in door.receive(name, 5)] == ids[1:]


def test_too_many_failures_make_a_dead_letter(door: Door, name: str) -> None:
    door.configure(name, max_receives=2)
    mid = door.send(name, b"x")
    for _ in range(2):
        [got] = door.receive(name)
        door.nack(name, got.receipt, action="retry")
    assert door.receive(name) == []
    assert door.state(name, mid) == "dead"


def test_recover_takes_over_what_is_long_in_hand(door: Door, name: str) -> None:
    mid = door.send(name, b"x")
    [got] = door.receive(name)
    assert door.recover(name, 5, 3600) == []
    assert door.recover(name, 5, 0) == [mid]
    assert door.ack(name, got.receipt) == []


def test_a_waiting_receive_is_woken_by_a_send(door: Door, other: Door, name: str) -> None:
    sender = threading.Timer(0.2, other.send, (name, b"x"))
    sender.start()
    started = time.monotonic()
    assert [g.body for g in door.receive(name, wait=20)] == [b"x"]
    assert time.monotonic() - started < 5
    sender.join()


def test_waiting_for_nothing_ends_with_nothing(door: Door, name: str) -> None:
    started = time.monotonic()
    assert door.receive(name, wait=0.3) == []
    assert 0.25 <= time.monotonic() - started < 3


def test_ensure_sends_once_while_the_message_is_there(door: Door, name: str) -> None:
    first = door.ensure(name, "job", b"x")
    assert door.ensure(name, "job", b"y") == first
    [got] = door.receive(name, 5)
    door.ack(name, got.receipt)
    assert door.ensure(name, "job", b"z") != first


def test_looking_takes_nothing(door: Door, name: str) -> None:
    ids = door.send_many(name, [b"a", b"b", b"c"])
    assert door.ready(name) == ids
    assert door.ready(name, -2, 1) == [ids[1]]
    assert door.ready(name, 7, 1) == []
    assert door.stats(name)["ready"] == 3


def test_remove_and_purge(door: Door, name: str) -> None:
    ids = door.send_many(name, [b"a", b"b", b"c"])
    assert door.remove(name, ids[1])
    assert not door.remove(name, ids[1])
    door.receive(name)
    assert door.purge(name, "ready") == 1
    assert door.purge(name) == 1


def test_a_paused_queue_hands_nothing_out(door: Door, name: str) -> None:
    door.send(name, b"x")
    door.pause(name)
    assert door.receive(name) == []
    door.resume(name)
    assert len(door.receive(name)) == 1


def test_queues_are_listed_until_deleted(door: Door, name: str) -> None:
    door.send(name, b"x")
    assert name in door.queues()
    door.delete(name)
    assert name not in door.queues()


def test_a_full_queue_refuses(door: Door, name: str) -> None:
    door.configure(name, max_length=1)
    door.send(name, b"x")
    with pytest.raises(door.refusal):
        door.send(name, b"y")
    assert door.stats(name)["ready"] == 1


@pytest.mark.parametrize(
    "said",
    [{"priority": 10}, {"priority": -1}, {"delay": -1}, {"ttl": -1}, {"group": "g" * 100_000}],
    ids=lambda said: next(iter(said)),
)
def test_a_bad_send_is_refused_and_nothing_is_stored(
    door: Door, other: Door, name: str, said: dict[str, object]
) -> None:
    with pytest.raises(door.refusal):
        door.send(name, b"x", **said)
    assert other.stats(name)["sent"] == 0


def test_a_malformed_receipt_is_refused_and_nothing_is_acked(door: Door, name: str) -> None:
    door.send(name, b"x")
    [got] = door.receive(name)
    with pytest.raises(door.refusal):
        door.ack(name, got.receipt, "no id")
    assert door.stats(name)["leased"] == 1


def test_what_one_door_sends_another_receives(
    door: Door, doors: dict[str, Door], name: str
) -> None:
    for each in doors.values():
        mid = each.send(name, b"x", priority=3, attributes={"a": "b"})
        [got] = door.receive(name)
        assert (got.id, got.priority, got.attributes) == (mid, 3, {"a": "b"})
        assert each.ack(name, got.receipt) == [got.receipt]


def test_a_thousand_messages_by_a_hundred(door: Door, name: str) -> None:
    ids = [mid for _ in range(10) for mid in door.send_many(name, [b"x"] * 100)]
    seen: list[str] = []
    while got := door.receive(name, 100):
        seen += [g.id for g in got]
        assert len(door.ack(name, *[g.receipt for g in got])) == len(got)
    assert seen == ids
    wait_until(lambda: door.stats(name)["acked"] == 1000, 5, "all acked")
