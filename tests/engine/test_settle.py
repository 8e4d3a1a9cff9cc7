from __future__ import annotations

from typing import Any

import pytest

from holdfast import InvalidArgument, Queue
from holdfast.engine import calls, tasks
from holdfast.engine.tasks import Settlement, both_ends
from holdfast.message import MAX_REASON
from tests.clock import Clock
from tests.conftest import Setting
from tests.engine.look import assert_each_in_one_state, bodies, counts, drain, numbered
from tests.engine.settling import ACTIONS, changed, each, receipt, result_ends_in, result_of, settle
from tests.raw import Raw

ONE_SHARD = "exact order over all messages is a promise of one shard"


def test_an_ack_takes_the_message_away(q: Queue, clock: Clock) -> None:
    q.send_many(numbered(3))
    held = drain(q)
    assert settle(q, *each(held)) == []
    assert counts(q) == (0, 0, 0, 0)
    assert q.stats().acked == 3


@pytest.mark.unsharded("one call is for one shard")
def test_one_call_settles_each_in_its_own_way(q: Queue, clock: Clock) -> None:
    q.send_many(ACTIONS)
    held = drain(q)
    assert settle(q, *[(d, {"action": d.text, "delay_ms": 5000}) for d in held]) == []
    assert [m.text for m in q.inspect("delayed")] == ["retry", "snooze"]
    assert [m.text for m in q.inspect("ready")] == ["release"]
    assert [m.text for m in q.inspect("dead")] == ["bury"]
    assert counts(q) == (1, 2, 0, 1)


def test_a_retry_comes_back_after_its_delay_as_if_never_received(q: Queue, clock: Clock) -> None:
    q.configure(max_receives=3)
    sent = q.send(b"x")
    for _ in range(10):
        held = q.receive()
        assert held is not None
        assert held.receives == 1
        assert settle(q, (held, {"action": "retry", "delay_ms": 7000})) == []
        assert_each_in_one_state(q, [sent])
        clock.advance(6.999)
        assert q.receive() is None
        clock.advance(0.001)
    assert q.stats().requeued == 10


def test_a_retry_forgets_deliveries_that_were_lost_before_it(q: Queue, clock: Clock) -> None:
    q.configure(max_receives=3)
    q.send(b"x")
    for _ in range(2):
        q.receive(lease=1)
        clock.advance(1)
    held = q.receive()
    assert held is not None
    assert held.receives == 3
    settle(q, (held, {"action": "retry"}))
    again = q.receive(lease=1)
    assert again is not None
    assert again.receives == 1
    for _ in range(2):  # and counts from anew
        clock.advance(1)
        assert q.receive(lease=1) is not None
    clock.advance(1)
    assert q.receive() is None
    assert counts(q) == (0, 0, 0, 1)


def test_a_snooze_does_not_count_and_forgets_nothing(q: Queue, clock: Clock) -> None:
    q.configure(max_receives=3)
    q.send(b"x")
    q.receive(lease=1)
    clock.advance(1)
    for _ in range(5):
        held = q.receive()
        assert held is not None
        assert held.receives == 2
        settle(q, (held, {"action": "snooze", "delay_ms": 1000}))
        assert counts(q) == (0, 1, 0, 0)
        clock.advance(1)


@pytest.mark.unsharded(ONE_SHARD)
@pytest.mark.parametrize("action", ["retry", "snooze", "release"])
def test_what_comes_back_at_once_goes_to_the_head_in_its_order(
    q: Queue, clock: Clock, action: str
) -> None:
    q.send_many(numbered(6))
    held = q.receive_many(3)
    settle(q, *each(held, action=action))
    assert bodies(drain(q)) == numbered(6)


def test_a_release_is_not_delayed_whatever_is_said(q: Queue, clock: Clock) -> None:
    q.send(b"x")
    settle(q, *each(drain(q), action="release", delay_ms=5000))
    assert counts(q) == (1, 0, 0, 0)


def test_a_buried_message_has_reason_and_error_and_its_new_body(q: Queue, clock: Clock) -> None:
    sent = q.send(b"x", attributes={"a": "b"})
    [held] = drain(q)
    new = changed(held, b"with history")
    settle(
        q, (held, {"action": "bury", "reason": "failed", "error": "Traceback …", "envelope": new})
    )
    assert_each_in_one_state(q, [sent])
    [dead] = q.inspect("dead")
    assert dead.death is not None
    assert (dead.death.reason, dead.death.error) == ("failed", "Traceback …")
    assert (dead.body, dead.attributes, dead.receives) == (b"with history", {"a": "b"}, 1)
    assert q.stats().buried == 1


@pytest.mark.unsharded("which is which goes by their order")
@pytest.mark.parametrize("what", ["reason", "error"])
def test_each_buried_message_has_its_own_reason_and_error(
    q: Queue, clock: Clock, what: str
) -> None:
    q.send_many(numbered(5))
    texts = ["a", "a", "b", "a", "b"]
    settle(q, *[(d, {"action": "bury", what: t}) for d, t in zip(drain(q), texts, strict=True)])
    dead = {m.body: getattr(m.death, what) for m in q.inspect("dead")}
    assert dead == dict(zip(numbered(5), texts, strict=True))


@pytest.mark.parametrize("action", ["retry", "snooze", "release"])
@pytest.mark.parametrize("delay_ms", [0, 1000])
def test_a_new_envelope_takes_the_place_of_the_old(
    q: Queue, clock: Clock, action: str, delay_ms: int
) -> None:
    sent = q.send(b"old", priority=3, attributes={"a": "1"}, ttl=60)
    [held] = drain(q)
    new = changed(held, b"new and longer", ttl=60)
    settle(q, (held, {"action": action, "delay_ms": delay_ms, "envelope": new}))
    clock.advance(1)
    [again] = drain(q)
    assert (again.id, again.body, again.priority) == (sent, b"new and longer", 3)
    assert (again.attributes, again.expires_at) == ({"a": "1"}, held.expires_at)


def test_a_ttl_that_a_new_envelope_brings_is_kept(q: Queue, clock: Clock) -> None:
    q.send(b"x")
    [held] = drain(q)
    settle(q, (held, {"action": "retry", "envelope": changed(held, b"x", ttl=5)}))
    clock.advance(5)
    assert q.receive() is None
    assert q.stats().expired == 1


@pytest.mark.parametrize("other", [{"group": "h"}, {"group": None}, {"unique": "v"}])
def test_a_message_cannot_change_its_group_or_unique_name(
    q: Queue, clock: Clock, other: dict[str, Any]
) -> None:
    sent = q.ensure("u", b"x", group="g")
    [held] = drain(q)
    before = q.stats()
    with pytest.raises(InvalidArgument, match="keeps its group and its unique name"):
        settle(q, (held, {"action": "retry", "envelope": changed(held, b"y", **other)}))
    assert q.stats() == before
    assert_each_in_one_state(q, [sent])
    assert settle(q, (held, {})) == []


def test_an_envelope_that_is_none_is_refused(q: Queue, clock: Clock) -> None:
    q.send(b"x")
    [held] = drain(q)
    with pytest.raises(InvalidArgument, match="not a valid envelope"):
        settle(q, (held, {"action": "retry", "envelope": b"\x0a\0\0\0\0\0"}))
    assert counts(q) == (0, 0, 1, 0)


@pytest.mark.parametrize("action", ACTIONS)
def test_a_result_is_kept_whatever_came_of_it(q: Queue, clock: Clock, action: str) -> None:
    q.send(b"x")
    [held] = drain(q)
    kept = {"result_tail": held.id, "result": b'{"status": 1}', "result_ttl_ms": 90_000}
    settle(q, (held, {"action": action, **kept}))
    assert result_of(q, held.id, held.shard) == {"status": 1}
    assert 80_000 < result_ends_in(q, held.id, held.shard) <= 90_000


def test_a_later_result_takes_the_place_of_an_earlier_one(q: Queue, clock: Clock) -> None:
    q.send(b"x")
    kept = {"result_tail": "t", "result_ttl_ms": 90_000}
    for n in range(3):
        [held] = drain(q)
        how = {"action": "retry", "result": b"%d" % n, **kept}
        settle(q, (held, how))
        assert result_of(q, "t", held.shard) == n


@pytest.mark.unsharded("a function is called on one shard")
def test_a_ttl_in_another_spelling_does_not_stop_it_half_way(
    q: Queue, clock: Clock, raw: Raw
) -> None:
    q.send(b"x")
    [held] = drain(q)
    kept = ("t", b"1", "6e4")
    assert raw.fcall("settle", q.name, "ack", 0, "", "", "", *kept, receipt(held)[0]) == []
    assert 50_000 < result_ends_in(q, "t") <= 60_000


def test_what_lies_where_a_result_goes_gives_way(q: Queue, clock: Clock, raw: Raw) -> None:
    q.send(b"x")
    [held] = drain(q)
    raw("SET", q.refs()[held.shard].below("result") + "t", "something else")
    settle(q, (held, {"result_tail": "t", "result": b"1", "result_ttl_ms": 1000}))
    assert result_of(q, "t", held.shard) == 1
    assert q.stats().total == 0


@pytest.mark.parametrize("action", ACTIONS)
def test_a_stale_receipt_changes_nothing_and_keeps_no_result(
    q: Queue, clock: Clock, action: str
) -> None:
    sent = q.send(b"x")
    [stale] = drain(q, lease=1)
    clock.advance(1)
    [current] = drain(q, lease=10)
    before = q.stats()
    kept = {"result_tail": "t", "result": b"1", "result_ttl_ms": 1000}
    assert settle(q, (stale, {"action": action, **kept})) == [stale]
    assert q.stats() == before
    assert result_of(q, "t", stale.shard) is None
    assert_each_in_one_state(q, [sent])
    assert settle(q, (current, {})) == []


def test_a_repetition_finds_all_of_them_stale(q: Queue, clock: Clock) -> None:
    q.send_many(numbered(4))
    held = drain(q)
    items = [(d, {"action": a}) for d, a in zip(held, ["ack", "retry", "bury", "ack"], strict=True)]
    assert settle(q, *items) == []
    before = q.stats()
    assert sorted(map(str, settle(q, *items))) == sorted(map(str, held))
    assert q.stats() == before


@pytest.mark.unsharded("one call is for one shard")
def test_stale_ones_among_others_are_told_apart(q: Queue, clock: Clock) -> None:
    q.send_many(numbered(6))
    held = drain(q)
    q.ack_many([held[0], held[3]])
    q.nack(held[4], delay=60)
    items = [
        (d, {"result_tail": f"t{n}", "result": b"%d" % n, "result_ttl_ms": 1000})
        for n, d in enumerate(held)
    ]
    assert settle(q, *items) == [held[0], held[3], held[4]]
    assert [result_of(q, f"t{n}") for n in range(6)] == [None, 1, 2, None, None, 5]


def test_a_whole_batch_acked_in_any_order_with_results(q: Queue, clock: Clock) -> None:
    q.send_many(numbered(40))
    held = drain(q)
    items = [
        (d, {"result_tail": d.id, "result": d.body, "result_ttl_ms": 1000}) for d in held[::-1]
    ]
    assert settle(q, *items) == []
    assert counts(q) == (0, 0, 0, 0)
    assert q.stats().acked == 40
    for d in held:
        assert result_of(q, d.id, d.shard) == int(d.body)


@pytest.mark.unsharded("one call is for one shard")
@pytest.mark.parametrize("missing", [0, 19])
def test_a_receipt_that_stands_twice_does_not_ack_one_that_is_not_told(
    q: Queue, clock: Clock, missing: int
) -> None:
    q.send_many(numbered(20))
    held = drain(q)
    told = held.copy()
    told[missing] = held[7]
    assert settle(q, *each(told)) == [held[7]]
    assert counts(q) == (0, 0, 1, 0)
    assert settle(q, (held[missing], {})) == []


def test_a_receipt_of_another_batch_does_not_pass_for_one_of_a_whole_batch(
    q: Queue, clock: Clock
) -> None:
    q.send_many(numbered(60))
    first, second = q.receive_many(20), q.receive_many(20)
    mixed = [*first[:10], *second[:10]]
    assert settle(q, *each(mixed)) == []
    assert q.stats().leased == 20
    assert settle(q, *each([*first[10:], *second[10:]])) == []
    assert q.stats().acked == 40


def test_a_bare_id_settles_whichever_delivery_is_current(q: Queue, clock: Clock) -> None:
    sent = q.send_many(numbered(2))
    drain(q)
    assert settle(q, (sent[0], {}), (sent[1], {"action": "retry", "delay_ms": 1000})) == []
    assert counts(q) == (0, 1, 0, 0)


# ---- what is told ------------------------------------------------------------------------------


@pytest.mark.unsharded("events are compared in their order")
def test_each_is_told_in_the_journal(q: Queue, clock: Clock) -> None:
    q.configure(journal=True)
    q.send_many(numbered(5))
    held = drain(q)
    settle(
        q,
        (held[0], {}),
        (held[1], {"action": "retry", "delay_ms": 5000, "error": "ValueError: 1"}),
        (held[2], {"action": "snooze", "delay_ms": 5000, "error": "ValueError: 1"}),
        (held[3], {"action": "release", "error": "stopping"}),
        (held[4], {"action": "bury", "reason": "failed", "error": "trace"}),
    )
    told = [
        (e.kind, e.id, e.reason, e.receives)
        for e in q.journal(100)
        if e.kind not in ("sent", "received")
    ]
    assert told == [
        ("requeued", held[1].id, "ValueError: 1", 0),
        ("requeued", held[2].id, "ValueError: 1", 0),
        ("requeued", held[3].id, "stopping", 0),
        ("dead", held[4].id, "failed", 1),
        ("acked", held[0].id, "", 0),
    ]


def test_a_waiting_receiver_is_woken_by_what_comes_back(q: Queue, raw: Raw) -> None:
    q.send(b"x")
    [held] = drain(q)
    ref = q.refs()[held.shard]
    q.transport.run(calls.tend(ref, 60_000))
    settle(q, (held, {"action": "retry"}))
    assert raw("EXISTS", ref.below("wake"))


# ---- the builder -------------------------------------------------------------------------------


@pytest.mark.parametrize("text", ["", "short", "ü" * 4000, "x" * MAX_REASON])
def test_what_is_short_enough_is_not_cut(text: str) -> None:
    assert both_ends(text).decode() == text


@pytest.mark.parametrize("letter", ["x", "ü", "日", "😀"])
@pytest.mark.parametrize("shift", range(4))
def test_a_long_text_keeps_both_ends_and_whole_characters(letter: str, shift: int) -> None:
    cut = both_ends("h" * shift + "Traceback: " + letter * 50_000 + " ValueError: the end")
    assert MAX_REASON - 12 <= len(cut) <= MAX_REASON
    text = cut.decode()
    assert text.startswith("h" * shift + "Traceback: " + letter)
    assert text.endswith(letter + " ValueError: the end")
    assert " … " in text


def test_a_long_error_is_cut_not_refused(q: Queue, clock: Clock) -> None:
    q.send(b"x")
    settle(q, *each(drain(q), action="bury", reason="ü" * 9000, error="é" * 9000 + "end"))
    [dead] = q.inspect("dead")
    assert dead.death is not None
    assert dead.death.error.endswith("end")
    assert len(dead.death.reason.encode()) <= MAX_REASON


def test_a_settlement_needs_no_more_than_a_receipt(q: Queue, clock: Clock) -> None:
    q.send(b"x")
    [held] = drain(q)
    packed, shard = receipt(held)
    assert q.transport.run(tasks.settle(q.refs()[shard], [Settlement(packed)])) == []


@pytest.mark.only("standalone", "packed", reason="what one server does")
def test_acks_of_a_whole_batch_lay_nothing_out(
    q: Queue, clock: Clock, raw: Raw, setting: Setting
) -> None:
    """The cheap way is taken: no hash is written for messages that are all acked at once."""
    q.send_many(numbered(50))
    held = drain(q)
    before = raw.calls()
    settle(q, *[(d, {"result_tail": d.id, "result": b"1", "result_ttl_ms": 1000}) for d in held])
    after = raw.calls()
    used = {c: after[c] - before.get(c, 0) for c in after if after[c] != before.get(c, 0)}
    assert used.pop("rpush") == used.pop("pexpire") == 50
    assert used.get("hdel", 0) == 0
    assert used["hset"] == 1  # the state
