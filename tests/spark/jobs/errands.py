"""An app as Spark's executors import it: a file that was shipped to them."""

from __future__ import annotations

import asyncio
import os
import signal
import sys
import time
from typing import Any

import holdfast
from holdfast import Retries

app = holdfast.App(queue="errands", retries=Retries(2, first=0.1, jitter=0))
app.queue("errands", lease=20)
started: list[str] = []


@app.on("worker_started")
def note(worker: Any) -> None:
    started.append(worker.name)


def say(what: bytes) -> None:
    """To whoever wants to know where a handler is."""
    app.desk().client.queue("errands-said").send(what)


@app.task
def add(first: int, second: int) -> int:
    return first + second


@app.task
def total(numbers: list[int]) -> int:
    return sum(numbers)


@app.task
async def gather(n: int) -> int:
    return sum(await asyncio.gather(*(asyncio.sleep(0, result=i) for i in range(n))))


@app.task
def where() -> tuple[int, str, list[str]]:
    return os.getpid(), holdfast.current().worker, started


@app.task
def flaky() -> int:
    if holdfast.current().attempt < 3:
        raise ConnectionError("not yet")
    return holdfast.current().attempt


@app.task
def hopeless() -> None:
    raise ValueError("never")


@app.task
def leaves() -> None:
    sys.exit(3)


@app.task
def never_mind() -> None:
    raise holdfast.Discard("not needed")


@app.task
def nap(until: float) -> str:
    if time.time() < until:
        raise holdfast.Snooze(0.2)
    return "awake"


@app.task(timeout=0.5, retries=0)
def hangs() -> None:
    try:
        while True:
            time.sleep(0.02)
    finally:
        say(b"interrupted")


@app.task(timeout=0.5, retries=0)
async def hangs_too() -> None:
    await asyncio.sleep(600)


@app.task
async def endless() -> None:
    say(b"endless")
    await asyncio.sleep(600)


@app.task(limits=[holdfast.Rate(1, per=3600)])
def rare() -> str:
    return "once"


@app.task(queue="errands-aside", limits=[holdfast.Concurrency(1)])
def one_at_a_time() -> tuple[float, float]:
    began = time.monotonic()
    time.sleep(0.05)  # long enough to overlap with the other slot's
    return began, time.monotonic()


@app.task(unique="queued")
def once(n: int) -> int:
    return n


@app.task(queue="errands-deadly")
def deadly() -> int:
    if holdfast.current().attempt == 1:
        os.kill(os.getpid(), signal.SIGKILL)
    return holdfast.current().attempt
