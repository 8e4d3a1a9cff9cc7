"""Noticing that Python files below a folder have changed, for `holdfast worker --reload`.

By looking at their times now and then: a project's few hundred files take a few milliseconds. Rejected:
watchfiles, a compiled package with dependencies of its own, which everybody would install for the sake of an
option for development; and watching what the app has imported, which the supervisor does not know, and which
would miss the file that an import failed for.
"""

from __future__ import annotations

import asyncio
import os
import time
from collections.abc import AsyncIterator
from pathlib import Path

_EVERY = 0.4
# Looking takes this part of the time at most, however many files there are.
_SHARE = 0.05
_NOT_OURS = frozenset(("__pycache__", "node_modules", "site-packages"))

Seen = dict[str, tuple[int, int]]


def look(folder: Path) -> Seen:
    """Each Python file below, with its time and size; hidden folders and virtual environments apart."""
    found: Seen = {}
    folders = [str(folder)]
    while folders:
        try:
            entries = list(os.scandir(folders.pop()))
        except OSError:  # gone meanwhile, or not for us
            continue
        if any(entry.name == "pyvenv.cfg" for entry in entries):
            continue
        for entry in entries:
            try:
                if entry.is_dir(follow_symlinks=False):
                    if not entry.name.startswith(".") and entry.name not in _NOT_OURS:
                        folders.append(entry.path)
                elif entry.name.endswith(".py"):
                    stat = entry.stat()
                    found[entry.path] = (stat.st_mtime_ns, stat.st_size)
            except OSError:
                continue
    return found


def changed(before: Seen, after: Seen) -> list[str]:
    """Files that are new, gone or different."""
    return sorted(
        path for path in before.keys() | after.keys() if before.get(path) != after.get(path)
    )


async def changes(folder: Path) -> AsyncIterator[list[str]]:
    """What has changed, each time something has."""
    seen = await asyncio.to_thread(look, folder)
    while True:
        began = time.monotonic()
        now = await asyncio.to_thread(look, folder)
        took = time.monotonic() - began
        if different := changed(seen, now):
            seen = now
            yield [path.removeprefix(f"{folder}/") for path in different]
        await asyncio.sleep(max(_EVERY, took / _SHARE))
