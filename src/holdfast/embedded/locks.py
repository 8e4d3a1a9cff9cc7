"""Kernel locks on files: who is alive.

Invariant: a lock lives exactly as long as the processes that have its file open. The kernel frees
it at their death, however that comes, so no crash leaves anything locked and no pid is ever
trusted. Therefore a lock is given up by closing its file, never by LOCK_UN: after a fork parent
and child hold one and the same lock, and the child must not take it from the parent.

Rejected: pid files (a stale one names a stranger) and POSIX record locks (closing any other
descriptor of the same file drops them, and children do not inherit them).
"""

from __future__ import annotations

import os
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from holdfast.errors import Unsupported

if sys.platform == "win32":
    raise Unsupported(
        "the embedded server needs Linux or macOS; "
        'set HOLDFAST_URL or call connect("redis://host:6379")'
    )

import fcntl

POLL_SECONDS = 0.01


def open_lock(path: Path) -> int:
    """A new descriptor: each one is a contender of its own. Python closes it on exec."""
    return os.open(path, os.O_RDWR | os.O_CREAT, 0o600)


def try_lock(fd: int, *, shared: bool = False) -> bool:
    """Lock it now or answer False; never waits."""
    try:
        fcntl.flock(fd, (fcntl.LOCK_SH if shared else fcntl.LOCK_EX) | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    return True


def lock_within(fd: int, seconds: float, *, shared: bool = False) -> bool:
    """Lock it, or answer False when it could not be had in time."""
    deadline = time.monotonic() + seconds
    while not try_lock(fd, shared=shared):
        if time.monotonic() > deadline:
            return False
        time.sleep(POLL_SECONDS)
    return True


@contextmanager
def exclusive(path: Path) -> Iterator[int | None]:
    """The descriptor of a lock held inside the block, or None when somebody else has it."""
    fd = open_lock(path)
    try:
        yield fd if try_lock(fd) else None
    finally:
        os.close(fd)


def is_held(path: Path) -> bool:
    """Whether somebody holds it exclusively; leaves no trace, not even the file."""
    with suppress(FileNotFoundError):
        fd = os.open(path, os.O_RDWR)
        try:
            return not try_lock(fd, shared=True)
        finally:
            os.close(fd)
    return False
