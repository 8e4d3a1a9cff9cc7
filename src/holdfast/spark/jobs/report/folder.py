"""The report's folder: made beside its place, moved there when whole, and only over one of our own.

    report/index.html        the page
    report/summary.json      the key numbers; it also marks the folder as a report
    report/tables/<name>/    Parquet

A report that could not be finished leaves the earlier one as it was. Spark's executors write the
tables, so on a cluster the folder must be one that all of its machines share.
"""

from __future__ import annotations

import os
import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import msgspec

from holdfast.errors import InvalidArgument
from holdfast.spark.jobs.report.summary import Summary

PAGE = "index.html"
SUMMARY = "summary.json"
TABLES = "tables"
_MADE_BY = "holdfast spark report"


class _Kept(msgspec.Struct):
    made_by: str
    summary: Summary


class _Mark(msgspec.Struct):
    made_by: str


def target(to: str, source: str) -> Path:
    """Where the report goes. Raises InvalidArgument if it may not go there; nothing is written yet."""
    place = _local(to)
    if place is None:
        raise InvalidArgument(
            f"cannot write a report to {to!r}: a page is for a folder that a browser can open; "
            "write it to a local folder and copy that"
        )
    read_from = _local(source)
    if read_from and (place == read_from or read_from in place.parents):
        raise InvalidArgument(
            f"cannot write a report to {to!r}: it lies within the archive it is made from, and "
            "would be read as a part of it; choose a folder beside it"
        )
    if place.exists() and not _may_be_replaced(place):
        raise InvalidArgument(
            f"cannot write a report to {to!r}: it is there already and is not a report of ours; "
            "choose another folder, or empty it"
        )
    return place


def _local(path: str) -> Path | None:
    scheme, separator, rest = path.partition(":")
    if separator and scheme == "file":
        return Path("/" + rest.lstrip("/")).resolve()
    return None if "://" in path else Path(path).resolve()


def _may_be_replaced(place: Path) -> bool:
    if not place.is_dir():
        return False
    if not any(place.iterdir()):
        return True
    try:
        mark = msgspec.json.decode((place / SUMMARY).read_bytes(), type=_Mark)
    except (OSError, msgspec.DecodeError):
        return False
    return mark.made_by == _MADE_BY


@contextmanager
def replacing(place: Path) -> Iterator[Path]:
    """A new folder to write to; afterwards it is at `place`, or, after an error, nowhere."""
    place.parent.mkdir(parents=True, exist_ok=True)
    made = place.with_name(f"{place.name}.part-{os.getpid()}")
    old = place.with_name(f"{place.name}.old-{os.getpid()}")
    shutil.rmtree(made, ignore_errors=True)
    made.mkdir()
    try:
        yield made
        if place.exists():
            place.rename(old)
        made.rename(place)
    finally:
        shutil.rmtree(made, ignore_errors=True)
        shutil.rmtree(old, ignore_errors=True)


def keep(folder: Path, summary: Summary) -> None:
    kept = msgspec.json.encode(_Kept(_MADE_BY, summary))
    (folder / SUMMARY).write_bytes(msgspec.json.format(kept, indent=2))


def read_summary(folder: Path) -> Summary:
    return msgspec.json.decode((folder / SUMMARY).read_bytes(), type=_Kept).summary
