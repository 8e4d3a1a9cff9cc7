"""Ordering groups: at most `group_limit` in flight, strict order, groups take turns, no wedges."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from holdfast import Outgoing, Queue
from holdfast.engine import calls
from tests.clock import Clock
from tests.engine.look import assert_each_in_one_state, bodies, counts, drain, numbered
from tests.raw import Raw, key


def send_group(q: Queue, group: str, *messages: bytes, priority: int = 0) -> list[str]:
    return list(q.send_many([Outgoing(m, group=group, priority=priority) for m in messages]))


def settle_all(q: Queue) -> list[bytes]:
    """Receive and ack one by one until nothing comes: the order in which messages are handled."""
    seen = []
    while got := q.receive():
        seen.append(got.body)
        got.ack()
    return seen


def test_one_of_a_group_is_in_flight_at_a_time(q: Queue, clock: Clock) -> None:
    send_group(q, "g", b"1", b"2", b"3")
    held = q.receive_many(10)
    assert bodies(held) == [b"1"]
    assert q.receive() is None
    held[0].ack()
    assert bodies(q.receive_many(10)) == [b"2"]


def test_messages_waiting_behind_their_group_count_as_ready(q: Queue, clock: Clock) -> None:
    ids = send_group(q, "g", b"1", b"2", b"3")
    assert counts(q) == (3, 0, 0, 0)
    q.receive()
    assert counts(q) == (2, 0, 1, 0)
    assert_each_in_one_state(q, ids)
    assert bodies(q.inspect("ready", group="g")) == [b"2", b"3"]


def test_as_many_as_the_setting_says_are_in_flight(q: Queue, clock: Clock) -> None:
    q.configure(group_limit=3)
    send_group(q, "g", *numbered(10))
    held = q.receive_many(10)
    assert bodies(held) == numbered(3)
    q.ack_many(held[:2])
    assert bodies(q.receive_many(10)) == [b"4", b"5"]
    assert q.receive() is None


def test_messages_without_a_group_are_not_held_up(q: Queue, clock: Clock) -> None:
    send_group(q, "g", b"1", b"2")
    q.send_many([b"free", b"free"])
    assert sorted(bodies(drain(q))) == [b"1", b"free", b"free"]


@pytest.mark.parametrize("how", ["ack", "nack", "release", "expire", "retry later"])
def test_order_inside_a_group_is_strict_whatever_happens_to_a_delivery(
    q: Queue, clock: Clock, how: str
) -> None:
    q.configure(max_receives=None)
    send_group(q, "g", *numbered(4))
    seen = []
    for n in range(200):
        got = q.receive(lease=5)
        if got is None:
            if not q.stats().total:
                break
            clock.advance(5)
            continue
        if n % 3 and how != "ack":
            if how == "retry later":
                got.nack(delay=3)
            elif how != "expire":
                getattr(got, how)()
            continue
        seen.append(got.body)
        got.ack()
    assert seen == numbered(4)


def test_a_delayed_retry_keeps_its_place_and_nobody_overtakes_it(q: Queue, clock: Clock) -> None:
    send_group(q, "g", b"1", b"2")
    first = q.receive()
    assert first is not None
    first.nack(delay=10)
    assert q.receive() is None
    clock.advance(10)
    assert settle_all(q) == [b"1", b"2"]


@pytest.mark.unsharded("turns are taken within a shard")
def test_groups_take_turns(q: Queue, clock: Clock) -> None:
    send_group(q, "a", b"a1", b"a2", b"a3")
    send_group(q, "b", b"b1", b"b2", b"b3")
    send_group(q, "c", b"c1")
    assert settle_all(q) == [b"a1", b"b1", b"c1", b"a2", b"b2", b"a3", b"b3"]


def test_a_busy_group_does_not_starve_the_others(q: Queue, clock: Clock) -> None:
    send_group(q, "busy", *numbered(50))
    send_group(q, "quiet", b"quiet")
    assert b"quiet" in settle_all(q)[: 2 * len(q.refs())]


def test_a_raised_limit_is_grown_into(q: Queue, clock: Clock) -> None:
    send_group(q, "g", *numbered(20))
    held = q.receive_many(10)
    assert len(held) == 1
    q.configure(group_limit=3)
    most = 0
    seen = bodies(held)
    for _ in range(10):
        q.ack_many(held)
        held = q.receive_many(10)
        seen += bodies(held)
        most = max(most, len(held))
        assert len(held) <= 3
    assert most == 3
    assert seen == numbered(len(seen))


@pytest.mark.parametrize("out", [0, 1, 2, 3])
def test_a_lowered_limit_holds_for_places_that_were_offered_before(
    q: Queue, clock: Clock, out: int
) -> None:
    q.configure(group_limit=3)
    send_group(q, "g", *numbered(8))
    held = q.receive_many(out) if out else []
    q.configure(group_limit=1)
    held += q.receive_many(5)
    assert len(held) == max(out, 1)
    assert q.receive() is None
    while held:
        held.pop(0).ack()
        held += q.receive_many(5)
        assert len(held) <= max(out, 1)
        out = max(out - 1, 1)
    assert counts(q) == (0, 0, 0, 0)


def test_a_limit_lowered_and_raised_again_is_reached_again(q: Queue, clock: Clock) -> None:
    q.configure(group_limit=3)
    send_group(q, "g", *numbered(12))
    q.configure(group_limit=1)
    [only] = q.receive_many(5)
    q.configure(group_limit=3)
    only.ack()
    most, held = 0, q.receive_many(5)
    while held:
        most = max(most, len(held))
        held.pop(0).ack()
        held += q.receive_many(5)
    assert most == 3
    assert counts(q) == (0, 0, 0, 0)


def test_a_lowered_limit_is_kept_once_what_is_out_is_settled(q: Queue, clock: Clock) -> None:
    q.configure(group_limit=3)
    send_group(q, "g", *numbered(9))
    held = q.receive_many(10)
    assert len(held) == 3
    q.configure(group_limit=1)
    q.ack_many(held[:2])
    assert q.receive() is None
    q.ack(held[2])
    assert settle_all(q) == numbered(6, 4)


@pytest.mark.parametrize("which", [0, 1, 2])
def test_removing_a_waiting_message_does_not_wedge_its_group(
    q: Queue, clock: Clock, which: int
) -> None:
    ids = send_group(q, "g", *numbered(3))
    assert q.remove(ids[which])
    left = numbered(3)
    del left[which]
    assert settle_all(q) == left
    send_group(q, "g", b"new")
    assert settle_all(q) == [b"new"]


def test_removing_the_message_in_flight_lets_the_next_go(q: Queue, clock: Clock) -> None:
    ids = send_group(q, "g", *numbered(3))
    q.receive()
    assert q.remove(ids[0])
    assert settle_all(q) == [b"2", b"3"]


def test_removing_a_delayed_retry_lets_the_next_go(q: Queue, clock: Clock) -> None:
    ids = send_group(q, "g", *numbered(2))
    q.receive().nack(delay=60)  # type: ignore[union-attr]
    assert q.receive() is None
    assert q.remove(ids[0])
    assert settle_all(q) == [b"2"]


def test_removing_all_waiting_messages_leaves_a_group_that_works(q: Queue, clock: Clock) -> None:
    for i in send_group(q, "g", *numbered(3)):
        assert q.remove(i)
    assert counts(q) == (0, 0, 0, 0)
    assert q.receive() is None
    send_group(q, "g", b"a", b"b")
    assert bodies(q.receive_many(10)) == [b"a"]


@pytest.mark.parametrize("state", ["ready", "leased", "delayed"])
def test_purging_a_state_does_not_wedge_a_group(q: Queue, clock: Clock, state: str) -> None:
    send_group(q, "g", *numbered(4))
    held = q.receive()
    assert held is not None
    if state == "delayed":
        held.nack(delay=60)
    q.purge(state)  # type: ignore[arg-type]
    left = settle_all(q)
    assert left == ([] if state == "ready" else numbered(3, 2))
    if state == "ready":
        held.ack()
    send_group(q, "g", b"a", b"b")
    assert bodies(q.receive_many(10)) == [b"a"]
    assert q.stats().groups == 1


def test_a_dead_letter_lets_the_next_of_its_group_go(q: Queue, clock: Clock) -> None:
    send_group(q, "g", *numbered(2))
    q.receive().bury("bad")  # type: ignore[union-attr]
    assert settle_all(q) == [b"2"]


def test_a_message_that_dies_by_its_lease_lets_the_next_of_its_group_go(
    q: Queue, clock: Clock
) -> None:
    q.configure(max_receives=1)
    send_group(q, "g", *numbered(2))
    q.receive(lease=1)
    clock.advance(1)
    assert settle_all(q) == [b"2"]


def _one_dead_one_in_flight_one_waiting(q: Queue) -> None:
    send_group(q, "g", *numbered(3))
    q.receive().bury("bad")  # type: ignore[union-attr]
    assert bodies(q.receive_many(10)) == [b"2"]


@pytest.mark.parametrize("how", ["ack", "remove", "nack", "purge", "expire"])
def test_settling_a_dead_letter_does_not_let_a_second_of_its_group_out(
    q: Queue, clock: Clock, how: str
) -> None:
    _one_dead_one_in_flight_one_waiting(q)
    [dead] = q.receive_dead(1, lease=5)
    if how == "ack":
        dead.ack()
    elif how == "nack":
        dead.nack()
    elif how == "remove":
        assert q.remove(dead.id)
    elif how == "expire":
        clock.advance(5)
    else:
        # What is in flight goes with it: then it is the waiting one's turn, and only its.
        send_group(q, "g", b"4")
        q.purge("leased")
        assert bodies(q.receive_many(10)) == [b"3"]
    assert q.receive_many(10) == []


def test_a_redriven_message_goes_behind_those_that_wait(q: Queue, clock: Clock) -> None:
    send_group(q, "g", *numbered(3))
    q.receive().bury("bad")  # type: ignore[union-attr]
    q.redrive()
    assert settle_all(q) == [b"2", b"3", b"1"]


def test_receive_goes_on_to_the_next_of_a_group_when_the_head_has_expired(
    q: Queue, clock: Clock
) -> None:
    q.send_many([Outgoing(b"old", group="g", ttl=1), Outgoing(b"good", group="g")])
    clock.advance(1)
    got = q.receive()
    assert got is not None
    assert got.body == b"good"


def test_a_grouped_message_delayed_at_first_joins_its_group_when_due(
    q: Queue, clock: Clock
) -> None:
    q.send_many(
        [Outgoing(b"2", group="g", delay=5), Outgoing(b"1", group="g"), Outgoing(b"free", delay=5)]
    )
    first = q.receive()
    assert first is not None
    assert first.body == b"1"
    clock.advance(5)
    assert bodies(drain(q)) == [b"free"]
    first.ack()
    assert bodies(drain(q)) == [b"2"]


def test_groups_of_any_name_are_apart(q: Queue, clock: Clock) -> None:
    names = ["a", "b", "a:b", "{a}", "a b", "ü", "%", "g" * 200]
    for name in names:
        send_group(q, name, name.encode(), b"second")
    assert sorted(bodies(drain(q))) == sorted(n.encode() for n in names)


def test_when_a_group_is_empty_nothing_of_it_is_left(q: Queue, clock: Clock, raw: Raw) -> None:
    for n in range(20):
        send_group(q, f"g{n}", b"1", b"2")
    settle_all(q)
    assert q.stats().groups == 0
    assert raw.keys(q) == {ref.key for ref in q.refs()}


def test_many_groups_all_in_flight_can_be_purged(q: Queue, clock: Clock) -> None:
    groups = 1500
    q.send_many([Outgoing(b"%d" % n, group=f"g{i}") for i in range(groups) for n in (1, 2)])
    held = drain(q)
    assert len(held) == groups
    assert q.purge("ready") == groups
    assert counts(q) == (0, 0, groups, 0)
    q.ack_many(held)
    assert q.stats().groups == 0


def test_one_receive_takes_the_heads_of_many_groups(q: Queue, clock: Clock) -> None:
    q.send_many([Outgoing(b"%d-%d" % (i, n), group=f"g{i}") for i in range(100) for n in (1, 2)])
    got = drain(q)
    assert len(got) == 100
    assert all(d.body.endswith(b"-1") for d in got)


def _bury_by_lease(q: Queue, clock: Clock) -> None:
    clock.advance(61)
    q.tend()


def _by_settling(action: str, *extra: object) -> Callable[[Queue, Clock], object]:
    return lambda q, clock: getattr(q, action)(q.inspect("leased")[0].id, *extra)


FREES: dict[str, Callable[[Queue, Clock], object]] = {
    "purge": lambda q, clock: q.purge("leased"),
    "recover": lambda q, clock: q.recover(1, elapsed=0),
    "remove": lambda q, clock: q.remove(q.inspect("leased")[0].id),
    "a lease that ends": _bury_by_lease,
    "ack": _by_settling("ack"),
    "nack": _by_settling("nack"),
    "bury": _by_settling("bury", "why"),
}


@pytest.mark.parametrize("how", FREES)
def test_whatever_frees_the_next_of_a_group_wakes_who_waits(
    q: Queue, clock: Clock, raw: Raw, how: str
) -> None:
    """Those who wait block at the first shard, wherever the group lies."""
    q.configure(max_receives=1)
    group = next(g for g in "abcdefgh" if _shard_of(q, g) == len(q.refs()) - 1)
    send_group(q, group, b"1", b"2")
    assert bodies(q.receive_many(2, lease=60)) == [b"1"]
    q.transport.run_many([calls.tend(ref, 100_000) for ref in q.refs()])
    assert not raw("EXISTS", key(q, "wake"))
    FREES[how](q, clock)
    if how != "a lease that ends" or len(q.refs()) == 1:  # who waits watches the time itself
        assert raw("EXISTS", key(q, "wake"))
    assert bodies(q.receive_many(2)) == [b"2"]


@pytest.mark.parametrize("how", ["purge", "commit", "release"])
def test_a_reservation_that_gives_a_group_up_wakes_who_waits(
    q: Queue, clock: Clock, raw: Raw, how: str
) -> None:
    group = next(g for g in "abcdefgh" if _shard_of(q, g) == 0)
    send_group(q, group, b"1", b"2")
    q.reserve("reader", 1, [1] * len(q.refs()))
    q.transport.run_many([calls.tend(ref, 100_000) for ref in q.refs()])
    assert not raw("EXISTS", key(q, "wake"))
    if how == "purge":
        q.purge("reserved")
    elif how == "commit":
        q.commit("reader", 1, len(q.refs()))
    else:
        q.release_reserved("reader", 1)
    assert raw("EXISTS", key(q, "wake"))


@pytest.mark.parametrize("how", ["purge", "remove"])
def test_a_delayed_retry_that_goes_wakes_who_waits(
    q: Queue, clock: Clock, raw: Raw, how: str
) -> None:
    send_group(q, "g", b"1", b"2")
    [held] = q.receive_many(2)
    held.nack(delay=50)
    q.transport.run_many([calls.tend(ref, 100_000) for ref in q.refs()])
    raw("DEL", key(q, "wake"))
    if how == "purge":
        q.purge("delayed")
    else:
        q.remove(held.id)
    assert raw("EXISTS", key(q, "wake"))


def _shard_of(q: Queue, group: str) -> int:
    sent = q.send(b"x", group=group)
    q.remove(sent)
    return int(sent.split("-")[2]) if sent.count("-") == 2 else 0
