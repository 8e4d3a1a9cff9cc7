"""A worker process and the line to its supervisor."""

from __future__ import annotations

import logging
import threading
from typing import Any, cast

import pytest

from holdfast.worker.line import ChildEnd
from holdfast.worker.main import Process
from holdfast.worker.orders import Config, Leaving
from tests.servers import wait_until


@pytest.fixture(autouse=True)
def unforced(monkeypatch: pytest.MonkeyPatch) -> None:
    """Nobody ends the process of the tests."""
    monkeypatch.setattr(Process, "force", lambda *_: None)


class Line:
    """To a supervisor that says nothing, or something that cannot be understood."""

    def __init__(self, problem: Exception | None = None) -> None:
        self.told: list[Any] = []
        self._problem = problem
        self.over = threading.Event()

    def send(self, message: Any) -> None:
        self.told.append(message)

    def receive(self, _: Any) -> None:
        if self._problem is not None:
            raise self._problem
        self.over.wait(10)


def test_threads_that_leave_at_once_tell_one_reason() -> None:
    meet = threading.Barrier(2)

    class Looking(Process):
        def __getattribute__(self, name: str) -> Any:
            found = super().__getattribute__(name)
            # Both have looked before either says anything.
            if name == "_leaving" and threading.current_thread() in leaving:
                leaving.remove(threading.current_thread())
                meet.wait(10)
            return found

    line = Line()
    process = Looking(cast("ChildEnd", line), Config(target="t"))
    leaving = [
        threading.Thread(target=process.leave, args=("max_tasks",)),
        threading.Thread(target=process.leave, args=("told",)),
    ]
    threads = list(leaving)
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    line.over.set()
    # While nobody can be forced: later it would end the process of the tests, in forty seconds.
    wait_until(lambda: process.stopping, what="that it stops")
    [told] = line.told
    assert isinstance(told, Leaving)


def test_a_line_that_fails_stops_the_process_and_says_so(caplog: pytest.LogCaptureFixture) -> None:
    with caplog.at_level(logging.ERROR, "holdfast.worker"):
        process = Process(cast("ChildEnd", Line(OSError("no such line"))), Config(target="t"))
        wait_until(lambda: process.stopping, what="that it stops")
    [said] = caplog.records
    assert said.exc_info is not None
