from __future__ import annotations

import pytest

from holdfast import Event, InvalidArgument, Outgoing, Queue
from tests.clock import Clock
from tests.engine.look import numbered

PATIENCE = 10.0


def kinds(events: list[Event]) -> list[str]:
    return [e.kind for e in events]


def take(source: object, n: int) -> list[Event]:
    """The next `n` events."""
    got: list[Event] = []
    for _ in range(n):
        event = source.get(timeout=PATIENCE)  # type: ignore[attr-defined]
        assert event is not None, f"{n} events expected, got {got}"
        got.append(event)
    return got


@pytest.mark.slow
def test_each_thing_that_happens_to_a_message_is_an_event(q: Queue, clock: Clock) -> None:
    q.configure(max_receives=2)
    with q.events() as events:
        sent = q.send(b"hello", priority=3)
        held = q.receive(lease=5)
        assert held is not None
        held.extend(7)
        held.nack(delay=2, error="no")
        clock.advance(2)
        q.receive(lease=1)
        clock.advance(1)
        q.tend()
        q.receive_dead(lease=60)[0].nack()
        q.redrive()
        again = q.receive(lease=60)
        assert again is not None
        again.ack()
        got = take(events, 11)
    assert kinds(got) == [
        "sent",
        "received",
        "extended",
        "requeued",
        "received",
        "dead",
        "dead_received",
        "dead",
        "redriven",
        "received",
        "acked",
    ]
    assert {(e.queue, e.id, e.priority, e.size) for e in got} == {(q.name, sent, 3, 5)}
    assert got[1].lease == 5
    assert got[1].lease_until == clock.at(-3 + 5)
    assert got[2].lease_until == clock.at(-3 + 7)
    assert (got[3].reason, got[3].receives, got[3].due) == ("no", 1, clock.at(-1))
    assert (got[5].reason, got[5].receives) == ("max_receives", 2)
    assert got[0].time == clock.at(-3)


def test_removed_expired_and_dropped_are_events(q: Queue, clock: Clock) -> None:
    q.configure(max_length=1, overflow="drop_oldest")
    with q.events("removed", "expired", "dropped") as events:
        ids = [q.send(b"a", dedup_id="x", ttl=1)]
        ids.append(q.send(b"b", dedup_id="y"))
        for _ in q.refs():
            ids.append(q.send(b"c", ttl=1))
        assert [e.kind for e in take(events, 1)] == ["dropped"]
        clock.advance(1)
        q.receive()
        left = q.inspect("ready")
        for m in left:
            q.remove(m.id)
        happened = q.stats()
        rest = take(events, happened.expired + happened.removed + happened.dropped - 1)
    assert kinds(rest).count("expired") == happened.expired
    assert kinds(rest).count("removed") == happened.removed


def test_only_the_kinds_asked_for_come(q: Queue, clock: Clock) -> None:
    with q.events("acked") as events:
        q.send_many(numbered(2))
        q.ack_many(q.receive_many(2))
        assert kinds(take(events, 2)) == ["acked", "acked"]


def test_one_call_tells_of_all_its_messages_in_their_order(q: Queue, clock: Clock) -> None:
    with q.events() as events:
        ids = q.send_many([Outgoing(b, delay=i) for i, b in enumerate(numbered(5))])
        got = take(events, 5)
    assert [e.id for e in got] == ids
    assert [e.due for e in got] == [None, *(clock.at(n) for n in range(1, 5))]


def test_where_nobody_listens_nothing_is_published(q: Queue, clock: Clock) -> None:
    with q.events():
        pass
    clock.advance(61)
    q.send(b"before")
    with q.events() as events:
        q.send(b"after")
        [got] = take(events, 1)
        assert got.time == clock.now


def test_nothing_comes_when_nothing_happens(q: Queue) -> None:
    with q.events() as events:
        assert events.get(timeout=0.01) is None


def test_an_unknown_kind_is_refused(q: Queue) -> None:
    with pytest.raises(InvalidArgument) as refused:
        q.events("sent", "eaten")
    assert str(refused.value) == (
        "there is no event 'eaten'; there are: acked, dead, dead_received, dropped, expired, "
        "extended, received, redriven, removed, requeued, rescheduled, sent"
    )
