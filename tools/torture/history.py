"""What happened, as those who took part wrote it down: one line of JSON for each event.

Every process writes to a file of its own, by one write() a line, so that kill -9 loses no event. Times are
of the monotonic clock, which all processes of a machine share.
"""

from __future__ import annotations

import os
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Literal

import msgspec

Kind = Literal[
    # A producer is about to send; was told that it is stored.
    "offered",
    "stored",
    # A taker has it in hand; is about to settle it; was told that it is acked; that it was not its own.
    "got",
    "settling",
    "acked",
    "late",
    # An error of ours; one that is not; a call that does not come back.
    "error",
    "foreign",
    "hung",
    # The nemesis; when all is whole again; when producers were told to stop.
    "fault",
    "healed",
    "calm",
    # The raw probe was served.
    "served",
    # A slot begins to move key by key; has arrived.
    "leaves",
    "arrives",
    # Found in the queue at the end: `text` is its state.
    "left",
]


class Event(msgspec.Struct, omit_defaults=True):
    """`left`: seconds that the taker's lease still has, by the server's clock; None where there is no lease.
    `receipt`: names one delivery. `group`: whose order is promised."""

    t: float
    kind: Kind
    who: str = ""
    place: str = ""
    body: str = ""
    id: str = ""
    receipt: str = ""
    group: str = ""
    left: float | None = None
    text: str = ""


_encode = msgspec.json.Encoder().encode
_decode = msgspec.json.Decoder(Event).decode


class History:
    def __init__(self, path: Path) -> None:
        path.parent.mkdir(parents=True, exist_ok=True)
        self._file = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o644)

    def note(
        self,
        kind: Kind,
        *,
        who: str = "",
        place: str = "",
        body: str = "",
        id: str = "",
        receipt: str = "",
        group: str = "",
        left: float | None = None,
        text: str = "",
    ) -> None:
        event = Event(time.monotonic(), kind, who, place, body, str(id), receipt, group, left, text)
        os.write(self._file, _encode(event) + b"\n")

    def close(self) -> None:
        os.close(self._file)


def read(folder: Path) -> Iterator[Event]:
    """All events of a folder of histories, in order of time."""
    events = [
        _decode(line)
        for path in sorted(folder.glob("*.jsonl"))
        for line in path.read_bytes().splitlines()
    ]
    return iter(sorted(events, key=lambda event: event.t))
