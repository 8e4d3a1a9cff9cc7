"""Expands the engine's notes into events: one note tells of all messages of one call.

The layout is drawn in `lua/shared/note.lua`; this file is its mirror.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from datetime import datetime
from struct import Struct

from holdfast.message import format_id, utc

KINDS = {
    1: "sent",
    2: "received",
    3: "requeued",
    4: "dead",
    5: "dead_received",
    6: "redriven",
    7: "acked",
    8: "expired",
    9: "removed",
    10: "extended",
    11: "dropped",
    12: "rescheduled",
}
_ROW = Struct(">10sBHI6s")


@dataclass(frozen=True, slots=True)
class Event:
    """Something that happened to one message.

    `receives` counts failed deliveries so far. `size` is that of the packed content: body,
    attributes and group. `due` is set where the event put the message off; `lease_until` where it
    handed it out. `reason` says why, for dead and requeued.
    """

    kind: str
    queue: str
    id: str
    time: datetime
    priority: int
    receives: int
    size: int
    lease: float | None = None
    lease_until: datetime | None = None
    due: datetime | None = None
    reason: str = ""


def expand(note: bytes, queue: str, shard: int) -> Iterator[Event]:
    """The events in one note, in the order in which the call met the messages."""
    kind = KINDS.get(note[0], f"event-{note[0]}")
    time = utc(int.from_bytes(note[1:7], "big"))
    lease_ms = int.from_bytes(note[7:13], "big")
    start = 15 + int.from_bytes(note[13:15], "big")
    reason = note[15:start].decode("utf-8", "replace")
    leases = kind in ("received", "dead_received", "extended")
    for packed, priority, receives, size, at_bytes in _ROW.iter_unpack(note[start:]):
        at = int.from_bytes(at_bytes, "big")
        moment = utc(at) if at else None
        yield Event(
            kind,
            queue,
            format_id(packed, shard),
            time,
            priority,
            receives,
            size,
            lease=lease_ms / 1000 if lease_ms else None,
            lease_until=moment if leases else None,
            due=None if leases else moment,
            reason=reason,
        )
