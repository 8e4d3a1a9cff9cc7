"""Many small files of a day become few large ones, while others read and write the folder.

A reader of a folder takes whatever files it lists, so the old files and the new ones must change places
in one step. That step is the exchange of two folders, which Linux does atomically (renameat2):

    1  write the rows of the small files to _compacting/queue=…/day=…/ (readers pass over it)
    2  link the large files, which stay, into it
    3  exchange it with queue=…/day=…/
    4  what is in the old folder now and was not taken into account came meanwhile: move it over
    5  delete the old folder

A crash before 3 leaves the day as it was, and after 3 as it shall be, but for 4: `compact` begins with
what an earlier one left, and a file that it did not take into account is moved, never deleted. Between 3
and 4 such a file cannot be seen, so days that still get files are better left for later. A reader
that had listed the old files and opens them after 5 gets an error that a file is gone, never a wrong
result. Two compactions exclude each other by a lock that the kernel drops with the process.

Rejected: two renames, between which the day is missing for readers. So it wants a folder on a Linux file
system; in object stores a table format, such as Delta, does this with its log.
"""

from __future__ import annotations

import ctypes
import errno
import fcntl
import os
import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import date
from pathlib import Path

import msgspec
from pyspark.sql import SparkSession

from holdfast.errors import HoldfastError, InvalidArgument, Unavailable, Unsupported
from holdfast.spark.jobs.files import Files
from holdfast.spark.jobs.landing import FOLDER

SMALL, LARGE = 32 * 1024 * 1024, 128 * 1024 * 1024
_ASIDE = "_compacting"
_TAKEN = "_taken.json"
_AT_FDCWD, _EXCHANGE = -100, 2


@dataclass(frozen=True, slots=True)
class Day:
    """One day of one queue: how many files it had and has."""

    folder: str
    before: int
    after: int
    bytes: int


def compact(
    spark: SparkSession,
    path: str,
    *,
    small: int = SMALL,
    large: int = LARGE,
    until: date | None = None,
) -> list[Day]:
    """Files smaller than `small` bytes become files of about `large`, in each day before `until` (all
    days, if None) that has at least two. What was done; nothing, the second time.

    Raises Unsupported where folders cannot be exchanged, Unavailable while another one is at it.
    """
    where = Files(spark, path).local(path)
    if where is None:
        raise Unsupported(
            f"{path} is not on this machine; folders there cannot be exchanged in one step. Use "
            "--format delta for such places, and its OPTIMIZE"
        )
    root = Path(where)
    if not root.is_dir():
        raise InvalidArgument(f"there is no folder {path}")
    with _alone(root):
        _finish_earlier(root)
        found = []
        for folder in sorted(root.glob("queue=*/day=*")):
            if until is None or folder.name < f"day={until.isoformat()}":
                found += _compact_day(spark, root, folder, small, large)
        return found


def _compact_day(spark: SparkSession, root: Path, day: Path, small: int, large: int) -> list[Day]:
    files = _data(day)
    # After the listing: a batch that moves files in has said so before it moved the first one.
    busy = _moving(root)
    sizes = {name: (day / name).stat().st_size for name in files}
    names = [n for n in files if sizes[n] < small and str(day.relative_to(root) / n) not in busy]
    if len(names) < 2:
        return []
    total = sum(sizes[name] for name in names)
    aside = root / _ASIDE / day.relative_to(root)
    shutil.rmtree(aside, ignore_errors=True)
    aside.parent.mkdir(parents=True, exist_ok=True)
    rows = spark.read.option("mergeSchema", True).parquet(*[str(day / name) for name in names])
    expected = rows.count()
    parts = max(-(-total // large), 1)
    rows.coalesce(int(parts)).write.parquet(str(aside))
    written = spark.read.parquet(str(aside)).count()
    if written != expected:
        raise HoldfastError(
            f"{day}: {expected} rows were read and {written} written; nothing was changed. Do not "
            "delete anything, and tell us"
        )
    made = len(_data(aside))
    for mark in aside.glob("*_SUCCESS*"):
        mark.unlink()
    for name in files:
        if name not in names:
            os.link(day / name, aside / name)
    (aside / _TAKEN).write_bytes(msgspec.json.encode(files))
    _exchange(aside, day)
    _finish(aside, day)
    return [Day(str(day.relative_to(root)), len(files), len(files) - len(names) + made, total)]


def _finish_earlier(root: Path) -> None:
    """What a compaction left that did not come to its end."""
    for aside in sorted((root / _ASIDE).glob("queue=*/day=*")):
        day = root / aside.relative_to(root / _ASIDE)
        # The list goes with the new files. Where it lies tells whether they changed places.
        if (day / _TAKEN).exists():
            _finish(aside, day)
        else:
            shutil.rmtree(aside)


def _finish(old: Path, day: Path) -> None:
    """The folders have changed places: what came meanwhile is moved over, the rest goes."""
    listed = day / _TAKEN
    taken = set(msgspec.json.decode(listed.read_bytes(), type=list[str]))
    for name in _data(old):
        if name not in taken:
            (old / name).rename(day / name)
    # Before the old folder: a list that outlived it would speak for the next compaction's.
    listed.unlink()
    shutil.rmtree(old)


def _data(folder: Path) -> list[str]:
    return sorted(f.name for f in folder.iterdir() if not f.name.startswith(("_", ".")))


def _moving(root: Path) -> set[str]:
    """Files that a batch still counts on, by their paths below the root."""
    found: set[str] = set()
    for state in (root / FOLDER).glob("of/*/*/*.moving"):
        try:
            found.update(msgspec.json.decode(state.read_bytes(), type=list[str]))
        except FileNotFoundError:
            continue  # the batch is done
    return found


@contextmanager
def _alone(root: Path) -> Iterator[None]:
    (root / _ASIDE).mkdir(exist_ok=True)
    with (root / _ASIDE / "_lock").open("w") as lock:
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            raise Unavailable(f"another compaction of {root} is running; let it end") from None
        yield


def _exchange(one: Path, other: Path) -> None:
    libc = ctypes.CDLL(None, use_errno=True)
    if not hasattr(libc, "renameat2"):
        raise Unsupported("compaction needs Linux: folders are exchanged in one step (renameat2)")
    names = os.fsencode(one), os.fsencode(other)
    if libc.renameat2(_AT_FDCWD, names[0], _AT_FDCWD, names[1], _EXCHANGE):
        number = ctypes.get_errno()
        if number in (errno.EINVAL, errno.ENOSYS):
            raise Unsupported(f"the file system of {other} cannot exchange folders in one step")
        raise OSError(number, os.strerror(number), str(other))
