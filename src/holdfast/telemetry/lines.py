"""The form of a log line, for all of our processes: what it says, in which order, and what it never
says.

Other people's text (names, errors) is quoted: no line of theirs can look like one of ours. Secrets are
not logged in the first place; what looks like one is blotted out, for the day somebody forgets.
"""

from __future__ import annotations

import json
import logging
import re
from datetime import UTC, datetime
from typing import Any, Literal

Format = Literal["text", "json"]
Level = Literal["debug", "info", "warning", "error"]

_BARE = re.compile(r"[A-Za-z0-9_./:@%+,\[\]-]+")
_SECRETS = (
    (re.compile(r"hf_[A-Za-z0-9_-]{20,}"), "hf_***"),
    (re.compile(r"://[^/\s@'\"]*@"), "://***@"),
    (re.compile(r"(?i)(bearer )[^\s'\",]+"), r"\1***"),
)


def blotted(text: str) -> str:
    for pattern, instead in _SECRETS:
        text = pattern.sub(instead, text)
    return text


def moment(record: logging.LogRecord) -> str:
    at = datetime.fromtimestamp(record.created, UTC)
    return f"{at:%Y-%m-%dT%H:%M:%S}.{at.microsecond // 1000:03}Z"


class Line(logging.Formatter):
    """One event with its fields, as key=value or JSON."""

    def __init__(self, form: Format) -> None:
        super().__init__()
        self._form = form

    def fields(self, record: logging.LogRecord) -> dict[str, Any]:
        fields: dict[str, Any] = {
            "time": moment(record),
            "level": record.levelname.lower(),
            "event": record.getMessage(),
        }
        fields |= getattr(record, "fields", {})
        if not record.name.startswith("holdfast"):
            fields["from"] = record.name
        if record.exc_info:
            fields["trace"] = self.formatException(record.exc_info)
        return fields

    def format(self, record: logging.LogRecord) -> str:
        fields = self.fields(record)
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
