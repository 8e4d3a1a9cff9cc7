"""The inline mode of a kit: tasks run where they are sent, before `send` returns.

Still through the server, and by the same rules as in a worker; but one at a time, a function in the very
thread of the test (so that a debugger, a transaction or a monkeypatch of the test is there too), a coroutine
on the loop of the test where it has one. A retry does not wait; what is sent for later, or snoozed, waits for
the clock. Timeouts and limits are not kept.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine, Generator, Iterable, Iterator
from contextlib import AsyncExitStack, contextmanager
from contextvars import ContextVar
from typing import Any
from weakref import WeakKeyDictionary

from holdfast.client._sync.delivery import Delivery
from holdfast.client._sync.queue import Queue
from holdfast.engine.calls import MAX_COUNT
from holdfast.tasks.alone import Alone, Ended
from holdfast.tasks.app import App
from holdfast.tasks.attempt import Attempt
from holdfast.worker.counts import Counts

# A task that sends a task that sends a task …: so deep they run inside each other, then one after the other.
_DEPTH = 10

Name = tuple[str, str]
"""A message: its queue and its id."""

# Of each thread or coroutine: how deep inside of tasks it is; and, while one is settled, where to note what
# is sent, which is run next and not inside.
_depth: ContextVar[int] = ContextVar("holdfast_inline_depth", default=0)
_noting: ContextVar[set[Name] | None] = ContextVar("holdfast_inline_noting", default=None)


@contextmanager
def _noted(names: set[Name]) -> Iterator[None]:
    _noting.set(names)
    try:
        yield
    finally:
        _noting.set(None)


class Inline:
    """`queues`: those to look at. `run`: runs a coroutine to its end."""

    def __init__(
        self,
        app: App,
        queues: Callable[[], Iterable[Queue]],
        run: Callable[[Coroutine[Any, Any, Ended]], Ended],
    ) -> None:
        self._alone = Alone(app, "inline")
        self._queues = queues
        self._run = run
        self._turns: WeakKeyDictionary[asyncio.AbstractEventLoop, asyncio.Lock] = (
            WeakKeyDictionary()
        )

    def drain(self, sent: Iterable[Name] = ()) -> Counts:
        """Run all that is due; inside of a task only what was sent there, and what that sends."""
        counts = Counts()
        steps = self._attempts(counts, set(sent))
        try:
            attempt = next(steps)
            while True:
                if attempt.task.is_async:
                    ended = self._run(self._alone.call_async(attempt))
                else:
                    ended = self._alone.call(attempt)
                attempt = steps.send(ended)
        except StopIteration:
            return counts
        finally:
            steps.close()

    async def drain_async(self, sent: Iterable[Name] = ()) -> Counts:
        """The same on the running loop; functions in a thread beside it, as in a worker."""
        counts = Counts()
        async with AsyncExitStack() as stack:
            if not _depth.get():
                # Of several who send at once, one may run what another sent; that one must wait for it.
                turn = self._turns.setdefault(asyncio.get_running_loop(), asyncio.Lock())
                await stack.enter_async_context(turn)
            steps = self._attempts(counts, set(sent))
            stack.callback(steps.close)
            try:
                attempt = next(steps)
                while True:
                    if attempt.task.is_async:
                        ended = await self._alone.call_async(attempt)
                    else:
                        ended = await asyncio.to_thread(self._alone.call, attempt)
                    attempt = steps.send(ended)
            except StopIteration:
                pass
        return counts

    def _attempts(self, counts: Counts, sent: set[Name]) -> Generator[Attempt, Ended, None]:
        """Each attempt that is to be made; what came of it is sent back."""
        noting, depth = _noting.get(), _depth.get()
        if noting is not None:
            noting |= sent
        if noting is not None or depth >= _DEPTH:
            return  # who brought us here goes on with it
        _depth.set(depth + 1)
        try:
            while (delivery := self._take(sent if depth else None)) is not None:
                with _noted(sent):
                    attempt = self._alone.open(delivery)
                    if attempt is not None:
                        self._alone.begin(attempt)
                if attempt is None:
                    counts.add("", "buried")
                    continue
                try:
                    ended = yield attempt
                except BaseException:
                    delivery.release()  # broken off: no fault of the task
                    raise
                with _noted(sent):
                    counts.add(attempt.task.name, self._end(attempt, *ended))
        finally:
            _depth.set(depth)

    def _take(self, wanted: set[Name] | None) -> Delivery | None:
        """The next one that is due; of these only, if told so."""
        for queue in self._queues():
            if wanted is None:
                if (delivery := queue.receive()) is not None:
                    return delivery
            elif any(name == queue.name for name, _ in wanted):
                got = queue.receive_many(MAX_COUNT)
                ours = next((d for d in got if (queue.name, d.id) in wanted), None)
                queue.release_many([delivery for delivery in got if delivery is not ours])
                if ours is not None:
                    return ours
        return None

    def _end(self, attempt: Attempt, value: Any, error: BaseException | None) -> str:
        verdict = self._alone.judge(attempt, value, error)
        if verdict.moment == "retried":
            at_once = verdict.settlement._replace(delay_ms=0)
            verdict = verdict._replace(settlement=at_once)
        self._alone.settle(attempt.delivery, verdict)
        return verdict.moment
