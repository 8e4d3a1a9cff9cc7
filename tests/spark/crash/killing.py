"""Starts the program, kills it -9 where it hurts, starts it again."""

from __future__ import annotations

import os
import random
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import replace
from functools import partial
from pathlib import Path

import msgspec
import psutil

from tests.servers import wait_until
from tests.spark.crash.driver import Program

ROOT = Path(__file__).parents[3]
# Starting a JVM beside other tests can take its time.
PATIENCE = 180


class Running:
    """The program, as a process group of its own."""

    def __init__(self, program: Program, log: Path) -> None:
        self.program = program
        self.log = log
        with log.open("ab") as out:
            self.process = subprocess.Popen(
                [sys.executable, "-m", "tests.spark.crash.driver", msgspec.json.encode(program)],
                cwd=ROOT,
                env=os.environ | {"PYTHONPATH": f"{ROOT}:{ROOT / 'src'}"},
                stdout=out,
                stderr=out,
                start_new_session=True,
            )

    def until(self, condition: Callable[[], bool], what: str) -> None:
        def now() -> bool:
            assert self.process.poll() is None, f"it ended before {what}:\n{self.tail()}"
            return condition()

        wait_until(now, PATIENCE, what)

    def kill(self) -> None:
        """All of it at once, as when the machine dies."""
        os.killpg(self.process.pid, signal.SIGKILL)
        self.process.wait()

    def kill_jvm(self) -> None:
        """The JVM alone: its Python processes notice, and may do what they do at the end."""
        for child in psutil.Process(self.process.pid).children(recursive=True):
            if "java" in child.name():
                child.kill()
        self.process.wait(PATIENCE)
        _gone(self.process.pid)

    def wait(self) -> int:
        code = self.process.wait(PATIENCE)
        _gone(self.process.pid)
        return code

    def tail(self) -> str:
        return self.log.read_text(errors="replace")[-6000:]


def _gone(group: int) -> None:
    """Wait for what else is in the process group."""

    def empty() -> bool:
        try:
            os.killpg(group, 0)
        except ProcessLookupError:
            return True
        return False

    wait_until(empty, PATIENCE)


@contextmanager
def running(program: Program, log: Path) -> Iterator[Running]:
    started = Running(program, log)
    try:
        yield started
    finally:
        with suppress(ProcessLookupError):
            os.killpg(started.process.pid, signal.SIGKILL)
        started.process.wait()


class Watcher:
    """How far a query is, by what it leaves on disk: counts that only grow."""

    def __init__(self, program: Program) -> None:
        checkpoint, out = Path(program.checkpoint), Path(program.parquet)
        self.counts: dict[str, Callable[[], int]] = {
            "batches planned": lambda: _files(checkpoint / "offsets"),
            "batches done": lambda: _files(checkpoint / "commits"),
        }
        if program.parquet:
            self.counts["files written"] = lambda: _files(out, "*.parquet")
            self.counts["batches in the sink"] = lambda: _files(out / "_spark_metadata")


def _files(folder: Path, pattern: str = "[0-9]*") -> int:
    return sum(1 for _ in folder.glob(pattern))


def crash(
    program: Program, log: Path, times: int, seed: int, *, after: str = "", jvm_only: bool = False
) -> None:
    """Run it and kill it so many times, each time shortly after another kind of progress, or always
    `after` one kind."""
    chance = random.Random(seed)
    counts = Watcher(program).counts
    for n in range(times):
        what = after or list(counts)[n % len(counts)]
        reach = counts[what]() + chance.randint(1, 2)
        with running(program, log) as run:
            run.until(partial(_reached, counts[what], reach), what)
            try:
                run.process.wait(chance.random() * 0.2)
            except subprocess.TimeoutExpired:
                run.kill_jvm() if jvm_only else run.kill()


def _reached(count: Callable[[], int], wanted: int) -> bool:
    return count() >= wanted


def finish(program: Program, log: Path) -> None:
    """Let it come to its end."""
    with running(replace(program, once=True), log) as run:
        code = run.wait()
        assert code == 0, run.tail()


def fails(program: Program, log: Path) -> str:
    """It ends by itself, with an error; what it said."""
    before = log.stat().st_size if log.exists() else 0
    with running(replace(program, once=True), log) as run:
        assert run.wait() != 0, "it should have failed"
    return log.read_bytes()[before:].decode(errors="replace")
