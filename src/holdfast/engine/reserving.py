"""Reservations: the calls that make, read and settle them, and what they answer.

Apart from `calls` and `replies` because they are one concept, told in one place: the mirror of
`lua/shared/reservation.lua` and of the transitions reserve, reserved, condemn, commit, release and
reservations.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any, NamedTuple

from holdfast import names
from holdfast.engine import calls
from holdfast.engine.calls import ONCE_NAMED, Argument, Call
from holdfast.engine.keys import QueueRef
from holdfast.errors import InvalidArgument
from holdfast.message import utc
from holdfast.settings import MAX_MS, Seconds, milliseconds, whole


class Filled(NamedTuple):
    """How far a reservation is."""

    rows: int
    sealed: bool


def _filled(reply: list[int]) -> Filled:
    return Filled(reply[0], bool(reply[1]))


class Reader(NamedTuple):
    """One who reads a queue by reservations: the last that it has committed, the last it began."""

    owner: str
    committed: int
    planned: int
    seen: datetime


@dataclass(frozen=True, slots=True)
class Reservation:
    """What a reader holds: its messages are reserved until it commits them or gives them back."""

    owner: str
    seq: int
    shard: int
    rows: int
    sealed: bool
    since: datetime
    ends: datetime | None
    """When it goes back by itself; None: never."""


def _held(reply: list[Any], shard: int) -> tuple[list[Reader], list[Reservation]]:
    readers, held = [], []
    for raw, value in zip(reply[1::2], reply[2::2], strict=True):
        owner, slash, seq = raw.decode().partition("/")
        if not slash:
            committed, _, planned, seen = (_u48(value, at) for at in (0, 6, 12, 18))
            readers.append(Reader(owner, committed, planned, utc(seen)))
            continue
        rows, since, ends = (_u48(value, at) for at in (1, 7, 13))
        until = utc(ends) if ends else None
        held.append(Reservation(owner, int(seq), shard, rows, bool(value[0]), utc(since), until))
    return sorted(readers), sorted(held, key=lambda r: (r.owner, r.seq))


def _u48(value: bytes, at: int) -> int:
    return int.from_bytes(value[at : at + 6], "big")


# Messages that one call of reserve moves, about.
RESERVE = 5_000


def _named(owner: object, seq: object, least: int = 1) -> list[Argument]:
    name = names.check(owner, "an owner's name")
    if "/" in name or len(name.encode()) > 200:
        raise InvalidArgument(f"an owner's name must have up to 200 bytes and no '/', not {name!r}")
    return [name, whole(seq, "seq", least, MAX_MS)]


def reserve(
    ref: QueueRef, owner: str, seq: int, rows: int, ttl: Seconds | None = None, adopt: bool = False
) -> Call[Filled]:
    """To be called until it is sealed."""
    limits: list[Argument] = [whole(rows, "rows", 0, MAX_MS), RESERVE]
    ttl_ms = 0 if ttl is None else milliseconds(ttl, "ttl", least=1)
    args = [*_named(owner, seq), *limits, ttl_ms, int(adopt)]
    return Call("reserve", ref, args, _filled)


def commit(ref: QueueRef, owner: str, seq: int, adopt: bool = False) -> Call[tuple[int, bool]]:
    """How many messages went, and whether it is done; else it must be called again."""
    args = [*_named(owner, seq, 0), int(adopt)]
    return Call("commit", ref, args, lambda reply: (reply[0], bool(reply[1])), ONCE_NAMED)


def release(ref: QueueRef, owner: str, seq: int = 0) -> Call[tuple[int, bool]]:
    """As commit. `seq` 0: all that the owner has."""
    args = _named(owner, seq, 0)
    return Call("release", ref, args, lambda reply: (reply[0], bool(reply[1])), ONCE_NAMED)


def reserved(ref: QueueRef, owner: str, seq: int, start: int, count: int) -> Call[list[bytes]]:
    limits: list[Argument] = [
        whole(start, "start", 0, MAX_MS),
        whole(count, "count", 1, calls.MAX_COUNT),
    ]
    return Call("reserved", ref, [*_named(owner, seq), *limits], list, reads=True)


def reservations(
    ref: QueueRef,
) -> Call[tuple[list[Reader], list[Reservation]]]:
    return Call("reservations", ref, [], lambda reply: _held(reply, ref.shard), reads=True)


def condemn(ref: QueueRef, owner: str, seq: int, reasons: Sequence[tuple[bytes, str]]) -> Call[int]:
    args = _named(owner, seq)
    for packed, reason in reasons:
        args += (packed, calls.reason_bytes(reason or "condemned", "reason"))
    return Call("condemn", ref, args, int, ONCE_NAMED)
