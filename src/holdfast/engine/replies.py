"""Reads the engine's answers: one function per reply shape, the mirror of each `Reply` in `lua/`.

A server may have the library of a later release: what it says beyond what is known here is passed over,
wherever an answer can be longer than it is now.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from dataclasses import fields as dataclass_fields
from datetime import datetime
from functools import partial
from struct import Struct
from typing import Any, Literal, NamedTuple

import msgspec

from holdfast.engine.keys import consumer_seat, names_of
from holdfast.errors import HoldfastError, from_server
from holdfast.filters import Filter
from holdfast.message import (
    Codec,
    DuplicateId,
    Message,
    MessageId,
    State,
    format_id,
    split_dead,
    utc,
)
from holdfast.settings import Settings, from_wire

BATCH = 1000
# Bytes of a packed id.
ID = 10
# Modes and states of a seat, as in lua/shared/topic.lua.
_SHARED, _LEAVING = 2, 2  # what is leaving or returning is at least _LEAVING


class Sent(NamedTuple):
    ids: list[MessageId]
    somebody_waits: bool
    shards: int
    first: bool = False
    """Nothing was sent there before: it is new, or was deleted."""


def sent(reply: list[Any], n: int, shard: int) -> Sent:
    ms, seq, waits, shards = reply[:4]
    tail = f"-{shard}" if shard else ""
    if len(reply) == 4:
        start = f"{ms}-"
        ids = [MessageId(f"{start}{s}{tail}") for s in range(seq, seq + n)]
        return Sent(ids, waits & 1 == 1, shards, waits > 1)
    duplicates = dict(zip(reply[4::2], reply[5::2], strict=True))
    ids = []
    for i in range(n):
        if i in duplicates:
            ids.append(DuplicateId(format_id(duplicates[i], shard)))
        else:
            ids.append(MessageId(f"{ms}-{seq}{tail}"))
            seq += 1
    return Sent(ids, waits & 1 == 1, shards, waits > 1)


class SentEach(NamedTuple):
    """Of messages that travelled together: the id of each that was stored, or why it was not."""

    answers: list[MessageId | HoldfastError]
    somebody_waits: bool
    shards: int


def sent_each(reply: list[Any], n: int, shard: int) -> SentEach:
    refused = {i: text for i, text in zip(reply[4::2], reply[5::2], strict=True) if len(text) != ID}
    stored = reply[:4]
    for i, mid in zip(reply[4::2], reply[5::2], strict=True):
        if i not in refused:
            # Its position among those that were stored.
            stored += (i - sum(j < i for j in refused), mid)
    sent_ones = sent(stored, n - len(refused), shard)
    ids = iter(sent_ones.ids)
    answers = [
        from_server(refused[i].decode("utf-8", "replace")) if i in refused else next(ids)
        for i in range(n)
    ]
    return SentEach(answers, sent_ones.somebody_waits, sent_ones.shards)


_ONE = Struct(">6sIBH")


def sent_one(reply: bytes, tail: str = "") -> Sent:
    ms, seq, waits, shards = _ONE.unpack_from(reply)
    ids = [MessageId(f"{int.from_bytes(ms, 'big')}-{seq}{tail}")]
    return Sent(ids, waits & 1 == 1, shards, waits > 1)


def sent_one_to(shard: int) -> Callable[[bytes], Sent]:
    """Reads the answer of that shard."""
    return partial(sent_one, tail=f"-{shard}")


class Received(NamedTuple):
    """`records[i]` is in batch `first + i // BATCH`. `next_ms`: -1 if nothing will fall due."""

    records: list[bytes]
    first: int
    lease_until: int
    more: bool
    next_ms: int
    shards: int


def received(reply: list[Any]) -> Received:
    first, lease_until, more, next_ms, shards = reply[-5:]
    del reply[-5:]
    return Received(reply, first, lease_until, bool(more), next_ms, shards)


class Configured(NamedTuple):
    settings: Settings
    own: dict[str, int | str]
    """What somebody set, by names on the wire; the rest is at its default."""


def configured(reply: list[bytes]) -> Configured:
    every, own = reply[:2]
    return Configured(from_wire(every), msgspec.json.decode(own, type=dict[str, int | str]))


Mode = Literal["broadcast", "shared"]


@dataclass(frozen=True, slots=True)
class Peer:
    """One of those who observe for a consumer."""

    name: str
    last_seen: datetime
    live: bool
    """It has observed within the topic's peer_timeout."""


@dataclass(frozen=True, slots=True)
class SubscriptionInfo:
    """A subscription as it stands: one for all peers of a consumer (shared), or one for each."""

    consumer: str
    peer: str | None
    mode: Mode
    since: datetime
    filter: Filter | None
    peers: tuple[Peer, ...]
    seat: str = field(repr=False)


def subscriptions(reply: list[Any]) -> list[SubscriptionInfo]:
    now, timeout, n = reply[:3]
    rows, rest = reply[3 : 3 + 5 * n], reply[3 + 5 * n :]
    by_seat: dict[str, list[Peer]] = {}
    for raw, seen in zip(rest[::2], rest[1::2], strict=True):
        consumer, peer = names_of(raw.decode())
        found = Peer(peer or "", utc(seen), now - seen <= timeout)
        for seat in (raw.decode(), consumer_seat(consumer)):
            by_seat.setdefault(seat, []).append(found)
    infos = []
    for raw, mode, state, since, wanted in zip(*[rows[i::5] for i in range(5)], strict=True):
        if state >= _LEAVING:
            continue
        seat = raw.decode()
        consumer, peer = names_of(seat)
        peers = sorted(by_seat.get(seat, []), key=lambda p: p.name)
        infos.append(
            SubscriptionInfo(
                consumer,
                peer,
                "shared" if mode == _SHARED else "broadcast",
                utc(since),
                Filter.from_json(wanted) if wanted else None,
                tuple(peers),
                seat,
            )
        )
    return infos


def names(reply: Any) -> list[str]:
    """Those of queues or topics, in order. What somebody else put there, and is no text, hides no other."""
    return sorted(name.decode(errors="replace") for name in reply)


def positions(reply: list[int]) -> list[int]:
    return reply


class Page(NamedTuple):
    """`total` counts entries in the state. To go on, ask with `start` and `cursor`; a cursor of -1
    says that there is no more."""

    messages: list[Message]
    total: int
    start: int
    cursor: int


def _moment(ms: int) -> datetime | None:
    return utc(ms) if ms else None


def _leased(
    value: bytes, received_ms: int, until: int, shard: int, codec: Codec[Any] | None
) -> Message:
    death, record = split_dead(value[9:]) if value[0] & 2 else (None, value[9:])
    return Message(
        record,
        shard,
        "leased",
        counted=0 if death else 1,
        death=death,
        received_at=_moment(received_ms),
        lease_until=_moment(until),
        codec=codec,
    )


def _dead(value: bytes, shard: int, codec: Codec[Any] | None) -> Message:
    death, record = split_dead(value)
    return Message(record, shard, "dead", death=death, codec=codec)


def _delayed(record: bytes, due: int, shard: int, codec: Codec[Any] | None) -> Message:
    return Message(record, shard, "delayed", due=utc(due), codec=codec)


def _reserved(record: bytes, since: int, shard: int, codec: Codec[Any] | None) -> Message:
    return Message(record, shard, "reserved", counted=1, received_at=utc(since), codec=codec)


def page(reply: list[Any], state: State, shard: int, codec: Codec[Any] | None) -> Page:
    _, total, start, cursor = reply[:4]
    rows = reply[4:]
    if state == "ready":
        messages = [Message(r, shard, "ready", codec=codec) for r in rows]
    elif state == "delayed":
        messages = [
            _delayed(r, due, shard, codec) for r, due in zip(rows[::2], rows[1::2], strict=True)
        ]
    elif state == "reserved":
        messages = [
            _reserved(r, since, shard, codec)
            for r, since in zip(rows[::2], rows[1::2], strict=True)
        ]
    elif state == "leased":
        thirds = zip(rows[::3], rows[1::3], rows[2::3], strict=True)
        messages = [_leased(v, at, until, shard, codec) for v, at, until in thirds]
    else:
        messages = [_dead(v, shard, codec) for v in rows]
    return Page(messages, total, start, cursor)


def found(reply: list[Any] | None, shard: int, codec: Codec[Any] | None) -> Message | None:
    if reply is None:
        return None
    state, value, *rest = reply
    if state == b"leased":
        return _leased(value, rest[0], rest[1], shard, codec)
    if state == b"delayed":
        return _delayed(value, rest[0], shard, codec)
    return _dead(value, shard, codec)


def sought(reply: Any, shard: int, codec: Codec[Any] | None) -> Message | tuple[int, int]:
    if isinstance(reply, bytes):
        return Message(reply, shard, "ready", codec=codec)
    cursor, back = reply[:2]
    return cursor, back


class Sources(NamedTuple):
    cursor: str
    lists: list[bytes]
    """What `find` calls them: a level's digit, or g and a group."""
    groups: list[str]


def sources(reply: list[bytes]) -> Sources:
    cursor, levels, *groups = reply
    lists = [bytes([digit]) for digit in levels] + [b"g" + group for group in groups]
    return Sources(cursor.decode(), lists, [group.decode() for group in groups])


@dataclass(frozen=True, slots=True)
class Stats:
    """How many messages are in which state, and what has happened since the queue was made."""

    ready: int = 0
    delayed: int = 0
    leased: int = 0
    reserved: int = 0
    dead: int = 0
    sent: int = 0
    received: int = 0
    acked: int = 0
    requeued: int = 0
    buried: int = 0
    dead_received: int = 0
    redriven: int = 0
    expired: int = 0
    removed: int = 0
    dropped: int = 0
    duplicates: int = 0
    extended: int = 0
    groups: int = 0
    journal: int = 0
    paused_until: int = 0
    next_due: int = 0
    oldest_ready: int = 0
    now: int = 0
    last_ms: int = 0
    last_seq: int = 0

    @property
    def total(self) -> int:
        """All messages the queue holds, in whatever state."""
        return self.ready + self.delayed + self.leased + self.reserved + self.dead

    @property
    def paused(self) -> bool:
        return self.paused_until > self.now

    @property
    def oldest_age(self) -> float:
        """Seconds since the oldest message at the head of a ready list was sent."""
        return max(self.now - self.oldest_ready, 0) / 1000 if self.oldest_ready else 0.0

    def __add__(self, other: Stats) -> Stats:
        """Of two shards: counts add up, times are the most telling one."""
        both = {
            f.name: getattr(self, f.name) + getattr(other, f.name) for f in dataclass_fields(Stats)
        }
        for name in ("paused_until", "now"):
            both[name] = max(getattr(self, name), getattr(other, name))
        both["last_ms"], both["last_seq"] = max(
            (self.last_ms, self.last_seq), (other.last_ms, other.last_seq)
        )
        for name in ("next_due", "oldest_ready"):
            times = [t for t in (getattr(self, name), getattr(other, name)) if t]
            both[name] = min(times, default=0)
        return Stats(**both)


_STATS = {f.name for f in dataclass_fields(Stats)}


def stats(reply: list[Any] | None) -> Stats:
    if reply is None:
        return Stats()
    said = {name.decode(): value for name, value in zip(reply[::2], reply[1::2], strict=False)}
    return Stats(**{name: said[name] for name in _STATS & said.keys()})
