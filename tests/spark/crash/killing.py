"""Two ways to break a query off where it hurts, and to start it again.

`Killed`: a program of its own, killed -9 with all that it started. `Stopped`: a query in the Spark of the
tests, broken off in the middle of a batch. What is left in the checkpoint, the sink and the server is the
same, and no Java has to start.
"""

from __future__ import annotations

import os
import random
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from uuid import uuid4

import psutil
import pytest
from pyspark.errors import StreamingQueryException
from pyspark.sql import SparkSession
from pyspark.sql.streaming.query import StreamingQuery

from holdfast.cli.main import main
from tests.servers import wait_until
from tests.spark.crash.driver import Program, start
from tests.spark.crash.jobs import Archive, Bridge

ROOT = Path(__file__).parents[3]
# Starting a JVM beside other tests can take its time.
PATIENCE = 180
_MARK = "HOLDFAST_CRASH_TEST"


Killable = Program | Archive | Bridge


class Running:
    """The program, and whatever it starts: Java in a session of its own, and Python under Java."""

    def __init__(self, program: Killable, log: Path) -> None:
        self.log = log
        self._mark = uuid4().hex
        with log.open("ab") as out:
            self.process = subprocess.Popen(
                [sys.executable, "-m", *program.words],
                cwd=ROOT,
                env=os.environ | {"PYTHONPATH": f"{ROOT}:{ROOT / 'src'}", _MARK: self._mark},
                stdout=out,
                stderr=out,
            )

    def until(self, condition: Callable[[], bool], what: str) -> None:
        def now() -> bool:
            assert self.process.poll() is None, f"it ended before {what}:\n{self.tail()}"
            return condition()

        wait_until(now, PATIENCE, what)

    def family(self) -> list[psutil.Process]:
        """All of its processes, known by a variable that each inherits."""
        found = []
        for process in psutil.process_iter():
            with suppress(psutil.Error):
                if process.environ().get(_MARK) == self._mark:
                    found.append(process)
        return found

    def kill(self) -> None:
        """All of it at once, as when the machine dies."""
        while family := self.family():
            for process in family:
                with suppress(psutil.NoSuchProcess):
                    process.kill()
            self.process.wait(PATIENCE)
            psutil.wait_procs(family, PATIENCE)

    def kill_jvm(self) -> None:
        """Java alone: its Python processes notice, and do what they do at the end."""
        for process in self.family():
            with suppress(psutil.NoSuchProcess):
                if "java" in process.name():
                    process.kill()
        self.wait()

    def wait(self) -> int:
        """Its exit status, when nothing of it is left."""
        code = self.process.wait(PATIENCE)
        wait_until(lambda: not self.family(), PATIENCE, "all its processes to end")
        return code

    def tail(self) -> str:
        return self.log.read_text(errors="replace")[-6000:]


@contextmanager
def running(program: Killable, log: Path) -> Iterator[Running]:
    started = Running(program, log)
    try:
        yield started
    finally:
        started.kill()


class Watcher:
    """How far a query is, by what it leaves on disk: counts that only grow."""

    def __init__(self, program: Killable) -> None:
        checkpoint, out = Path(program.checkpoint), Path(program.parquet)
        self.counts: dict[str, Callable[[], int]] = {
            "batches planned": lambda: _files(checkpoint / "offsets"),
            "batches done": lambda: _files(checkpoint / "commits"),
        }
        if isinstance(program, Program) and program.parquet:
            self.counts["files written"] = lambda: _files(out, "*.parquet")
            self.counts["batches in the sink"] = lambda: _files(out / "_spark_metadata")
        elif isinstance(program, Archive):
            self.counts["files staged"] = lambda: _files(out, "_landing/**/*.parquet")
            self.counts["files written"] = lambda: _files(out, "queue=*/day=*/*.parquet")


def _files(folder: Path, pattern: str = "[0-9]*") -> int:
    try:
        return sum(1 for _ in folder.glob(pattern))
    except FileNotFoundError:  # a folder went away under the search: look again
        return 0


@dataclass(frozen=True)
class Point:
    """Where to break off: shortly after some progress has been made."""

    what: str
    reached: Callable[[], bool]
    then_seconds: float


def points(program: Killable, times: int, seed: int, after: str) -> Iterator[Point]:
    """So many, each after another kind of progress, or always `after` one kind."""
    chance = random.Random(seed)
    counts = Watcher(program).counts
    for n in range(times):
        what = after or list(counts)[n % len(counts)]
        reach = counts[what]() + chance.randint(1, 2)
        yield Point(what, partial(_reached, counts[what], reach), chance.random() * 0.2)


def _reached(count: Callable[[], int], wanted: int) -> bool:
    return count() >= wanted


def _reaches(query: StreamingQuery, point: Point) -> bool:
    assert query.isActive, f"it ended before {point.what}: {query.exception()}"
    return point.reached()


@dataclass(frozen=True)
class Killed:
    """Programs of their own, whose output goes to `log`."""

    log: Path

    def crash(
        self,
        program: Killable,
        times: int,
        seed: int,
        *,
        after: str = "",
        jvm_only: bool = False,
    ) -> None:
        """Run it and break it off so many times."""
        for point in points(program, times, seed, after):
            with running(program, self.log) as run:
                run.until(point.reached, point.what)
                try:
                    run.process.wait(point.then_seconds)
                except subprocess.TimeoutExpired:
                    run.kill_jvm() if jvm_only else run.kill()

    def finish(self, program: Killable) -> None:
        """Let it come to its end."""
        with running(replace(program, once=True), self.log) as run:
            code = run.wait()
            assert code == 0, run.tail()

    def fails(self, program: Killable) -> str:
        """It ends by itself, with an error; what it said."""
        before = self.log.stat().st_size if self.log.exists() else 0
        with running(replace(program, once=True), self.log) as run:
            assert run.wait() != 0, "it should have failed"
        return self.log.read_bytes()[before:].decode(errors="replace")


@dataclass(frozen=True)
class Stopped:
    """Queries in this Spark."""

    spark: SparkSession

    def crash(self, program: Program, times: int, seed: int, *, after: str = "") -> None:
        for point in points(program, times, seed, after):
            query = start(self.spark, program)
            try:
                wait_until(partial(_reaches, query, point), PATIENCE, point.what)
                query.awaitTermination(point.then_seconds)  # type: ignore[arg-type]
            finally:
                query.stop()

    def finish(self, program: Killable) -> None:
        """Let it come to its end, whoever began it."""
        last = replace(program, once=True)
        if isinstance(last, Program):
            start(self.spark, last).awaitTermination()
        else:
            assert main(last.words[1:]) == 0

    def fails(self, program: Program) -> str:
        with pytest.raises(StreamingQueryException) as caught:
            self.finish(program)
        return str(caught.value)
