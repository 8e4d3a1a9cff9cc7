"""The journal in the server, a stream of notes: where it begins and ends, and what lies between.

A point in it is named twice: by the entry's id, and by its number, counted from the first entry that was
ever added. The server keeps that count, and trims old entries away past the queue's journal_length. So
the two together tell exactly whether anything after a point is gone; ids alone cannot, since nobody
knows which ids there were.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, NamedTuple

import holdfast
from holdfast.engine.keys import QueueRef
from holdfast.errors import AcceptTheState, HoldfastError
from holdfast.spark import events

ZERO = "0-0"
_LAST_IN_MS = 2**64 - 1
# Entries asked for at first and at most, and bytes at once, about: an entry may tell of many events.
_FIRST, _PAGE, _BYTES = 100, 2_000, 4 * 1024 * 1024


class Point(NamedTuple):
    """The end of an entry."""

    id: str
    number: int


class Extent(NamedTuple):
    """What there is of a journal: entries after `begin`, up to `end`."""

    begin: Point
    end: Point


class Page(NamedTuple):
    """Entries side by side: their ids, and what they hold."""

    names: list[bytes]
    notes: list[bytes]


def order(entry_id: str) -> tuple[int, int]:
    ms, _, seq = entry_id.partition("-")
    return int(ms), int(seq or 0)


def before(ms: int) -> str:
    """The last id that an entry can have before this time."""
    return f"{ms - 1}-{_LAST_IN_MS}" if ms > 0 else ZERO


def extent(client: holdfast.Client, ref: QueueRef) -> Extent:
    """Of one moment. A journal that is not there is empty."""
    key = ref.below("journal")
    try:
        reply = client.transport.command("XINFO", "STREAM", key, key=key)
    except HoldfastError as error:
        if "no such key" in str(error):
            return Extent(Point(ZERO, 0), Point(ZERO, 0))
        raise
    told: dict[bytes, Any] = dict(zip(reply[::2], reply[1::2], strict=True))
    added, there = int(told[b"entries-added"]), int(told[b"length"])
    return Extent(Point(ZERO, added - there), Point(told[b"last-generated-id"].decode(), added))


def read(client: holdfast.Client, ref: QueueRef, after: str, upto: str) -> Iterator[Page]:
    """Pages of entries after one id, up to and with another."""
    count = _FIRST
    while order(after) < order(upto):
        page = _range(client, ref, f"({after}", upto, count)
        if not page.names:
            return
        yield page
        after = page.names[-1].decode()
        count = max(1, min(_PAGE, _BYTES * len(page.notes) // sum(map(len, page.notes))))


def _range(client: holdfast.Client, ref: QueueRef, low: str, high: str, count: int) -> Page:
    key = ref.below("journal")
    found = client.transport.command("XRANGE", key, low, high, "COUNT", count, key=key)
    return Page([name for name, _ in found], [fields[1] for _, fields in found])


def last(client: holdfast.Client, ref: QueueRef, upto: str) -> str | None:
    """The last entry that is not after an id."""
    key = ref.below("journal")
    found = client.transport.command("XREVRANGE", key, upto, "-", "COUNT", 1, key=key)
    return found[0][0].decode() if found else None


def numbered(client: holdfast.Client, ref: QueueRef, entry_id: str, there: Extent) -> Point:
    """The last entry up to an id that a user gave. Entries after it are counted to know its number."""
    if order(entry_id) >= order(there.end.id):
        return there.end
    found = last(client, ref, entry_id)
    if found is None:
        return there.begin
    later = sum(len(page.names) for page in read(client, ref, entry_id, there.end.id))
    return Point(found, there.end.number - later)


def cut(client: holdfast.Client, ref: QueueRef, after: str, upto: str, pieces: int) -> list[str]:
    """The last entries of so many pieces, or fewer, between two ids.

    The server cannot tell the entry in the middle. To pass all of them would cost as much as to read
    them; so pieces are halved by time, the longest first, and times without entries do not count.
    """
    found = _range(client, ref, f"({after}", upto, 1).names
    if not found:
        return [upto]
    spans = [(order(found[0].decode())[0], order(upto)[0], upto)]
    while len(spans) < pieces:
        spans.sort(key=lambda span: span[0] - span[1])
        first, end, name = spans[0]
        if first == end:
            break
        middle = before((first + end) // 2 + 1)
        left = last(client, ref, middle)
        right = _range(client, ref, f"({middle}", name, 1).names
        if left is None or not right:
            break  # trimmed while we looked
        halves = ((first, order(left)[0], left), (order(right[0].decode())[0], end, name))
        spans[:1] = halves
    return sorted((name for _, _, name in spans), key=order)


def events_each(client: holdfast.Client, ref: QueueRef, after: str) -> float:
    """How many events an entry has, about: by the first few after one."""
    notes = _range(client, ref, f"({after}", "+", _FIRST).notes
    return sum(map(events.count, notes)) / max(len(notes), 1)


def complete(
    client: holdfast.Client, ref: QueueRef, after: str, number: int | None, upto: str
) -> bool:
    """Is everything between two entries still there? What was read before is complete, then. The
    first of them may be gone, if its number is known and none after it is trimmed."""
    there = number is not None and extent(client, ref).begin.number <= number
    return (there or _has(client, ref, after)) and _has(client, ref, upto)


def standing(
    client: holdfast.Client, ref: QueueRef, start: Point, there: Extent, strict: bool
) -> Point:
    """The point from which to go on: `start`, if nothing after it is gone. If something is, an error
    when strict, else where the journal begins by now."""
    trimmed = there.begin.number
    if start.number == trimmed:
        return start
    if start.number < trimmed:
        problem = (
            f"{trimmed - start.number} entries after {start.id} were trimmed before they were read: "
            "the journal keeps the last journal_length entries, and more than that were added"
        )
    elif start.id != ZERO and _has(client, ref, start.id):
        return start
    elif (now := extent(client, ref)).begin.number > trimmed:
        return standing(client, ref, start, now, strict)  # trimmed while we looked
    else:
        problem = (
            f"{start.id} was read, and is not there any more, though nothing was trimmed: the queue "
            "was deleted and made anew, or its server lost what it had"
        )
    if strict:
        raise AcceptTheState(
            f"journal of {ref.name!r}, shard {ref.shard}: {problem}; set a larger journal_length or "
            "run the query more often, and to go on without what is lost, set failOnDataLoss=false"
        )
    return Point(start.id, trimmed)


def _has(client: holdfast.Client, ref: QueueRef, entry_id: str) -> bool:
    return bool(_range(client, ref, entry_id, entry_id, 1).names)
