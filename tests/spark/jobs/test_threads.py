"""Threads of long tasks and their driver, in the moments in which they used to get in each other's way.

No Spark runs here, and no server.
"""

from __future__ import annotations

import asyncio
import errno
import logging
import socket
import threading
from collections import Counter
from types import SimpleNamespace
from typing import Any, cast

import pytest

from holdfast.message import parse_id
from holdfast.spark.jobs import lifeline, tasks, timely
from holdfast.spark.jobs.tasks import Tasks
from holdfast.spark.jobs.work import _Slot
from holdfast.tasks.attempt import Attempt
from tests.servers import wait_until

DEADLINE = 10.0


# ---- the driver ---------------------------------------------------------------------------


def test_the_driver_hears_tasks_that_come_after_one_it_could_not_accept(
    caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    class Server:
        """The first call fails: this process has too many open files."""

        def __init__(self, real: socket.socket) -> None:
            self._real = real
            self._failed = False

        def accept(self) -> Any:
            if not self._failed:
                self._failed = True
                raise OSError(errno.EMFILE, "Too many open files")
            return self._real.accept()

        def __getattr__(self, name: str) -> Any:
            return getattr(self._real, name)

    listening = socket.create_server
    monkeypatch.setattr("socket.create_server", lambda where: Server(listening(where)))
    context = SimpleNamespace(getConf=dict)
    with (
        caplog.at_level(logging.ERROR, "holdfast.worker"),
        lifeline.Driver(cast("Any", SimpleNamespace(sparkContext=context))) as driver,
    ):
        told = threading.Event()
        task = lifeline.Task(driver.address, told.set)
        wait_until(lambda: driver.tasks == 1, DEADLINE, "a task that is heard")
        driver.hang_up()
        assert told.wait(DEADLINE)
        task.close()
    [said] = caplog.records
    assert said.exc_info is not None


# ---- a slot -------------------------------------------------------------------------------


@pytest.mark.slow
def test_what_is_counted_after_the_last_look_is_told() -> None:
    class Slot(_Slot):
        """Its thread counts, and ends, when the counts have just been told."""

        def __init__(self) -> None:
            place = SimpleNamespace(name="q")
            self._plan = cast("Any", SimpleNamespace(places=[place]))
            self._consumers = cast("Any", [None])
            self._counting = threading.Lock()
            self._counts = {}
            self._failures = []
            self._tasks = None
            self._line = cast("Any", SimpleNamespace(tell=told.append, close=lambda: None))
            self._looked = threading.Event()

        def _consume(self, place: Any, consumer: Any) -> None:
            me.append(threading.current_thread())
            assert self._looked.wait(DEADLINE)
            self._count("q", ["handled"])

        def _tell(self) -> None:
            super()._tell()
            self._looked.set()
            me[0].join()

    told: list[Any] = []
    me: list[threading.Thread] = []
    Slot().work()
    assert told == [{"q": {"handled": 1}}]


class Attempts:
    """An attempt each for the deliveries that are handled; `call` runs what it was given."""

    def __init__(self, *calls: Any) -> None:
        self._calls = iter(calls)
        self.app = SimpleNamespace(stack=SimpleNamespace(tell=lambda *_: None))

    def open(self, number: int) -> Any:
        return SimpleNamespace(
            call=next(self._calls),
            delivery=SimpleNamespace(shard=0),
            context=SimpleNamespace(queue="q", id=f"1-{number}", task="t", cancelled=False),
            task=SimpleNamespace(
                is_async=False, definition=SimpleNamespace(timeout=None), name="t"
            ),
        )

    def begin(self, _: Any) -> None: ...

    def call(self, attempt: Any) -> Any:
        return attempt.call(), None

    async def call_async(self, attempt: Any) -> Any:
        try:
            return await attempt.call(), None
        except BaseException as error:
            return None, error

    def end(self, *_: Any) -> Any:
        return SimpleNamespace(moment="succeeded")


def tasks_of(attempts: Attempts, marked: Counter[bytes]) -> Tasks:
    made = Tasks.__new__(Tasks)
    made._alone = cast("Any", attempts)
    made._permits = cast(
        "Any", SimpleNamespace(take=lambda _: None, leave=lambda: None, renew=lambda: None)
    )

    def command(_: str, __: str, name: bytes, key: str) -> int | None:
        return marked[name] or None

    made._client = cast("Any", SimpleNamespace(transport=SimpleNamespace(command=command)))
    made._lock = threading.Lock()
    made._attempt = None
    made._stop = tasks._nothing
    return made


def test_a_cancelled_task_that_ends_just_then_does_not_have_the_next_one_stopped(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    go_on, next_runs, over = threading.Event(), threading.Event(), threading.Event()
    stopped: list[str] = []

    def first() -> None:
        assert go_on.wait(DEADLINE)

    def second() -> None:
        slot._stop = lambda: stopped.append("the second")
        next_runs.set()
        assert over.wait(DEADLINE)

    marked: Counter[bytes] = Counter()
    slot = tasks_of(Attempts(first, second), marked)
    handling = threading.Thread(
        target=lambda: [slot.handle(cast("Any", number)) for number in (1, 2)]
    )
    handling.start()
    wait_until(lambda: slot._attempt is not None, DEADLINE, "the first attempt")

    def ends_now(*_: Any) -> None:
        go_on.set()
        next_runs.wait(0.2)

    monkeypatch.setattr(tasks.log, "info", ends_now)
    marked[parse_id("1-1")[0]] = 1
    slot.look()
    over.set()
    handling.join()
    assert stopped == []


def test_a_task_that_is_cancelled_just_before_it_can_be_stopped_is_stopped() -> None:
    class Context:
        """Another thread says so when the task was found not to be cancelled."""

        queue, id, task, looks = "q", "1-1", "t", 0

        @property
        def cancelled(self) -> bool:
            self.looks += 1
            return self.looks > 1

    async def work() -> str:
        await asyncio.sleep(0.05)
        return "done"

    attempts = Attempts(work)
    attempt = attempts.open(1)
    attempt.context, attempt.task.is_async = Context(), True
    slot = tasks_of(attempts, Counter())
    with asyncio.Runner() as slot._runner:
        value, error = slot._call(cast("Attempt", attempt))
    assert (value, type(error)) == (None, asyncio.CancelledError)


# ---- a time limit -------------------------------------------------------------------------


def test_a_thread_that_ends_as_its_time_is_up_is_not_interrupted(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    class Ending(threading.Thread):
        """Seen alive, and gone before anything is made of it."""

        def is_alive(self) -> bool:
            seen.set()
            self.join()
            return True

    def call(_: Attempt) -> Any:
        assert seen.wait(DEADLINE)
        return "done", None

    def interrupt(*what: Any) -> None:
        interrupted.append(what)

    seen = threading.Event()
    interrupted: list[Any] = []
    monkeypatch.setattr("threading.Thread", Ending)
    monkeypatch.setattr("ctypes.pythonapi", SimpleNamespace(PyThreadState_SetAsyncExc=interrupt))
    attempt = SimpleNamespace(context=SimpleNamespace(timed_out=False, task="t", id="1-1"))
    assert timely.within(0.001, call, cast("Attempt", attempt)) == ("done", None)
    assert interrupted == []
