"""A server, workers that can be killed, and the book of what they did."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import NamedTuple

import msgspec
import psutil

import holdfast
from holdfast.worker.presence import read_all
from tests.servers import wait_until

ROOT = Path(__file__).parents[3]
TASKS = 1000
LEASE = 3.0


def body(task: str, n: int, how: str) -> bytes:
    """A task's message. A test that imported the app would open the book itself."""
    args: dict[str, object] = {"n": n} | ({"how": how} if how else {})
    return msgspec.json.encode({"task": task, "args": args})


class Run(NamedTuple):
    what: str
    n: int
    attempt: int
    worker: str
    at: float


class Stage:
    def __init__(self, url: str, folder: Path) -> None:
        self.url = url
        self._book = folder / "book"
        self._book.touch()
        self._workers: list[subprocess.Popen[bytes]] = []
        self._log = (folder / "workers.log").open("ab")
        self.hf = holdfast.connect(url, check="off")
        self.q = self.hf.queue("work")

    # ---- the book -------------------------------------------------------------------------

    def runs(self, what: str) -> list[Run]:
        found = []
        # Without what comes after the last end of a line: somebody may be writing it.
        for line in self._book.read_text().split("\n")[:-1]:
            word, n, attempt, worker, at = line.split()
            if word == what:
                found.append(Run(word, int(n), int(attempt), worker, float(at)))
        return found

    def ended(self) -> set[int]:
        return {run.n for run in self.runs("end")}

    def wait_for(self, share: float) -> None:
        """Until so much of the work has ended."""
        wait_until(lambda: len(self.ended()) >= TASKS * share, 60, f"{share:.0%} to end")

    def wait_for_all(self) -> None:
        """All done and settled: nothing is left in any state."""
        wait_until(lambda: len(self.ended()) == TASKS, 120, "all to end")
        wait_until(lambda: self.q.stats().total == 0, 60, "all to be settled")

    def check(self) -> Counter[int]:
        """Nothing is lost, and each was acked once. How often each was begun."""
        stats = self.q.stats()
        assert (stats.sent, stats.acked, stats.total) == (TASKS, TASKS, 0)
        assert self.ended() == set(range(TASKS))
        return Counter(run.n for run in self.runs("begin"))

    # ---- workers --------------------------------------------------------------------------

    def start(self, *options: str, url: str | None = None) -> subprocess.Popen[bytes]:
        beside = str(Path(sys.executable).parent)
        command = [sys.executable, "-m", "holdfast.cli", "worker", "tests.worker.crash.shop:app"]
        command += ["--lease", f"{LEASE}s", "--log-level", "warning", *options]
        worker = subprocess.Popen(
            command,
            cwd=ROOT,
            env={
                **os.environ,
                "HOLDFAST_URL": url or self.url,
                "CRASH_BOOK": str(self._book),
                "PYTHONPATH": os.pathsep.join([str(ROOT / "src"), str(ROOT)]),
                "PATH": f"{beside}{os.pathsep}{os.environ['PATH']}",
            },
            stdout=self._log,
            stderr=self._log,
        )
        self._workers.append(worker)
        return worker

    def wait_for_workers(self, count: int) -> None:
        """Until so many are at work: Python takes its time to start."""
        wait_until(lambda: len(read_all(self.hf)) == count, 60, f"{count} workers")

    def kill(self, worker: subprocess.Popen[bytes]) -> None:
        """kill -9, of the supervisor and of all below it."""
        everybody = [*psutil.Process(worker.pid).children(recursive=True)]
        worker.kill()
        for each in everybody:
            try:
                each.kill()
            except psutil.NoSuchProcess:
                continue
        worker.wait()

    def close(self) -> None:
        for worker in self._workers:
            if worker.poll() is None:
                worker.send_signal(signal.SIGTERM)
        for worker in self._workers:
            try:
                worker.wait(20)
            except subprocess.TimeoutExpired:
                self.kill(worker)
        self.hf.close()
        self._log.close()


@contextmanager
def stage(url: str, folder: Path) -> Iterator[Stage]:
    made = Stage(url, folder)
    try:
        yield made
    finally:
        made.close()
