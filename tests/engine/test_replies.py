"""Answers of a later library, which say more than is known here."""

from __future__ import annotations

import struct

from holdfast.engine import replies


def test_counts_that_are_not_known_are_passed_over() -> None:
    found = replies.stats([b"ready", 3, b"invented_later", 7, b"sent", 4])
    assert (found.ready, found.sent, found.reserved) == (3, 4, 0)


def test_an_answer_to_a_single_send_may_be_longer() -> None:
    said = struct.pack(">6sIBH", (5).to_bytes(6, "big"), 2, 1, 1)
    assert replies.sent_one(said + b"more") == replies.sent_one(said)


def test_settings_that_are_not_known_are_passed_over() -> None:
    said = [b'{"lease_ms": 7000, "invented_later": 1}', b'{"invented_later": 1}', b"more"]
    found = replies.configured(said)
    assert found.settings.lease == 7


def test_where_a_search_stands_may_be_said_with_more() -> None:
    assert replies.sought([4, 2, b"more"], 0, None) == (4, 2)
