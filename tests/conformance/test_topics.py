"""Topics behave the same through every door."""

from __future__ import annotations

import threading

import pytest

from tests.conformance.doors import Door, Seat


def test_every_subscription_gets_every_message(door: Door, name: str) -> None:
    seats = [Seat(name, f"{name}.{n}") for n in range(3)]
    for seat in seats:
        door.subscribe(seat)
    mid = door.publish(name, b"x", priority=2, attributes={"k": "v"})
    for seat in seats:
        [got] = door.observe(seat.consumer)
        assert (got.source, got.id, got.body) == (name, mid, b"x")
        assert (got.priority, got.attributes) == (2, {"k": "v"})
        assert door.ack(seat, got.receipt) == [got.receipt]
        assert door.ack(seat, got.receipt) == []


def test_broadcast_peers_each_get_all_and_shared_peers_share(door: Door, name: str) -> None:
    for peer in ("p", "q"):
        door.subscribe(Seat(name, name + ".all", peer))
        door.subscribe(Seat(name, name + ".some", peer), mode="shared")
    for body in (b"1", b"2"):
        door.publish(name, body)
    for peer in ("p", "q"):
        assert [g.body for g in door.observe(name + ".all", 5, peer=peer)] == [b"1", b"2"]
    assert [g.body for g in door.observe(name + ".some", 1, peer="p")] == [b"1"]
    assert [g.body for g in door.observe(name + ".some", 5, peer="q")] == [b"2"]


def test_what_comes_before_the_first_subscriber_waits_for_it(door: Door, name: str) -> None:
    door.publish(name, b"early")
    door.subscribe(Seat(name, name))
    assert [g.body for g in door.observe(name)] == [b"early"]


def test_a_filter_lets_through_what_it_says(door: Door, name: str) -> None:
    wanted = '{"any": [{"attribute": "k", "prefix": "A-"}, {"attribute": "vip", "exists": true}]}'
    door.subscribe(Seat(name, name), wanted=wanted)
    for attributes in ({"k": "A-1"}, {"k": "B-1"}, {"k": "B-2", "vip": "y"}):
        door.publish(name, attributes["k"].encode(), attributes=attributes)
    assert [g.body for g in door.observe(name, 5)] == [b"A-1", b"B-2"]


def test_what_was_not_acked_comes_back(door: Door, name: str) -> None:
    seat = Seat(name, name)
    door.subscribe(seat)
    door.publish(name, b"x")
    [got] = door.observe(name)
    assert door.observe(name) == []
    assert door.nack(seat, got.receipt, action="retry") == [got.receipt]
    [again] = door.observe(name)
    assert (again.id, again.receives) == (got.id, 2)
    assert door.extend(seat, again.receipt, lease=600) == [again.receipt]


def test_dead_letters_of_a_subscription_can_be_redriven(door: Door, name: str) -> None:
    seat = Seat(name, name)
    door.subscribe(seat)
    mid = door.publish(name, b"x")
    [got] = door.observe(name)
    door.nack(seat, got.receipt, action="bury", text="no")
    assert door.stats(seat)["dead"] == 1
    assert door.redrive(seat) == [mid]
    assert [g.id for g in door.observe(name)] == [mid]


def test_a_waiting_observer_is_woken_by_a_publish(door: Door, other: Door, name: str) -> None:
    door.subscribe(Seat(name, name))
    publisher = threading.Timer(0.2, other.publish, (name, b"x"))
    publisher.start()
    assert [g.body for g in door.observe(name, wait=20)] == [b"x"]
    publisher.join()


def test_a_consumer_observes_all_its_topics(door: Door, name: str) -> None:
    for end in ("a", "b"):
        door.subscribe(Seat(name + end, name))
        door.publish(name + end, end.encode())
    assert sorted(g.source for g in door.observe(name, 5)) == [name + "a", name + "b"]


def test_who_unsubscribes_gets_nothing_more(door: Door, name: str) -> None:
    seat = Seat(name, name)
    door.subscribe(seat)
    door.subscribe(Seat(name, name + ".stays"))
    assert door.unsubscribe(seat)
    assert not door.unsubscribe(seat)
    door.publish(name, b"x")
    with pytest.raises(door.refusal):
        door.observe(name)
    assert len(door.observe(name + ".stays")) == 1


def test_topics_are_listed(door: Door, name: str) -> None:
    door.publish(name, b"x")
    assert name in door.topics()
