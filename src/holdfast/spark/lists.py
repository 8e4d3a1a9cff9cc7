"""Reading a ready list by ranges while others send to it and receive from it.

A ready list grows at its tail and is taken from at its head, and has no ids to ask for: only positions,
which move. Counted from the head they move with every receive, and a reader that goes on at position
5,000 would skip as many messages as were taken meanwhile. So positions are counted from the tail, where
receives change nothing, and a stretch is read backwards, from its newest message towards the head. What
is sent meanwhile pushes messages back, so that the next page starts with some that were seen before;
*marks*, the ids of messages next to the border, tell where it is by now. What is received meanwhile
ends the list sooner, and those messages are gone. So a message that stays ready is seen exactly once.

A stretch is named by its border and its length, told when it was planned: what is sent later is not in
it. A copy of the list in the server would be a true snapshot, and would hold everybody up while it is
made.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import NamedTuple

import holdfast
from holdfast.engine.keys import QueueRef

_LEVELS = range(9, -1, -1)
# A marked message may be removed in the wrong moment; hardly three of them. Looked for among so many.
_MARKS, _NEAR = 3, 12
# Messages of a first page, before anybody knows how large they are; bytes of any other, about.
FIRST, _BYTES = 100, 16 * 1024 * 1024
# What starts so is no message but the place of a group, or of one that was removed.
_TOMB = 254
_ID = 10


class Mark(NamedTuple):
    id: bytes
    to_border: int
    """How many entries further the border is: towards the tail, or (negative) towards the head."""


@dataclass(frozen=True, slots=True)
class Stretch:
    """Entries of one list that lie side by side. The border is the newest of them."""

    key: str
    border: int
    """Its position from the tail, when this was planned: -1 is the last of all."""
    marks: tuple[Mark, ...]
    count: int


def pace(page: Sequence[bytes], fetch: int) -> int:
    """How many rows the page after this one may have: bodies of a megabyte come in small pages."""
    return max(1, min(fetch, _BYTES * len(page) // max(sum(map(len, page)), 1)))


def sizes(client: holdfast.Client, ref: QueueRef) -> dict[str, int]:
    """The lists that hold something, next to go first, and how many entries each has."""
    keys = [ref.below("ready") + str(level) for level in _LEVELS]
    found = {key: int(client.transport.command("LLEN", key, key=key)) for key in keys}
    return {key: n for key, n in found.items() if n}


def stretch(client: holdfast.Client, key: str, size: int, start: int, count: int) -> Stretch:
    """`count` entries from position `start` of a list that had `size`."""
    border = start + count - size - 1
    near = _range(client, key, border - _NEAR + 1, border)
    marks = (Mark(entry[:_ID], i) for i, entry in enumerate(reversed(near)) if _whole(entry))
    return Stretch(key, border, tuple(marks)[:_MARKS], count)


def read(client: holdfast.Client, stretch: Stretch, fetch: int) -> Iterator[list[bytes]]:
    """Pages of packed messages: each in the order of the list, the one nearest the tail first."""
    border, marks, left, want = stretch.border, stretch.marks, stretch.count, min(FIRST, fetch)
    while left > 0:
        page, border = _before(client, stretch.key, border, marks, min(left, want))
        if not page:
            return
        want = pace(page, fetch)
        if found := [entry for entry in page if _whole(entry)]:
            yield found
        left -= len(page)
        border -= len(page)
        seen = (Mark(e[:_ID], -1 - i) for i, e in enumerate(page[:_NEAR]) if _whole(e))
        # Where all of it stood for no messages there is nothing to mark, and positions are trusted.
        marks = tuple(seen)[:_MARKS]


def _before(
    client: holdfast.Client, key: str, border: int, marks: Sequence[Mark], wanted: int
) -> tuple[list[bytes], int]:
    """Up to `wanted` entries that end at the border, and its position by now. None are left if the
    list ends before it: what was there has been received."""
    ahead = max((-mark.to_border for mark in marks), default=0)
    high = min(border + ahead, -1)
    while True:
        low = border - wanted + 1
        page = _range(client, key, low, high)
        if not page:
            return [], border
        at = _border_in(page, marks) if marks else len(page) - 1
        if at is not None and at >= 0:
            return page[: at + 1], high - len(page) + 1 + at
        if len(page) < high - low + 1:
            return [], border
        if at is None:
            high, border = low - 1, border - wanted
        else:
            border = low + at
            high = border + ahead


def _border_in(page: Sequence[bytes], marks: Sequence[Mark]) -> int | None:
    """Its index, which may be outside of the page; from the tail, since it is there if nothing was
    sent meanwhile."""
    for mark in marks:
        for i in range(len(page) - 1, -1, -1):
            if page[i][:_ID] == mark.id:
                return i + mark.to_border
    return None


def _whole(entry: bytes) -> bool:
    return entry[0] < _TOMB


def _range(client: holdfast.Client, key: str, low: int, high: int) -> list[bytes]:
    found: list[bytes] = client.transport.command("LRANGE", key, low, high, key=key)
    return found
