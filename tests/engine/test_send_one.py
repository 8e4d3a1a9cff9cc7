"""A single send is done once, however often it is asked for: by its sender's last call, which lies in the
queue's hash, or in a key of its own once others have sent."""

from __future__ import annotations

import pytest

from holdfast import Queue
from holdfast.engine.keys import suffixed
from holdfast.message import plain_envelope
from tests.clock import Clock
from tests.raw import Raw

ANNE, BEN = "anne", "ben"


class Senders:
    def __init__(self, q: Queue, raw: Raw) -> None:
        self._q, self._raw = q, raw

    def send(self, sender: str, call: int, body: bytes = b"x", *, again: bool = False) -> bytes:
        envelope = plain_envelope(body)
        answer = self._raw.fcall("send_one", self._q.name, sender, call, int(again), envelope)
        return bytes(answer)

    def repeat(self, sender: str, call: int, body: bytes = b"x") -> bytes:
        return self.send(sender, call, body, again=True)

    @property
    def sent(self) -> int:
        return self._q.stats().sent

    def keys(self) -> list[str]:
        """Of those that have one of their own."""
        own = suffixed(self._q.refs()[0].key, "last_one")
        found = self._raw.everywhere("KEYS", f"{own}*")
        return sorted(key.decode().removeprefix(own) for part in found for key in part)


@pytest.fixture
def by(q: Queue, clock: Clock, raw: Raw) -> Senders:
    q.send_many([b"a queue that has a state"])
    return Senders(q, raw)


def test_a_lone_senders_call_is_known_and_leaves_no_key(by: Senders) -> None:
    first = by.send(ANNE, 1)
    second = by.send(ANNE, 2)
    assert first != second
    assert by.repeat(ANNE, 2) == second
    assert by.sent == 3
    assert by.keys() == []


def test_of_each_of_several_senders_the_last_call_is_known(by: Senders) -> None:
    answers = {}
    for call in range(1, 4):
        for sender in (ANNE, BEN, "annette", "a\0b"):
            answers[sender] = by.send(sender, call)
    sent = by.sent
    for sender, answer in answers.items():
        assert by.repeat(sender, 3) == answer
    assert by.sent == sent
    assert by.keys() == ["a\0b", ANNE, "annette", BEN]


def test_an_earlier_call_is_not_taken_for_the_last(by: Senders) -> None:
    known = by.send(ANNE, 1)
    by.send(BEN, 1)
    assert by.repeat(ANNE, 2) != known
    assert by.repeat(BEN, 11) != known
    assert by.sent == 5


def test_a_call_that_never_arrived_is_carried_out_and_then_known(by: Senders) -> None:
    answer = by.repeat(ANNE, 7)
    assert by.repeat(ANNE, 7) == answer
    assert by.sent == 2


def test_many_and_single_sends_of_one_sender_are_told_apart(
    by: Senders, q: Queue, raw: Raw
) -> None:
    single = by.send(ANNE, 1)
    many = raw.fcall("send", q.name, ANNE, 2, 0, "plain", plain_envelope(b"y"))
    by.send(BEN, 1)
    sent = by.sent
    assert raw.fcall("send", q.name, ANNE, 2, 1, "plain", plain_envelope(b"y")) == many
    assert by.repeat(ANNE, 1) == single
    assert by.sent == sent


def test_a_call_is_known_for_a_minute_and_the_key_ends_by_itself(
    by: Senders, q: Queue, clock: Clock, raw: Raw
) -> None:
    by.send(ANNE, 1)
    by.send(BEN, 1)
    assert 0 < raw("PTTL", suffixed(q.refs()[0].key, "last_one", ANNE)) <= 60_000
    clock.advance(61)
    by.send(ANNE, 2)
    assert by.keys() == [ANNE], "what is older than that needs no key"


def test_a_call_without_a_sender_disturbs_nobodys(by: Senders) -> None:
    known = by.send(ANNE, 1)
    assert by.send("", 0) != by.send("", 0)
    assert by.repeat(ANNE, 1) == known
    assert by.sent == 4


def test_a_queue_that_is_deleted_leaves_the_last_call(by: Senders, q: Queue) -> None:
    known = by.send(ANNE, 1)
    q.delete()
    assert by.repeat(ANNE, 1) == known
    assert by.sent == 0
