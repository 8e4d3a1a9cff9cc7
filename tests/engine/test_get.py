from __future__ import annotations

import pytest

from holdfast import InvalidArgument, Queue
from tests.clock import Clock


def test_get_finds_a_message_in_whatever_state(q: Queue, clock: Clock) -> None:
    sent = q.send(b"x", delay=5, priority=3, attributes={"a": "b"})

    def seen() -> str:
        found = q.get(sent)
        assert found is not None
        assert (found.id, found.body, found.priority) == (sent, b"x", 3)
        assert found.attributes == {"a": "b"}
        return found.state

    assert seen() == "delayed"
    clock.advance(5)
    q.tend()
    assert seen() == "ready"
    held = q.receive(lease=60)
    assert held is not None
    assert seen() == "leased"
    held.bury("bad")
    assert seen() == "dead"
    q.receive_dead()
    assert seen() == "leased"


def test_get_tells_what_inspect_tells(q: Queue, clock: Clock) -> None:
    q.send_many([b"a", b"b", b"c"])
    held = q.receive_many(2, lease=7)
    held[1].extend(9)
    held[0].bury("why")
    q.send(b"d", delay=5)
    for state in ("delayed", "leased", "dead"):
        [seen] = q.inspect(state)
        found = q.get(seen.id)
        assert found is not None
        for part in ("due", "received_at", "lease_until", "death", "receives"):
            assert getattr(found, part) == getattr(seen, part), (state, part)


def test_get_of_a_message_that_is_gone_or_never_was_gives_none(q: Queue, clock: Clock) -> None:
    sent = q.send(b"x")
    q.receive().ack()  # type: ignore[union-attr]
    assert q.get(sent) is None
    assert q.get("1-1") is None


def test_get_changes_nothing(q: Queue, clock: Clock) -> None:
    ids = [q.send(b"x"), q.send(b"y", delay=5)]
    before = q.stats()
    for i in ids:
        q.get(i)
    assert q.stats() == before


def test_what_cannot_be_an_id_is_refused(q: Queue) -> None:
    with pytest.raises(InvalidArgument, match="'nonsense' is not a message id"):
        q.get("nonsense")
