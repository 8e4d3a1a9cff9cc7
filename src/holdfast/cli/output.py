"""How things look: tables for people, JSON for scripts, bodies made safe for a terminal.

What can be piped on goes to stdout, what is said about it to stderr. Bodies are other people's
bytes: nothing of them is taken for markup, and no control character of theirs reaches a terminal.
"""

from __future__ import annotations

import codecs
import os
import sys
from base64 import b64encode
from collections.abc import Mapping
from datetime import datetime
from typing import Any

import msgspec
from rich.box import SIMPLE_HEAD
from rich.console import Console
from rich.table import Table
from rich.text import Text

from holdfast.engine.notes import Event
from holdfast.message import Message

STYLES = {
    "ready": "green",
    "delayed": "cyan",
    "leased": "yellow",
    "reserved": "magenta",
    "dead": "red",
}
# A table in a pipe or a file is not cut to the width of a terminal that is not there.
_PIPE_WIDTH = 1000


def console(*, stderr: bool = False) -> Console:
    stream = sys.stderr if stderr else sys.stdout
    wide = None if stream.isatty() or "COLUMNS" in os.environ else _PIPE_WIDTH
    return Console(stderr=stderr, width=wide, highlight=False, emoji=False, markup=False)


def write(line: bytes) -> None:
    """A line to stdout, byte for byte."""
    sys.stdout.flush()
    sys.stdout.buffer.write(line + b"\n")


def flush() -> None:
    """What was written is with the reader, or BrokenPipeError is raised."""
    sys.stdout.flush()
    sys.stdout.buffer.flush()


def say(text: str) -> None:
    """A line on stdout; never wrapped, so that it can be cut and piped."""
    write(text.encode("utf-8", "backslashreplace"))


def note(text: str, *, style: str = "dim") -> None:
    """A line on stderr: about the result, not the result."""
    flush()
    console(stderr=True).print(Text(text, style), soft_wrap=True)


def emit(value: Mapping[str, Any]) -> None:
    """One JSON object on one line."""
    write(msgspec.json.encode(value))


def show(table: Table) -> None:
    console().print(table)


def table(*columns: str, right: tuple[str, ...] = (), fold: tuple[str, ...] = ()) -> Table:
    """Columns by name; those in `right` hold numbers, those in `fold` may take several lines."""
    made = Table(box=SIMPLE_HEAD, pad_edge=False, header_style="bold")
    for name in columns:
        made.add_column(
            name,
            justify="right" if name in right else "left",
            no_wrap=name not in fold,
            overflow="fold" if name in fold else "ellipsis",
        )
    return made


def several(n: int, what: str) -> str:
    """1 message, 2,000 messages; 1 worker process, 2 worker processes."""
    return f"{n:,} {what}{'' if n == 1 else 'es' if what.endswith('s') else 's'}"


# ---- bodies -------------------------------------------------------------------------------


def _printable(text: str, keep: str = "") -> str:
    return "".join(
        c if c.isprintable() or c in keep else c.encode("unicode_escape").decode() for c in text
    )


def safe(body: bytes, *, keep: str = "\n\t") -> str:
    """A body for a terminal: text as it is, anything else escaped."""
    try:
        return _printable(body.decode(), keep)
    except UnicodeDecodeError:
        return _printable(body.decode("ascii", "backslashreplace"))


def preview(body: bytes, most: int = 200) -> str:
    """The start of a body, on one line."""
    if len(body) <= most:
        return safe(body, keep="")
    start = body[:most]
    try:  # a character cut in two at the end does not make it binary
        text = codecs.getincrementaldecoder("utf-8")().decode(start)
    except UnicodeDecodeError:
        return safe(start, keep="") + "…"
    return _printable(text) + "…"


# ---- JSON ---------------------------------------------------------------------------------


def _when(at: datetime | None) -> str | None:
    return at.isoformat(timespec="milliseconds") if at else None


def _known(fields: Mapping[str, Any]) -> dict[str, Any]:
    return {name: value for name, value in fields.items() if value is not None}


def message_json(message: Message, receipt: str | None = None) -> dict[str, Any]:
    """A message for scripts; what it does not have is left out. `send --jsonl` takes it back."""
    body: dict[str, Any]
    try:
        body = {"body": message.body.decode()}
    except UnicodeDecodeError:
        body = {"body_base64": b64encode(message.body).decode()}
    death = message.death
    return _known(
        {
            "id": message.id,
            "receipt": receipt,
            "state": message.state,
            **body,
            "attributes": message.attributes or None,
            "priority": message.priority,
            "group": message.group,
            "receives": message.receives,
            "sent_at": _when(message.sent_at),
            "expires_at": _when(message.expires_at),
            "due": _when(message.due),
            "received_at": _when(message.received_at),
            "lease_until": _when(message.lease_until),
            "death": death
            and {"reason": death.reason, "error": death.error, "at": _when(death.at)},
        }
    )


def event_json(event: Event) -> dict[str, Any]:
    return _known(
        {
            "kind": event.kind,
            "queue": event.queue,
            "id": event.id,
            "time": _when(event.time),
            "priority": event.priority,
            "receives": event.receives,
            "size": event.size,
            "lease": event.lease,
            "lease_until": _when(event.lease_until),
            "due": _when(event.due),
            "reason": event.reason or None,
        }
    )
