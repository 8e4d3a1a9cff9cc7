"""Running functions that keep a core busy: in processes of their own, as many as there are cores.

Processes are started when first needed and stay. One runs one attempt at a time; when the attempt is to
stop (its time is up, it is cancelled, its lease is lost) the process is killed, the only way that always
works, and the next attempt gets another one. A process that ends by itself fails the attempt it was at.

Fresh interpreters rather than forks: a fork of a process with threads and connections inherits locks that
nobody will open. Rejected: concurrent.futures, which pickles, and breaks as a whole when one process dies.
"""

from __future__ import annotations

import asyncio
import logging
import sys
import time
from collections import deque
from collections.abc import Coroutine
from contextlib import suppress
from functools import partial
from typing import Any

import msgspec

from holdfast.tasks.app import App
from holdfast.tasks.attempt import Attempt, Verdict
from holdfast.tasks.judging import judge
from holdfast.tasks.outcomes import WorkerProcessDied
from holdfast.telemetry import logs
from holdfast.worker.crossing import Answer, Hello, Request, verdict
from holdfast.worker.loading import locate
from holdfast.worker.pace import PATIENCE, Pace
from holdfast.worker.piece import Piece
from holdfast.worker.process import Process

log = logging.getLogger("holdfast.worker")

_answer = msgspec.msgpack.Decoder(Answer)


class Processes:
    """`target`: how a process finds the app; empty: where this process has it."""

    def __init__(self, target: str, most: int) -> None:
        self._target = target
        self._most = most
        self._all: set[Process] = set()
        self._idle: list[Process] = []
        self._starting: dict[Process, asyncio.Task[None]] = {}
        self._waiting: deque[tuple[Piece, asyncio.Future[Process | None]]] = deque()
        self._pace = Pace(most)
        self._taken = 0
        self._problem_wait = 0.0
        self._closed = asyncio.Event()

    @property
    def room(self) -> int:
        """How many more pieces there is a use for."""
        return self._pace.room(self._taken, len(self._waiting))

    def run(self, piece: Piece) -> Coroutine[Any, Any, Verdict]:
        """Runs the piece's task in a process; what is to become of it."""
        # At once and not when the coroutine runs: until then the worker might take more.
        self._taken += 1
        return self._run(piece)

    async def _run(self, piece: Piece) -> Verdict:
        try:
            return await self._judge(piece)
        finally:
            self._taken -= 1

    async def _judge(self, piece: Piece) -> Verdict:
        attempt = piece.attempt
        try:
            process = self._idle.pop() if self._idle else await self._wait_for_one(piece)
        except WorkerProcessDied as error:
            return attempt.failed(error.with_traceback(None))
        if process is None:
            return _unbegun(attempt)
        try:
            return await self._on(process, piece)
        finally:
            self._pace.took(time.monotonic() - attempt.started)
            if process.fit:
                self._give(process)
            else:
                process.kill()

    async def _on(self, process: Process, piece: Piece) -> Verdict:
        attempt = piece.attempt
        context, delivery = attempt.context, piece.delivery
        app, limit = attempt.task.app, attempt.task.definition.timeout
        piece.stop = process.kill
        # It may have waited for the process.
        attempt.started = context.started = time.monotonic()

        def out_of_time() -> None:
            context.timed_out = True
            process.kill()

        loop = asyncio.get_running_loop()
        timer = None if limit is None else loop.call_later(limit, out_of_time)
        try:
            said = await process.ask(
                Request(
                    delivery.wire,
                    delivery.packed,
                    delivery.shard,
                    context.queue,
                    context.worker,
                    app.stack.listens("succeeded"),
                )
            )
        except WorkerProcessDied as error:
            return _stopped(attempt, error)
        finally:
            if timer is not None:
                timer.cancel()
        return verdict(_answer.decode(said), attempt.task)

    # ---- who gets which -------------------------------------------------------------------

    async def _wait_for_one(self, piece: Piece) -> Process | None:
        """None: it shall not be begun with."""
        loop = asyncio.get_running_loop()
        got: asyncio.Future[Process | None] = loop.create_future()
        piece.stop = partial(_settle, got)
        self._waiting.append((piece, got))
        self._fill(piece.attempt.task.app)

        def others_may_be_free() -> None:
            if self._starting:
                timers[0] = loop.call_later(PATIENCE, others_may_be_free)
            else:
                _settle(got)

        timers = [loop.call_later(PATIENCE, others_may_be_free)]
        try:
            return await got
        finally:
            timers[0].cancel()

    def _give(self, process: Process) -> None:
        """A process is free: for the one that waited longest, if any does."""
        while self._waiting:
            _, got = self._waiting.popleft()
            if not got.done():
                got.set_result(process)
                return
        if self._closed.is_set():
            process.kill()
        else:
            self._idle.append(process)

    def _fill(self, app: App) -> None:
        """Start as many as are waited for."""
        missing = sum(not got.done() for _, got in self._waiting) - len(self._starting)
        for _ in range(0 if self._closed.is_set() else min(missing, self._most - len(self._all))):
            process = Process(self._gone)
            self._all.add(process)
            self._starting[process] = asyncio.get_running_loop().create_task(
                self._start(process, app)
            )

    async def _start(self, process: Process, app: App) -> None:
        try:
            with suppress(TimeoutError):
                await asyncio.wait_for(self._closed.wait(), self._problem_wait)
            await process.prepare(self._hello(app))
        except Exception as error:  # whatever it is, somebody waits for a process
            self._problem_wait = min(self._problem_wait * 2 or 0.1, 10.0)
            if not self._closed.is_set():
                log.error("a process for CPU-bound tasks: %s", error)
            self._starting.pop(process, None)
            self._fail_one(WorkerProcessDied(str(error)))
            self._gone(process)
            self._fill(app)
        else:
            self._problem_wait = 0.0
            self._starting.pop(process, None)
            self._give(process)

    def _fail_one(self, error: WorkerProcessDied) -> None:
        while self._waiting:
            _, got = self._waiting.popleft()
            if not got.done():
                got.set_exception(error)
                return

    def _gone(self, process: Process) -> None:
        self._all.discard(process)
        if process in self._idle:
            self._idle.remove(process)
        if self._waiting:
            self._fill(self._waiting[0][0].attempt.task.app)

    def _hello(self, app: App) -> Hello:
        self._target = self._target or locate(app)
        if not self._target:
            raise WorkerProcessDied(
                "no module has this app under a name, so that another process could find it; put it into "
                "a module, or run the task in a thread"
            )
        return Hello(self._target, sys.path, app.connection, *logs.in_use())

    # ---- stopping -------------------------------------------------------------------------

    def take_back(self) -> list[Piece]:
        """Those that no process has begun with."""
        found = []
        for piece, got in self._waiting:
            if not got.done():
                got.set_result(None)
                found.append(piece)
        self._waiting.clear()
        return found

    async def close(self) -> None:
        self._closed.set()
        self._idle.clear()
        # Not cancelled: a start that is given up half way leaves a process that nobody knows.
        for process in self._starting:
            process.kill()
        await asyncio.gather(*self._starting.values())
        await asyncio.gather(*(process.end() for process in list(self._all)))


def _settle(got: asyncio.Future[Process | None]) -> None:
    if not got.done():
        got.set_result(None)


def _unbegun(attempt: Attempt) -> Verdict:
    return attempt.cancelled() if attempt.context.cancelled else attempt.released()


def _stopped(attempt: Attempt, error: WorkerProcessDied) -> Verdict:
    """Its process is gone: because we said so, or not."""
    if attempt.context.lost:
        return attempt.released()
    # Where we noticed it is of no interest.
    return judge(attempt, None, error.with_traceback(None))
