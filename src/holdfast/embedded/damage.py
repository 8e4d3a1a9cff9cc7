"""An append-only file that a power cut has damaged: cut it where it is whole, and say what that costs.

For a server with `fast`, which has not promised more: what was not written out in time may be gone, also from
the middle. What is kept is everything up to the first hole.

Invariant: before anything is changed, a copy of all of it is kept beside it. Broken off at any point, it can
be done again.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import time
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import NamedTuple

from holdfast.embedded import aof, locks
from holdfast.embedded.folder import Folder
from holdfast.embedded.wheel import binary
from holdfast.errors import HoldfastError, Unavailable

ADVICE = (
    "the append-only file is damaged, as a power cut may leave it: `holdfast doctor --repair` cuts it where "
    "it is whole, keeps a copy, and tells what is gone"
)

# What a server says that cannot read its file.
_SIGNS = (
    "Bad file format reading the append only file",
    "the truncated file is not the last file",
    "Unexpected end of file reading the append only file",
)


class Cut(NamedTuple):
    """What is gone from one file, behind so many bytes that are kept."""

    file: str
    kept: int
    lost: aof.Lost


class Repair(NamedTuple):
    home: Path
    copy: Path | None
    """Where everything is kept as it was; None: there was nothing to repair."""
    cuts: list[Cut]


def advice(said: str) -> str:
    """What to do about a server that ended with these words; empty if this is no help."""
    return ADVICE if any(sign in said for sign in _SIGNS) else ""


def check(folder: Folder) -> None:
    """Raises Unavailable where the server would load something that has a hole in it."""
    if (name := aof.hole(folder.aof)) is not None:
        raise Unavailable(
            f"the embedded server in {folder.path} does not start: {name} is not whole, and another file "
            f"follows it; {ADVICE}"
        )


def bytes_to_read(home: Path | None = None) -> int:
    folder = Folder(home)
    files = [folder.aof / part.name for part in aof.parts(folder.aof) if part.kind == "i"]
    return sum(path.stat().st_size for path in files if path.exists())


def repair(home: Path | None = None, progress: Callable[[int], None] | None = None) -> Repair:
    """Cut the append-only file of a data folder where it is whole.

    Raises: Unavailable, while a server uses the folder; HoldfastError, where the base itself is damaged.
    """
    folder = Folder(home)
    with folder.explained():
        if not folder.path.is_dir():
            return Repair(folder.path, None, [])
        with locks.exclusive(folder.keeper_lock) as lock:
            if lock is None or locks.is_held(folder.server_lock):
                raise Unavailable(
                    f"the embedded server in {folder.path} runs; stop it with `holdfast down` first"
                )
            return _repair(folder, progress)


def _repair(folder: Folder, progress: Callable[[int], None] | None) -> Repair:
    listed = aof.parts(folder.aof)
    _check_base(folder, listed)
    since = [part for part in listed if part.kind == "i"]
    for number, part in enumerate(since):
        path = folder.aof / part.name
        size = path.stat().st_size if path.exists() else -1
        # One that is only cut short, and the last, the server would cut by itself, but not say what is gone.
        whole = aof.whole(path, progress) if size >= 0 else 0
        if whole != size:
            return _cut(folder, listed, since[number:], whole)
    return Repair(folder.path, None, [])


def _check_base(folder: Folder, listed: list[aof.Part]) -> None:
    for part in listed:
        if part.kind != "b":
            continue
        path = folder.aof / part.name
        # The server is its own check of snapshots, when called by that name.
        checked = subprocess.run(
            ["valkey-check-rdb", str(path)],
            executable=binary(),
            capture_output=True,
            text=True,
            errors="replace",
            check=False,
        )
        if checked.returncode:
            said = " ".join(checked.stdout.split()[-20:])
            raise HoldfastError(
                f"{path} is damaged, and what was done since stands on it: put back a copy of {folder.path}, "
                f"or move {folder.aof} away to begin with nothing ({said})"
            )


def _cut(folder: Folder, listed: list[aof.Part], lost: list[aof.Part], whole: int) -> Repair:
    """The first of `lost` is whole up to there; the others stand behind a hole."""
    cuts = []
    for part, kept in zip(lost, [whole, *[0] * len(lost)], strict=False):
        path = folder.aof / part.name
        gone = aof.lost(path, kept) if path.exists() else aof.Lost(0, 0, 0, Counter())
        cuts.append(Cut(part.name, kept, gone))
    copy = _copy(folder)
    first = folder.aof / lost[0].name
    with first.open("ab") as file:
        file.truncate(whole)
        os.fsync(file.fileno())
    kept_parts = [part for part in listed if part not in lost[1:]]
    draft = folder.aof / f"{aof.MANIFEST}.new"
    with draft.open("w") as text:
        text.writelines(f"{part.line}\n" for part in kept_parts)
        text.flush()
        os.fsync(text.fileno())
    draft.replace(folder.aof / aof.MANIFEST)
    for part in lost[1:]:
        (folder.aof / part.name).unlink(missing_ok=True)
    return Repair(folder.path, copy, cuts)


def _copy(folder: Folder) -> Path:
    stamp = time.strftime("%Y%m%d-%H%M%S")
    copy = folder.aof.with_name(f"{folder.aof.name}.damaged-{stamp}")
    number = 1
    while copy.exists():
        number += 1
        copy = folder.aof.with_name(f"{folder.aof.name}.damaged-{stamp}-{number}")

    # The server appends to files of commands; a base is only ever replaced, so that a link is a copy.
    def keep(source: str, target: str) -> None:
        if ".base." in Path(source).name:
            try:
                os.link(source, target)
                return
            except OSError:
                pass
        shutil.copy2(source, target)

    shutil.copytree(folder.aof, copy, copy_function=keep)
    return copy
