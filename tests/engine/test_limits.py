"""Large batches, large bodies, damaged records. Lua's unpack breaks at 8,000: one more than that."""

from __future__ import annotations

import pytest

from holdfast import Outgoing, Queue
from tests.clock import Clock
from tests.engine.look import bodies, counts, drain, numbered
from tests.raw import Raw, key

MANY = 8_001


@pytest.mark.slow
def test_batches_of_thousands_go_through_every_verb(q: Queue, clock: Clock) -> None:
    q.configure(max_receives=3)
    ids = q.send_many(numbered(MANY))
    assert len(set(ids)) == MANY
    held = q.receive_many(MANY, lease=60)
    assert bodies(held) == numbered(MANY)
    assert q.extend_many(held, 90) == held
    assert q.extend_many(held[1:], 95) == held[1:]
    assert q.nack_many(held) == held
    assert counts(q) == (MANY, 0, 0, 0)
    held = q.receive_many(MANY, lease=60)
    assert bodies(held) == numbered(MANY)
    assert q.nack_many(held, delay=5) == held
    assert counts(q) == (0, MANY, 0, 0)
    clock.advance(5)
    held = drain(q, lease=60)
    assert len(held) == MANY
    assert q.bury_many(held, "bad") == held
    assert counts(q) == (0, 0, 0, MANY)
    assert len(q.receive_dead(MANY, lease=60)) == MANY
    assert len(q.release_many(ids)) == MANY
    assert q.redrive() == ids
    held = q.receive_many(MANY, lease=60)
    assert bodies(held) == numbered(MANY)
    assert q.ack_many(held) == held
    assert q.stats().total == 0
    assert q.stats().acked == MANY


@pytest.mark.parametrize("state", ["ready", "delayed", "leased", "dead"])
@pytest.mark.parametrize("kind", ["plain", "grouped"])
@pytest.mark.only("standalone", "cluster-shards", reason="how many is the same everywhere")
@pytest.mark.slow
def test_thousands_of_a_state_can_be_purged(q: Queue, clock: Clock, state: str, kind: str) -> None:
    q.configure(group_limit=10_000)
    group = "g" if kind == "grouped" else None
    delay = 60 if state == "delayed" else None
    q.send_many([Outgoing(b"x", group=group, delay=delay) for _ in range(MANY)])
    if state in ("leased", "dead"):
        held = drain(q, lease=None)
        if state == "dead":
            q.bury_many(held, "bad")
    assert q.purge(state) == MANY  # type: ignore[arg-type]
    assert counts(q) == (0, 0, 0, 0)


def test_thousands_are_recovered_and_removed(q: Queue, clock: Clock) -> None:
    q.send_many(numbered(MANY))
    drain(q, lease=None)
    got = q.recover(MANY, elapsed=0, lease=None)
    assert len(got) == MANY
    assert q.ack_many([d.id for d in got[::-1]])[0] == got[-1].id


@pytest.mark.slow
def test_thousands_of_dedup_ids_and_unique_delays_in_one_call(q: Queue, clock: Clock) -> None:
    messages = [Outgoing(b"x", dedup_id=f"d{n}", group="g", delay=n % 7) for n in range(MANY)]
    ids = q.send_many(messages)
    again = q.send_many(messages)
    assert again == ids
    assert all(i.duplicate for i in again)


@pytest.mark.parametrize("size", [1024 * 1024, 5 * 1024 * 1024])
def test_large_bodies_come_back_whole(q: Queue, clock: Clock, size: int) -> None:
    body = bytes(range(256)) * (size // 256)
    q.send(body, attributes={"a": "b"})
    held = q.receive()
    assert held is not None
    assert held.body == body
    held.nack(delay=1)
    clock.advance(1)
    again = q.receive()
    assert again is not None
    again.bury("bad")
    [dead] = q.receive_dead()
    assert dead.body == body


def damage(raw: Raw, q: Queue, place: int, byte: int) -> None:
    """Flip one bit of one byte of a ready message."""
    shard = q.inspect("ready")[0].shard
    where = key(q, "ready", "0", shard)
    record = bytearray(raw("LINDEX", where, place))
    record[byte] ^= 1
    raw("LSET", where, place, bytes(record))


@pytest.mark.parametrize("byte", [14, 17, 18, -1])
def test_a_damaged_message_is_never_delivered_and_lands_in_dead_saying_so(
    q: Queue, clock: Clock, raw: Raw, byte: int
) -> None:
    q.send_many([b"first", b"second", b"third"])
    damage(raw, q, 1, byte)
    assert bodies(drain(q)) == [b"first", b"third"]
    [dead] = q.inspect("dead")
    assert dead.death is not None
    assert dead.death.reason == "corrupt: the checksum does not match"
    assert counts(q) == (0, 0, 2, 1)


@pytest.mark.parametrize("attributes", [{}, {"a": "b"}], ids=["plain", "attributes"])
def test_a_message_whose_flags_are_damaged_is_never_delivered_as_if_it_were_good(
    q: Queue, clock: Clock, raw: Raw, attributes: dict[str, str]
) -> None:
    q.send(b"\x00\x00\x00\x01\x80 rest", attributes=attributes)
    damage(raw, q, 0, 13)
    assert drain(q) == []
    assert counts(q) == (0, 0, 0, 1)


def test_receive_goes_on_to_the_next_when_it_meets_a_damaged_message(
    q: Queue, clock: Clock, raw: Raw
) -> None:
    q.send_many([b"first", b"second"])
    damage(raw, q, 0, -1)
    got = q.receive()
    assert got is not None
    assert got.body == b"second"


def test_a_damaged_message_can_still_be_looked_at_among_the_dead(
    q: Queue, clock: Clock, raw: Raw
) -> None:
    sent = q.send(b"first")
    damage(raw, q, 0, -1)
    assert drain(q) == []
    [dead] = q.receive_dead()
    assert (dead.id, dead.body) == (sent, b"firsu")
    dead.ack()
    assert q.stats().total == 0
