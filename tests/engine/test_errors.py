"""Bad input gets a clear, typed error before anything is written."""

from __future__ import annotations

from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from holdfast import Client, InvalidArgument, Outgoing, Queue, QueueFull, message
from tests.clock import Clock
from tests.raw import Raw

Case = tuple[str, Callable[[Queue], Any], str]


class Odd:
    def __repr__(self) -> str:
        return "Odd()"


RANGE = "must be from 0 to 70368744177 seconds"
NAIVE = datetime(2030, 1, 1)

CASES: list[Case] = [
    # priority
    ("priority 10", lambda q: q.send(b"x", priority=10), "priority must be from 0 to 9, not 10"),
    ("priority -1", lambda q: q.send(b"x", priority=-1), "priority must be from 0 to 9, not -1"),
    (
        "priority text",
        lambda q: q.send(b"x", priority="5"),  # type: ignore[arg-type]
        "priority must be a whole number, not str '5'",
    ),
    (
        "priority bool",
        lambda q: q.send(b"x", priority=True),
        "priority must be a whole number, not bool True",
    ),
    # delay and due
    ("delay negative", lambda q: q.send(b"x", delay=-1), f"delay {RANGE}, not -1"),
    ("delay huge", lambda q: q.send(b"x", delay=1e12), f"delay {RANGE}, not 1000000000000.0"),
    (
        "delay infinite",
        lambda q: q.send(b"x", delay=float("inf")),
        f"delay {RANGE}, not inf",
    ),
    (
        "delay negative timedelta",
        lambda q: q.send(b"x", delay=timedelta(seconds=-1)),
        f"delay {RANGE}, not {timedelta(seconds=-1)!r}",
    ),
    (
        "delay text",
        lambda q: q.send(b"x", delay="soon"),  # type: ignore[arg-type]
        "delay must be seconds or a timedelta, not str 'soon'",
    ),
    (
        "delay and due",
        lambda q: q.send(b"x", delay=1, due=datetime.now(UTC)),
        "give delay or due, not both",
    ),
    (
        "due naive",
        lambda q: q.send(b"x", due=NAIVE),
        "due must have a time zone, for example datetime.now(UTC)",
    ),
    (
        "due text",
        lambda q: q.send(b"x", due="tomorrow"),  # type: ignore[arg-type]
        "due must be a datetime, not str",
    ),
    # ttl
    (
        "ttl 0",
        lambda q: q.send(b"x", ttl=0),
        "ttl must be from 0.001 to 70368744177 seconds, not 0",
    ),
    # names
    (
        "group empty",
        lambda q: q.send(b"x", group=""),
        "group must have 1 to 200 characters, this one has 0",
    ),
    (
        "group number",
        lambda q: q.send(b"x", group=5),  # type: ignore[arg-type]
        "group must be text, not int",
    ),
    (
        "dedup_id long",
        lambda q: q.send(b"x", dedup_id="x" * 201),
        "dedup_id must have 1 to 200 characters, this one has 201",
    ),
    (
        "dedup_id control",
        lambda q: q.send(b"x", dedup_id="a\tb"),
        "dedup_id 'a\\tb' has characters that cannot be printed",
    ),
    (
        "unique empty",
        lambda q: q.ensure("", b"x"),
        "unique name must have 1 to 200 characters, this one has 0",
    ),
    (
        "queue name",
        lambda q: q._client.queue(""),
        "a queue's name must have 1 to 200 characters, this one has 0",
    ),
    # attributes
    (
        "attribute value",
        lambda q: q.send(b"x", attributes={"n": 5}),  # type: ignore[dict-item]
        "attribute 'n' must be text, not int; put structured data into the body",
    ),
    (
        "attribute name",
        lambda q: q.send(b"x", attributes={"": "v"}),
        "an attribute's name must have 1 to 200 characters, this one has 0",
    ),
    (
        "attributes size",
        lambda q: q.send(b"x", attributes={"a": "v" * 70_000}),
        "attributes may take 65536 bytes, these take 70008",
    ),
    # bodies
    (
        "body",
        lambda q: q.send(Odd()),
        "cannot encode a body of type Odd: Encoding objects of type Odd is unsupported; "
        "send bytes, text or a JSON-able object, or give the queue a codec",
    ),
    (
        "one bad body of many",
        lambda q: q.send_many([b"good", Outgoing(b"good"), Odd()]),
        "cannot encode a body of type Odd: Encoding objects of type Odd is unsupported; "
        "send bytes, text or a JSON-able object, or give the queue a codec",
    ),
    # receive
    ("count 0", lambda q: q.receive_many(0), "count must be from 1 to 100000, not 0"),
    (
        "count too many",
        lambda q: q.receive_many(100_001),
        "count must be from 1 to 100000, not 100001",
    ),
    (
        "count text",
        lambda q: q.receive_many("5"),  # type: ignore[arg-type]
        "count must be a whole number, not str '5'",
    ),
    ("dead count", lambda q: q.receive_dead(0), "count must be from 1 to 100000, not 0"),
    ("wait negative", lambda q: q.receive(wait=-1), f"wait {RANGE}, not -1"),
    ("lease negative", lambda q: q.receive(lease=-1), f"lease {RANGE}, not -1"),
    (
        "lease text",
        lambda q: q.receive(lease="5"),  # type: ignore[arg-type]
        "lease must be seconds or a timedelta, not str '5'",
    ),
    ("recover count", lambda q: q.recover(0, elapsed=1), "count must be from 1 to 100000, not 0"),
    ("recover elapsed", lambda q: q.recover(1, elapsed=-1), f"elapsed {RANGE}, not -1"),
    (
        "prefetch",
        lambda q: q.consume(prefetch=0),
        "prefetch must be from 1 to 100000, not 0",
    ),
    (
        "ack_every",
        lambda q: q.consume(ack_every=0),
        "ack_every must be from 1 to 100000, not 0",
    ),
    ("idle", lambda q: q.consume(idle=-1), f"idle {RANGE}, not -1"),
    # settle
    (
        "ack nonsense",
        lambda q: q.ack("nonsense"),
        "'nonsense' is not a message id; ids look like 1599352749159-4, or 1599352749159-4-2",
    ),
    ("ack number", lambda q: q.ack(5), "a receipt or id must be text, not int"),  # type: ignore[arg-type]
    (
        "ack receipt",
        lambda q: q.ack("1-1@x"),
        "'1-1@x' is not a receipt; receipts look like 1599352749159-4@17",
    ),
    ("nack delay", lambda q: q.nack("1-1", delay=-1), f"delay {RANGE}, not -1"),
    (
        "nack error",
        lambda q: q.nack("1-1", error=5),  # type: ignore[arg-type]
        "error must be text, not int",
    ),
    (
        "bury reason",
        lambda q: q.bury("1-1", None),  # type: ignore[arg-type]
        "reason must be text, not NoneType",
    ),
    ("extend", lambda q: q.extend("1-1", -1), f"lease {RANGE}, not -1"),
    # look
    (
        "inspect state",
        lambda q: q.inspect("gone"),  # type: ignore[arg-type]
        "state must be one of ready, delayed, leased, reserved, dead, not 'gone'",
    ),
    (
        "inspect count",
        lambda q: q.inspect("ready", 0, 0),
        "count must be from 1 to 2147483648, not 0",
    ),
    (
        "inspect start",
        lambda q: q.inspect("ready", 2**47),
        f"start must be from {-(2**46)} to {2**46}, not {2**47}",
    ),
    (
        "get",
        lambda q: q.get("x"),
        "'x' is not a message id; ids look like 1599352749159-4, or 1599352749159-4-2",
    ),
    (
        "remove",
        lambda q: q.remove(None),  # type: ignore[arg-type]
        "None is not a message id; ids look like 1599352749159-4, or 1599352749159-4-2",
    ),
    ("reschedule", lambda q: q.reschedule("1-1"), "give delay or due"),
    # keep house
    ("redrive count", lambda q: q.redrive(0), "count must be from 1 to 2147483648, not 0"),
    (
        "redrive rate",
        lambda q: q.redrive(rate=0),
        "rate must be a number more than 0 and at most a million a second, not 0",
    ),
    (
        "pause",
        lambda q: q.pause("tomorrow"),  # type: ignore[arg-type]
        "until must be seconds or a timedelta, not str 'tomorrow'",
    ),
    (
        "pause naive",
        lambda q: q.pause(NAIVE),
        "until must have a time zone, for example datetime.now(UTC)",
    ),
    ("journal", lambda q: q.journal(0), "count must be from 1 to 2147483648, not 0"),
    ("clock", lambda q: q.set_clock(-1), f"clock must be from 0 to {2**46}, not -1"),
    (
        "every",
        lambda q: q._client.start_reaper(0),
        "every must be from 0.001 to 70368744177 seconds, not 0",
    ),
]


@pytest.mark.parametrize(("call", "says"), [c[1:] for c in CASES], ids=[c[0] for c in CASES])
@pytest.mark.only("standalone", "cluster-shards", reason="checked before the server is asked")
def test_bad_input_is_refused_and_nothing_is_written(
    q: Queue, raw: Raw, call: Callable[[Queue], Any], says: str
) -> None:
    clock = Clock(q)
    q.send(b"there before", delay=60)
    before, size = q.stats(), raw.size()
    with pytest.raises(InvalidArgument) as refused:
        call(q)
    assert str(refused.value) == says
    assert isinstance(refused.value, ValueError)
    assert q.stats() == before
    assert raw.size() == size
    clock.advance(60)
    assert q.receive() is not None


@pytest.mark.only("standalone", reason="checked before the server is asked")
@pytest.mark.parametrize("send", ["send", "send_many", "send_many outgoing", "ensure"])
def test_a_body_that_is_too_long_is_refused_however_it_is_sent(
    q: Queue, clock: Clock, monkeypatch: pytest.MonkeyPatch, send: str
) -> None:
    monkeypatch.setattr(message, "MAX_BODY", 10)
    sends: dict[str, Callable[[bytes], object]] = {
        "send": q.send,
        "send_many": lambda b: q.send_many([b]),
        "send_many outgoing": lambda b: q.send_many([b"x", Outgoing(b)]),
        "ensure": lambda b: q.ensure("u", b),
    }
    sends[send](b"x" * 10)
    before = q.stats()
    with pytest.raises(InvalidArgument, match=r"^a body may have 10 bytes, this one has 11$"):
        sends[send](b"x" * 11)
    assert q.stats() == before


def test_an_error_of_the_engine_reads_like_one_of_ours(q: Queue, clock: Clock) -> None:
    q.configure(max_length=1)
    q.send(b"x", group="g")
    with pytest.raises(QueueFull) as refused:
        q.send(b"y", group="g")
    assert str(refused.value) == (
        "the queue holds 1 of at most 1 messages: receive some, raise max_length, "
        "or set overflow to drop_oldest"
    )


@pytest.mark.parametrize(
    ("options", "says"),
    [
        ({"timeout": 0}, "timeout must be from 0.001 to 70368744177 seconds, not 0"),
        ({"retry_for": -1}, f"retry_for {RANGE}, not -1"),
        ({"replicas": 101}, "replicas must be from 0 to 100, not 101"),
        ({"check": "maybe"}, "check must be 'warn', 'refuse' or 'off', not 'maybe'"),
        ({"home": "x"}, "home and durability are for the embedded server, not for a URL"),
    ],
)
def test_bad_options_of_a_client_are_refused(options: dict[str, Any], says: str) -> None:
    with pytest.raises(InvalidArgument) as refused:
        Client("redis://localhost:1", **options)
    assert str(refused.value) == says
