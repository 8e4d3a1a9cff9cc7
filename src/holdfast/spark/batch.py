"""Batch reads: a look at the messages of a queue or subscription; nothing is taken or changed.

What there is, is decided once, when Spark plans the read: `partitions` counts and cuts, and each task
reads its share in pages. On a quiet queue that is exact. While others send and receive, messages move
between states and places as they are read: one that stays where it is, is seen once, one that moves may
be missed or seen twice, and what is sent later is not seen. A DataFrame keeps its plan: to look again,
load again.

Ready messages of a queue are read from their lists with plain commands (`lists.py`), at the speed of
the server. All else goes through the engine's `inspect`, which knows where messages of each state lie,
and where the bodies are that several subscriptions share.

Filters are not pushed down: Spark offers that only behind a setting, and raises for readers that
support it where it is off. The option `state` does the most useful one.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, NamedTuple

from pyspark.sql.datasource import DataSourceReader, InputPartition

from holdfast.engine import calls
from holdfast.engine.keys import QueueRef, SeatRef
from holdfast.message import STATES, Message, State, corrupt
from holdfast.spark import arrow, lists, schema
from holdfast.spark.lists import Stretch
from holdfast.spark.options import Options
from holdfast.spark.ranges import parts, split

if TYPE_CHECKING:
    import pyarrow as pa

    import holdfast

_ALL = 2**46


@dataclass(frozen=True, slots=True)
class Positions:
    """Messages of one state, or of one group, by position: what `inspect` takes."""

    state: State
    start: int
    count: int
    group: str = ""


class Look(InputPartition):
    """What one task reads: from which shard which piece."""

    def __init__(self, pieces: list[tuple[QueueRef, Stretch | Positions]]) -> None:
        self.pieces = pieces


class _Source(NamedTuple):
    ref: QueueRef
    state: State
    size: int
    key: str | None = None


class StateReader(DataSourceReader):
    """Spark calls `partitions` in a process of the driver's and `read` in Python workers."""

    def __init__(self, options: Options) -> None:
        self.options = options

    def partitions(self) -> list[InputPartition]:
        target = self.options.place.target()
        target.refresh()
        sources, groups = self._sources(target)
        found: list[list[tuple[QueueRef, Stretch | Positions]]] = []
        wanted = parts(sum(source.size for source in sources), self.options.partitions)
        for ranges in split([source.size for source in sources], wanted):
            found.append([])
            for part in ranges:
                source = sources[part.shard]
                piece: Stretch | Positions = Positions(source.state, part.start, part.count)
                if source.key is not None:
                    piece = lists.stretch(
                        self.options.place.client(), source.key, source.size, part.start, part.count
                    )
                found[-1].append((source.ref, piece))
        found = found or [[] for _ in range(1 if groups else 0)]
        for i, (ref, group) in enumerate(groups):
            found[i % len(found)].append((ref, Positions("ready", 0, _ALL, group)))
        return [Look(pieces) for pieces in found]

    def _sources(
        self, target: holdfast.Queue | holdfast.Subscription
    ) -> tuple[list[_Source], list[tuple[QueueRef, str]]]:
        """Where messages of the wanted states lie, and how many; and the groups they wait behind."""
        asked = self.options.state or "ready"
        states = STATES if asked == "all" else tuple(s for s in STATES if s == asked)
        client, sources, groups = self.options.place.client(), [], []
        for ref, stats in zip(target.refs(), target.shard_stats(), strict=True):
            for state in states:
                if state == "ready" and stats.groups:
                    groups += [(ref, group) for group in _groups(client, ref)]
                if state == "ready" and not isinstance(ref, SeatRef):
                    sizes = lists.sizes(client, ref).items()
                    sources += [_Source(ref, state, n, key) for key, n in sizes]
                elif size := int(getattr(stats, state)):
                    sources.append(_Source(ref, state, size))
        return sources, groups

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        if not isinstance(partition, Look):
            return  # Spark's stand-in for no partitions
        client, columns = self.options.place.client(), schema.arrow(schema.of(self.options))
        for ref, piece in partition.pieces:
            if isinstance(piece, Stretch):
                for records in lists.read(client, piece, self.options.fetch):
                    yield arrow.batch(self._columns(records, ref.shard, "ready"), columns)
                continue
            for messages, records in self._pages(client, ref, piece):
                yield arrow.batch(self._columns(records, ref.shard, piece.state, messages), columns)

    def _pages(
        self, client: holdfast.Client, ref: QueueRef, piece: Positions
    ) -> Iterator[tuple[list[Message], list[bytes]]]:
        """Messages, and the same as they are packed."""
        fetch = min(self.options.fetch, calls.PAGE)
        start, left, cursor, want = piece.start, piece.count, 0, min(lists.FIRST, fetch)
        while left > 0:
            page = client.transport.run(
                calls.inspect(ref, piece.state, start, min(left, want), piece.group, cursor)
            )
            if page.messages:
                records = [message.packed for message in page.messages]
                yield page.messages, records
                want = lists.pace(records, fetch)
            if page.cursor < 0:
                return
            left -= len(page.messages)
            start, cursor = page.start, page.cursor

    def _columns(
        self,
        records: Sequence[bytes],
        shard: int,
        state: State,
        messages: Sequence[Message] = (),
    ) -> arrow.Columns:
        """`messages`: the same, where more is known of them than the records tell."""
        bad = corrupt(records)
        if bad:
            # Of a damaged message the head is shown, as a message without content.
            safe = list(records)
            for i in bad:
                safe[i] = records[i][:13] + bytes(5)
            records = safe
        found = arrow.columns(records, self.options.place.name, shard)
        if self.options.state:
            found |= _told(state, len(records), messages)
        for i in bad:
            found["body"][i] = None
            if self.options.state:
                found["reason"][i] = "corrupt"
        if messages:
            found["receives"] = [message.receives for message in messages]
        return found


def _told(state: State, n: int, messages: Sequence[Message]) -> dict[str, list[Any]]:
    """The columns of schema.LOOKED_AT that a stream does not have."""
    nothing = [None] * n
    found: dict[str, list[Any]] = {"state": [state] * n}
    for name in ("due", "received_at", "lease_until"):
        found[name] = [getattr(m, name) for m in messages] or nothing
    deaths = [message.death for message in messages] or nothing
    found["died_at"] = [death and death.at for death in deaths]
    found["reason"] = [death and death.reason for death in deaths]
    found["error"] = [death and death.error for death in deaths]
    return found


def _groups(client: holdfast.Client, ref: QueueRef) -> list[str]:
    names, cursor = [], "0"
    while True:
        page = client.transport.run(calls.sources(ref, cursor))
        names += page.groups
        cursor = page.cursor
        if cursor == "0":
            return sorted(set(names))
