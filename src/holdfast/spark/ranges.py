"""How rows are shared out among tasks."""

from __future__ import annotations

import os
from collections.abc import Sequence
from dataclasses import dataclass

# A task costs as much as reading some thousands of rows, and writes files of its own; one that has too
# many is long to repeat.
_LEAST, _MOST = 20_000, 500_000


def parts(rows: int, wanted: int) -> int:
    """Into how many partitions to cut so many rows. 0 wanted: as the machine has cores, if there is
    enough for them; which cores Spark has, it does not tell here."""
    if wanted:
        return wanted
    few = min(os.cpu_count() or 1, -(-rows // _LEAST))
    return max(few, -(-rows // _MOST), 1)


@dataclass(frozen=True, slots=True)
class Range:
    """Rows of one shard of a reservation."""

    shard: int
    start: int
    count: int


def split(rows: Sequence[int], parts: int) -> list[list[Range]]:
    """All rows in so many parts of about the same size, in order; no part is empty."""
    total = sum(rows)
    parts = min(max(parts, 1), total)
    found: list[list[Range]] = []
    room = 0
    for shard, count in enumerate(rows):
        at = 0
        while at < count:
            if not room:
                done = len(found)
                room = total * (done + 1) // parts - total * done // parts
                found.append([])
            n = min(room, count - at)
            found[-1].append(Range(shard, at, n))
            at, room = at + n, room - n
    return found
