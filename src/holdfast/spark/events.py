"""Notes of the journal to Arrow: the columns of schema.EVENTS.

The layout is drawn in `engine/lua/shared/note.lua`; `engine/notes.py` expands the same bytes to one
object per event, at a tenth of the speed.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from holdfast.engine.notes import KINDS
from holdfast.spark.arrow import Columns, ids, moments, u48

_HEAD = np.dtype(
    [
        ("kind", "u1"),
        ("time_high", ">u2"),
        ("time_low", ">u4"),
        ("lease_high", ">u2"),
        ("lease_low", ">u4"),
        ("reason", ">u2"),
    ]
)
_ROW = np.dtype(
    [
        ("ms_high", ">u2"),
        ("ms_low", ">u4"),
        ("seq", ">u4"),
        ("priority", "u1"),
        ("receives", ">u2"),
        ("size", ">u4"),
        ("at_high", ">u2"),
        ("at_low", ">u4"),
    ]
)
_NAMES = pa.array([KINDS.get(kind, f"event-{kind}") for kind in range(256)])
# Whose time is the end of a lease; that of all others is when the message falls due.
_LEASES = [
    kind for kind, name in KINDS.items() if name in ("received", "dead_received", "extended")
]


def count(note: bytes) -> int:
    """How many events a note tells of."""
    return (len(note) - _HEAD.itemsize - _reason_size(note)) // _ROW.itemsize


def columns(names: Sequence[bytes], notes: Sequence[bytes], queue: str, shard: int) -> Columns:
    """The events in these notes; `names` are those of the journal's entries."""
    heads = np.frombuffer(b"".join([note[: _HEAD.itemsize] for note in notes]), _HEAD)
    starts = heads["reason"].astype(np.int64) + _HEAD.itemsize
    data = [note[start:] for note, start in zip(notes, starts.tolist(), strict=True)]
    rows = np.frombuffer(b"".join(data), _ROW)
    counts = np.fromiter(map(len, data), np.int64, len(data)) // _ROW.itemsize
    of = np.repeat(np.arange(len(notes)), counts)
    first = np.cumsum(counts) - counts
    kinds = heads["kind"][of]
    at, leases = u48(rows["at_high"], rows["at_low"]), np.isin(kinds, _LEASES)
    lease = u48(heads["lease_high"], heads["lease_low"])[of]
    return {
        "queue": pa.repeat(pa.scalar(queue), len(rows)),
        "shard": np.full(len(rows), shard, np.int32),
        "entry": _spread(pa.array(names, pa.binary()).cast(pa.string()), of),
        "position": (np.arange(len(rows)) - first[of]).astype(np.int32),
        "event": pc.take(_NAMES, pa.array(kinds)),
        "id": ids(u48(rows["ms_high"], rows["ms_low"]), rows["seq"], shard),
        "time": moments(u48(heads["time_high"], heads["time_low"])[of]),
        "priority": rows["priority"].astype(np.int32),
        "receives": rows["receives"].astype(np.int32),
        "size": rows["size"].astype(np.int32),
        "lease_ms": pa.array(lease, mask=lease == 0),
        "lease_until": moments(at, ~leases | (at == 0)),
        "due": moments(at, leases | (at == 0)),
        "reason": _spread(_reasons(notes, heads["reason"]), of),
    }


def _spread(values: pa.Array, of: Any) -> pa.Array:
    """What is told once per note, for each of its events."""
    return pc.take(values, pa.array(of))


def _reasons(notes: Sequence[bytes], sizes: Any) -> pa.Array:
    if not sizes.any():
        return pa.nulls(len(notes), pa.string())
    start = _HEAD.itemsize
    texts = [
        note[start : start + size].decode("utf-8", "replace") if size else None
        for note, size in zip(notes, sizes.tolist(), strict=True)
    ]
    return pa.array(texts, pa.string())


def _reason_size(note: bytes) -> int:
    return int.from_bytes(note[_HEAD.itemsize - 2 : _HEAD.itemsize], "big")
