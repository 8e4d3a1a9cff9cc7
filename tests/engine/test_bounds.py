"""No call works for longer than it was asked to: every loop ends by what it has looked at, not by what it
has found, and the client asks again."""

from __future__ import annotations

import pytest

from holdfast import Outgoing, Queue, Topic
from holdfast.engine import calls
from tests.clock import Clock
from tests.engine.look import ALL, bodies, counts, drain, numbered
from tests.raw import Raw

pytestmark = [
    pytest.mark.only("standalone", "packed", reason="the functions are the same everywhere"),
    pytest.mark.slow,
]


def work(raw: Raw, verb: str, q: Queue, *args: bytes | str | int) -> tuple[int, list[int]]:
    """How many commands one call of a function runs, and the numbers at the end of its answer."""
    before = sum(raw.calls().values())
    reply = raw.fcall(verb, q.name, *args)
    return sum(raw.calls().values()) - before, [part for part in reply if isinstance(part, int)]


def empty_groups(q: Queue, n: int) -> None:
    """Groups that hold nothing, each with its token in the ready list."""
    ids = q.send_many([Outgoing(b"x", group=f"g{i}") for i in range(n)])
    [ref] = q.refs()
    found = [
        calls.find(ref, _packed(sent), b"g" + f"g{i}".encode(), (-1, 0), True, None)
        for i, sent in enumerate(ids)
    ]
    q.transport.run_many(found)
    assert counts(q) == (0, 0, 0, 0)


def _packed(message_id: str) -> bytes:
    ms, seq = message_id.split("-")
    return int(ms).to_bytes(6, "big") + int(seq).to_bytes(4, "big")


def test_receive_does_not_walk_all_tokens_of_empty_groups(q: Queue, clock: Clock, raw: Raw) -> None:
    empty_groups(q, 12_000)
    q.send(b"behind them")
    commands, [*_, more, _, _] = work(raw, "receive", q, 1, -1, 0)
    assert commands < 26_000  # five for each of 5,000 tokens
    assert more == 1
    assert bodies(q.receive_many(5)) == [b"behind them"], "nobody is told that it is empty"


def test_receive_does_not_walk_all_expired_messages_of_groups(
    q: Queue, clock: Clock, raw: Raw
) -> None:
    for group in "abc":
        q.send_many([Outgoing(b"x", group=group, ttl=1) for _ in range(4_000)])
    q.send(b"behind them")
    clock.advance(2)
    commands, _ = work(raw, "receive", q, 1, -1, 0)
    assert commands < 6_000
    assert bodies(q.receive_many(5)) == [b"behind them"]
    assert q.receive() is None
    assert counts(q) == (0, 0, 1, 0)


@pytest.mark.parametrize("batch", [1, 1000])
def test_recover_does_not_bury_all_at_once(q: Queue, clock: Clock, raw: Raw, batch: int) -> None:
    q.configure(max_receives=1)
    ids = q.send_many(numbered(6_000))
    while q.receive_many(batch, lease=600):
        pass
    raw.fcall("recover", q.name, 1, 0, -1)
    assert 1_000 <= q.stats().dead <= 2_001
    assert q.recover(1, elapsed=0) == []
    assert counts(q) == (0, 0, 0, 6_000)
    assert [m.id for m in q.inspect("dead", 0, ALL)] == ids


def test_recover_looks_past_those_that_die_for_those_that_do_not(q: Queue, clock: Clock) -> None:
    q.configure(max_receives=2)
    q.send_many(numbered(5_000))
    q.nack_many(q.receive_many(5_000))
    drain(q, lease=600)
    q.send_many([b"good", b"fine", b"well"])
    drain(q, lease=600)
    assert bodies(q.recover(3, elapsed=0)) == [b"good", b"fine", b"well"]
    assert counts(q) == (0, 0, 3, 5_000)


def test_recover_in_several_calls_never_meets_its_own(q: Queue, clock: Clock) -> None:
    q.configure(max_receives=2)
    q.send(b"first")
    drain(q, lease=600)
    q.send_many(numbered(5_000))
    q.nack_many(q.receive_many(5_000))
    drain(q, lease=600)
    [only] = q.recover(2, elapsed=0)
    assert (only.body, only.receives) == (b"first", 2)
    assert q.ack(only)
    assert counts(q) == (0, 0, 0, 5_000)


def test_purge_of_groups_in_flight_does_not_begin_at_those_that_are_empty(
    q: Queue, clock: Clock, raw: Raw
) -> None:
    n = 12_000
    q.send_many([Outgoing(b"x", group=f"g{i % n}") for i in range(2 * n)])
    drain(q, lease=600)
    assert counts(q) == (n, 0, n, 0)
    before = raw.calls()
    assert q.purge("ready") == n
    after = raw.calls()
    assert after["lrange"] - before["lrange"] < 20 * n
    assert counts(q) == (0, 0, n, 0)
    commands, _ = work(raw, "purge", q, "ready")
    assert commands < 100


def test_purge_of_groups_takes_each_whole(q: Queue, clock: Clock, raw: Raw) -> None:
    q.send_many([Outgoing(b"x", group=f"g{i % 300}") for i in range(6_000)])
    q.send_many(numbered(1_500))
    before = raw.calls()
    assert q.purge("ready") == 7_500
    assert raw.calls().get("hscan", 0) == before.get("hscan", 0)
    assert counts(q) == (0, 0, 0, 0)
    assert q.stats().groups == 0


def test_purge_of_batches_with_few_left_looks_at_a_piece(q: Queue, clock: Clock, raw: Raw) -> None:
    q.send_many(numbered(30_000))
    held = [q.receive_many(1_000, lease=600) for _ in range(30)]
    for batch in held:
        q.ack_many(batch[1:])
    before = raw.calls()["hmget"]
    _, [gone, more] = work(raw, "purge", q, "leased")
    assert raw.calls()["hmget"] - before < 30  # 500 messages each
    assert (gone, more) == (10, 1)
    assert len(q.inspect("leased", 0, ALL)) == 20
    assert q.purge("leased") == 20


def test_publish_does_not_read_when_every_peer_was_seen(topic: Topic, raw: Raw) -> None:
    for peer in ("a", "b"):
        topic.subscribe("c", peer=peer)
    seen = topic.refs()[0].below("seen")
    before = raw.calls().get("zrange", 0)
    topic.publish(b"x")
    assert raw.calls().get("zrange", 0) == before
    assert raw("ZCARD", seen) == 2
    assert [len(topic.observe("c", 5, peer=peer)) for peer in ("a", "b")] == [1, 1]
