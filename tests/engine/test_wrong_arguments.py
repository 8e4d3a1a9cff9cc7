"""What each transition must refuse when it is called directly, past all of Python's checks."""

from __future__ import annotations

from typing import Any

import pytest

from holdfast import InvalidArgument, Outgoing, Queue
from holdfast.engine import library
from tests.clock import Clock
from tests.engine.look import counts
from tests.raw import Raw

ID, BATCH = b"\0" * 10, b"\0" * 6
ENVELOPE = b"\0" * 6
RECEIPT = BATCH + ID
WRONG: dict[str, list[tuple[Any, ...]]] = {
    "commit": [(), ("me",), ("me", "x", "0"), ("", "1", "0"), ("a/b", "1", "0"), ("me", "0", "2")],
    "condemn": [
        (),
        ("me", "1"),
        ("me", "1", ID),
        ("me", "1", "short", "why"),
        ("me", "1", ID, ""),
        ("me", "1", ID, "x" * 8001),
        ("a/b", "1", ID, "why"),
    ],
    "release": [(), ("me",), ("me", "-1"), ("a/b", "0"), ("x" * 201, "0")],
    "reserve": [
        (),
        ("me", "1", "5", "5", "0"),
        ("me", "0", "5", "5", "0", "0"),
        ("me", "1", "-1", "5", "0", "0"),
        ("me", "1", "5", "0", "0", "0"),
        ("me", "1", "5", "10001", "0", "0"),
        ("me", "1", "5", "5", "-1", "0"),
        ("me", "1", "5", "5", "0", "2"),
        ("a/b", "1", "5", "5", "0", "0"),
    ],
    "reserved": [(), ("me", "1", "0"), ("me", "1", "-1", "1"), ("me", "1", "0", "0")],
    "ack": [(), ("short",), (BATCH + ID, "short")],
    "clock": [(), ("x",), ("-1",), ("1.5",)],
    "configure": [(), ("{",), ("5",), ('{"x":1}',), ('{"lease_ms":"1"}',)],
    "extend": [(), ("x", BATCH + ID), ("5",), ("5", "short"), ("-1", BATCH + ID)],
    "find": [(), (ID, "0", "x", "0", "0"), (ID, "10", "-1", "0", "0"), (ID, "x", "-1", "0", "0")],
    "get": [(), ("short",)],
    "inspect": [
        (),
        ("ready", "x", "1", "", "0"),
        ("ready", "0", "0", "", "0"),
        ("gone", "0", "1", "", "0"),
        ("ready", "0", "10001", "", "0"),
    ],
    "listen": [(), ("x",), ("-1",)],
    "nack": [
        (),
        ("eat", "0", "", BATCH + ID),
        ("retry", "x", "", BATCH + ID),
        ("retry", "0", ""),
        ("retry", "0", "", "short"),
        ("release", "-1", "", BATCH + ID),
    ],
    "pause": [(), ("",), ("x",), ("@x",), ("+-1",), ("~5",)],
    "purge": [(), ("gone",)],
    "receive": [(), ("0", "-1", "0"), ("1", "-3", "0"), ("1", "-1", "x"), ("100001", "-1", "0")],
    "receive_dead": [(), ("0", "-1", "0"), ("1", "-3", "0"), ("1", "-1", "x")],
    "recover": [(), ("0", "0", "-1"), ("1", "-1", "-1"), ("1", "0", "-3")],
    "redrive": [
        (),
        ("x", "0", "1"),
        ("0", "-1", "1"),
        ("0", "0", "0"),
        ("0", "0", "x"),
        ("0", "0", "ids", "short"),
    ],
    "remove": [(), ("short",)],
    "reschedule": [(), ("short", "+5"), (ID, ""), (ID, "+x"), (ID, "~5")],
    "send_one": [
        (),
        ("s", "1", "0"),
        ("s", "1", "0", "short"),
        ("s", "1", "0", b"\x0a" + ENVELOPE[1:]),
        ("s", "1", "0", b"\0\x02" + ENVELOPE[2:]),
        ("s", "1", "0", ENVELOPE, ENVELOPE),
        ("s", "1", "0", b"\0\x08" + ENVELOPE[2:] + b"\0\x01u"),
    ],
    "send": [
        (),
        ("", "0", "0", "plain"),
        ("", "0", "0", "full"),
        ("", "0", "0", "odd", ENVELOPE),
        ("", "0", "0", "plain", "short"),
        ("", "0", "0", "plain", ENVELOPE, "short"),
        ("", "0", "0", "plain", b"\x0a" + ENVELOPE[1:]),  # priority 10
        ("", "0", "0", "plain", b"\x00\x10" + ENVELOPE[2:]),  # an unknown flag
        ("", "0", "0", "plain", b"\x00\x02" + ENVELOPE[2:]),  # a group that is not there
        ("", "0", "0", "plain", b"\x00\x01\0\0\0\0\0\0\0\x09"),  # attributes cut short
        ("", "0", "0", "full", "+5", ""),
        ("", "0", "0", "full", "+x", "", ENVELOPE),
        ("", "0", "0", "full", "~5", "", ENVELOPE),
        ("", "0", "0", "timed", "", "d", ENVELOPE),
        ("", "0", "0", "timed", "", "d", "-1", ENVELOPE),
        ("", "0", "0", "timed", "", "d", "x", ENVELOPE),
    ],
    "send_once": [
        (),
        ("ack", "run", "0", "0", "0", "1", "", "plain", ENVELOPE),
        ("send", "run", "0", "-1", "0", "1", "", "plain", ENVELOPE),
        ("send", "run", "0", "0", "x", "1", "", "plain", ENVELOPE),
        ("send", "run", "0", "0", "0", "0", "", "plain", ENVELOPE),
        ("send", "run", "0", "0", "0", "1", "", "plain"),
        ("send", "run", "0", "0", "0", "1", "", "odd", ENVELOPE),
        ("publish", "run", "0", "0", "0", "1", "", "plain", "short"),
    ],
    "settle": [
        (),
        ("ack",),
        ("ack", "0", "", "", "", "", "", "0"),
        ("eat", "0", "", "", "", "", "", "0", RECEIPT),
        ("ack", "0", "", "", "", "", "", "0", "short"),
        ("ack", "0", "", "", "", "", "", "0", BATCH + b"\0\1"),  # all of a batch
        ("ack", "0", "", "", "", "tail", "result", "0", RECEIPT),
        ("ack", "0", "", "", "", "tail", "result", "x", RECEIPT),
        ("retry", "-1", "", "", "", "", "", "0", RECEIPT),
        ("snooze", "x", "", "", "", "", "", "0", RECEIPT),
        ("retry", "0", "", "", "short", "", "", "0", RECEIPT),
        ("bury", "0", "x" * 8001, "", "", "", "", "0", RECEIPT),
        ("bury", "0", "", "x" * 8001, "", "", "", "0", RECEIPT),
        ("ack", "0", "", "", "", "", "", "0", RECEIPT, "ack"),
    ],
    "unname": [(), ("short",), (RECEIPT, "short")],
    "permit": [
        (),
        ("speed", "1", "1", "1"),
        ("rate", "0", "1", "1"),
        ("rate", "1000001", "1", "1"),
        ("rate", "1", "0", "1"),
        ("rate", "1", "1", "0"),
        ("rate", "1", "1"),
        ("rate", "1", "1", "1", "1"),
        ("concurrency", "0", "1", "me"),
        ("concurrency", "1", "0", "me"),
        ("concurrency", "1", "1"),
        ("concurrency", "1", "1", *["me"] * 1001),
    ],
    "unpermit": [()],
    "open_join": [
        (),
        ("gate", "1", "rest"),
        ("", "1", "rest", "1"),
        ("gate", "-1", "rest", "1"),
        ("gate", "100001", "rest", "1"),
        ("gate", "1", "rest", "0"),
    ],
    "join": [(), ("gate", "0", "result"), ("gate", "0", "result", "0"), ("gate", "0", "", "1")],
    "cancel": [(), (ID,), ("short", "1"), (ID, "0"), (ID, "x")],
    "keep": [(), ("tail", "result"), ("", "result", "1"), ("tail", "result", "0")],
    "sources": [(), ("x",)],
    "tend": [(), ("x",), ("-1",)],
    "send_text": [(), ("", "0"), ("", "10", "x"), ("soon", "0", "x")],
    "receive_text": [(), ("0", "-1"), ("1", "x")],
    "ack_text": [(), ("x",), ("1-1@",), ("1-1", "1-1@x")],
    "nack_text": [(), ("drop", "0", "", "1-1"), ("retry", "x", "", "1-1"), ("retry", "0", "")],
    "publish": [(), ("", "0", "0", "plain"), ("", "0", "0", "odd", ENVELOPE)],
    "subscribe": [
        (),
        ("x", "/c/p", "shared", ""),
        ("/c", "x", "shared", ""),
        ("/c:", "/c/p", "shared", ""),
        ("/c", "/c/p", "odd", ""),
        ("/c", "/c/p", "shared", "{"),
    ],
    "unsubscribe": [(), ("x", ""), ("/c", "x")],
    "observe": [(), ("x", "/c/p", "1", "-1", "0"), ("/c", "p", "1", "-1", "0")],
    "attend": [(), ("x", "/c/p", "0"), ("/c", "p", "0")],
    "seat": [(), ("x", "/c/p"), ("/c", "p")],
    "touch": [(), ("x", "/c/p"), ("/c", "p")],
}
TAKES_ANYTHING = {
    "delete",
    "reservations",
    "stamp",
    "stats",
    "subscriptions",
    "tend_topic",
    "wake",
}  # they have no arguments


def test_every_transition_is_in_the_table_of_wrong_arguments() -> None:
    assert set(WRONG) | TAKES_ANYTHING == set(library.transitions())


@pytest.mark.parametrize("verb", WRONG)
@pytest.mark.only("standalone", "redis7", reason="the functions are the same everywhere")
def test_wrong_arguments_are_answered_with_invalid_and_change_nothing(
    q: Queue, clock: Clock, raw: Raw, verb: str
) -> None:
    q.send_many([b"ready", Outgoing(b"delayed", delay=60), b"dead"])
    q.bury_many(q.receive_many(1), "bad")
    before, size, where = q.stats(), raw.size(), counts(q)
    accepted = []
    for args in WRONG[verb]:
        try:
            raw.fcall(verb, q.name, *args)
        except InvalidArgument:
            pass
        except Exception as error:
            accepted.append((args, str(error)))
        else:
            accepted.append((args, "was accepted"))
        assert (q.stats(), raw.size(), counts(q)) == (before, size, where), args
    assert accepted == []
