"""Sends tasks of one side, and says what it took: `python send.py APP turns|feed|paced|stuck …`.

    turns               for each line on stdin, ms: for so long one by one, then by the thousand
    feed COUNT          COUNT of them, by the side's way for many
    paced COUNT RATE    COUNT of them at RATE a second, each with the time when it was sent
    stuck               one that never ends

An app has `send(n)` and `send_all(numbers)`, both plain or both `async`; an async one may have `opened()`,
an async context manager around all of it. Rates are taken with everything connected and warm.
"""

from __future__ import annotations

import asyncio
import contextlib
import gc
import importlib
import inspect
import json
import sys
import time
from collections.abc import Callable, Iterator
from types import ModuleType
from typing import Any

import tally

Send = Callable[[range], None]

SINGLE = 50
"""Tasks between two looks at the clock."""
BULK = 1000


class Plain:
    def __init__(self, app: ModuleType) -> None:
        self.app = app

    def single(self, numbers: range) -> None:
        send = self.app.send
        for n in numbers:
            send(n)

    def bulk(self, numbers: range) -> None:
        self.app.send_all(numbers)

    def paced(self, times: Iterator[float]) -> None:
        for at in times:
            time.sleep(max(0.0, at - time.monotonic()))
            self.app.send(tally.stamp())


class Async:
    """The loop turns only while something is sent."""

    def __init__(self, app: ModuleType, runner: asyncio.Runner) -> None:
        self.app, self.runner = app, runner

    def single(self, numbers: range) -> None:
        self.runner.run(self._single(numbers))

    async def _single(self, numbers: range) -> None:
        send = self.app.send
        for n in numbers:
            await send(n)

    def bulk(self, numbers: range) -> None:
        self.runner.run(self.app.send_all(numbers))

    def paced(self, times: Iterator[float]) -> None:
        self.runner.run(self._paced(times))

    async def _paced(self, times: Iterator[float]) -> None:
        for at in times:
            await asyncio.sleep(max(0.0, at - time.monotonic()))
            await self.app.send(tally.stamp())


@contextlib.contextmanager
def opened(app: ModuleType) -> Iterator[Plain | Async]:
    if not inspect.iscoroutinefunction(app.send):
        yield Plain(app)
        return
    factory: Any = None
    with contextlib.suppress(ImportError):  # it is there where the peer makes use of it
        import uvloop

        factory = uvloop.new_event_loop
    with asyncio.Runner(loop_factory=factory) as runner:
        around = getattr(app, "opened", contextlib.nullcontext)()
        runner.run(around.__aenter__())
        yield Async(app, runner)
        runner.run(around.__aexit__(None, None, None))


def rate(send: Send, batch: int, ms: int) -> int:
    """Tasks in 1000 s, sent in batches until the time is over."""
    send(range(batch))
    gc.collect()
    start = now = time.monotonic_ns()
    sent = 0
    while now - start < ms * 1_000_000:
        send(range(batch))
        sent += batch
        now = time.monotonic_ns()
    return round(sent * 1e12 / (now - start))


def rates(side: Plain | Async, ms: int) -> dict[str, int]:
    return {"single": rate(side.single, SINGLE, ms), "bulk": rate(side.bulk, BULK, ms)}


def main(name: str, how: str, *numbers: str) -> dict[str, int]:
    count, *more = map(int, numbers or "0")
    with opened(importlib.import_module(name)) as side:
        if how == "turns":
            for line in sys.stdin:
                print(json.dumps(rates(side, int(line))), flush=True)
        elif how == "feed":
            side.bulk(range(count))
        elif how == "paced":
            start = time.monotonic()
            side.paced(start + number / more[0] for number in range(count))
        elif how == "stuck":
            side.single(range(tally.STUCK, tally.STUCK + 1))
    return {}


if __name__ == "__main__":
    print(json.dumps(main(*sys.argv[1:])))
