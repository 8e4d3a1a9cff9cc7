"""Logs of a worker: what handlers and the worker say, each line with the task it is about.

    2026-01-31T09:00:00.123Z info [send_welcome 1599352749159-4 #2] sent to 3 addresses
    {"time": "2026-01-31T09:00:00.123Z", "level": "info", "event": "sent to 3 addresses", …}

`setup` is what `holdfast worker` does. It replaces the handlers of the root logger; call it before the
app's module is imported, and what that says about logging wins. Who brings handlers of their own gets
the same fields by adding the filter `InTask` to them. Turned down: a factory of log records, which every
library in the process would see.

Text is for people, so a traceback keeps its lines; they are indented, so that none of them can pass for
a line of ours.
"""

from __future__ import annotations

import logging
import sys
from typing import Any, TextIO

from holdfast.errors import InvalidArgument
from holdfast.tasks.context import Context, current_or_none
from holdfast.telemetry.lines import Line, blotted, moment
from holdfast.telemetry.trace_context import known

FIELDS = ("task", "task_id", "attempt", "queue", "worker", "trace_id")
_LEVELS = ("debug", "info", "warning", "error")


class InTask(logging.Filter):
    """Lets everything pass; gives each record made in a task, or about one (`extra={"holdfast_context": …}`),
    the fields `task`, `task_id`, `attempt`, `queue`, `worker`, `trace_id`. Elsewhere they are empty, so that
    a format can name them."""

    def filter(self, record: logging.LogRecord) -> bool:
        context = getattr(record, "holdfast_context", None)
        if not isinstance(context, Context):
            context = current_or_none()
        for name, value in zip(FIELDS, _of(context), strict=True):
            # Whoever logs may have said so already.
            if not hasattr(record, name):
                setattr(record, name, value)
        return True


def _of(context: Context | None) -> tuple[Any, ...]:
    if context is None:
        return "", "", "", "", "", ""
    trace = known(context)
    return (
        context.task,
        context.id,
        context.attempt,
        context.queue,
        context.worker,
        trace.trace_id if trace is not None else "",
    )


class Json(Line):
    """As the server's, with the task's fields."""

    def __init__(self) -> None:
        super().__init__("json")

    def fields(self, record: logging.LogRecord) -> dict[str, Any]:
        told = {name: found for name in FIELDS if (found := getattr(record, name, ""))}
        return super().fields(record) | told


class Text(logging.Formatter):
    """For people: time, level, task, text."""

    def format(self, record: logging.LogRecord) -> str:
        said = record.getMessage()
        task, task_id = getattr(record, "task", ""), getattr(record, "task_id", "")
        # What the worker says about a task names it already.
        if task_id and task_id not in said:
            said = f"[{task} {task_id} #{getattr(record, 'attempt', '')}] {said}"
        if record.exc_info:
            said += "\n" + self.formatException(record.exc_info)
        if record.stack_info:
            said += "\n" + self.formatStack(record.stack_info)
        lines = blotted(said).splitlines() or [""]
        return f"{moment(record)} {record.levelname.lower()} " + "\n    ".join(lines)


def setup(level: str = "info", json: bool = False, stream: TextIO | None = None) -> None:
    """From now on all logging of this process goes to stderr, one form for all. Called again, it
    replaces what it did before. Raises InvalidArgument for a level that there is not."""
    if level.lower() not in _LEVELS:
        raise InvalidArgument(f"there is no log level {level!r}; there are: {', '.join(_LEVELS)}")
    handler = logging.StreamHandler(stream or sys.stderr)
    handler.setFormatter(Json() if json else Text())
    handler.addFilter(InTask())
    root = logging.getLogger()
    root.handlers[:] = [handler]
    root.setLevel(level.upper())
    # What goes on below, connection by connection, is of no use to those who look for a fault in a task.
    for name in ("asyncio", "redis"):
        logging.getLogger(name).setLevel(logging.WARNING)


def in_use() -> tuple[str, bool]:
    """What `setup` was called with, for a process that shall log the same way; an empty level: it was not."""
    root = logging.getLogger()
    form = root.handlers[0].formatter if root.handlers else None
    if not isinstance(form, Json | Text):
        return "", False
    return logging.getLevelName(root.level).lower(), isinstance(form, Json)
