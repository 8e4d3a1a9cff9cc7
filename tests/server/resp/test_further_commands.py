"""What the first queue commands lack: delays, priorities, attributes, giving back, dead letters,
settings, topics; in RESP2 and RESP3."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import pytest
import redis

import holdfast
from tests.clock import Clock

MQ = Callable[..., Any]


@pytest.fixture
def queue(valkey: str, name: str) -> Iterator[holdfast.Queue]:
    with holdfast.connect(valkey, check="off") as hf:
        yield hf.queue(name)


@pytest.fixture
def clock(queue: holdfast.Queue) -> Clock:
    return Clock(queue)


def refused(mq: MQ, *command: object) -> str:
    with pytest.raises(redis.ResponseError) as caught:
        mq(*command)
    return str(caught.value)


def pairs(reply: Any) -> dict[Any, Any]:
    """A map, which RESP2 has as an array."""
    return reply if isinstance(reply, dict) else dict(zip(reply[::2], reply[1::2], strict=True))


# ---- MQ.SEND and MQ.RECEIVE ------------------------------------------------------------------


def test_send_says_everything_about_a_message(mq: MQ, name: str) -> None:
    one = mq(
        *["MQ.SEND", name, "PRIORITY", 7, "group", "g", "TTL", 60_000, "DEDUP", "d"],
        *["ATTR", "kind", "x", "ATTR", "size", "é", "the body"],
    )
    assert mq("MQ.SEND", name, "DEDUP", "d", "again") == one
    [[source, id_, body, receipt, deliveries, attributes, group, priority]] = mq("MQ.RECEIVE", name)
    assert (source.decode(), id_, body) == (name, one, b"the body")
    assert receipt.startswith(one + b"@")
    assert (deliveries, group, priority) == (1, b"g", 7)
    assert pairs(attributes) == {b"kind": b"x", b"size": "é".encode()}


def test_a_delayed_message_waits_its_time(mq: MQ, name: str, clock: Clock) -> None:
    mq("MQ.SEND", name, "DELAY", 1500, "later")
    mq("MQ.SEND", name, "AT", clock.ms + 3000, "still later")
    assert mq("MQ.POP", 1, name) is None
    clock.advance(1.5)
    assert mq("MQ.POP", 9, name)[0][1] == b"later"
    clock.advance(1.5)
    assert mq("MQ.POP", 9, name)[0][1] == b"still later"


def test_a_unique_message_is_there_once(mq: MQ, name: str) -> None:
    one = mq("MQ.SEND", name, "UNIQUE", "nightly", "a")
    assert mq("MQ.SEND", name, "UNIQUE", "nightly", "b") == one
    assert mq("MQ.QINFO", name)[1] == 1


def test_the_body_may_read_as_an_option(mq: MQ, name: str) -> None:
    mq("MQ.SEND", name, "PRIORITY")
    assert mq("MQ.POP", 1, name)[0][1] == b"PRIORITY"


@pytest.mark.parametrize(
    ("options", "says"),
    [
        (["DELAY"], "DELAY is missing"),
        (["DELAY", "soon"], "DELAY, in ms, must be a whole number, not 'soon'"),
        (["AT", "9" * 18], "too far in the future"),
        (["PRIORITY", 10], "priority must be from 0 to 9"),
        (["DELAYED", 5], "'DELAYED' is not expected here"),
        (["ATTR", "a"], "an attribute's value is missing"),
        (["DELAY", 1, "AT", 5], "not both"),
        (["UNIQUE", "u", "DEDUP", "d"], "not both"),
        (["ATTR", "a", b"\xff"], "must be UTF-8"),
    ],
)
def test_a_wrong_option_is_named_and_nothing_is_sent(
    mq: MQ, name: str, options: list[object], says: str
) -> None:
    assert says in refused(mq, "MQ.SEND", name, *options, "body")
    assert mq("MQ.QINFO", name) is None


def test_receive_leases_as_long_as_it_is_told(mq: MQ, name: str, clock: Clock) -> None:
    mq("MQ.PUSH", name, "a")
    assert len(mq("MQ.RECEIVE", "COUNT", 5, "LEASE", 2000, name)) == 1
    clock.advance(1.9)
    assert mq("MQ.RECEIVE", name) is None
    clock.advance(0.2)
    assert mq("MQ.RECEIVE", name)[0][4] == 2


# ---- settling --------------------------------------------------------------------------------


def test_nack_gives_back_for_another_try_after_a_delay(mq: MQ, name: str, clock: Clock) -> None:
    ids = mq("MQ.PUSH", name, "a")
    mq("MQ.POP", 1, name)
    assert mq("MQ.NACK", name, "DELAY", 1000, "REASON", "busy", *ids) == ids
    assert mq("MQ.NACK", name, *ids) == []
    assert mq("MQ.POP", 1, name) is None
    clock.advance(1)
    assert [i for i, _ in mq("MQ.POP", 1, name)] == ids


def test_release_does_not_count(mq: MQ, name: str) -> None:
    ids = mq("MQ.PUSH", name, "a")
    mq("MQ.POP", 1, name)
    assert mq("MQ.NACK", name, "RELEASE", *ids) == ids
    assert mq("MQ.RECEIVE", name)[0][4] == 1


def test_buried_messages_are_dead_letters_until_they_are_redriven(mq: MQ, name: str) -> None:
    ids = mq("MQ.PUSH", name, "a", "b")
    mq("MQ.POP", 2, name)
    mq("MQ.NACK", name, "BURY", "REASON", "no such customer", *ids)
    rows = mq("MQ.DEAD", name, 0, 10)
    assert [row[:3] for row in rows] == [
        [ids[0], b"a", b"no such customer"],
        [ids[1], b"b", b"no such customer"],
    ]
    assert all(isinstance(row[4], int) and row[5] == 1 for row in rows)
    assert mq("MQ.DEAD", name, -1, 10)[0][0] == ids[1]
    assert mq("MQ.RECEIVE", "DEAD", name)[0][1] == ids[0]
    mq("MQ.NACK", name, "RELEASE", ids[0])
    assert mq("MQ.REDRIVE", name, "DRYRUN") == ids
    assert mq("MQ.REDRIVE", name, ids[1]) == [ids[1]]
    assert mq("MQ.REDRIVE", name, "COUNT", 5, "RATE", "1000") == [ids[0]]
    assert mq("MQ.DEAD", name, 0, 10) == []


def test_extend_moves_the_end_of_a_lease(mq: MQ, name: str, clock: Clock) -> None:
    ids = mq("MQ.PUSH", name, "a")
    mq("MQ.RECEIVE", "LEASE", 1000, name)
    assert mq("MQ.EXTEND", name, 5000, *ids, "1-1") == ids
    clock.advance(4)
    assert mq("MQ.POP", 1, name) is None
    clock.advance(2)
    assert len(mq("MQ.POP", 1, name)) == 1


# ---- keeping house ---------------------------------------------------------------------------


def test_one_message_is_found_moved_and_removed(mq: MQ, name: str) -> None:
    one = mq("MQ.SEND", name, "DELAY", 60_000, "ATTR", "a", "b", "body")
    id_, body, state, deliveries, attributes = mq("MQ.GET", name, one)
    assert (id_, body, state, deliveries) == (one, b"body", b"delayed", 0)
    assert pairs(attributes) == {b"a": b"b"}
    assert mq("MQ.RESCHEDULE", name, one, "DELAY", 0) == 1
    assert mq("MQ.REMOVE", name, one) == 1
    assert mq("MQ.REMOVE", name, one) == 0
    assert mq("MQ.RESCHEDULE", name, one, "AT", 0) == 0
    assert mq("MQ.GET", name, one) is None


def test_settings_are_in_milliseconds_and_0_is_none(mq: MQ, name: str) -> None:
    told = pairs(mq("MQ.CONFIGURE", name, "LEASE_MS", 1500, "max_receives", 0, "journal", 1))
    assert told[b"lease_ms"] == 1500
    assert told[b"max_receives"] == 0
    assert told[b"journal"] == 1
    assert told[b"overflow"] == b"reject"
    assert pairs(mq("MQ.CONFIGURE", name)) == told
    assert pairs(mq("MQ.CONFIGURE", name, "overflow", "drop_oldest"))[b"overflow"] == b"drop_oldest"
    assert pairs(mq("MQ.CONFIGURE", name, "lease_ms", "none"))[b"lease_ms"] == 0


def test_what_is_shown_of_leases_holds_for_pop_too(mq: MQ, name: str) -> None:
    told = pairs(mq("MQ.CONFIGURE", name))
    assert (told[b"lease_ms"], told[b"pop_lease_ms"]) == (30_000, 0)
    told = pairs(mq("MQ.CONFIGURE", name, "lease_ms", 5000))
    assert (told[b"lease_ms"], told[b"pop_lease_ms"]) == (5000, 5000)
    told = pairs(mq("MQ.CONFIGURE", name, "lease_ms", 0))
    assert (told[b"lease_ms"], told[b"pop_lease_ms"]) == (0, 0)


@pytest.mark.parametrize(
    ("change", "says"),
    [
        (["lease", 5], "there is no setting 'lease'; there are: lease_ms"),
        (["lease_ms"], "needs a value"),
        (["lease_ms", "x"], "not an integer"),
        (["overflow", "explode"], "'reject' or 'drop_oldest'"),
        (["journal", 2], "True or False"),
    ],
)
def test_a_wrong_setting_is_refused(mq: MQ, name: str, change: list[object], says: str) -> None:
    assert says in refused(mq, "MQ.CONFIGURE", name, *change)


def test_a_paused_queue_hands_nothing_out(mq: MQ, name: str, clock: Clock) -> None:
    mq("MQ.PUSH", name, "a", "b")
    assert mq("MQ.PAUSE", name) in (b"OK", "OK")
    assert mq("MQ.POP", 1, name) is None
    mq("MQ.RESUME", name)
    assert len(mq("MQ.POP", 1, name)) == 1
    mq("MQ.PAUSE", name, 1000)
    assert mq("MQ.POP", 1, name) is None
    clock.advance(1)
    assert len(mq("MQ.POP", 1, name)) == 1


def test_stats_purge_and_delete(mq: MQ, name: str) -> None:
    assert mq("MQ.STATS", name) is None
    mq("MQ.PUSH", name, *"abc")
    mq("MQ.SEND", name, "DELAY", 60_000, "d")
    stats = pairs(mq("MQ.STATS", name))
    assert (stats[b"ready"], stats[b"delayed"], stats[b"sent"]) == (3, 1, 4)
    assert name.encode() in mq("MQ.QUEUES")
    assert "states are" in refused(mq, "MQ.PURGE", name, "lost")
    assert mq("MQ.PURGE", name, "delayed") == 1
    assert mq("MQ.PURGE", name) == 3
    mq("MQ.DELETE", name)
    assert mq("MQ.STATS", name) is None
    assert name.encode() not in mq("MQ.QUEUES")


# ---- topics ----------------------------------------------------------------------------------


def test_what_is_published_reaches_every_subscription(mq: MQ, name: str) -> None:
    assert mq("MQ.SUBSCRIBE", name, f"{name}.a") in (b"OK", "OK")
    mq("MQ.SUBSCRIBE", name, f"{name}.b", "MODE", "shared", "PEER", "p1")
    one = mq("MQ.PUBLISH", name, "ATTR", "kind", "x", "news")
    two, three = mq("MQ.MPUBLISH", name, "more", "PEER")
    got = mq("MQ.OBSERVE", f"{name}.a", "COUNT", 9)
    assert [row[:3] for row in got] == [
        [name.encode(), one, b"news"],
        [name.encode(), two, b"more"],
        [name.encode(), three, b"PEER"],
    ]
    assert pairs(got[0][5]) == {b"kind": b"x"}
    assert len(mq("MQ.OBSERVE", f"{name}.b", "PEER", "p1", "COUNT", 9, "TOPICS", name)) == 3
    assert name.encode() in mq("MQ.TOPICS")


def test_observed_messages_are_settled_for_their_consumer(mq: MQ, name: str) -> None:
    who = f"{name}.c"
    mq("MQ.SUBSCRIBE", name, who, "PEER", "p")
    seat = [name, "FOR", who, "PEER", "p"]
    ids = mq("MQ.MPUBLISH", name, *"abcd")
    rows = mq("MQ.OBSERVE", who, "PEER", "p", "COUNT", 4, "LEASE", 60_000)
    assert mq("MQ.ACK", *seat, ids[0], rows[1][3]) == [ids[0], rows[1][3]]
    assert mq("MQ.EXTEND", *seat, 1000, ids[2]) == [ids[2]]
    assert [row[0] for row in mq("MQ.INSPECT", *seat, "PENDING", 0, 9)] == ids[2:]
    assert mq("MQ.NACK", *seat, "BURY", "REASON", "why", ids[2]) == [ids[2]]
    assert mq("MQ.NACK", *seat, "RELEASE", ids[3]) == [ids[3]]
    assert [row[2] for row in mq("MQ.DEAD", *seat, 0, 9)] == [b"why"]
    assert pairs(mq("MQ.STATS", *seat))[b"ready"] == 1
    assert mq("MQ.OBSERVE", who, "PEER", "p", "AUTOACK")[0][1] == ids[3]
    assert mq("MQ.INSPECT", *seat, "PENDING", 0, 9) == []


def test_filters_choose_by_attributes(mq: MQ, name: str) -> None:
    who = f"{name}.c"
    mq("MQ.SUBSCRIBE", name, who, "FILTER", '{"attribute": "kind", "equals": "x"}')
    mq("MQ.PUBLISH", name, "ATTR", "kind", "y", "not this")
    mq("MQ.PUBLISH", name, "ATTR", "kind", "x", "this")
    assert [row[2] for row in mq("MQ.OBSERVE", who, "COUNT", 9)] == [b"this"]
    [told] = mq("MQ.SUBSCRIPTIONS", name)
    assert pairs(told)[b"consumer"] == who.encode()
    assert b"equals" in pairs(told)[b"filter"]
    assert pairs(told)[b"mode"] == b"broadcast"


def test_a_subscription_is_given_up_once(mq: MQ, name: str) -> None:
    mq("MQ.SUBSCRIBE", name, f"{name}.c")
    assert mq("MQ.UNSUBSCRIBE", name, f"{name}.c") == 1
    assert mq("MQ.UNSUBSCRIBE", name, f"{name}.c") == 0


def test_who_is_not_subscribed_is_told_so(mq: MQ, name: str) -> None:
    assert refused(mq, "MQ.OBSERVE", f"{name}.nobody").startswith("NOSUBSCRIPTION ")


def test_observe_waits_and_ends_in_time(mq: MQ, name: str) -> None:
    mq("MQ.SUBSCRIBE", name, f"{name}.c")
    assert mq("MQ.OBSERVE", f"{name}.c", "BLOCK", 50) is None


def test_a_topic_has_settings_and_an_end(mq: MQ, name: str) -> None:
    told = pairs(mq("MQ.TOPIC", "CONFIGURE", name, "peer_timeout_ms", 5000))
    assert told[b"peer_timeout_ms"] == 5000
    mq("MQ.PUBLISH", name, "early")
    assert pairs(mq("MQ.TOPIC", "STATS", name))[b"sent"] == 1
    mq("MQ.TOPIC", "DELETE", name)
    assert name.encode() not in mq("MQ.TOPICS")
    assert "STATS, CONFIGURE and DELETE" in refused(mq, "MQ.TOPIC", "EAT", name)


@pytest.mark.parametrize(
    ("command", "says"),
    [
        (["MQ.SUBSCRIBE", "t", "c", "MODE", "loud"], "BROADCAST or SHARED"),
        (["MQ.SUBSCRIBE", "t", "c", "FILTER", "{"], "INVALID"),
        (["MQ.OBSERVE", "c", "TOPICS"], "topic is missing"),
        (["MQ.OBSERVE", "c", "WHY"], "not expected"),
        (["MQ.ACK", "t", "FOR"], "consumer's id is missing"),
        (["MQ.ACK", "t", "FOR", "c"], "id is missing"),
        (["MQ.PUBLISH", "t", "UNIQUE", "u", "b"], "UNIQUE is for queues"),
    ],
)
def test_wrong_topic_commands_are_explained(mq: MQ, command: list[str], says: str) -> None:
    assert says in refused(mq, *command)
