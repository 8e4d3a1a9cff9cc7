"""Micro-batches into a folder of Parquet files, each exactly once, for every reader of the folder.

    PATH/queue=orders/day=2026-11-16/part-….parquet        what readers see
    PATH/_landing/of/<source>/<query>/                     how far each query is:
        staged-17/queue=…/day=…/part-….parquet             batch 17 while it is being written
        17.moving                                          its files, all written; they are being moved
        17.done                                            they are all in their places

    write staged-17 ─► 17.moving ─► move file by file ─► 17.done ─► away with 17.moving, staged-17, 16.done

Whoever starts batch 17 again finds how far it came. No 17.moving: nothing of it was moved, and what
is staged is thrown away. 17.moving: its files are the batch, and those still staged are moved; the rows
are not written anew, so it does not matter whether Spark would cut them into the same files. 17.done:
nothing is left to do. A file has one name in all its life and is whole before it is moved, so a
reader sees each row once; it may see a part of a batch before the rest, and never half a file.

Rejected: Spark's own streaming file sink. Its folder is right only for readers who know _spark_metadata
(Spark, if it is given exactly this path); two queries that share a folder share that log and each
skips batches that the other wrote, silently; and nothing in the folder can be compacted without
rewriting the log. Also rejected: files named by batch and task, overwritten when it is done again,
which relies on every replay cutting the rows as the first try did.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from urllib.parse import quote

import msgspec
from pyspark.sql import DataFrame

from holdfast.errors import HoldfastError, ReservationLost
from holdfast.spark.jobs.files import Files

FOLDER = "_landing"
_STATE = re.compile(r"(\d+)\.(moving|done)")

Write = Callable[[DataFrame, str], None]


class Landing:
    """Where the batches of one query go. Used by one thread at a time."""

    def __init__(self, files: Files, root: str, source: str, query: str) -> None:
        self._files = files
        self._root = root.rstrip("/")
        self._home = f"{_home(root, source)}/{query}"

    def land(self, rows: DataFrame, batch: int, write: Write) -> int:
        """The rows of this batch are in their places. `write` puts a DataFrame into a new folder.
        How many files it took; 0 if it had landed before."""
        states = self._states()
        if (batch, "done") in states:
            self._forget(batch)
            return 0
        if later := [number for number, _ in states if number > batch]:
            raise ReservationLost(
                f"batch {batch} is to be written again, but batch {max(later)} of the same query is "
                f"in {self._root} already; is the checkpoint an old copy? take the current one"
            )
        staged = f"{self._home}/staged-{batch}"
        if (batch, "moving") not in states:
            self._files.delete(staged)
            write(rows, staged)
            found = [name for name in self._files.below(staged) if _is_data(name)]
            self._files.put(self._state(batch, "moving"), msgspec.json.encode(found).decode())
        names = msgspec.json.decode(self._files.read(self._state(batch, "moving")), type=list[str])
        self._move(staged, names)
        self._files.put(self._state(batch, "done"), "")
        self._forget(batch)
        for number in {number for number, _ in states if number < batch}:
            self._forget(number)
            self._files.delete(self._state(number, "done"))
        return len(names)

    def _forget(self, batch: int) -> None:
        """How a batch that is done came there."""
        self._files.delete(self._state(batch, "moving"))
        self._files.delete(f"{self._home}/staged-{batch}")

    def _move(self, staged: str, names: list[str]) -> None:
        for name in names:
            source, target = f"{staged}/{name}", f"{self._root}/{name}"
            if self._files.exists(target):
                # Moved before; an object store may have kept the copy it was made from.
                continue
            if not self._files.exists(source):
                raise HoldfastError(
                    f"{name} was written to {staged} and is neither there nor in {self._root}: "
                    "somebody took it away; without it rows would be lost, so the job stops here"
                )
            self._files.move(source, target)

    def _state(self, batch: int, state: str) -> str:
        return f"{self._home}/{batch}.{state}"

    def _states(self) -> set[tuple[int, str]]:
        found = (_STATE.fullmatch(name) for name in self._files.names(self._home))
        return {(int(each[1]), each[2]) for each in found if each}


def landed(files: Files, root: str, source: str) -> bool:
    """Whether a query on this source ever wrote to the folder."""
    return bool(files.names(_home(root, source)))


def _home(root: str, source: str) -> str:
    return f"{root.rstrip('/')}/{FOLDER}/of/{quote(source, safe='')}"


def _is_data(name: str) -> bool:
    """Of what a job wrote, not its marks and checksums."""
    return not name.rpartition("/")[2].startswith(("_", "."))
