"""The journal of a queue as a log of events, for streams and batches.

Unlike the queue itself the journal is a log: reading takes nothing, a stretch between two offsets is
the same whenever it is read, and so Spark can replay a batch without any help from the server. What can
go wrong is that the journal is trimmed (journal_length) before it was read. Each task looks again when
it has read, so that not even a trim in the middle of a batch goes unnoticed; failOnDataLoss says whether
that is an error.

A note is never split between batches; maxRowsPerTrigger counts events.
"""

from __future__ import annotations

import heapq
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any, NamedTuple

from pyspark.sql.datasource import DataSourceReader, DataSourceStreamReader, InputPartition
from pyspark.sql.streaming.datasource import (
    ReadAllAvailable,
    ReadLimit,
    ReadMaxRows,
    SupportsTriggerAvailableNow,
)

from holdfast.engine import calls
from holdfast.engine.keys import QueueRef
from holdfast.errors import AcceptTheState, InvalidArgument, Unsupported
from holdfast.spark import arrow, entries, events, points, schema
from holdfast.spark.entries import ZERO, Extent, Page, Point
from holdfast.spark.options import Options
from holdfast.spark.points import Points
from holdfast.spark.ranges import parts

if TYPE_CHECKING:
    import pyarrow as pa

    import holdfast

# Bytes of an event in a note, about: to make batches of fetchSize rows without counting each.
_EVENT = 30


class Piece(NamedTuple):
    """Entries of one shard, after one id and up to another."""

    shard: int
    after: str
    number: int | None
    """That of `after`, where it is known: it may be trimmed without a loss."""
    upto: str


class Span(InputPartition):
    """What one task reads."""

    def __init__(self, pieces: list[Piece]) -> None:
        self.pieces = pieces


class Journal:
    """One queue's journal: what both readers share."""

    def __init__(self, options: Options) -> None:
        self.options = options

    @property
    def name(self) -> str:
        return self.options.place.name

    @property
    def client(self) -> holdfast.Client:
        return self.options.place.client()

    def extents(self) -> dict[int, Extent]:
        """Of all shards that there are now."""
        if self.options.place.queue is None:
            raise Unsupported(
                "only queues have a journal that can be read; name one with 'journal'"
            )
        settings = self.client.transport.run(calls.configure(QueueRef(self.name), {})).settings
        found = {
            shard: entries.extent(self.client, QueueRef(self.name, shard))
            for shard in range(settings.shards)
        }
        if not settings.journal and not any(there.end.number for there in found.values()):
            raise InvalidArgument(
                f"the journal of {self.name!r} is off and empty; switch it on with "
                f"holdfast configure {self.name} --journal on, or queue.configure(journal=True)"
            )
        return found

    def place(self, text: str, name: str, there: dict[int, Extent]) -> Points:
        """Where a user wants to start or end."""
        wanted = points.given(text, name)
        if wanted == "earliest":
            return {shard: extent.begin for shard, extent in there.items()}
        if isinstance(wanted, str):
            return {shard: extent.end for shard, extent in there.items()}
        found: Points = {}
        for shard, extent in there.items():
            default = extent.begin if name == "startingOffsets" else extent.end
            entry = wanted.get(-1) or wanted.get(shard)
            ref = QueueRef(self.name, shard)
            found[shard] = entries.numbered(self.client, ref, entry, extent) if entry else default
            trimmed = found[shard] == extent.begin != (ZERO, 0)
            if shard in wanted and entry != ZERO and trimmed and self.options.fail_on_loss:
                raise AcceptTheState(
                    f"journal of {self.name!r}, shard {shard}: {entry} of {name} is not there any "
                    "more, nor is what came right after it: the journal keeps the last "
                    "journal_length entries; start with earliest, or set failOnDataLoss=false"
                )
        return found

    def standing(self, start: Points, there: dict[int, Extent]) -> Points:
        """Where to go on, if nothing is lost since. Shards that are new start with their first entry."""
        return {
            shard: entries.standing(
                self.client,
                QueueRef(self.name, shard),
                start.get(shard, Point(ZERO, 0)),
                extent,
                self.options.fail_on_loss,
            )
            for shard, extent in there.items()
        }

    def spans(self, start: Points, end: Points) -> list[Span]:
        """Everything between two points of each shard, cut into partitions."""
        sizes = {
            shard: max(end[shard].number - start[shard].number, 1)
            for shard in end
            if _further(end[shard], start[shard])
        }
        if not sizes:
            return []
        some = min(sizes)
        each = entries.events_each(self.client, QueueRef(self.name, some), start[some].id)
        total = sum(sizes.values())
        wanted = parts(int(total * each), self.options.partitions)
        found: list[Span] = []
        room = 0.0
        for shard, size in sizes.items():
            ref, share = QueueRef(self.name, shard), max(1, round(wanted * size / total))
            after = start[shard].id
            number: int | None = start[shard].number
            for upto in entries.cut(self.client, ref, after, end[shard].id, share):
                if room < 1:
                    found.append(Span([]))
                    room += total / wanted
                found[-1].pieces.append(Piece(shard, after, number, upto))
                room -= size / share
                after, number = upto, None
        return found

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        if not isinstance(partition, Span):
            return  # Spark's stand-in for no partitions
        columns = schema.arrow(schema.EVENTS)
        for piece in partition.pieces:
            ref = QueueRef(self.name, piece.shard)
            for page in self._batches(ref, piece):
                found = events.columns(page.names, page.notes, self.name, piece.shard)
                yield arrow.batch(found, columns)
            if self.options.fail_on_loss and not entries.complete(
                self.client, ref, piece.after, piece.number, piece.upto
            ):
                raise AcceptTheState(
                    f"journal of {self.name!r}, shard {piece.shard}: entries between {piece.after} "
                    f"and {piece.upto} were trimmed, or the queue deleted, while they were read; set "
                    "a larger journal_length, or failOnDataLoss=false to go on without them"
                )

    def _batches(self, ref: QueueRef, piece: Piece) -> Iterator[Page]:
        """Entries with about fetchSize events together."""
        names: list[bytes] = []
        notes: list[bytes] = []
        size, full = 0, self.options.fetch * _EVENT
        for page in entries.read(self.client, ref, piece.after, piece.upto):
            for name, note in zip(page.names, page.notes, strict=True):
                names.append(name)
                notes.append(note)
                size += len(note)
                if size >= full:
                    yield Page(names, notes)
                    names, notes, size = [], [], 0
        if names:
            yield Page(names, notes)


class JournalReader(DataSourceReader):
    """What the journal holds between two points, when Spark plans the read."""

    def __init__(self, options: Options) -> None:
        self.journal = Journal(options)

    def partitions(self) -> list[InputPartition]:
        journal, options = self.journal, self.journal.options
        there = journal.extents()
        start = journal.place(options.start, "startingOffsets", there)
        end = journal.place(options.end, "endingOffsets", there)
        return list(journal.spans(start, end))

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        return self.journal.read(partition)


class JournalStreamReader(DataSourceStreamReader, SupportsTriggerAvailableNow):
    """Lives in a Python process of the driver's as long as the query runs; `read` is called on pickled
    copies, in Python workers. All that a restarted query needs is in its offsets."""

    def __init__(self, options: Options) -> None:
        self.journal = Journal(options)
        self._initial: dict[str, Any] | None = None
        # AvailableNow: what was there at the start. None: whatever comes.
        self._target: Points | None = None

    def initialOffset(self) -> dict[str, Any]:
        # Asked for at each trigger until there is a first batch; "latest" is when it was first asked.
        if self._initial is None:
            start = self.journal.options.start
            first = self.journal.place(start, "startingOffsets", self.journal.extents())
            self._initial = points.encode(first, initial=True)
        return self._initial

    def getDefaultReadLimit(self) -> ReadLimit:
        most = self.journal.options.max_rows
        return ReadMaxRows(most) if most else ReadAllAvailable()

    def prepareForTriggerAvailableNow(self) -> None:
        self._target = {shard: there.end for shard, there in self.journal.extents().items()}

    def reportLatestOffset(self) -> dict[str, Any] | None:
        return points.encode({s: there.end for s, there in self.journal.extents().items()})

    def latestOffset(self, start: dict[str, Any], limit: ReadLimit) -> dict[str, Any]:
        if not isinstance(limit, ReadAllAvailable | ReadMaxRows):
            raise InvalidArgument(f"a journal cannot be read by {limit}; use maxRowsPerTrigger")
        there = self.journal.extents()
        begin = self.journal.standing(points.decode(start), there)
        end = {shard: extent.end for shard, extent in there.items()}
        if self._target is not None:
            end = {shard: self._target.get(shard, begin[shard]) for shard in end}
        end = {shard: end[shard] for shard in end if _further(end[shard], begin[shard])}
        if isinstance(limit, ReadMaxRows):
            end = self._limited(begin, end, limit.max_rows)
        if not end:
            return start
        reached = points.decode(start) | end
        return points.encode(reached, begin if points.is_initial(start) else None)

    def _limited(self, begin: Points, end: Points, most: int) -> Points:
        """How far so many events go: in the order of time over all shards, so that none falls behind.
        One entry always goes, however many events it has."""
        found, left = dict[int, Point](), most
        walks = [self._walk(shard, begin[shard], end[shard]) for shard in end]
        for _, shard, point, count in heapq.merge(*walks):
            if count > left and found:
                break
            found[shard], left = point, left - count
            if left <= 0:
                break
        return found

    def _walk(
        self, shard: int, begin: Point, end: Point
    ) -> Iterator[tuple[tuple[int, int], int, Point, int]]:
        number, ref = begin.number, QueueRef(self.journal.name, shard)
        for page in entries.read(self.journal.client, ref, begin.id, end.id):
            for raw, note in zip(page.names, page.notes, strict=True):
                number, name = number + 1, raw.decode()
                yield entries.order(name), shard, Point(name, number), events.count(note)

    def partitions(self, start: dict[str, Any], end: dict[str, Any]) -> list[InputPartition]:
        upto, begun = points.decode(end), points.begun(start, end)
        there = {
            shard: entries.extent(self.journal.client, QueueRef(self.journal.name, shard))
            for shard in upto
        }
        begin = self.journal.standing(begun, there)
        return list(self.journal.spans(begin, upto))

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        return self.journal.read(partition)

    def commit(self, end: dict[str, Any]) -> None:
        """Nothing: reading takes nothing."""

    def stop(self) -> None:
        """Nothing is open but the process's client, which others use too."""


def _further(one: Point, other: Point) -> bool:
    return entries.order(one.id) > entries.order(other.id)
