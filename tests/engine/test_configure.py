from __future__ import annotations

from datetime import timedelta
from typing import Any

import pytest

from holdfast import Client, InvalidArgument, Queue, Settings
from tests.raw import Raw

DEFAULTS = Settings(
    lease=30,
    max_receives=5,
    delay=0,
    ttl=None,
    max_length=None,
    overflow="reject",
    dedup_window=300,
    journal=False,
    journal_length=100_000,
    aging=None,
    group_limit=1,
    shards=1,
    peer_timeout=30,
    retention=7 * 24 * 3600,
)


def test_a_new_queue_has_the_defaults_and_reading_them_writes_nothing(
    hf: Client, raw: Raw, q: Queue
) -> None:
    fresh = hf.queue(q.name + " fresh")
    assert fresh.settings() == DEFAULTS
    assert fresh.configure() == DEFAULTS
    assert raw.keys(fresh) == set()


@pytest.mark.parametrize(
    ("name", "value", "read"),
    [
        ("lease", 60, 60),
        ("lease", timedelta(minutes=2), 120),
        ("lease", 0.001, 0.001),
        ("lease", None, None),
        ("max_receives", 1, 1),
        ("max_receives", None, None),
        ("delay", 1.5, 1.5),
        ("ttl", 3600, 3600),
        ("ttl", None, None),
        ("max_length", 10, 10),
        ("max_length", None, None),
        ("overflow", "drop_oldest", "drop_oldest"),
        ("dedup_window", 0, 0),
        ("journal", True, True),
        ("journal_length", 1, 1),
        ("journal_length", 2**31, 2**31),
        ("aging", 0.5, 0.5),
        ("aging", None, None),
        ("group_limit", 10_000, 10_000),
        ("peer_timeout", 0.5, 0.5),
        ("retention", 60, 60),
        ("retention", None, None),
        ("lease", 2**46 // 1000, 2**46 // 1000),
    ],
)
def test_each_setting_is_kept_on_the_server_for_all(
    hf: Client, q: Queue, name: str, value: Any, read: Any
) -> None:
    assert getattr(q.configure(**{name: value}), name) == read
    other = hf.queue(q.name)
    assert getattr(other.settings(), name) == read


def test_settings_not_named_stay(q: Queue) -> None:
    q.configure(lease=60, ttl=10)
    q.configure(ttl=None, journal=True)
    s = q.settings()
    assert (s.lease, s.ttl, s.journal) == (60, None, True)


def test_every_shard_has_all_the_settings(q: Queue, raw: Raw) -> None:
    q.configure(lease=60, group_limit=4)
    kept = [raw("HGET", ref.key, "settings") for ref in q.refs()]
    assert len(kept) == len(q.refs())
    for text in kept:
        assert b'"lease_ms":60000' in text
        assert b'"group_limit":4' in text


@pytest.mark.parametrize(
    ("change", "says"),
    [
        (
            {"leese": 1},
            "there is no setting 'leese'; there are: lease, max_receives, delay, ttl, max_length, "
            "overflow, dedup_window, journal, journal_length, aging, group_limit, shards, "
            "peer_timeout, retention",
        ),
        (
            {"lease": 0},
            "lease must be more than 0 seconds; write None for one that lasts until the message is settled",
        ),
        ({"lease": "1"}, "lease must be seconds or a timedelta, not str '1'"),
        ({"lease": True}, "lease must be seconds or a timedelta, not bool True"),
        ({"lease": 2**47}, f"lease must be from 0 to 70368744177 seconds, not {2**47}"),
        ({"max_receives": 0}, "max_receives must be from 1 to 2147483648, not 0"),
        ({"max_receives": 1.5}, "max_receives must be a whole number, not float 1.5"),
        ({"max_receives": True}, "max_receives must be a whole number, not bool True"),
        ({"delay": -1}, "delay must be from 0 to 70368744177 seconds, not -1"),
        ({"delay": None}, "delay must be seconds or a timedelta, not NoneType None"),
        ({"ttl": 0}, "ttl must be from 0.001 to 70368744177 seconds, not 0"),
        ({"max_length": -5}, "max_length must be from 1 to 2147483648, not -5"),
        ({"overflow": "drop"}, "overflow must be 'reject' or 'drop_oldest', not 'drop'"),
        (
            {"dedup_window": float("nan")},
            "dedup_window must be from 0 to 70368744177 seconds, not nan",
        ),
        ({"journal": 1}, "journal must be True or False, not 1"),
        ({"journal_length": 0}, "journal_length must be from 1 to 2147483648, not 0"),
        ({"aging": 0}, "aging must be from 0.001 to 70368744177 seconds, not 0"),
        ({"group_limit": 0}, "group_limit must be from 1 to 10000, not 0"),
        ({"group_limit": 10_001}, "group_limit must be from 1 to 10000, not 10001"),
        ({"shards": 0}, "shards must be from 1 to 256, not 0"),
        ({"shards": 257}, "shards must be from 1 to 256, not 257"),
    ],
)
def test_a_bad_setting_is_refused_and_none_of_the_call_is_kept(
    q: Queue, change: dict[str, Any], says: str
) -> None:
    before = q.settings()
    with pytest.raises(InvalidArgument) as refused:
        q.configure(**{"max_receives": 7, **change})
    assert str(refused.value) == says
    assert q.settings() == before


@pytest.mark.parametrize("text", ["nonsense", "5", '{"lease_ms":"x"}', '{"leese":1}', "[1"])
def test_the_engine_itself_refuses_what_is_no_settings_object(
    q: Queue, raw: Raw, text: str
) -> None:
    before = q.settings()
    with pytest.raises(InvalidArgument):
        raw.fcall("configure", q.name, text)
    assert q.settings() == before
