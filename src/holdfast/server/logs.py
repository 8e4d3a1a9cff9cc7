"""What the server says about itself: one event on one line of stderr, as key=value or JSON.

    time=2026-01-31T09:00:00.123Z level=info event=ready resp=127.0.0.1:6399
    {"time": "2026-01-31T09:00:00.123Z", "level": "info", "event": "ready", "resp": "127.0.0.1:6399"}

Events are constant words; what varies is in fields, so that they can be searched and counted. Other
people's text (names, errors) is quoted: no line of theirs can look like one of ours. Secrets are not
logged in the first place; the formatter blots out what looks like one, for the day somebody forgets.
"""

from __future__ import annotations

import json
import logging
import re
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import UTC, datetime
from typing import Any, Literal, TextIO

Format = Literal["text", "json"]
Level = Literal["debug", "info", "warning", "error"]

_BARE = re.compile(r"[A-Za-z0-9_./:@%+,\[\]-]+")
_SECRETS = (
    (re.compile(r"hf_[A-Za-z0-9_-]{20,}"), "hf_***"),
    (re.compile(r"://[^/\s@'\"]*@"), "://***@"),
    (re.compile(r"(?i)(bearer )[^\s'\",]+"), r"\1***"),
)


def event(log: logging.Logger, level: int, name: str, **fields: Any) -> None:
    """One event with its fields; None is left out."""
    if log.isEnabledFor(level):
        log.log(level, name, extra={"fields": {k: v for k, v in fields.items() if v is not None}})


def blotted(text: str) -> str:
    for pattern, instead in _SECRETS:
        text = pattern.sub(instead, text)
    return text


class Line(logging.Formatter):
    def __init__(self, form: Format) -> None:
        super().__init__()
        self._form = form

    def format(self, record: logging.LogRecord) -> str:
        moment = datetime.fromtimestamp(record.created, UTC)
        fields: dict[str, Any] = {
            "time": f"{moment:%Y-%m-%dT%H:%M:%S}.{moment.microsecond // 1000:03}Z",
            "level": record.levelname.lower(),
            "event": record.getMessage(),
        }
        fields |= getattr(record, "fields", {})
        if not record.name.startswith("holdfast"):
            fields["from"] = record.name
        if record.exc_info:
            fields["trace"] = self.formatException(record.exc_info)
        safe = {k: blotted(v) if isinstance(v, str) else v for k, v in fields.items()}
        if self._form == "json":
            return json.dumps(safe, default=lambda value: blotted(str(value)), ensure_ascii=False)
        return " ".join(f"{key}={_word(value)}" for key, value in safe.items())


def _word(value: object) -> str:
    if isinstance(value, str):
        text = value
    elif isinstance(value, (bool, int, float)):
        text = json.dumps(value)
    else:
        text = blotted(str(value))
    return text if _BARE.fullmatch(text) else json.dumps(text, ensure_ascii=False)


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
