"""Does memory stay flat while five million messages go through one query?

A feeder keeps the queue short, so that neither the server nor anybody else has a reason to grow. Four
things are watched: the driver's own Python process; the process that Spark runs our source in on the
driver's side, for as long as the query lives; the workers that read for it; and Java's heap after a full
collection. A first part of the run is warm-up: Python and Java settle at what a trigger needs.
"""

from __future__ import annotations

import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from statistics import median
from typing import TYPE_CHECKING, Any

import psutil

from benchmarks.bars import Bar
from benchmarks.run import Run, Table
from benchmarks.spark.rig import Rig, rig
from benchmarks.spark.triggers import started

if TYPE_CHECKING:
    from pyspark.sql import SparkSession
    from pyspark.sql.streaming.query import StreamingQuery

DRIVER, SOURCE, WORKERS, HEAP = (
    "driver",
    "source in the driver",
    "reading workers, largest",
    "Java heap after GC",
)
# Four million messages at one byte each are 4 MB. Allocators round up and give back late, and Spark
# itself keeps some KB of each trigger it has run: so much may come and go without anything growing.
PART, MB = 0.05, 5.0
_SOURCE_MODULE = "pyspark.sql.streaming.python_streaming_source_runner"
_WORKER_MODULE = "plan_data_source_read"
_QUEUE = "flat"
_STALLED = 60.0


@dataclass(frozen=True)
class Sample:
    messages: int
    mb: dict[str, float]


@dataclass(frozen=True)
class FlatResult:
    messages: int
    rows_per_trigger: int
    samples: list[Sample]

    def near(self, messages: int, what: str) -> float:
        """At so many messages: over the tenth of the run before that. Of the heap the least, since
        what a trigger holds at the moment is no growth; of a process the median."""
        start = messages - self.messages // 10
        found = [
            s.mb[what] for s in self.samples if start < s.messages <= messages and what in s.mb
        ]
        if not found:
            return float("nan")
        return min(found) if what == HEAP else median(found)

    def marks(self) -> list[int]:
        return [self.messages * fifth // 5 for fifth in range(1, 6)]

    def tables(self) -> list[Table]:
        return [
            Table(
                f"Memory while {self.messages:,} messages go through one query, MB",
                ("messages", DRIVER, SOURCE, WORKERS, HEAP),
                [
                    (
                        f"{mark:,}",
                        *(f"{self.near(mark, of):.1f}" for of in (DRIVER, SOURCE, WORKERS, HEAP)),
                    )
                    for mark in self.marks()
                ],
                f"{self.rows_per_trigger:,} a trigger, no-op sink. Of processes the resident memory, "
                "median of the tenth of the run before; of the heap the least in it.",
            )
        ]

    def bars(self) -> list[Bar]:
        first, *_, last = self.marks()
        bars = []
        for what in (DRIVER, SOURCE, HEAP):
            before = self.near(first, what)
            growth = self.near(last, what) - before
            name = f"{what}: growth from {first:,} to {last:,} messages"
            bars.append(Bar(name, growth, "≤", round(before * PART + MB, 1), "MB"))
        return bars


def measure(run: Run, spark: SparkSession) -> FlatResult:
    messages = run.choose(5_000_000, 12_000)
    rows = run.choose(100_000, 2_000)
    with rig(spark) as on, run.step(f"memory over {messages:,}", 100) as tick:
        writer = on.stream(_QUEUE, rows).writeStream.format("noop")
        writer = writer.option("checkpointLocation", str(on.folder / "checkpoint"))
        with _feeding(on, messages, rows * 3):
            query = started(writer)
            try:
                samples = list(_watch(run, on, query, messages, tick))
            finally:
                query.stop()
    return FlatResult(messages, rows, samples)


@contextmanager
def _feeding(on: Rig, messages: int, most: int) -> Iterator[None]:
    module = "benchmarks.spark.feeder"
    what = [on.server.url, _QUEUE, str(messages), str(most)]
    with subprocess.Popen([sys.executable, "-m", module, *what]) as feeder:
        try:
            yield
        finally:
            feeder.kill()


def _watch(
    run: Run, on: Rig, query: StreamingQuery, messages: int, tick: Callable[[], None]
) -> Iterator[Sample]:
    """One sample after the other, until all messages are acked."""
    queue, done, ticked = on.hf.queue(_QUEUE), 0, 0
    give_up = time.monotonic() + _STALLED
    while done < messages:
        time.sleep(run.choose(500, 50) / 1000)
        if query.exception() is not None or time.monotonic() > give_up:
            raise RuntimeError(f"the query stands still at {done:,}: {query.exception()}")
        before, done = done, queue.stats().acked
        if done > before:
            give_up = time.monotonic() + _STALLED
            yield Sample(done, _memory(on.spark))
        while ticked < done * 100 // messages:
            tick()
            ticked += 1


def _memory(spark: SparkSession) -> dict[str, float]:
    me = psutil.Process()
    found = {DRIVER: _rss(me), HEAP: _heap(spark)}
    workers = []
    for process in me.children(recursive=True):
        try:
            command = process.cmdline()
            if _SOURCE_MODULE in command:
                found[SOURCE] = _rss(process)
            elif command and command[-1].endswith(_WORKER_MODULE):
                workers.append(_rss(process))
        except psutil.NoSuchProcess:
            continue
    if workers:
        found[WORKERS] = max(workers)
    return found


def _rss(process: psutil.Process) -> float:
    return float(process.memory_info().rss) / 1e6


def _heap(spark: SparkSession) -> float:
    """What lives: used after a full collection, as each pool was left by it."""
    jvm: Any = spark.sparkContext._jvm
    jvm.java.lang.System.gc()
    pools = jvm.java.lang.management.ManagementFactory.getMemoryPoolMXBeans()
    total = 0
    for pool in pools:
        after = pool.getCollectionUsage() if str(pool.getType()) == "Heap memory" else None
        total += after.getUsed() if after is not None else 0
    return total / 1e6
