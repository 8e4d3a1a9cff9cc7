from __future__ import annotations

import pytest

from holdfast import Outgoing, Queue
from tests.clock import Clock
from tests.engine.look import ALL, bodies, drain, numbered


def fill(q: Queue, state: str, n: int) -> None:
    """`n` messages in one state, all in one shard."""
    if state == "delayed":
        q.send_many([Outgoing(b, delay=60 + i) for i, b in enumerate(numbered(n))])
        return
    q.send_many(numbered(n))
    if state == "ready":
        return
    for _ in range(n):
        held = q.receive(lease=None)
        assert held is not None
        if state == "dead":
            held.bury(f"reason {held.text}")


@pytest.mark.parametrize("state", ["ready", "delayed", "leased", "dead"])
@pytest.mark.parametrize(
    ("start", "count", "expected"),
    [(0, 3, [1, 2, 3]), (2, 2, [3, 4]), (4, 10, [5]), (5, 10, []), (-1, 5, [5]), (-9, 2, [1, 2])],
)
def test_a_window_of_each_state(
    q: Queue, clock: Clock, state: str, start: int, count: int, expected: list[int]
) -> None:
    fill(q, state, 5)
    seen = q.inspect(state, start, count)  # type: ignore[arg-type]
    assert [int(m.body) for m in seen] == expected
    assert {m.state for m in seen} <= {state}


@pytest.mark.parametrize("state", ["ready", "delayed", "leased", "dead"])
def test_inspect_changes_nothing(q: Queue, clock: Clock, state: str) -> None:
    fill(q, state, 3)
    before = q.stats()
    q.inspect(state, 0, 10)  # type: ignore[arg-type]
    assert q.stats() == before


@pytest.mark.parametrize("state", ["ready", "delayed", "leased", "dead"])
def test_an_empty_state_shows_nothing(q: Queue, state: str) -> None:
    assert q.inspect(state) == []  # type: ignore[arg-type]
    assert q.inspect(state, -5) == []  # type: ignore[arg-type]


def test_ready_shows_the_order_of_delivery(q: Queue, clock: Clock) -> None:
    q.send_many([Outgoing(b"%d" % p, priority=p) for p in (1, 9, 5)])
    assert bodies(q.inspect("ready")) == [b"9", b"5", b"1"]


def test_leased_tells_when_it_was_delivered_until_when_and_how_often(
    q: Queue, clock: Clock
) -> None:
    q.send_many(numbered(2))
    q.receive(lease=1)
    clock.advance(1)
    drain(q, lease=20)
    seen = {m.body: m for m in q.inspect("leased")}
    assert {b: m.receives for b, m in seen.items()} == {b"1": 2, b"2": 1}
    assert {m.received_at for m in seen.values()} == {clock.now}
    assert {m.lease_until for m in seen.values()} == {clock.at(20)}


def test_leased_shows_the_last_delivery_last(q: Queue, clock: Clock) -> None:
    q.send_many(numbered(3))
    first = q.receive(lease=None)
    q.receive_many(2, lease=None)
    assert first is not None
    first.release()
    q.receive(lease=None)
    assert bodies(q.inspect("leased")) == [b"2", b"3", b"1"]


def test_leased_skips_what_is_settled_inside_a_batch(q: Queue, clock: Clock) -> None:
    q.send_many(numbered(10))
    held = q.receive_many(10, lease=None)
    q.ack_many([held[0], held[3], held[9]])
    left = [b"2", b"3", b"5", b"6", b"7", b"8", b"9"]
    assert bodies(q.inspect("leased", 0, 100)) == left
    assert bodies(q.inspect("leased", 2, 3)) == left[2:5]
    assert bodies(q.inspect("leased", -2, 3)) == left[-2:]


def test_delayed_shows_when_it_falls_due(q: Queue, clock: Clock) -> None:
    q.send_many([Outgoing(b"b", delay=20), Outgoing(b"a", delay=10)])
    assert [(m.body, m.due) for m in q.inspect("delayed")] == [
        (b"a", clock.at(10)),
        (b"b", clock.at(20)),
    ]


def test_dead_shows_the_order_of_death(q: Queue, clock: Clock) -> None:
    q.send_many(numbered(3))
    for held in reversed(q.receive_many(3)):
        held.bury("bad")
        clock.advance(1)
    assert bodies(q.inspect("dead")) == [b"3", b"2", b"1"]


def test_a_groups_waiting_messages_can_be_seen_alone(q: Queue, clock: Clock) -> None:
    q.send_many([Outgoing(b, group="g") for b in numbered(4)] + [b"free"])
    assert bodies(q.inspect("ready", 1, 2, group="g")) == [b"2", b"3"]
    assert bodies(q.inspect("ready", -1, 2, group="g")) == [b"4"]
    assert q.inspect("ready", group="other") == []


def test_grouped_messages_are_shown_after_the_others(q: Queue, clock: Clock) -> None:
    q.send_many([Outgoing(b"g1", group="g"), b"free", Outgoing(b"g2", group="g")])
    assert sorted(bodies(q.inspect("ready", 0, 10))) == [b"free", b"g1", b"g2"]


@pytest.mark.parametrize("page", [1, 2, 3])
def test_paging_through_ready_shows_every_message_once(q: Queue, clock: Clock, page: int) -> None:
    ids = q.send_many(
        [
            b"1",
            Outgoing(b"g1", group="g"),
            b"2",
            Outgoing(b"h1", group="h"),
            b"3",
            Outgoing(b"g2", group="g"),
            Outgoing(b"4", priority=4),
            b"removed",
        ]
    )
    q.remove(ids[2])
    q.remove(ids[-1])
    seen: list[str] = []
    while part := q.inspect("ready", len(seen), page):
        seen += [m.id for m in part]
        assert len(seen) <= len(ids)
    assert sorted(seen) == sorted(set(ids) - {ids[2], ids[-1]})


def test_positions_are_those_of_messages_not_of_removed_ones(q: Queue, clock: Clock) -> None:
    ids = q.send_many(numbered(4))
    q.remove(ids[0])
    assert bodies(q.inspect("ready", 1, 10)) == [b"3", b"4"]
    assert bodies(q.inspect("ready", -1, 10)) == [b"4"]


@pytest.mark.parametrize("state", ["ready", "delayed", "leased", "dead"])
@pytest.mark.only("standalone", "cluster-shards", reason="how many fit is the same everywhere")
@pytest.mark.slow
def test_more_messages_than_fit_in_one_page_are_all_shown(
    q: Queue, clock: Clock, state: str
) -> None:
    n = 11_000
    delay = 60 if state == "delayed" else 0
    q.send_many([Outgoing(b, delay=delay, dedup_id=None) for b in numbered(n)])
    if state in ("leased", "dead"):
        held = drain(q, lease=None)
        if state == "dead":
            q.bury_many(held, "bad")
    seen = q.inspect(state, 0, ALL)  # type: ignore[arg-type]
    assert sorted(int(m.body) for m in seen) == list(range(1, n + 1))
    assert len(q.inspect(state, 10_500, ALL)) == 500  # type: ignore[arg-type]
