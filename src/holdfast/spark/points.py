"""Offsets of a journal: how far each shard was read.

    {"v": 1, "s0": "1731700000000-3", "n0": 4711, "s1": …, "n1": …}

The last entry read, by its id and its number (see `entries.py`). Spark asks a query that has no finished
batch for its initial offset again, also after a crash, and "latest" is another one by then. So the
first planned offset also says where it began ("f0", "m0" …), and that counts when the batch is replayed.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from datetime import UTC, datetime
from typing import Any

from holdfast.errors import InvalidArgument
from holdfast.spark.entries import ZERO, Point, before

_VERSION = 1
_ID = re.compile(r"\d{1,15}(-\d{1,20})?", re.ASCII)
Points = dict[int, Point]


def encode(points: Points, begun: Points | None = None, *, initial: bool = False) -> dict[str, Any]:
    """As Spark writes it down. `begun`: where the first batch starts."""
    found: dict[str, Any] = {"v": _VERSION}
    if initial:
        found["initial"] = True
    for shard, point in sorted(points.items()):
        found |= {f"s{shard}": point.id, f"n{shard}": point.number}
    for shard, point in sorted((begun or {}).items()):
        found |= {f"f{shard}": point.id, f"m{shard}": point.number}
    return found


def decode(offset: Mapping[str, Any]) -> Points:
    """Raises InvalidArgument for what is not an offset of a journal."""
    return _decode(offset, "s", "n")


def begun(start: Mapping[str, Any], end: Mapping[str, Any]) -> Points:
    """Where a batch starts: as planned, if it was the first."""
    return (is_initial(start) and _decode(end, "f", "m")) or decode(start)


def is_initial(offset: Mapping[str, Any]) -> bool:
    return bool(offset.get("initial"))


def _decode(offset: Mapping[str, Any], ids: str, numbers: str) -> Points:
    version = offset.get("v")
    if isinstance(version, int) and version > _VERSION:
        raise InvalidArgument(
            f"the checkpoint is of version {version}, written by a newer Holdfast; upgrade, or start "
            "with a new checkpoint"
        )
    try:
        if version != _VERSION or "owner" in offset:
            raise KeyError("v")
        shards = [name[1:] for name in offset if re.fullmatch(rf"{ids}\d+", name)]
        return {int(n): Point(str(offset[ids + n]), int(offset[numbers + n])) for n in shards}
    except (KeyError, TypeError, ValueError) as error:
        raise InvalidArgument(
            f"{dict(offset)} is not an offset of a Holdfast journal; is this checkpoint another "
            "query's?"
        ) from error


def given(text: str, name: str) -> str | dict[int, str]:
    """What a user said: "earliest", "latest", or the last id not to read (or, at the end, the last one
    to read) of each shard; a moment is the same for all shards, under -1."""
    if text in ("earliest", "latest"):
        return text
    if text.lstrip().startswith("{"):
        try:
            found = {int(shard): str(entry) for shard, entry in json.loads(text).items()}
        except ValueError:
            found = {-1: ""}
        if all(n >= 0 and _ID.fullmatch(entry) for n, entry in found.items()):
            return {n: entry if "-" in entry else f"{entry}-0" for n, entry in found.items()}
    else:
        try:
            moment = datetime.fromisoformat(text)
        except ValueError:
            pass
        else:
            moment = moment if moment.tzinfo else moment.replace(tzinfo=UTC)
            return {-1: before(round(moment.timestamp() * 1000))}
    raise InvalidArgument(
        f"{name} must be earliest, latest, a moment such as 2026-11-16T09:00:00Z, or the last entry "
        f'read of each shard, such as {{"0": "1731700000000-3"}}, not {text!r}; {ZERO} is before all'
    )
