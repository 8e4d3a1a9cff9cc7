"""Outcomes on disk as they come, so that a campaign of hours can be interrupted and gone on with.

An outcome counts only for the very code that it was had with: each line bears a digest of it.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterable
from functools import cache
from pathlib import Path

import msgspec

from tools.torture.front import ROOT
from tools.torture.run import Outcome

_CODE = ("src/holdfast", "tools/torture")
_KINDS = {".py", ".lua", ".c"}


class _Line(msgspec.Struct):
    code: str
    outcome: Outcome


@cache
def code() -> str:
    """A digest of what is tortured, and of what tortures."""
    found = hashlib.sha256()
    for folder in _CODE:
        for path in sorted((ROOT / folder).rglob("*")):
            if path.suffix in _KINDS:
                found.update(f"{path.relative_to(ROOT)}\0".encode() + path.read_bytes() + b"\0")
    return found.hexdigest()[:16]


class Book:
    """`done`: what this code's runs have come to so far, the last of each scenario and seed."""

    def __init__(self, path: Path | None) -> None:
        self._path = path
        self.done: dict[tuple[str, int], Outcome] = {}
        for line in _read(path) if path and path.exists() else ():
            if line.code == code():
                self.done[line.outcome.scenario, line.outcome.seed] = line.outcome

    def add(self, outcome: Outcome) -> None:
        if self._path is not None:
            with self._path.open("ab") as book:
                book.write(msgspec.json.encode(_Line(code(), outcome)) + b"\n")


def _read(path: Path) -> Iterable[_Line]:
    for line in path.read_bytes().splitlines():
        try:
            yield msgspec.json.decode(line, type=_Line)
        except msgspec.MsgspecError:
            continue  # cut off by a crash, or not ours: that run is done again
