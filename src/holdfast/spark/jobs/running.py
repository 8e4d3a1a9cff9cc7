"""Runs streaming queries to their end, tells how they get on, and stops them when asked.

Nothing is shown here: `watch` is told of each batch, and who called makes a line of it. The queries of
a job fail together: when one does, the others stop after the batch they are at.

To stop is to let the batch in hand finish. Spark's own stop() interrupts it; nothing would be lost,
since the batch is done again at the next start, but its messages would stay reserved until then. Where
batches follow each other without a pause the next one may have begun: that one is interrupted, and
what it reserved waits for the next start (`Outcome.open`, told by the checkpoint).
"""

from __future__ import annotations

import signal
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from types import FrameType
from typing import Any

import msgspec
from py4j.protocol import Py4JError
from pyspark.errors import PySparkException
from pyspark.sql import SparkSession
from pyspark.sql.streaming.query import StreamingQuery
from pyspark.sql.streaming.readwriter import DataStreamWriter

from holdfast.errors import HoldfastError
from holdfast.spark.jobs import faults

_LOOK_SECONDS = 0.1
_SLOW, _STARTS = "failed to connect back", 3


@dataclass(frozen=True, slots=True)
class Batch:
    """One micro-batch that is done."""

    source: str
    number: int
    rows: int
    seconds: float
    backlog: int | None
    """What was waiting behind it when it began; None where the source does not say."""
    counts: Mapping[str, int]
    """What the job counts besides: the columns of its `observe`."""

    @property
    def rate(self) -> float:
        return self.rows / self.seconds if self.seconds else 0.0


@dataclass(frozen=True, slots=True)
class Tally:
    """What one query did, from its start to its end."""

    source: str
    batches: int
    rows: int
    seconds: float
    counts: Mapping[str, int]
    stopped: bool
    """Because it was asked to; else because there was no more to do."""

    @property
    def rate(self) -> float:
        return self.rows / self.seconds if self.seconds else 0.0


Watch = Callable[[Batch], None]
Start = Callable[[], StreamingQuery]


def quiet(batch: Batch) -> None:
    """Tells nobody."""


class Stop(threading.Event):
    """Set to stop a job after the batch in hand."""


@contextmanager
def on_signals(stop: Stop) -> Iterator[Stop]:
    """SIGTERM and the first Ctrl-C set `stop`; a second Ctrl-C is a KeyboardInterrupt."""

    def ask(number: int, frame: FrameType | None) -> None:
        if stop.is_set() and number == signal.SIGINT:
            raise KeyboardInterrupt
        stop.set()

    if threading.current_thread() is not threading.main_thread():
        yield stop
        return
    before = {number: signal.signal(number, ask) for number in (signal.SIGINT, signal.SIGTERM)}
    try:
        yield stop
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)


def triggered(writer: DataStreamWriter, once: bool, every: float) -> DataStreamWriter:
    """`once`: what is there when it starts. Else every so many seconds; Spark would ask a queue that
    is empty for more eighty times a second if it were told no time."""
    if once:
        return writer.trigger(availableNow=True)
    return writer.trigger(processingTime=f"{max(round(every * 1000), 1)} milliseconds")


def query_id(spark: SparkSession) -> str:
    """Of the query whose batch is being written: to be asked inside foreachBatch. The checkpoint keeps
    it, so a query that is started again has the same one."""
    found = spark.sparkContext.getLocalProperty("sql.streaming.queryId")
    if not found:
        raise HoldfastError("Spark does not tell which query this is, outside of its batches")
    return found


def follow(starts: Sequence[tuple[str, Start]], stop: Stop, watch: Watch = quiet) -> list[Tally]:
    """Starts all, and returns when all have ended. Raises the typed error of the first that failed."""
    followed: list[_Followed] = []
    try:
        for source, start in starts:
            followed.append(_Followed(source, start))
        while [each for each in followed if each.look(watch) or each.again(stop)]:
            if stop.wait(_LOOK_SECONDS) or any(each.failed for each in followed):
                for each in followed:
                    each.finish(watch)
    except (Py4JError, ConnectionError) as error:
        raise faults.translated(error) from error
    finally:
        # Also after a second Ctrl-C, and when one of them did not start.
        for each in followed:
            with suppress(Py4JError, ConnectionError):
                each.query.stop()
    for each in followed:
        if failure := each.query.exception():
            raise faults.translated(failure) from failure
    return [each.tally(stop.is_set()) for each in followed]


def _started(start: Start) -> StreamingQuery:
    """Raises the typed error of a query that cannot be."""
    try:
        return start()
    except (PySparkException, Py4JError) as error:
        raise faults.translated(error) from error


class _Followed:
    def __init__(self, source: str, start: Start) -> None:
        self._source = source
        self._start = start
        self._starts = 1
        self.query = _started(start)
        self._began = time.monotonic()
        self._batches = self._rows = 0
        self._counts: Counter[str] = Counter()
        self._last = -1

    @property
    def failed(self) -> bool:
        return self._failure() is not None and not self._was_slow()

    def look(self, watch: Watch) -> bool:
        """Tell of batches that were done since the last look. Is it still running?"""
        active = self.query.isActive  # before the look: nothing is missed at the end
        newest = self.query.lastProgress
        if newest is None or newest["batchId"] <= self._last:
            return bool(active)
        for progress in self.query.recentProgress:
            number, rows = int(progress["batchId"]), int(progress["numInputRows"])
            # Spark also reports on triggers that found nothing, under the number of the next batch.
            if number <= self._last or not _is_batch(progress):
                continue
            self._last = number
            counts = _observed(progress)
            if not rows and not any(counts.values()):
                continue  # Spark's first batch of a queue that is empty
            self._batches += 1
            self._rows += rows
            seconds = progress["durationMs"].get("triggerExecution", 0) / 1000
            self._counts.update(counts)
            watch(Batch(self._source, number, rows, seconds, _backlog(progress), counts))
        return bool(active)

    def again(self, stop: Stop) -> bool:
        """Start once more a query that has ended because its source was slow. Was it that?"""
        if stop.is_set() or not self._was_slow():
            return False
        self._starts += 1
        self.query = _started(self._start)
        self._last = -1  # the new run may do the same batch again
        return True

    def _failure(self) -> Exception | None:
        return None if self.query.isActive else self.query.exception()

    def _was_slow(self) -> bool:
        """Spark gives a source's process ten seconds to start, which a busy machine may not have."""
        failure = self._failure()
        return failure is not None and _SLOW in str(failure) and self._starts < _STARTS

    def finish(self, watch: Watch) -> None:
        """Stop when the batch in hand is done."""
        last = self._last
        while self.query.isActive and self.query.status["isTriggerActive"] and self._last == last:
            time.sleep(_LOOK_SECONDS / 5)
            self.look(watch)
        self.query.stop()
        self.look(watch)

    def tally(self, stopped: bool) -> Tally:
        took = time.monotonic() - self._began
        return Tally(self._source, self._batches, self._rows, took, dict(self._counts), stopped)


def _is_batch(progress: Any) -> bool:
    return "addBatch" in progress["durationMs"]


def _backlog(progress: Any) -> int | None:
    """How much is waiting besides this batch, as the sources tell (`reportLatestOffset`)."""
    found = []
    for source in progress["sources"]:
        try:
            latest = msgspec.json.decode(str(source["latestOffset"]))
            found.append(max(int(latest["ready"]) - int(source["numInputRows"]), 0))
        except (KeyError, TypeError, ValueError, msgspec.DecodeError):
            return None
    return sum(found)


def _observed(progress: Any) -> dict[str, int]:
    found: dict[str, int] = {}
    for row in (progress.get("observedMetrics") or {}).values():
        found.update({name: int(value or 0) for name, value in row.asDict().items()})
    return found
