"""An app's tasks on Spark's executors: what a slot does with a delivery where it serves an app.

The app does not travel, only its name: tasks are functions of modules, and a module that was pickled would be
a copy nobody knows. Each executor imports it, so it must be importable there.

As in a worker: results, retries, outcomes, dead letters, flows, unique names, limits, timeouts and
cancelling, by the same code (tasks/attempt.py, tasks/alone.py). Not here: schedules, which need a worker
somewhere, and processes for CPU-bound tasks, since a slot is a process already.
"""

from __future__ import annotations

import asyncio
import importlib
import logging
import os
import socket
import threading
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import reduce

from holdfast.client._sync.delivery import Delivery
from holdfast.engine import keys
from holdfast.engine.keys import QueueRef
from holdfast.errors import HoldfastError, InvalidArgument
from holdfast.message import parse_id
from holdfast.spark.jobs import timely
from holdfast.spark.jobs.permits import Permits
from holdfast.spark.place import Place
from holdfast.tasks.alone import Alone, Ended
from holdfast.tasks.app import App
from holdfast.tasks.attempt import Attempt

log = logging.getLogger("holdfast.worker")

# Of each moment in which an attempt can end, what the job counts.
_COUNTED = {
    "succeeded": ("handled",),
    "discarded": ("handled",),
    "cancelled": ("handled",),
    "retried": ("failed",),
    "buried": ("failed", "dead"),
}


@dataclass(frozen=True, slots=True)
class AppName:
    """`module:name` of an app. This is what travels."""

    target: str

    def load(self) -> App:
        module, _, name = self.target.partition(":")
        found = reduce(getattr, name.split("."), importlib.import_module(module))
        if not isinstance(found, App):
            raise InvalidArgument(f"{self.target} is not an App but {type(found).__name__}")
        return found

    def prepare(self, places: Sequence[Place]) -> None:
        """What the app says about these queues is set, once, by the driver."""
        app = self.load()
        for place in places:
            if place.topic:
                raise InvalidArgument("an app's tasks are in queues, not in topics")
            if settings := app.settings.get(place.name):
                place.client().queue(place.name).configure(**settings)


class Tasks:
    """`place`: a queue on the server that the app is to use. Deliveries come from one thread at a time,
    `look` from another."""

    def __init__(self, name: AppName, place: Place) -> None:
        self.app = name.load()
        self.app.connect_to(place.url, home=place.home, durability=None, check="off")
        self.name = f"spark:{socket.gethostname()}:{os.getpid()}"
        self._client = place.client()
        self._alone = Alone(self.app, self.name)
        self._permits = Permits(self.app, self._client)
        self._runner = asyncio.Runner()
        self._attempt: Attempt | None = None
        self._stop: Callable[[], object] = _nothing
        self._lock = threading.Lock()
        self.app.stack.tell("worker_started", self)

    def handle(self, delivery: Delivery) -> Sequence[str]:
        """One attempt, to its end; what to count."""
        attempt = self._alone.open(delivery)
        if attempt is None:
            return _COUNTED["buried"]
        verdict = self._permits.take(attempt)
        if verdict is None:
            try:
                self._alone.begin(attempt)
                self._attempt = attempt
                self.look()
                ended = self._call(attempt)
            finally:
                with self._lock:
                    self._attempt = None
                    self._permits.leave()
            verdict = self._alone.end(attempt, *ended)
        else:
            self._alone.settle(delivery, verdict)
        return _COUNTED.get(verdict.moment, ())

    def _call(self, attempt: Attempt) -> Ended:
        if attempt.context.cancelled:
            return None, asyncio.CancelledError()
        limit = attempt.task.definition.timeout
        if attempt.task.is_async:
            try:
                return self._runner.run(self._await(attempt, limit))
            except asyncio.CancelledError as error:  # it came when the handler had just ended
                return None, error
        if limit is not None:
            return timely.within(limit, self._alone.call, attempt)
        return self._alone.call(attempt)

    async def _await(self, attempt: Attempt, limit: float | None) -> Ended:
        task, loop = asyncio.current_task(), asyncio.get_running_loop()
        assert task is not None
        self._stop = lambda: loop.call_soon_threadsafe(task.cancel)
        if attempt.context.cancelled:  # since it was looked at, and nobody could be told
            task.cancel()
        try:
            async with asyncio.timeout(limit) as clock:
                ended = await self._alone.call_async(attempt)
        finally:
            self._stop = _nothing
        attempt.context.timed_out = clock.expired()
        return ended

    def look(self) -> None:
        """Now and then while an attempt goes on: is it cancelled? And its places under limits are kept."""
        attempt = self._attempt
        if attempt is None:
            return
        delivery, context = attempt.delivery, attempt.context
        key = keys.cancelled_key(QueueRef(context.queue, delivery.shard))
        try:
            if not context.cancelled:
                mark = self._client.transport.command(
                    "ZSCORE", key, parse_id(context.id)[0], key=key
                )
                with self._lock:
                    # Else it is the next one that would be stopped.
                    if mark is not None and attempt is self._attempt:
                        log.info("%s %s is cancelled", context.task, context.id)
                        context.cancelled = True
                        self._stop()
            with self._lock:
                if attempt is self._attempt:
                    self._permits.renew()
        except HoldfastError as error:
            log.warning("looking after %s %s: %s", context.task, context.id, error)

    def close(self) -> None:
        self.app.stack.tell("worker_stopped", self)
        self._runner.run(self.app.close_async())
        self._runner.close()
        self.app.close()


def _nothing() -> None: ...
