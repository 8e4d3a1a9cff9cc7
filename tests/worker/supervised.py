"""`holdfast worker` as a user starts it: a process of its own, with children of its own, told by signals."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import Any

import msgspec
import psutil

import holdfast
from tests.servers import wait_until

SOURCE = Path(holdfast.__file__).parents[1]

APP = '''
import asyncio, os, sys, time
from pathlib import Path
import holdfast

app = holdfast.App(queue="crew", check="off", retry_for=1)
HERE = Path(__file__).parent


def mark(name):
    with (HERE / name).open("a") as file:
        file.write(f"{os.getpid()}\\n")


@app.task
def whoami() -> int:
    return os.getpid()


@app.task
async def brief(n: int) -> int:
    return n


@app.task
def wait_for(name: str) -> int:
    """Until the test makes that file."""
    mark("began")
    while not (HERE / name).exists():
        time.sleep(0.01)
    return holdfast.current().attempt


@app.task(run="process")
def wait_apart(name: str) -> int:
    return wait_for(name)


@app.task(retries=0)
def hungry(megabytes: int) -> int:
    return len(bytearray(megabytes * 1024 * 1024))


@app.task(retries=0)
def leaky(megabytes: int) -> None:
    for _ in range(megabytes):
        kept.append(bytearray(b"x" * (1024 * 1024)))


@app.task(timeout=0.2, retries=0)
def stuck() -> None:
    """In C, where no exception reaches it."""
    mark("began")
    time.sleep(3600)


@app.task(timeout=0.2, retries=0)
async def blocking() -> None:
    mark("began")
    time.sleep(3600)


kept: list[bytearray] = []
'''


def alive(pid: int) -> bool:
    try:
        return psutil.Process(pid).status() != psutil.STATUS_ZOMBIE
    except psutil.NoSuchProcess:
        return False


def _gone(pids: list[int]) -> bool:
    return not any(map(alive, pids))


class Crew:
    """One `holdfast worker`."""

    def __init__(self, process: subprocess.Popen[bytes], stderr: Path) -> None:
        self.process = process
        self.events: list[dict[str, Any]] = []
        self._stderr = stderr
        self._reader = threading.Thread(target=self._read, daemon=True)
        self._reader.start()

    def _read(self) -> None:
        assert self.process.stdout is not None
        for line in self.process.stdout:
            self.events.append(msgspec.json.decode(line))

    def of(self, kind: str) -> list[dict[str, Any]]:
        return [event for event in list(self.events) if event["event"] == kind]

    def wait_for(self, kind: str, count: int = 1, timeout: float = 30) -> list[dict[str, Any]]:
        def enough() -> bool:
            if self.process.poll() is not None:
                self._reader.join(5)
                assert len(self.of(kind)) >= count, f"it ended: {self.events}\n{self.said}"
            return len(self.of(kind)) >= count

        wait_until(enough, timeout, f"{count} {kind}; {self.events}\n{self.said}")
        return self.of(kind)

    @property
    def pids(self) -> list[int]:
        """Of the worker processes that have started and not ended."""
        ended = {event["pid"] for event in self.of("ended")}
        return [event["pid"] for event in self.of("started") if event["pid"] not in ended]

    @property
    def said(self) -> str:
        return self._stderr.read_text()

    def signal(self, number: signal.Signals = signal.SIGTERM) -> None:
        self.process.send_signal(number)

    def end(self, timeout: float = 40) -> int:
        """Its exit status, when it has ended by itself or by a signal it got."""
        status = self.process.wait(timeout)
        self._reader.join(10)
        return status

    @property
    def summary(self) -> dict[str, Any]:
        [found] = self.of("stopped")
        tasks = found["tasks"]
        assert isinstance(tasks, dict)
        return tasks


Start = Callable[..., Crew]


@contextmanager
def crews(folder: Path, url: str) -> Iterator[Start]:
    """Starts them in a folder; what is left of them is killed at the end."""
    started: list[Crew] = []

    def start(*words: str, target: str = "shop:app", **environment: str) -> Crew:
        stderr = folder / f"stderr-{len(started)}"
        with stderr.open("wb") as errors:
            process = subprocess.Popen(
                [sys.executable, "-m", "holdfast.cli.main", "worker", target, "--json", *words],
                cwd=folder,
                env=os.environ
                | {"PYTHONPATH": str(SOURCE), "HOLDFAST_URL": url, "PYTHONDONTWRITEBYTECODE": "1"}
                | environment,
                stdin=subprocess.DEVNULL,
                stdout=subprocess.PIPE,
                stderr=errors,
            )
        crew = Crew(process, stderr)
        started.append(crew)
        return crew

    try:
        yield start
    finally:
        for crew in started:
            crew.process.kill()
            crew.process.wait()
            pids = [event["pid"] for event in crew.of("started")]
            for pid in pids:
                if alive(pid):
                    os.kill(pid, signal.SIGKILL)
            wait_until(partial(_gone, pids), 20, "the end of all")
            if crew.process.stdout is not None:
                crew._reader.join(5)
                crew.process.stdout.close()
