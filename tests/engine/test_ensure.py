from __future__ import annotations

from holdfast import Queue
from tests.clock import Clock
from tests.engine.look import bodies, counts, drain


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
