"""A call was given up, repeated and answered; then the original arrives after all, from a socket that the
network had cut off. It is not carried out a second time, whichever call it is."""

from __future__ import annotations

from typing import Any

import pytest

from holdfast import AnswerLost, Delivery, Queue, Topic
from holdfast.engine import topics
from holdfast.engine.calls import Packed
from holdfast.engine.keys import TopicRef
from holdfast.message import plain_envelope
from tests.clock import Clock
from tests.raw import Raw

ENVELOPE = plain_envelope(b"x")


class Caller:
    """One sender that says itself what is a repetition."""

    def __init__(self, q: Queue, raw: Raw) -> None:
        self._q, self._raw = q, raw

    def send(self, number: int, again: bool, sender: str = "anne") -> Any:
        return self._raw.fcall("send", self._q.name, sender, number, int(again), "plain", ENVELOPE)

    def send_one(self, number: int, again: bool, sender: str = "anne") -> Any:
        return self._raw.fcall("send_one", self._q.name, sender, number, int(again), ENVELOPE)

    def ack(self, number: int, again: bool, of: Delivery, sender: str = "anne") -> Any:
        return self._raw.fcall("ack_named", self._q.name, of.wire, sender, number, int(again))

    @property
    def sent(self) -> int:
        return self._q.stats().sent


@pytest.fixture
def by(q: Queue, clock: Clock, raw: Raw) -> Caller:
    return Caller(q, raw)


@pytest.mark.parametrize("verb", ["send", "send_one"])
def test_an_original_that_comes_after_its_repetition_stores_nothing(by: Caller, verb: str) -> None:
    send = getattr(by, verb)
    send(1, again=False)
    answer = send(2, again=True)
    assert send(2, again=False) == answer
    assert by.sent == 2


@pytest.mark.parametrize("verb", ["send", "send_one"])
@pytest.mark.parametrize("later", ["send", "send_one"])
def test_an_original_that_comes_when_its_sender_has_gone_on_is_refused(
    by: Caller, verb: str, later: str
) -> None:
    getattr(by, verb)(1, again=True)
    getattr(by, later)(2, again=False)
    getattr(by, later)(3, again=False)
    with pytest.raises(AnswerLost, match="call 1 of anne came after its call 3"):
        getattr(by, verb)(1, again=False)
    assert by.sent == 3


@pytest.mark.parametrize("verb", ["send", "send_one"])
def test_a_repetition_that_comes_when_its_sender_has_gone_on_is_refused(
    by: Caller, verb: str
) -> None:
    """The first arrived and its answer was lost, the second was held up, the third was answered."""
    send = getattr(by, verb)
    send(1, again=False)
    send(1, again=True)
    send(2, again=False)
    send(3, again=False)
    with pytest.raises(AnswerLost):
        send(1, again=True)
    assert by.sent == 3


def test_others_go_on_sending_meanwhile(by: Caller) -> None:
    by.send_one(1, again=False)
    by.send_one(2, again=True)
    for number in (1, 3, 5):
        for sender in ("ben", "carla"):
            by.send_one(number, again=False, sender=sender)
            by.send(number + 1, again=False, sender=sender)
    assert by.sent == 14
    by.send_one(3, again=False)
    by.send(4, again=False)
    assert by.sent == 16


@pytest.mark.unsharded("the functions are called on one shard")
def test_a_late_ack_is_answered_as_its_repetition_was(by: Caller, q: Queue) -> None:
    q.send_many([b"a", b"b"])
    first, second = q.receive_many(2)
    assert by.ack(1, True, first) == []
    assert by.ack(1, False, first) == []
    assert by.ack(2, False, second) == []
    with pytest.raises(AnswerLost):
        by.ack(1, False, first)
    assert q.stats().acked == 2


@pytest.mark.unsharded("the functions are called on one shard")
def test_a_late_nack_does_not_give_back_what_was_received_since(
    q: Queue, clock: Clock, raw: Raw
) -> None:
    """By id, as hands do: the receipt alone would not tell."""
    mid = q.send(b"x")
    d = q.receive()
    assert d is not None
    anybody = bytes(6) + d.wire[6:]
    late = ("nack_named", q.name, "release", 0, "", anybody, "anne", 1)
    assert raw.fcall(*late, 1) == []
    again = q.receive()
    assert again is not None
    assert again.id == mid
    assert raw.fcall(*late, 0) == []
    assert q.stats().leased == 1


def test_a_late_publish_publishes_nothing(topic: Topic, topic_clock: Clock) -> None:
    seat = topic.subscribe("a")

    def publish(number: int, again: bool) -> list[str]:
        call = topics.publish(TopicRef(topic.name), [Packed(ENVELOPE)], "anne", number)
        return [*topic.transport.run(call.again() if again else call).ids]

    publish(1, again=False)
    answer = publish(2, again=True)
    assert publish(2, again=False) == answer
    assert seat.stats().ready == 2


@pytest.mark.unsharded("a queue of one shard, whose state is the one that is looked at")
def test_an_original_is_waited_for_for_a_minute(by: Caller, clock: Clock) -> None:
    by.send_one(1, again=True)
    clock.advance(59)
    by.send_one(1, again=False)
    assert by.sent == 1


@pytest.mark.only("standalone", reason="counts what one server was asked")
def test_who_repeats_nothing_looks_for_nothing(by: Caller, q: Queue, raw: Raw) -> None:
    by.send_one(1, again=False)
    before = raw.calls().get("get", 0)
    by.send_one(2, again=False)
    by.send(3, again=False)
    [d] = q.receive_many(1)
    by.ack(4, False, d)
    assert raw.calls().get("get", 0) == before


@pytest.mark.unsharded("the functions are called on one shard")
def test_of_each_of_several_that_settle_the_last_call_is_known(
    q: Queue, clock: Clock, raw: Raw
) -> None:
    """A lone one's lies in the queue's hash; when another settles, it moves to a key of its own."""
    q.send_many([b"x"] * 9)
    held: dict[str, list[Delivery]] = {sender: [] for sender in ("anne", "ann", "a\0b")}
    for number in (1, 2, 3):
        for sender, mine in held.items():
            [d] = q.receive_many(1)
            mine.append(d)
            assert raw.fcall("ack_named", q.name, d.wire, sender, number, 0) == []
    for sender, mine in held.items():
        assert raw.fcall("ack_named", q.name, mine[2].wire, sender, 3, 1) == []
        with pytest.raises(AnswerLost):
            raw.fcall("ack_named", q.name, mine[0].wire, sender, 1, 1)
    assert q.stats().acked == 9


@pytest.mark.unsharded("the functions are called on one shard")
def test_what_was_sent_after_an_ack_is_known_when_another_acks(by: Caller, q: Queue) -> None:
    q.send_many([b"a", b"b"])
    first, second = q.receive_many(2)
    by.ack(1, False, first)
    answer = by.send(2, again=False)
    by.ack(1, False, second, sender="ben")
    assert by.send(2, again=True) == answer
    assert by.sent == 3


@pytest.mark.unsharded("the functions are called on one shard")
def test_what_settled_only_some_is_told_so_again(q: Queue, clock: Clock, raw: Raw) -> None:
    q.send_many([b"a", b"b"])
    first, second = q.receive_many(2)
    q.ack(first)
    for again in (0, 1):
        got = raw.fcall("ack_named", q.name, first.wire, second.wire, "anne", 1, again)
        assert got == [0]
    assert q.stats().acked == 2


@pytest.mark.unsharded("the functions are called on one shard")
def test_a_queue_that_is_deleted_leaves_the_last_call(q: Queue, clock: Clock, raw: Raw) -> None:
    q.send(b"x")
    [d] = q.receive_many(1)
    assert raw.fcall("ack_named", q.name, d.wire, "anne", 1, 0) == []
    q.delete()
    assert raw.fcall("ack_named", q.name, d.wire, "anne", 1, 1) == []
