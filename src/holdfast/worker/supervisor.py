"""The supervisor: starts worker processes, replaces those that end, passes on when to stop.

It never imports the app: so its memory stays small, what crashes the app does not crash it, and a process
that is started after a change runs the new code. Each worker process has a slot, kept filled by a loop of its
own:

    start ──► working ──► leaving (told, at its limit, broken) ──► gone
                 │                     │
                 └── died ─► wait      └── the next one starts at once, while this one still finishes

A process that cannot start because the call is wrong (no such module, …) ends it all with its error; so do
three starts in a row that fail otherwise, if none has ever worked. Later nothing makes it give up: it waits
longer and longer between starts. With `reload` the next change of a file is what it waits for.
"""

from __future__ import annotations

import asyncio
import random
import signal
from collections import Counter
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path

import msgspec

from holdfast.errors import FixTheCall, HoldfastError, TryAgain, by_code
from holdfast.worker import orders, reloading
from holdfast.worker.line import Child
from holdfast.worker.orders import Config, Counts, Failed, Leaving, Order, Progress, Started, Told

_TRIES = 3
_FIRST_PAUSE, _LONGEST_PAUSE = 0.2, 30.0
# One that worked for so long is a good one that met with an accident.
_GOOD = 10.0
# How long what runs may go on when files have changed.
_RELOAD = 2.0
# After their deadline, worker processes end themselves; this is for one that cannot.
_KILL = 20.0
_KILL_NOW = 6.0
_KEEP_FILLED = ("max_tasks", "memory", "broken")


class Ended(msgspec.Struct, tag="ended"):
    """A worker process is gone. `status`: its exit status, or minus the signal that ended it."""

    pid: int
    name: str
    status: int
    expected: bool


class Stopping(msgspec.Struct, tag="stopping"):
    signal: str
    now: bool


class Changed(msgspec.Struct, tag="changed"):
    files: list[str]


News = Told | Ended | Stopping | Changed
Hear = Callable[[News], None]


class Worker(Child):
    """A worker process. `vacated`: its slot is free for the next one."""

    def __init__(self, config: Config, hear: Callable[[Worker, Told], None]) -> None:
        super().__init__(self._hear)
        self._config = config
        self._tell = hear
        self.name = config.name
        self.counts: Counts = {}
        self.started = False
        self.leaving: Leaving | None = None
        self.failed: Failed | None = None
        self.reloaded = False
        self.vacated = asyncio.Event()

    async def begin(self) -> None:
        # Where stdout is for JSON, what handlers print goes to stderr.
        await self.start("holdfast.worker.main", 2 if self._config.json else None)
        self.send(self._config)

    def _hear(self, data: bytes) -> None:
        told = orders.told.decode(data)
        if isinstance(told, Started):
            self.started, self.name = True, told.name
        elif isinstance(told, Progress):
            self.counts = told.counts
        elif isinstance(told, Failed):
            self.failed = told
        elif isinstance(told, Leaving):
            self.leaving = told
            # A port that is served cannot be taken by the next one before this one is gone.
            if told.why in _KEEP_FILLED and not self._config.metrics_port:
                self.vacated.set()
        self._tell(self, told)


class Supervisor:
    """`hear` is told what happens. `folder`: what to watch for changes, if anything."""

    def __init__(
        self, config: Config, processes: int, hear: Hear, folder: Path | None = None
    ) -> None:
        self._config = config
        self._processes = processes
        self._hear = hear
        self._folder = folder
        self._all: dict[Worker, asyncio.Task[None]] = {}
        self._totals: Counter[tuple[str, str]] = Counter()
        self._signals = 0
        self._stop = asyncio.Event()
        self._changed = asyncio.Event()
        self._ever_started = False
        self._shown: set[str] = set()

    async def run(self) -> Counts:
        """Until told to stop, or until all have ended by themselves; what was done. Raises the error of
        processes that cannot work."""
        loop = asyncio.get_running_loop()
        for number in (signal.SIGTERM, signal.SIGINT):
            loop.add_signal_handler(number, self._signalled, number)
        watching = self._folder and loop.create_task(self._watch_files(self._folder))
        slots = [loop.create_task(self._keep(number)) for number in range(self._processes)]
        try:
            await asyncio.gather(*slots)
            await asyncio.gather(*self._all.values())
        except BaseException:
            self._order("quiet")
            await self._all_gone()
            raise
        finally:
            for job in [*slots, *([watching] if watching else [])]:
                job.cancel()
            for worker in self._all:
                worker.kill()
            for number in (signal.SIGTERM, signal.SIGINT):
                loop.remove_signal_handler(number)
        return self.totals()

    def totals(self) -> Counts:
        """By task: what happened, over all processes there have been."""
        sums = self._totals.copy()
        for worker in self._all:
            _add(sums, worker)
        found: Counts = {}
        for (task, moment), count in sorted(sums.items()):
            found.setdefault(task, {})[moment] = count
        return found

    # ---- slots ----------------------------------------------------------------------------

    async def _keep(self, number: int) -> None:
        """Keep one slot filled."""
        failures = 0
        pause = _FIRST_PAUSE
        loop = asyncio.get_running_loop()
        while not self._stop.is_set():
            began = loop.time()
            worker = await self._start(number)
            await worker.vacated.wait()
            if self._stop.is_set() or (worker.leaving and worker.leaving.why == "idle"):
                return
            if worker.reloaded or _is(worker, "max_tasks", "memory"):
                continue
            if self._folder is not None and not worker.started and not _may_pass(worker):
                await _either(self._stop, self._changed)
                continue
            failures = 0 if worker.started else failures + 1
            self._check(worker, failures)
            pause = _FIRST_PAUSE if loop.time() - began > _GOOD else min(pause * 2, _LONGEST_PAUSE)
            await _either(self._stop, self._changed, timeout=pause * random.uniform(0.5, 1.0))

    async def _start(self, number: int) -> Worker:
        self._changed.clear()
        config = msgspec.structs.replace(self._config, number=number)
        if config.name and self._processes > 1:
            config.name = f"{config.name}-{number + 1}"
        worker = Worker(config, self._told)
        await worker.begin()
        self._all[worker] = asyncio.get_running_loop().create_task(self._see_off(worker))
        if self._signals:
            worker.send(Order("quiet"))
        return worker

    async def _see_off(self, worker: Worker) -> None:
        status = await worker.ended()
        worker.hang_up()
        self._all.pop(worker)
        _add(self._totals, worker)
        expected = self._stop.is_set() or worker.reloaded or worker.leaving is not None
        try:
            if not worker.failed:
                self._hear(Ended(worker.pid, worker.name, status, expected))
        finally:
            # Whoever cannot be told of it: the place is free.
            worker.vacated.set()

    def _check(self, worker: Worker, failures: int) -> None:
        """Raises where there is no hope."""
        if self._ever_started or self._folder is not None or not failures:
            return
        if worker.failed is not None:
            error = by_code(worker.failed.code)(worker.failed.text)
            if worker.failed.trace:
                error.add_note(worker.failed.trace)
            if isinstance(error, FixTheCall) or failures >= _TRIES:
                raise error
        elif failures >= _TRIES:
            raise HoldfastError(
                f"a worker process ended with {status_text(worker.status)} before it had started, {failures} "
                "times in a row; what it said is above"
            )

    def _told(self, worker: Worker, told: Told) -> None:
        if isinstance(told, Started):
            self._ever_started = True
        if isinstance(told, Failed):
            # All processes of one app fail for the same reason; it is said once.
            if told.text in self._shown:
                return
            self._shown.add(told.text)
        self._hear(told)

    # ---- stopping -------------------------------------------------------------------------

    def _signalled(self, number: signal.Signals) -> None:
        self._signals += 1
        self._hear(Stopping(number.name, now=self._signals > 1))
        self._stop.set()
        loop = asyncio.get_running_loop()
        if self._signals == 1:
            self._order("quiet")
            loop.call_later(self._config.deadline + _KILL, self._kill)
        elif self._signals == 2:
            self._order("now")
            loop.call_later(_KILL_NOW, self._kill)
        else:
            self._kill()

    def _order(self, word: orders.Word) -> None:
        for worker in self._all:
            worker.send(Order(word))

    def _kill(self) -> None:
        for worker in self._all:
            worker.kill()

    async def _all_gone(self) -> None:
        if self._all:
            await asyncio.wait(list(self._all.values()), timeout=self._config.deadline + _KILL)

    # ---- reloading ------------------------------------------------------------------------

    async def _watch_files(self, folder: Path) -> None:
        async for files in reloading.changes(folder):
            self._shown.clear()
            self._hear(Changed(files))
            for worker in self._all:
                worker.reloaded = True
            self._changed.set()
            self._order("quiet")
            with suppress(TimeoutError):
                async with asyncio.timeout(_RELOAD):
                    await asyncio.gather(
                        *(each.vacated.wait() for each in self._all if each.reloaded)
                    )
            for worker in self._all:
                if worker.reloaded:
                    worker.send(Order("now"))


def _add(sums: Counter[tuple[str, str]], worker: Worker) -> None:
    for task, counts in worker.counts.items():
        for moment, count in counts.items():
            sums[task, moment] += count


def _is(worker: Worker, *why: str) -> bool:
    return worker.leaving is not None and worker.leaving.why in why


def _may_pass(worker: Worker) -> bool:
    """It cannot start for a reason that is not in its code."""
    return worker.failed is not None and issubclass(by_code(worker.failed.code), TryAgain)


def status_text(status: int | None) -> str:
    if status is None or status >= 0:
        return f"exit status {status}"
    return f"signal {signal.Signals(-status).name}"


async def _either(*events: asyncio.Event, timeout: float | None = None) -> None:
    waiting = [asyncio.ensure_future(event.wait()) for event in events]
    await asyncio.wait(waiting, timeout=timeout, return_when=asyncio.FIRST_COMPLETED)
    for job in waiting:
        job.cancel()
