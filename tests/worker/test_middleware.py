"""Middleware: each moment is told, wraps are around the handler, and neither can harm a task."""

from __future__ import annotations

import logging
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import pytest

import holdfast
from holdfast import Discard, Middleware, Retries, Snooze
from holdfast.errors import InvalidArgument
from holdfast.tasks.middleware import MOMENTS
from tests.working import home, work


class Notes(Middleware):
    def __init__(self) -> None:
        self.told: list[tuple[Any, ...]] = []

    def sending(self, sending: Any) -> None:
        sending.attributes["by"] = "notes"
        self.told.append(("sending", sending.task))

    def started(self, context: holdfast.Context) -> None:
        self.told.append(("started", context.task, context.attributes.get("by")))

    def succeeded(self, context: holdfast.Context, value: Any) -> None:
        self.told.append(("succeeded", context.task, value))

    def failed(self, context: holdfast.Context, error: BaseException) -> None:
        self.told.append(("failed", context.task, str(error)))

    def retried(self, context: holdfast.Context, error: BaseException, delay: float) -> None:
        self.told.append(("retried", context.task, delay > 0))

    def buried(self, context: holdfast.Context, error: Any) -> None:
        self.told.append(("buried", context.task))

    def snoozed(self, context: holdfast.Context, delay: float) -> None:
        self.told.append(("snoozed", context.task, delay))

    def discarded(self, context: holdfast.Context, why: str) -> None:
        self.told.append(("discarded", context.task, why))

    @contextmanager
    def wrap(self, context: holdfast.Context) -> Iterator[None]:
        self.told.append(("in", context.task))
        try:
            yield
        finally:
            self.told.append(("out", context.task))


def test_each_moment_is_told_in_order(app: holdfast.App) -> None:
    notes = Notes()
    app.add(notes)
    runs: list[int] = []

    @app.task(retries=Retries(1, first=0.01))
    def f() -> int:
        runs.append(1)
        raise ValueError("no")

    f.send()
    work(app, idle=0.2)
    one = [("started", "f", "notes"), ("in", "f"), ("out", "f"), ("failed", "f", "no")]
    assert notes.told == [("sending", "f"), *one, ("retried", "f", True), *one, ("buried", "f")]


def test_outcomes_are_no_failures(app: holdfast.App) -> None:
    notes = Notes()
    app.add(notes)
    runs: list[int] = []

    @app.task
    async def f() -> int:
        runs.append(1)
        if len(runs) == 1:
            raise Snooze(0.01)
        if len(runs) == 2:
            raise Discard("enough")
        return 1

    f.send()
    f.send_in(0.1)
    work(app, idle=0.3)
    told = [t for t in notes.told if t[0] not in ("in", "out", "sending", "started")]
    assert told == [("snoozed", "f", 0.01), ("discarded", "f", "enough"), ("succeeded", "f", 1)]


def test_middleware_that_raises_harms_nobody(app: holdfast.App) -> None:
    class Bad(Middleware):
        def started(self, context: holdfast.Context) -> None:
            raise RuntimeError

        def succeeded(self, context: holdfast.Context, value: Any) -> None:
            raise RuntimeError

    app.add(Bad())

    @app.task
    def f() -> int:
        return 1

    handle = f.send()
    work(app)
    assert handle.result(timeout=1) == 1


def test_a_wrap_that_raises_fails_the_task(app: holdfast.App) -> None:
    class Guard(Middleware):
        @contextmanager
        def wrap(self, context: holdfast.Context) -> Iterator[None]:
            if context.attempt:
                raise PermissionError("not today")
            yield

    app.add(Guard())
    runs: list[int] = []

    @app.task(retries=0)
    def f() -> None:
        runs.append(1)

    f.send()
    work(app)
    [dead] = home(app).inspect("dead")
    assert dead.death is not None
    assert "PermissionError: not today" in dead.death.reason
    assert runs == []


def test_one_function_for_one_moment(app: holdfast.App) -> None:
    told: list[str] = []

    @app.on("worker_started")
    def started(worker: Any) -> None:
        told.append("started")

    @app.on("worker_stopped")
    def stopped(worker: Any) -> None:
        told.append("stopped")

    work(app)
    assert told == ["started", "stopped"]
    with pytest.raises(InvalidArgument, match="succeeded"):
        app.on("won")
    with pytest.raises(InvalidArgument):
        app.add(object())  # type: ignore[arg-type]
    assert "wrap" not in MOMENTS


def test_a_log_handler_that_raises_loses_no_task(app: holdfast.App) -> None:
    class Bad(logging.Handler):
        def emit(self, record: logging.LogRecord) -> None:
            raise TypeError("cannot be written down")

    @app.task(retries=Retries(1, first=0.01))
    def f() -> None:
        raise ValueError("no")

    f.send()
    handler, log = Bad(), logging.getLogger("holdfast.worker")
    log.addHandler(handler)
    try:
        work(app, idle=0.3)
    finally:
        log.removeHandler(handler)
    assert home(app).stats().dead == 1
