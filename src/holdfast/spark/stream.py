"""A queue or a subscription as a stream that Spark can replay.

A queue is no log: who takes a message takes it from all others. So each micro-batch is a named
reservation in the server: `partitions` makes it and seals it, tasks read ranges of it as often as
they like, and it is acked once Spark has written down that the batch is done.

Who calls what, in which process (Spark 4.3):
    read             Python workers of the executors, on a pickled copy: it may use nothing but
                     its options and its partition
    all others       one Python process of the driver's, which lives as long as the query; a restarted
                     query gets a new one, and finds all it needs in the offsets

When are messages acked? `commit(N)` comes only while batch N+1 is being built, so for the last batch
of an AvailableNow run never. But whatever `latestOffset` gets as its start is in Spark's commit log:
that is the place, and it comes for every batch, also as the first thing after a restart.
`stop` does not come after a kill, and did come after the JVM died with the batch half written: nothing
is acked there.
"""

from __future__ import annotations

import time
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Any
from uuid import uuid4

from pyspark.sql.datasource import DataSourceStreamReader, InputPartition
from pyspark.sql.streaming.datasource import (
    ReadAllAvailable,
    ReadLimit,
    ReadMaxRows,
    ReadMinRows,
    SupportsTriggerAvailableNow,
)

from holdfast.errors import InvalidArgument
from holdfast.message import corrupt, format_id
from holdfast.spark import arrow, lists, schema
from holdfast.spark.offsets import Offset, decode
from holdfast.spark.options import Options
from holdfast.spark.place import Place
from holdfast.spark.ranges import Range, parts, split

if TYPE_CHECKING:
    import pyarrow as pa


class Part(InputPartition):
    """What one task reads: all that it needs to know."""

    def __init__(self, owner: str, seq: int, ranges: list[Range]) -> None:
        self.owner = owner
        self.seq = seq
        self.ranges = ranges

    def __repr__(self) -> str:
        return f"{self.owner}/{self.seq} {self.ranges}"


class QueueStreamReader(DataSourceStreamReader, SupportsTriggerAvailableNow):
    def __init__(self, options: Options) -> None:
        self.options = options
        # AvailableNow: so many rows are left to take. None: whatever comes.
        self._budget: int | None = None
        self._planned = 0
        self._waiting_since: float | None = None

    @property
    def place(self) -> Place:
        return self.options.place

    # ---- on the driver ----------------------------------------------------------------------

    def initialOffset(self) -> dict[str, Any]:
        name = self.options.owner or "spark"
        return Offset(f"{name}-{uuid4().hex}").encode()

    def getDefaultReadLimit(self) -> ReadLimit:
        most = self.options.max_rows
        return ReadMaxRows(most) if most else ReadAllAvailable()

    def prepareForTriggerAvailableNow(self) -> None:
        self._budget = sum(self._ready())

    def latestOffset(self, start: dict[str, Any], limit: ReadLimit) -> dict[str, Any]:
        done = decode(start)
        self._commit(done)
        plan = self._plan(self._ready(), limit)
        if not sum(plan):
            return start
        if self._budget is not None:
            self._budget -= sum(plan)
        self._planned = done.seq + 1
        wanted = parts(sum(plan), self.options.partitions)
        return Offset(done.owner, done.seq + 1, tuple(plan), wanted).encode()

    def reportLatestOffset(self) -> dict[str, Any] | None:
        """For Spark's progress: how much is waiting."""
        ready = self._ready()
        return {"ready": sum(ready)}

    def partitions(self, start: dict[str, Any], end: dict[str, Any]) -> Sequence[InputPartition]:
        plan = decode(end)
        if decode(start).seq >= plan.seq:
            return []
        target = self.place.target()
        before = sum(stats.reserved for stats in target.shard_stats())
        found = target.reserve(
            plan.owner,
            plan.seq,
            plan.rows,
            known=len(decode(start).rows) if plan.seq > 1 else None,
            ttl=self.options.ttl,
            adopt=not self.options.fail_on_loss,
        )
        if self._budget is not None and plan.seq != self._planned:
            # Planned before a crash, reserved only now: of what was there at the start, this is gone.
            now = sum(stats.reserved for stats in target.shard_stats())
            self._budget = max(self._budget - max(now - before, 0), 0)
        return [Part(plan.owner, plan.seq, ranges) for ranges in split(found, plan.parts)]

    def commit(self, end: dict[str, Any]) -> None:
        self._commit(decode(end))

    def stop(self) -> None:
        """Nothing: what was not committed must be there when the query comes back."""

    def _commit(self, done: Offset) -> None:
        if done.seq:
            adopt = not self.options.fail_on_loss
            self.place.target().commit(done.owner, done.seq, len(done.rows), adopt=adopt)

    def _ready(self) -> list[int]:
        """Messages that could be taken now, by shard; what has fallen due since is among them."""
        target = self.place.target()
        target.refresh()
        target.tend()
        return [0 if stats.paused else stats.ready for stats in target.shard_stats()]

    def _plan(self, ready: list[int], limit: ReadLimit) -> list[int]:
        most = least = None
        if isinstance(limit, ReadMaxRows):
            most = limit.max_rows
        elif isinstance(limit, ReadMinRows):
            least = limit.min_rows
        elif not isinstance(limit, ReadAllAvailable):
            raise InvalidArgument(f"a queue cannot be read by {limit}; use maxRowsPerTrigger")
        if self._budget is not None:
            most = self._budget if most is None else min(most, self._budget)
        elif not self._enough(sum(ready), least or self.options.min_rows):
            return [0] * len(ready)
        return ready if most is None else _share(ready, most)

    def _enough(self, ready: int, least: int) -> bool:
        """Are there as many rows as a trigger should have, or have they waited long enough?"""
        if ready >= least or not ready:
            self._waiting_since = None
            return True
        now = time.monotonic()
        since = self._waiting_since = self._waiting_since or now
        if now - since < self.options.max_delay:
            return False
        self._waiting_since = None
        return True

    # ---- on the executors -------------------------------------------------------------------

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        assert isinstance(partition, Part)
        target, columns = self.place.target(), schema.arrow(schema.of(self.options))
        name = f"{partition.owner}/{partition.seq}"
        want = min(lists.FIRST, self.options.fetch)
        for part in partition.ranges:
            at, end = part.start, part.start + part.count
            while at < end:
                count = min(want, end - at)
                records = target.read_reserved(
                    partition.owner, partition.seq, part.shard, at, count
                )
                at, want = at + count, lists.pace(records, self.options.fetch)
                if bad := corrupt(records):
                    # Never delivered as if they were good, and never in the way of the rest.
                    reasons = {format_id(records[i], part.shard): "corrupt" for i in bad}
                    target.condemn(partition.owner, partition.seq, reasons)
                    wrong = set(bad)
                    records = [r for i, r in enumerate(records) if i not in wrong]
                found = arrow.columns(records, self.place.name, part.shard, counted=1)
                found["reservation"] = [name] * len(records) if self.options.reservation else []
                yield arrow.batch(found, columns)


def _share(ready: list[int], most: int) -> list[int]:
    """At most so many in all, from each shard in proportion to what it has."""
    total = sum(ready)
    if total <= most:
        return ready
    shares = [n * most // total for n in ready]
    left = most - sum(shares)
    for i, n in enumerate(ready):
        more = min(left, n - shares[i])
        shares[i] += more
        left -= more
    return shares
