"""Running a piece: on the loop, in a thread or in a process, with its time watched.

Whatever a handler raises, SystemExit and the like included, it is the task that failed and not the worker.
Every way ends in `ended` or `judged`, exactly once for a piece that is not over: a handler that ends after it
was given up is not listened to.
"""

from __future__ import annotations

import asyncio
import logging
import os
import time
from collections.abc import Callable, Coroutine
from contextlib import suppress
from contextvars import copy_context
from typing import Any, Protocol

from holdfast.tasks import context as contexts
from holdfast.tasks.attempt import Verdict
from holdfast.tasks.middleware import Stack
from holdfast.tasks.outcomes import TaskTimeout
from holdfast.worker.piece import Piece
from holdfast.worker.plan import Plan
from holdfast.worker.processes import Processes
from holdfast.worker.threads import Threads

log = logging.getLogger("holdfast.worker")

# How long a handler has to heed the end of its time before it is given up.
_HEED = 1.0


class Ended(Protocol):
    def __call__(self, piece: Piece, value: Any, error: BaseException | None, /) -> None: ...


class Runner:
    def __init__(
        self, plan: Plan, stack: Stack, ended: Ended, judged: Callable[[Piece, Verdict], None]
    ) -> None:
        self._loop = asyncio.get_running_loop()
        self._apart = plan.apart
        self._stack = stack
        self._ended = ended
        self._judged = judged
        self._jobs: set[asyncio.Task[Any]] = set()
        self._handlers: dict[Piece, asyncio.Task[None]] = {}
        self._context = copy_context()
        self._threads = Threads(plan.concurrency, self._call, self._from_thread)
        self._processes = Processes(plan.target, plan.processes or os.cpu_count() or 1)

    @property
    def stuck(self) -> int:
        """Threads that do not come back."""
        return self._threads.stuck

    @property
    def room_apart(self) -> int:
        """How many more tasks the processes have a use for."""
        return self._processes.room

    def begin(self, piece: Piece) -> None:
        attempt = piece.attempt
        attempt.started = attempt.context.started = time.monotonic()
        if self._stack.listens("started"):
            self._stack.tell("started", attempt.context)
        if attempt.task.is_async:
            job = self._loop.create_task(self._await(piece), context=self._context.copy())
            self._handlers[piece] = job
            piece.stop = job.cancel
        elif attempt.task.definition.run == "process" and self._apart:
            self.spawn(self._in_process(piece, self._processes.run(piece)))
            return
        else:
            piece.stop = _nothing
            self._threads.submit(piece)
        limit = attempt.task.definition.timeout
        if limit is not None:
            self._loop.call_later(limit, self._out_of_time, piece)

    def spawn(self, work: Coroutine[Any, Any, Any]) -> asyncio.Task[Any]:
        """Something that goes on beside; kept from the garbage collector."""
        # Not in the context of whoever ended just now: what a handler set is its own.
        job = self._loop.create_task(work, context=self._context.copy())
        self._jobs.add(job)
        job.add_done_callback(self._jobs.discard)
        return job

    # ---- the three ways -------------------------------------------------------------------

    async def _await(self, piece: Piece) -> None:
        attempt, value = piece.attempt, None
        error: BaseException | None = None
        token = contexts.enter(attempt.context)
        try:
            if self._stack.wraps:
                with self._stack.around(attempt.context):
                    value = await attempt.task.function(*attempt.args, **attempt.kwargs)
            else:
                value = await attempt.task.function(*attempt.args, **attempt.kwargs)
        except BaseException as raised:
            error = raised
        finally:
            contexts.leave(token)
        # By hand, and not by a callback: that would be another turn of the loop for each task.
        del self._handlers[piece]
        self._ended(piece, value, error)

    def _call(self, piece: Piece) -> Any:
        """In a thread."""
        attempt = piece.attempt
        # It may have waited for the thread.
        attempt.started = attempt.context.started = time.monotonic()
        contexts.enter(attempt.context)
        with self._stack.around(attempt.context):
            return attempt.task.function(*attempt.args, **attempt.kwargs)

    def _from_thread(self) -> None:
        with suppress(RuntimeError):  # the loop is closed: the worker did not wait for it
            self._loop.call_soon_threadsafe(self._take_outcomes)

    def _take_outcomes(self) -> None:
        for piece, value, error in self._threads.take():
            self._ended(piece, value, error)

    async def _in_process(self, piece: Piece, work: Coroutine[Any, Any, Verdict]) -> None:
        self._judged(piece, await work)

    # ---- too long -------------------------------------------------------------------------

    def _out_of_time(self, piece: Piece) -> None:
        attempt = piece.attempt
        limit = attempt.task.definition.timeout
        if piece.over or limit is None:
            return
        left = attempt.started + limit - time.monotonic()
        if left > 0.001:  # it had to wait for a thread
            self._loop.call_later(left, self._out_of_time, piece)
            return
        attempt.context.timed_out = True
        if attempt.task.is_async:
            if piece.stop is not None:
                piece.stop()
        else:
            self._threads.interrupt(piece, TaskTimeout)
        self._loop.call_later(_HEED, self._give_up, piece)

    def _give_up(self, piece: Piece) -> None:
        """It does not heed; its task goes on without it."""
        if piece.over:
            return
        name, task_id = piece.names
        said = ("%s %s does not end after its timeout; it is left behind", name, task_id)
        log.error(*said, extra=piece.extra)
        if not piece.attempt.task.is_async:
            self._threads.give_up(piece)
        self._ended(piece, None, TaskTimeout())

    # ---- stopping -------------------------------------------------------------------------

    def take_back(self) -> list[Piece]:
        """Those that are not really begun: they wait for a thread or process."""
        return [*self._threads.take_back(), *self._processes.take_back()]

    async def close(self) -> None:
        await self._processes.close()
        self._threads.close()
        jobs = {*self._jobs, *self._handlers.values()}
        for job in jobs:
            job.cancel()
        if jobs:
            await asyncio.wait(jobs, timeout=_HEED)


def _nothing() -> None:
    """A thread sees that it is unwanted in its context."""
