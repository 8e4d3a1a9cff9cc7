"""The journal tells every message's life: replayed, it gives the state each one is in."""

from __future__ import annotations

import random
from collections.abc import Callable

import pytest

from holdfast import Event, Outgoing, Queue
from tests.clock import Clock
from tests.engine.look import drain, numbered, states

GONE = {"acked", "expired", "removed", "dropped"}
AFTER = {
    "sent": "ready",
    "received": "leased",
    "dead_received": "leased",
    "requeued": "ready",
    "dead": "dead",
    "redriven": "ready",
    **dict.fromkeys(GONE, "gone"),
}


def replay(events: list[Event]) -> dict[str, str]:
    """Where each message is, by the journal alone. A due time stands for delayed."""
    where: dict[str, str] = {}
    for event in events:
        if event.kind == "extended":
            assert where[event.id] == "leased"
            continue
        assert (event.kind == "sent") == (event.id not in where)
        where[event.id] = "delayed" if event.due else AFTER[event.kind]
    return where


def actual(q: Queue) -> dict[str, str]:
    found = states(q)
    assert all(len(where) == 1 for where in found.values())
    return {i: where[0] for i, where in found.items()}


def test_a_run_with_failures_is_rebuilt_from_the_journal(q: Queue, clock: Clock) -> None:
    q.configure(journal=True, max_receives=3)
    dice = random.Random(7)
    happened: dict[str, list[str]] = {}

    def note(kind: str, ids: list[str]) -> None:
        for i in ids:
            happened.setdefault(i, []).append(kind)

    for round_ in range(30):
        sent = q.send_many(
            [
                Outgoing(b, priority=dice.randrange(3), group=dice.choice([None, "g", "h"]))
                for b in numbered(5)
            ]
        )
        note("sent", list(sent))
        held = q.receive_many(4, lease=60)
        note("received", [d.id for d in held])
        for d in held:
            action = dice.choice(["ack", "nack", "release", "bury", "extend", "remove"])
            if action == "ack":
                d.ack()
                note("acked", [d.id])
            elif action == "nack":
                d.nack(error=f"round {round_}")
                note("dead" if d.receives == 3 else "requeued", [d.id])
            elif action == "release":
                d.release()
                note("requeued", [d.id])
            elif action == "bury":
                d.bury("bad")
                note("dead", [d.id])
            elif action == "extend":
                d.extend(90)
                note("extended", [d.id])
            else:
                assert q.remove(d.id)
                note("removed", [d.id])
        if round_ % 5 == 4:
            note("redriven", q.redrive(2))
        clock.advance(1)

    told: dict[str, list[str]] = {}
    events = q.journal(100_000)
    for event in events:
        told.setdefault(event.id, []).append(event.kind)
    assert told == happened
    left = {i: state for i, state in replay(events).items() if state != "gone"}
    assert left == actual(q)


def _release_dead(q: Queue, clock: Clock) -> None:
    q.receive_dead(1, lease=None)[0].release()


def _expire_dead(q: Queue, clock: Clock) -> None:
    q.receive_dead(1, lease=1)
    clock.advance(1)
    q.tend()


def _recover(q: Queue, clock: Clock) -> None:
    q.receive_many(2, lease=None)
    q.recover(1, elapsed=0)


def _purge(q: Queue, clock: Clock) -> None:
    q.receive(lease=None)
    q.purge("leased", "ready", "delayed")


def _purge_dead(q: Queue, clock: Clock) -> None:
    q.purge("dead")


def _expire(q: Queue, clock: Clock) -> None:
    q.send_many([Outgoing(b"t", ttl=1), b"u"])
    clock.advance(1)
    drain(q)


@pytest.mark.parametrize(
    "step", [_release_dead, _expire_dead, _recover, _purge, _purge_dead, _expire]
)
def test_the_journal_agrees_with_the_queue_after(
    q: Queue, clock: Clock, step: Callable[[Queue, Clock], None]
) -> None:
    q.configure(journal=True)
    q.send_many([*numbered(6), Outgoing(b"d", delay=60)])
    q.bury_many(q.receive_many(2), "bad")
    step(q, clock)
    left = {i: state for i, state in replay(q.journal()).items() if state != "gone"}
    assert left == actual(q)


def test_the_journal_is_off_unless_switched_on(q: Queue, clock: Clock) -> None:
    q.send(b"x")
    assert q.journal() == []
    q.configure(journal=True)
    q.receive()
    assert [e.kind for e in q.journal()] == ["received"]
    q.configure(journal=False)
    q.send(b"y")
    assert len(q.journal()) == 1


def test_the_journal_keeps_about_as_many_entries_as_it_is_set_to(q: Queue, clock: Clock) -> None:
    q.configure(journal=True, journal_length=100)
    for _ in range(600):
        q.send(b"x")
    assert 100 * len(q.refs()) <= q.stats().journal <= 200 * len(q.refs())


def test_the_last_entries_can_be_asked_for(q: Queue, clock: Clock) -> None:
    q.configure(journal=True)
    for body in numbered(3):
        q.send(body, group="g")
        clock.advance(1)
    assert [e.time for e in q.journal(2)] == [clock.at(-2), clock.at(-1)]
