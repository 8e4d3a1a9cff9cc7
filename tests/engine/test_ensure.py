from __future__ import annotations

import pytest

from holdfast import Queue
from holdfast.message import parse_id
from tests.clock import Clock
from tests.engine.look import bodies, counts, drain
from tests.engine.settling import changed, settle
from tests.raw import Raw, key


def test_the_first_is_sent_and_the_second_answers_with_its_id(q: Queue, clock: Clock) -> None:
    first = q.ensure("nightly", b"a")
    second = q.ensure("nightly", b"b")
    assert second == first
    assert (first.duplicate, second.duplicate) == (False, True)
    assert bodies(drain(q)) == [b"a"]
    assert q.stats().duplicates == 1


def test_the_name_is_taken_while_ready_delayed_or_leased(q: Queue, clock: Clock) -> None:
    first = q.ensure("job", b"a", delay=5)
    assert q.ensure("job", b"b").duplicate
    clock.advance(5)
    q.tend()
    assert q.ensure("job", b"b").duplicate
    held = q.receive()
    assert q.ensure("job", b"b") == first
    assert held is not None
    held.nack(delay=5)
    assert q.ensure("job", b"b").duplicate


def test_an_ack_frees_the_name(q: Queue, clock: Clock) -> None:
    q.ensure("job", b"a")
    q.receive().ack()  # type: ignore[union-attr]
    assert not q.ensure("job", b"b").duplicate


def test_a_dead_letter_frees_the_name(q: Queue, clock: Clock) -> None:
    first = q.ensure("job", b"a")
    q.receive().bury("bad")  # type: ignore[union-attr]
    second = q.ensure("job", b"b")
    assert not second.duplicate
    assert second != first


def test_settling_an_old_dead_letter_does_not_free_a_name_that_is_taken_again(
    q: Queue, clock: Clock
) -> None:
    q.ensure("job", b"a")
    q.receive().bury("bad")  # type: ignore[union-attr]
    second = q.ensure("job", b"b")
    [dead] = q.receive_dead()
    dead.ack()
    assert q.ensure("job", b"c") == second


def test_purging_frees_the_names(q: Queue, clock: Clock) -> None:
    for state, delay in (("ready", 0), ("delayed", 5)):
        q.ensure(f"job {state}", b"a", delay=delay)
        assert q.purge(state) == 1  # type: ignore[arg-type]
        assert not q.ensure(f"job {state}", b"b", delay=delay).duplicate
    q.receive()
    assert q.purge("leased") == 1
    assert not q.ensure("job ready", b"c").duplicate


def test_different_names_are_different_messages(q: Queue, clock: Clock) -> None:
    ids = {q.ensure(name, b"x") for name in ("a", "b", "a b", "ü")}
    assert len(ids) == 4
    assert counts(q) == (4, 0, 0, 0)


def test_the_name_can_be_seen_on_the_message(q: Queue, clock: Clock) -> None:
    q.ensure("job", b"a", group="g", ttl=60, attributes={"a": "b"})
    got = q.receive()
    assert got is not None
    assert (got.unique, got.group, got.attributes, got.body) == ("job", "g", {"a": "b"}, b"a")
    assert got.expires_at == clock.at(60)


@pytest.mark.parametrize("delay", [0, 60])
def test_a_message_that_has_expired_where_it_waits_does_not_keep_its_name(
    q: Queue, clock: Clock, delay: int
) -> None:
    q.ensure("job", b"a", ttl=5, delay=delay)
    clock.advance(4.999)
    assert q.ensure("job", b"b").duplicate
    clock.advance(0.001)
    second = q.ensure("job", b"b")
    assert not second.duplicate
    assert q.ensure("job", b"c") == second
    clock.advance(60)
    assert bodies(drain(q)) == [b"b"]
    assert q.ensure("job", b"c").duplicate, "the end of the first is not that of the second"


def test_neither_does_one_that_the_queues_ttl_ended(q: Queue, clock: Clock) -> None:
    q.configure(ttl=5)
    q.ensure("job", b"a")
    q.ensure("other", b"long", ttl=60)
    clock.advance(5)
    assert not q.ensure("job", b"b").duplicate
    assert q.ensure("other", b"b").duplicate


def test_what_is_in_hand_keeps_its_name_past_its_time(q: Queue, clock: Clock) -> None:
    q.ensure("job", b"a", ttl=5)
    held = q.receive(lease=60)
    clock.advance(10)
    assert q.ensure("job", b"b").duplicate
    assert held is not None
    held.release()
    assert not q.ensure("job", b"b").duplicate


def test_a_message_that_is_settled_with_another_ttl_keeps_its_name_for_so_long(
    q: Queue, clock: Clock
) -> None:
    first = q.ensure("job", b"a", ttl=5)
    held = q.receive()
    assert held is not None
    again = {"action": "retry", "envelope": changed(held, b"again", ttl=60)}
    assert settle(q, (held, again)) == []
    clock.advance(10)
    assert q.ensure("job", b"b") == first


def test_a_redriven_message_has_its_name_again(q: Queue, clock: Clock) -> None:
    first = q.ensure("job", b"a")
    q.receive().bury("bad")  # type: ignore[union-attr]
    q.redrive()
    assert q.ensure("job", b"b") == first
    q.receive().ack()  # type: ignore[union-attr]
    assert not q.ensure("job", b"b").duplicate


def test_a_redriven_message_goes_without_a_name_that_another_has(q: Queue, clock: Clock) -> None:
    first = q.ensure("job", b"a")
    q.receive().bury("bad")  # type: ignore[union-attr]
    second = q.ensure("job", b"b")
    q.redrive()
    assert q.ensure("job", b"c") == second
    held = {d.id: d for d in drain(q)}
    held[first].ack()
    assert q.ensure("job", b"c") == second, "the name was not its own to give away"
    held[second].ack()
    assert not q.ensure("job", b"c").duplicate


def test_of_two_redriven_messages_of_one_name_the_first_has_it(q: Queue, clock: Clock) -> None:
    ids = []
    for body in (b"a", b"b"):
        ids.append(q.ensure("job", body))
        q.receive().bury("bad")  # type: ignore[union-attr]
        clock.advance(1)
    q.redrive(rate=1)
    assert q.ensure("job", b"c") == ids[0]


def test_names_written_by_an_older_revision_are_names(q: Queue, clock: Clock, raw: Raw) -> None:
    """Of those it is not known when their messages expire."""
    mid = q.ensure("job", b"a", ttl=5)
    packed, shard = parse_id(mid)
    raw("HSET", key(q, "unique", shard=shard), "job", packed)
    clock.advance(10)
    assert q.ensure("job", b"b") == mid
    assert q.receive() is None
    assert not q.ensure("job", b"b").duplicate
