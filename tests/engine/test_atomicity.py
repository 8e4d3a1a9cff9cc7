"""An error inside a function loses nothing: one of the queue's keys is made unusable under it.

A Lua error leaves earlier writes in place, so each transition must be written such that it can stop
anywhere. Here each key in turn holds something of the wrong type while a transition runs; then the
key is put back as it was, and every message must be in exactly one state, and still come out.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from holdfast import Delivery, Outgoing, Queue, WrongType
from holdfast.message import parse_id
from tests.clock import START, Clock
from tests.engine.look import assert_each_in_one_state, states
from tests.engine.settling import changed, settle
from tests.raw import Raw, key

pytestmark = pytest.mark.only(
    "standalone", "packed", reason="one server is enough to stop a function"
)

KEYS = {
    "ready 0": ("ready", "0"),
    "ready 5": ("ready", "5"),
    "group": ("group", "g"),
    "slots": ("slots", ""),
    "leased": ("leased", ""),
    "batches": ("batches", ""),
    "deadlines": ("deadlines", ""),
    "settled": ("settled", ""),
    "due": ("due", ""),
    "delayed": ("delayed", ""),
    "died": ("died", ""),
    "dead": ("dead", ""),
    "dedup": ("dedup", ""),
    "dedup_until": ("dedup_until", ""),
    "unique": ("unique", ""),
    "reservations": ("reservations", ""),
    "reserved": ("reserved", "me/1"),
    "reserved next": ("reserved", "me/2"),
    "places": ("places", "me/1"),
    "condemned": ("condemned", "me/1"),
    "reservation_ends": ("reservation_ends", ""),
    "journal": ("journal", ""),
}


class Full:
    """A queue with messages in every state, of every kind, some of them due or expired."""

    def __init__(self, q: Queue, clock: Clock) -> None:
        self.q, self.clock = q, clock
        self.forgotten: set[str] = set()
        q.configure(max_receives=2, journal=True)
        ids: list[str] = list(
            q.send_many([Outgoing(b"low %d" % n) for n in range(4)])
            + q.send_many([Outgoing(b"high %d" % n, priority=5) for n in range(4)])
            + q.send_many([Outgoing(b"group %d" % n, group="g") for n in range(4)])
            + q.send_many(
                [Outgoing(b"dedup", dedup_id="d", priority=5), Outgoing(b"far", delay=99)]
            )
        )
        ids.append(q.ensure("unique", b"unique", priority=5))
        q.nack_many(q.receive_many(1))  # has one try left
        expiring = q.receive_many(2, lease=5)
        expiring[1].extend(6)
        q.bury_many(q.receive_many(2), "bad")
        ids += q.send_many([Outgoing(b"soon", delay=5), Outgoing(b"soon", delay=5, priority=5)])
        self.held: list[Delivery] = q.receive_many(4, lease=60)
        self.held[0].ack()
        ids.remove(self.held.pop(0).id)
        self.held[0].extend(90)
        self.held += [d for d in q.receive_many(4, lease=60) if d.group == "g"][:1]
        ids += q.send_many([Outgoing(b"set aside %d" % n, group="h") for n in range(3)])
        q.reserve("me", 1, [2])
        first = q.inspect("reserved", 0, 1)[0]
        q.condemn("me", 1, {first.id: "bad"})
        self.ids = ids
        clock.advance(10)


def _send(f: Full) -> None:
    f.q.send_many(
        [
            Outgoing(b"new", dedup_id="new"),
            Outgoing(b"new", group="g"),
            Outgoing(b"new", delay=1),
            Outgoing(b"new", priority=5),
        ]
    )


def _commit(f: Full) -> None:
    """Those that it acked are nobody's promise any more, also if it stopped after them."""
    reserved = {m.id for m in f.q.inspect("reserved", 0, 10)}
    try:
        f.q.commit("me", 1)
    finally:
        f.forgotten = reserved


def _purge_reserved(f: Full) -> None:
    reserved = {m.id for m in f.q.inspect("reserved", 0, 10)}
    try:
        f.q.purge("reserved")
    finally:
        f.forgotten = reserved


def _settle(f: Full, *actions: str) -> None:
    """Each in its own way, with a new body and a result. Those that are acked are nobody's promise."""
    items = []
    for n, d in enumerate(f.held):
        how = {
            "action": actions[n % len(actions)],
            "delay_ms": 5000,
            "envelope": changed(d, b"new"),
        }
        kept = {"result_tail": d.id, "result": b"1", "result_ttl_ms": 60_000}
        items.append((d, how | kept))
    try:
        settle(f.q, *items)
    finally:
        f.forgotten = {d.id for d, how in items if how["action"] == "ack"}


TRANSITIONS: dict[str, Callable[[Full], object]] = {
    "send": _send,
    "ensure": lambda f: f.q.ensure("another", b"new"),
    "receive": lambda f: f.q.receive_many(100),
    "receive_dead": lambda f: f.q.receive_dead(1),
    "tend": lambda f: f.q.tend(),
    "retry": lambda f: f.q.nack_many(f.held),
    "retry later": lambda f: f.q.nack_many(f.held, delay=5),
    "release": lambda f: f.q.release_many(f.held),
    "bury": lambda f: f.q.bury_many(f.held, "bad"),
    "extend": lambda f: f.q.extend_many(f.held, 60),
    "settle": lambda f: _settle(f, "retry", "bury", "snooze", "release"),
    "settle some for good": lambda f: _settle(f, "release", "snooze", "ack", "ack"),
    "recover": lambda f: f.q.recover(2, elapsed=0),
    "redrive": lambda f: f.q.redrive(),
    "redrive slowly": lambda f: f.q.redrive(rate=1),
    "reserve": lambda f: f.q.reserve("me", 2, [5], ttl=60),
    "commit": _commit,
    "release reserved": lambda f: f.q.release_reserved("me"),
    "purge reserved": _purge_reserved,
    "reschedule": lambda f: f.q.reschedule(f.q.inspect("delayed", -1)[0].id, delay=0),
}


def come_out(q: Queue, clock: Clock) -> list[str]:
    """Ids of all messages, as they can be had from now on."""
    seen: list[str] = []
    q.release_reserved("me")
    for _ in range(60):
        held = [*q.receive_many(100, lease=1), *q.receive_dead(100, lease=1)]
        seen += [d.id for d in held]
        q.ack_many(held)
        clock.advance(60)
        if not q.stats().total:
            break
    return seen


def fail_half_way(full: Full, raw: Raw, verb: str, broken: str) -> bool:
    """Run a transition while a key is unusable, put the key back. False: it does not use the key."""
    where: str | bytes = key(full.q, *KEYS[broken])
    if broken == "leased":  # several hashes, by when a message was sent; all of these at START
        where = key(full.q, "leased").encode() + START.to_bytes(6, "big")[:5]
        assert raw("EXISTS", where)
    kept = raw("DUMP", where)
    raw("DEL", where)
    raw("SET", where, "something else")
    try:
        TRANSITIONS[verb](full)
    except WrongType:
        return True
    finally:
        raw("DEL", where)
        if kept:
            raw("RESTORE", where, 0, kept)
    return False


@pytest.mark.parametrize("verb", TRANSITIONS)
@pytest.mark.slow
def test_a_transition_that_fails_half_way_leaves_each_message_in_one_state_and_loses_nothing(
    new_queue: Callable[[], Queue], raw: Raw, verb: str
) -> None:
    stopped, wrong, lost = [], [], []
    for broken in KEYS:
        q = new_queue()
        clock = Clock(q)
        full = Full(q, clock)
        if not fail_half_way(full, raw, verb, broken):
            continue
        stopped.append(broken)
        # What a failed send stored is nobody's promise; what was there before is.
        promised = set(full.ids) - full.forgotten
        found = states(q)
        if any(len(found.get(i, ())) != 1 for i in promised):
            wrong.append(broken)
        if promised - set(come_out(q, clock)):
            lost.append(broken)
    assert (wrong, lost) == ([], [])
    assert len(stopped) >= 3, "too little was broken to show anything"


@pytest.mark.parametrize("broken", ["journal", "unique", "slots", "dedup_until"])
def test_after_a_send_that_failed_the_next_ids_are_new(
    q: Queue, clock: Clock, raw: Raw, broken: str
) -> None:
    full = Full(q, clock)
    fail_half_way(full, raw, "ensure" if broken == "unique" else "send", broken)
    stored = set(states(q))
    assert not stored & set(q.send_many([b"later"] * 5))


@pytest.mark.parametrize("count", [1, 3])  # a part of the ready list, or all of it
@pytest.mark.parametrize("broken", ["batches", "deadlines", "leased", "runs"])
def test_a_receive_that_failed_does_not_spoil_the_next_one(
    q: Queue, clock: Clock, raw: Raw, setting: Any, broken: str, count: int
) -> None:
    ids = q.send_many([b"1", b"2", b"3"])
    if broken == "runs" and setting.name != "packed":  # loose batches have none, and need none
        raw("SET", key(q, broken), "something else")
        assert len(q.receive_many(count, lease=5)) == count
        return
    where: list[str | bytes] = [key(q, broken)]
    if broken == "leased":  # loose: one hash for what was sent in the same 256 ms; packed: a list
        raw.set_last_batch(q, 2**47)
        next_one = key(q, "packed", str(2**47 + 1))
        where = [key(q, broken).encode() + parse_id(ids[0])[0][:5], next_one]
    for each in where:
        raw("SET", each, "something else")
    with pytest.raises(WrongType):
        q.receive_many(count, lease=5)
    for each in where:
        raw("DEL", each)
    assert_each_in_one_state(q, ids)
    assert len(q.receive_many(3, lease=5)) == 3
    assert_each_in_one_state(q, ids)
    clock.advance(5)
    assert len(q.receive_many(3, lease=5)) == 3


def test_the_queues_own_key_of_another_type_is_an_error_and_stays_as_it_is(
    q: Queue, raw: Raw
) -> None:
    raw("SET", q.refs()[0].key, "mine")
    for verb in (q.receive, q.stats, q.tend, lambda: q.send(b"x")):
        with pytest.raises(WrongType):
            verb()
    assert raw("GET", q.refs()[0].key) == b"mine"
    raw("DEL", q.refs()[0].key)
