"""Whatever several senders do by turns, the last call of each can be repeated: it is answered as it was, and
not carried out again. A sender sends and settles under one series of numbers, as clients do."""

from __future__ import annotations

import secrets
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from holdfast import Queue
from holdfast.message import plain_envelope
from tests.raw import Raw

ENVELOPE = plain_envelope(b"x")
SENDERS = ("anne", "ben", "carla")


class Sender:
    def __init__(self, name: str, q: Queue, raw: Raw) -> None:
        self._name, self._q, self._raw = name, q, raw
        self._number = 0
        self._last: tuple[Any, Any] | None = None

    def do(self, verb: str) -> None:
        self._number += 1
        self._q.send_many([b"x"] * 2)  # for who takes something
        words = getattr(self, f"_{verb}")()
        self._last = words, self._raw.fcall(*words(0))

    def repeat(self) -> None:
        if self._last is not None:
            words, answer = self._last
            before = self._counts()
            assert self._raw.fcall(*words(1)) == answer
            assert self._counts() == before

    def _counts(self) -> tuple[int, ...]:
        now = self._q.stats()
        return now.sent, now.acked, now.ready, now.leased

    def _named(self, *words: Any) -> Any:
        return lambda again: (*words, self._name, self._number, again)

    def _send(self) -> Any:
        start = ("send", self._q.name, self._name, self._number)
        return lambda again: (*start, again, "plain", ENVELOPE, ENVELOPE)

    def _send_one(self) -> Any:
        start = ("send_one", self._q.name, self._name, self._number)
        return lambda again: (*start, again, ENVELOPE)

    def _ack(self) -> Any:
        return self._named("ack_named", self._q.name, *(d.wire for d in self._q.receive_many(1)))

    def _ack_some(self) -> Any:
        got = self._q.receive_many(2)
        self._q.ack(*got[:1])
        return self._named("ack_named", self._q.name, *(d.wire for d in got))

    def _nack(self) -> Any:
        wires = [d.wire for d in self._q.receive_many(1)]
        return self._named("nack_named", self._q.name, "release", 0, "", *wires)


VERBS = ("send", "send_one", "ack", "ack_some", "nack")
steps = st.tuples(st.sampled_from(SENDERS), st.sampled_from((*VERBS, "repeat", "delete")))


@pytest.mark.slow
@pytest.mark.only("standalone", reason="one queue's memory, which is the same everywhere")
@settings(max_examples=120)
@given(st.lists(steps, min_size=4, max_size=25))
def test_the_last_call_of_each_can_be_repeated(
    q: Queue, raw: Raw, done: list[tuple[str, str]]
) -> None:
    q.delete()
    example = secrets.token_hex(4)  # names that no other example has used
    senders = {name: Sender(f"{name} {example}", q, raw) for name in SENDERS}
    for name, verb in done:
        if verb == "repeat":
            senders[name].repeat()
        elif verb == "delete":
            q.delete()
        else:
            senders[name].do(verb)
    for sender in senders.values():
        sender.repeat()
