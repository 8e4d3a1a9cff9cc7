"""Watching a worker from beside its loop: what it has done, whether it should go, whether it still can.

A thread, since what it looks for includes a loop that does not move.
"""

from __future__ import annotations

import asyncio
import logging
import threading
import time
from collections.abc import Callable
from typing import TYPE_CHECKING

from holdfast.worker import memory
from holdfast.worker.counts import Counts
from holdfast.worker.orders import Config, Progress, Why

if TYPE_CHECKING:
    from holdfast.worker.main import Process
    from holdfast.worker.worker import Worker

log = logging.getLogger("holdfast.worker")

_TICK = 0.5
# Of its memory limit. What it holds by then it will hardly give back.
_FULL = 0.9
# A loop that does not answer for so long is blocked.
_BLOCKED = 2.0
_SLOW_START = 3.0
_RAN = frozenset(("succeeded", "retried", "buried", "snoozed", "discarded"))


class Watch:
    """To be made on the worker's loop, before the worker runs."""

    def __init__(self, worker: Worker, config: Config, process: Process) -> None:
        self._loop = asyncio.get_running_loop()
        self._worker = worker
        self._config = config
        self._process = process
        self._leaving = False
        self._told: dict[str, dict[str, int]] = {}
        self._began = time.monotonic()
        self._over = threading.Event()
        self._thread = threading.Thread(target=self._run, name="holdfast-watch", daemon=True)
        if config.max_tasks:
            worker.counts = _Until(config.max_tasks, lambda: self._leave("max_tasks"))
        self._thread.start()

    def stop(self) -> None:
        """The worker has ended. All it did is told."""
        self._over.set()
        self._thread.join(5)
        self._tell_progress()

    def idle(self) -> None:
        """The worker has ended by itself, having nothing to do."""
        if not self._process.stopping:
            self._leave("idle", "there was nothing to do")

    def _run(self) -> None:
        while not self._over.wait(_TICK):
            try:
                self._look()
            except Exception:
                # Whoever asks for a limit counts on it.
                log.exception("watching the worker; going on")

    def _look(self) -> None:
        if not self._process.started:
            self._wait_for_start()
            return
        self._tell_progress()
        if self._config.memory_limit and memory.used() > self._config.memory_limit * _FULL:
            self._leave("memory", "the process is at its memory limit")
        if (why := self._worker.broken()) is not None and not self._leaving:
            self._give_up(why)

    def _wait_for_start(self) -> None:
        if time.monotonic() - self._began > _SLOW_START:
            log.warning("the server does not answer yet; going on trying")
            self._began += 10.0

    def _tell_progress(self) -> None:
        done = self._worker.counts.copy()
        if done != self._told:
            self._told = done
            self._process.tell(Progress(done))

    def _leave(self, why: Why, text: str = "") -> None:
        if self._leaving:
            return
        self._leaving = True
        if not self._process.stopping:
            log.info("taking no more tasks: %s", text or why)
        self._process.leave(why, text)
        self._process.stop("quiet")

    def _give_up(self, why: str) -> None:
        """This process can do no more; another one shall."""
        log.critical("%s; this process ends and is replaced", why)
        self._process.status = self._process.BROKEN
        self._leave("broken", why)
        alive = threading.Event()
        self._loop.call_soon_threadsafe(alive.set)
        if not alive.wait(_BLOCKED):
            self._process.end()


class _Until(Counts):
    """Calls `enough` once when so many tasks have been run."""

    def __init__(self, most: int, enough: Callable[[], None]) -> None:
        super().__init__()
        self._left = most
        self._enough = enough

    def add(self, task: str, moment: str, started: float = 0.0) -> None:
        super().add(task, moment, started)
        if moment in _RAN:
            self._left -= 1
            if self._left == 0:
                self._enough()
