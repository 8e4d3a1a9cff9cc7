"""An app whose tasks keep a core busy, in a module: processes find it by its name."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path

import holdfast
from holdfast import Retries

app = holdfast.App(queue="busy", check="off")
FIRST_TIME = Retries(2, first=0.01)


@dataclass
class Report:
    at: datetime
    data: bytes
    pid: int


@app.task(run="process")
def report(at: datetime, data: bytes) -> Report:
    return Report(at, data, os.getpid())


@app.task(run="process")
def whoami() -> int:
    return os.getpid()


@app.task(run="process", result_ttl=None)
def careless() -> int:
    return "no number"  # type: ignore[return-value]


@app.task(run="process")
def told() -> dict[str, str | int]:
    now = holdfast.current()
    return {
        "id": now.id,
        "task": now.task,
        "queue": now.queue,
        "attempt": now.attempt,
        "worker": now.worker,
        "about": now.attributes.get("about", ""),
        "wrapped": os.environ.get("WRAPPED", ""),
    }


@app.task(run="process", retries=FIRST_TIME)
def at_first(how: str) -> int:
    """Ends badly at the first attempt; then returns which attempt it was."""
    attempt = holdfast.current().attempt
    if attempt == 1:
        if how == "sys.exit":
            sys.exit(3)
        if how == "os._exit":
            os._exit(3)
        if how == "kill -9":
            os.kill(os.getpid(), signal.SIGKILL)
        if how == "segfault":
            os.kill(os.getpid(), signal.SIGSEGV)
        if how == "KeyboardInterrupt":
            raise KeyboardInterrupt
        if how == "Retry":  # no error
            raise holdfast.Retry(in_=0)
        if how == "raise":
            raise ValueError("at first")
    return attempt


@app.task(run="process", retries=Retries(5, on={KeyError: 0}))
def hopeless() -> None:
    raise KeyError("no such customer")


@app.task(run="process", retries=0)
def says(outcome: str) -> None:
    if outcome == "snooze":
        raise holdfast.Snooze(60)
    raise holdfast.Discard("not needed")


@app.task(run="process", timeout=0.5, retries=0)
def too_long(folder: str) -> None:
    linger(folder)


@app.task(run="process", retries=0)
def linger(folder: str, seconds: float = 60) -> str:
    """Says in a file which processes it consists of."""
    other = subprocess.Popen(["sleep", str(seconds)])
    pids = Path(folder) / "pids"
    pids.with_suffix(".new").write_text(f"{os.getpid()} {other.pid}")
    pids.with_suffix(".new").rename(pids)
    other.wait()
    return "done"


@app.task(run="process")
def nap(seconds: float) -> int:
    time.sleep(seconds)
    return os.getpid()


@app.task(run="process")
def double(n: int) -> int:
    return 2 * n


@app.task(run="process")
def passes_on(n: int) -> str:
    """Sends another task, from where it runs."""
    return str(double.send(n).id)


class Wraps(holdfast.Middleware):
    @contextmanager
    def wrap(self, context: holdfast.Context) -> Iterator[None]:
        os.environ["WRAPPED"] = context.task
        yield


app.add(Wraps())
