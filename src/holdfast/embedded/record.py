"""server.json: what runs in a data folder, for people and for those who join.

Invariant: written only by who holds keeper.lock, and always whole (a new file renamed over the
old one). It is true only while keeper.lock is held; after that it tells how the last run ended:
`stopped` and `failed` are written by the keeper itself, any other state means that it was killed.

    starting → loading → ready → stopping → stopped
        └─────────┴────────→ failed

Adding a state? Also: keeper.py writes it, start.py waits on it, lifecycle.py shows it.
"""

from __future__ import annotations

import json
from typing import Literal, NamedTuple

from holdfast.embedded.folder import Folder

State = Literal["starting", "loading", "ready", "stopping", "stopped", "failed"]
ENDED: tuple[State, ...] = ("stopped", "failed")


class Record(NamedTuple):
    run: str
    """Names one life of a keeper: a wish meant for another run is not obeyed."""
    state: State
    durability: str
    socket: str
    keeper_pid: int | None = None
    """For people to read; nothing is ever sent to it."""
    server_pid: int | None = None


def read(folder: Folder) -> Record | None:
    """The last record, or None when there is none that this version understands."""
    try:
        return Record(**json.loads(folder.record.read_bytes()))
    except (FileNotFoundError, NotADirectoryError, ValueError, TypeError):
        return None


def write(folder: Folder, record: Record) -> None:
    draft = folder.record.with_suffix(".new")
    draft.write_text(json.dumps(record._asdict()))
    draft.replace(folder.record)
