"""What an operator does with the embedded server: up, down, status.

Invariant: `down` signals no process; it leaves a wish that only the keeper of the very run it saw
obeys. `status` changes nothing, not even by creating the folder.
Rejected: a pid file with SIGTERM. See keeper.py.
"""

from __future__ import annotations

import time
from pathlib import Path
from typing import NamedTuple

from holdfast.embedded import locks, record, server, start
from holdfast.embedded.folder import Folder
from holdfast.embedded.membership import join, url_of
from holdfast.embedded.record import Record
from holdfast.errors import Unavailable

# Longer than the keeper gives the server to flush before it kills it.
_DOWN_SECONDS = 3 * server.GRACE_SECONDS


class Status(NamedTuple):
    """What a data folder's server does at this moment."""

    home: Path
    running: bool
    """It answers. While it reads its data after a start it does not run yet."""
    state: str
    """starting, loading, ready or stopping; or how the last run ended: stopped, failed, killed."""
    pinned: bool
    """Stays although nobody uses it, until `down`."""
    pid: int | None
    url: str | None
    durability: str | None
    bytes_on_disk: int


def up(home: Path | None = None, durability: str | None = None) -> Status:
    """Start the server if need be, and keep it running when nobody uses it, until `down`.

    Idempotent. A pin belongs to the running server: after a reboot it is to be given again.
    Raises: as `join`.
    """
    folder = Folder(home)
    with join(folder.path, durability), folder.explained():
        # While we are a user no keeper takes it for unused: it will find the pin before.
        found = record.read(folder)
        if found is not None:
            folder.pin.write_text(found.run)
        return status(folder.path)


def down(home: Path | None = None) -> bool:
    """Stop the server, pinned or not, used or not; whether one was running.

    Returns when it is gone and its data is on disk. Users that are left see their connection
    close; who joins later starts it again.
    Raises: Unavailable, when it does not end.
    """
    folder = Folder(home)
    deadline = time.monotonic() + _DOWN_SECONDS
    stopped: str | None = None  # the run that we stop
    with folder.explained():
        while locks.is_held(folder.keeper_lock):
            found = record.read(folder)
            if stopped is None and found is not None and found.state not in record.ENDED:
                stopped = found.run
                folder.stop.write_text(stopped)
            elif stopped is not None and found is not None and found.run != stopped:
                return True  # somebody has started the next one already
            if time.monotonic() > deadline:
                pid = found.keeper_pid if found is not None else None
                raise Unavailable(
                    f"the embedded server in {folder.path} does not end; its keeper is process "
                    f"{pid}; see {folder.log}"
                )
            time.sleep(locks.POLL_SECONDS)
        return _evict_orphan(folder) or stopped is not None


def status(home: Path | None = None) -> Status:
    """What runs in this data folder; changes nothing and never waits for the server to start."""
    folder = Folder(home)
    with folder.explained():
        kept = locks.is_held(folder.keeper_lock)
        found = record.read(folder)
        runs = found if kept else None
        return Status(
            home=folder.path,
            running=runs is not None and server.ping(Path(runs.socket)) == "ready",
            state=_state(kept, found),
            pinned=runs is not None and _pinned(folder, runs),
            pid=runs.server_pid if runs is not None else None,
            url=url_of(runs.socket) if runs is not None else None,
            durability=runs.durability if runs is not None else None,
            bytes_on_disk=folder.bytes_on_disk(),
        )


def _evict_orphan(folder: Folder) -> bool:
    if not folder.server_lock.exists():
        return False
    with locks.exclusive(folder.keeper_lock) as lock:
        # Without the lock: somebody is starting the next server, and evicts it himself.
        return lock is not None and start.evict_orphan(folder)


def _state(kept: bool, found: Record | None) -> str:
    if found is None:
        return "starting" if kept else "stopped"
    if kept or found.state in record.ENDED:
        return found.state
    return "killed"


def _pinned(folder: Folder, runs: Record) -> bool:
    try:
        return folder.pin.read_text() == runs.run
    except FileNotFoundError:
        return False
