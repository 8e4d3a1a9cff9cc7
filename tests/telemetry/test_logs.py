"""Logs of a worker: every line says which task it is about, and none can be forged."""

from __future__ import annotations

import io
import json
import logging
import re
from collections.abc import Iterator
from typing import Any

import pytest

import holdfast
from holdfast.tasks.context import Context
from holdfast.telemetry import logs
from tests.working import Letter, work

log = logging.getLogger("shop.emails")


@pytest.fixture(autouse=True)
def logging_as_it_was() -> Iterator[None]:
    """Setting logs up is for a whole process; here it ends with the test."""
    root = logging.getLogger()
    names = ("asyncio", "redis", "holdfast")
    before = root.handlers[:], root.level, [logging.getLogger(n).level for n in names]
    yield
    root.handlers[:] = before[0]
    root.setLevel(before[1])
    for name, level in zip(names, before[2], strict=True):
        logging.getLogger(name).setLevel(level)


@pytest.fixture
def out() -> io.StringIO:
    return io.StringIO()


def _lines_of(out: io.StringIO, event: str) -> list[dict[str, Any]]:
    found = [json.loads(line) for line in out.getvalue().splitlines()]
    return [line for line in found if line["event"] == event]


def test_text_names_the_task_its_id_and_the_attempt(app: holdfast.App, out: io.StringIO) -> None:
    @app.task
    def send_welcome(user: int) -> None:
        log.info("sent to %d", user)

    handle = send_welcome.send(42)
    logs.setup("info", stream=out)
    work(app)
    [line] = [line for line in out.getvalue().splitlines() if "sent to" in line]
    assert re.fullmatch(r"20\S+Z info \[send_welcome (\S+) #1\] sent to 42", line)
    assert handle.id in line


@pytest.mark.parametrize("kind", ["loop", "thread"])
def test_json_has_the_fields_wherever_the_handler_runs(
    app: holdfast.App, out: io.StringIO, kind: str
) -> None:
    async def on_loop() -> None:
        log.warning("said it")

    def in_thread() -> None:
        log.warning("said it")

    task = app.task(name="talks")(on_loop if kind == "loop" else in_thread)
    handle = task.send()
    logs.setup("info", json=True, stream=out)
    worker = work(app)
    [said] = _lines_of(out, "said it")
    assert said.pop("time").endswith("Z")
    assert said == {
        "level": "warning",
        "event": "said it",
        "from": "shop.emails",
        "task": "talks",
        "task_id": handle.id,
        "attempt": 1,
        "queue": app.default_queue,
        "worker": worker.name,
    }


@pytest.mark.slow
def test_the_second_attempt_says_that_it_is_the_second(app: holdfast.App, out: io.StringIO) -> None:
    @app.task(retries=holdfast.Retries(1, first=0.01))
    def fails_once() -> None:
        log.info("trying")
        if holdfast.current().attempt == 1:
            raise ValueError("not yet")

    fails_once.send()
    logs.setup("info", json=True, stream=out)
    work(app, idle=0.5)
    assert [line["attempt"] for line in _lines_of(out, "trying")] == [1, 2]


def test_what_is_logged_elsewhere_has_no_task(out: io.StringIO) -> None:
    logs.setup("info", json=True, stream=out)
    log.info("starting up")
    [said] = _lines_of(out, "starting up")
    assert not {"task", "task_id", "attempt", "queue", "worker", "trace_id"} & set(said)


def test_what_the_worker_says_about_a_task_has_its_fields(out: io.StringIO) -> None:
    context = Context(Letter("1599352749159-4"), "send_welcome", "emails", 2, worker="here:1")
    logs.setup("info", json=True, stream=out)
    logging.getLogger("holdfast.worker").warning("it failed", extra={"holdfast_context": context})
    [said] = _lines_of(out, "it failed")
    assert (said["task"], said["task_id"], said["attempt"]) == (
        "send_welcome",
        "1599352749159-4",
        2,
    )


def test_a_line_that_names_the_task_already_does_not_say_it_twice(out: io.StringIO) -> None:
    context = Context(Letter("1599352749159-4"), "send_welcome", "emails", 2)
    logs.setup("info", stream=out)
    log.info("send_welcome 1599352749159-4 failed", extra={"holdfast_context": context})
    assert out.getvalue().endswith("Z info send_welcome 1599352749159-4 failed\n")


def test_no_line_of_a_handler_can_pass_for_one_of_ours(out: io.StringIO) -> None:
    logs.setup("info", stream=out)
    forged = "2026-01-31T09:00:00.123Z error the disk is full"
    log.info("name: Bob\n%s\r%s\x0b%s", forged, forged, forged)
    try:
        raise ValueError(f"no\n{forged}")
    except ValueError:
        log.exception("failed")
    ours = [line for line in out.getvalue().splitlines() if not line.startswith("    ")]
    assert len(ours) == 2
    assert "\r" not in out.getvalue()
    assert "Traceback" in out.getvalue()


def test_secrets_are_blotted_out(out: io.StringIO) -> None:
    logs.setup("info", stream=out)
    log.error("cannot reach redis://me:hunter2@db:6379")
    assert "hunter2" not in out.getvalue()
    assert "redis://***@db:6379" in out.getvalue()


def test_the_level_holds_for_everybody(out: io.StringIO) -> None:
    logs.setup("warning", stream=out)
    log.info("hidden")
    logging.getLogger("holdfast.worker").info("hidden too")
    log.warning("shown")
    assert [line.split(" ", 1)[1] for line in out.getvalue().splitlines()] == ["warning shown"]


def test_setting_up_twice_does_not_say_everything_twice(out: io.StringIO) -> None:
    logs.setup("info", stream=out)
    logs.setup("info", stream=out)
    log.info("once")
    assert out.getvalue().count("once") == 1


def test_a_level_that_there_is_not_is_refused() -> None:
    with pytest.raises(holdfast.InvalidArgument, match="no log level 'loud'"):
        logs.setup("loud")


def test_the_filter_serves_handlers_of_ones_own(app: holdfast.App, out: io.StringIO) -> None:
    handler = logging.StreamHandler(out)
    handler.setFormatter(logging.Formatter("%(task)s/%(attempt)s: %(message)s"))
    handler.addFilter(logs.InTask())
    mine = logging.getLogger("shop.mine")
    mine.addHandler(handler)
    mine.setLevel("INFO")

    @app.task
    def talks() -> None:
        mine.info("inside")
        mine.info("said by hand", extra={"task": "mine"})

    talks.send()
    try:
        work(app)
        mine.info("outside")
    finally:
        mine.removeHandler(handler)
    assert out.getvalue().splitlines() == ["talks/1: inside", "mine/1: said by hand", "/: outside"]
