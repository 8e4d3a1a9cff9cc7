"""What the server says about itself: one event on one line of stderr, as key=value or JSON.

    time=2026-01-31T09:00:00.123Z level=info event=ready resp=127.0.0.1:6399
    {"time": "2026-01-31T09:00:00.123Z", "level": "info", "event": "ready", "resp": "127.0.0.1:6399"}

Events are constant words; what varies is in fields, so that they can be searched and counted. What a line
looks like is said in `telemetry/lines.py`.
"""

from __future__ import annotations

import logging
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any, TextIO

from holdfast.telemetry.lines import Format, Level, Line

__all__ = ["Format", "Level", "Seldom", "event", "to_stderr"]


def event(log: logging.Logger, level: int, name: str, **fields: Any) -> None:
    """One event with its fields; None is left out."""
    if log.isEnabledFor(level):
        log.log(level, name, extra={"fields": {k: v for k, v in fields.items() if v is not None}})


@contextmanager
def to_stderr(form: Format, level: Level, stream: TextIO | None = None) -> Iterator[None]:
    """All logging of this process goes to stderr in this form while the block runs.

    Libraries below us speak up from warning on only.
    """
    handler = logging.StreamHandler(stream or sys.stderr)
    handler.setFormatter(Line(form))
    root, ours = logging.getLogger(), logging.getLogger("holdfast")
    before = root.level, ours.level, root.handlers[:]
    root.handlers[:] = [handler]
    root.setLevel(logging.WARNING)
    ours.setLevel(level.upper())
    try:
        yield
    finally:
        root.handlers[:] = before[2]
        root.setLevel(before[0])
        ours.setLevel(before[1])
        handler.close()


class Seldom:
    """An event that strangers can cause at will: one line a second at most, so that they cannot fill
    the disk; `unsaid` counts those left out since the last line."""

    def __init__(self, log: logging.Logger, level: int, name: str, every: float = 1.0) -> None:
        self._log, self._level, self._name, self._every = log, level, name, every
        self._next = 0.0
        self._unsaid = 0

    def __call__(self, **fields: Any) -> None:
        now = time.monotonic()
        if now < self._next:
            self._unsaid += 1
            return
        self._next = now + self._every
        event(self._log, self._level, self._name, **fields, unsaid=self._unsaid or None)
        self._unsaid = 0
