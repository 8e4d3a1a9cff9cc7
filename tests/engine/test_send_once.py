from __future__ import annotations

import pytest

from holdfast import InvalidArgument, Queue, QueueFull, Topic, WrongType
from holdfast.engine import ledger
from holdfast.engine.keys import QueueRef
from holdfast.engine.ledger import Ledger, Outcome
from holdfast.message import plain_envelopes
from tests.clock import Clock
from tests.engine.look import bodies, counts, drain
from tests.raw import Raw

MINUTE = 60_000
NAME = Ledger("run", 0, 0, MINUTE)


def send(
    q: Queue | Topic,
    *texts: bytes,
    known: int = 0,
    name: Ledger = NAME,
    said: list[tuple[str, str]] | None = None,
    ref: QueueRef | None = None,
) -> Outcome:
    """Each message's digest is its own text, padded."""
    digests = [text.ljust(ledger.DIGEST, b".") for text in texts]
    call = ledger.send(ref or q.refs()[0], name, known, digests, plain_envelopes(texts), said)
    return q.transport.run(call)


def entries(q: Queue | Topic) -> list[bytes]:
    key = ledger.key(q.refs()[0], "run", 0)
    found: list[bytes] = q.transport.command("LRANGE", key, 0, -1, key=key)
    return found


@pytest.mark.unsharded("order")
def test_messages_and_their_entry_are_stored_together(q: Queue, clock: Clock) -> None:
    assert send(q, b"a", b"b").done
    assert send(q, b"c", known=1) == Outcome(True, 2, 0, False, 1)
    assert bodies(drain(q)) == [b"a", b"b", b"c"]
    first, *rest = entries(q)
    assert first == b"0"
    found = [ledger.split(entry) for entry in rest]
    assert found == [[b"a...........", b"b..........."], [b"c..........."]]


def test_nothing_is_stored_where_there_are_entries_the_sender_does_not_know(
    q: Queue, clock: Clock
) -> None:
    send(q, b"a")
    assert send(q, b"a") == Outcome(False, 1)
    assert send(q, b"b", known=2) == Outcome(False, 1)
    assert counts(q) == (1, 0, 0, 0)
    assert len(entries(q)) == 2


def test_ledgers_of_other_names_do_not_matter(q: Queue, clock: Clock) -> None:
    assert send(q, b"a").done
    assert send(q, b"a", name=NAME._replace(part=1)).done
    assert counts(q) == (2, 0, 0, 0)


def test_a_later_generation_starts_anew_and_an_earlier_one_is_refused(
    q: Queue, clock: Clock
) -> None:
    send(q, b"a", name=NAME._replace(generation=3))
    assert send(q, b"a", name=NAME._replace(generation=4)).done
    assert [entry[:1] for entry in entries(q)] == [b"4", b"a"]
    with pytest.raises(InvalidArgument, match="batch 3 is over: run has come to batch 4"):
        send(q, b"b", name=NAME._replace(generation=3), known=1)
    with pytest.raises(InvalidArgument, match="batch 3 is over"):
        send(q, b"b", name=NAME._replace(generation=3, part=9))
    assert counts(q) == (2, 0, 0, 0)


def test_what_is_said_of_messages_holds(q: Queue, clock: Clock) -> None:
    said = [("+1000", ""), ("", "x"), ("", "x")]
    sent = send(q, b"a", b"b", b"c", said=said)
    assert (sent.done, sent.duplicates) == (True, 1)
    assert counts(q) == (1, 1, 0, 0)


def test_a_full_queue_takes_neither_messages_nor_entry(q: Queue, clock: Clock) -> None:
    q.configure(max_length=1)
    with pytest.raises(QueueFull):
        send(q, b"a", b"b")
    assert entries(q) == []
    assert send(q, b"a").done


def test_a_ledger_ends_after_its_time(q: Queue, clock: Clock, raw: Raw) -> None:
    send(q, b"a", name=NAME._replace(keep_ms=5_000))
    for part in (0, None):
        assert 0 < raw("PTTL", ledger.key(q.refs()[0], "run", part)) <= 5_000


def test_a_topic_is_published_to(topic: Topic) -> None:
    one, other = topic.subscribe("one"), topic.subscribe("other")
    assert send(topic, b"a", b"b").done
    assert not send(topic, b"a", b"b").done
    assert bodies(drain(one)) == bodies(drain(other)) == [b"a", b"b"]


@pytest.mark.unsharded("one key to damage")
def test_a_foreign_key_in_its_place_stops_it_before_anything_is_sent(
    q: Queue, clock: Clock, raw: Raw
) -> None:
    for part in (0, None):
        key = ledger.key(q.refs()[0], "run", part)
        raw("SET", key, "x")
        with pytest.raises(WrongType):
            send(q, b"a")
        raw("DEL", key)
    assert counts(q) == (0, 0, 0, 0)
