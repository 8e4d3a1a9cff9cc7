"""The append-only file, read as the server wrote it: is it whole, and if not, up to where?

It is several files, in the order of their manifest: a base, then what was done since; that is more than one
file when a power cut met a rewrite. Each holds commands in the protocol; what belongs together stands between
MULTI and EXEC, and counts as there only with both.

Invariant: `whole` is the length of a beginning that the server loads, and that ends between two calls. What
comes after a hole is never used: it was done to something that is not there.

Rejected: the server's own check. It cuts the last file only, asks on a terminal, and does not say what it
cuts. And letting the server try: where a file in the middle is cut short, it cuts off the half call at its
end, gives up, and at the next start goes on with the file behind the hole, without a word.
"""

from __future__ import annotations

import mmap
from collections import Counter
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import NamedTuple

MANIFEST = "appendonly.aof.manifest"

Progress = Callable[[int], None]
"""Is told how many more bytes have been looked at."""

_STEP = 1 << 20
_BOUNDS = frozenset((b"MULTI", b"EXEC", b"multi", b"exec"))


class Part(NamedTuple):
    """One line of the manifest."""

    name: str
    kind: str
    """b: base; i: what was done since; h: history, which is not loaded."""
    line: str


class Lost(NamedTuple):
    """What a file holds from some place on."""

    size: int
    calls: int
    """As far as they can be read; a half one counts."""
    unreadable: int
    """Bytes at the end that are no commands."""
    keys: Counter[bytes]
    """What they were about: the first key of each command, and how often."""


def parts(folder: Path) -> list[Part]:
    """What the manifest lists, in order; nothing where there is none."""
    try:
        text = (folder / MANIFEST).read_text()
    except FileNotFoundError:
        return []
    found = []
    for line in text.splitlines():
        words = line.split()
        told = dict(zip(words[::2], words[1::2], strict=False))
        if "file" in told and "type" in told:
            found.append(Part(told["file"], told["type"], line))
    return found


def hole(folder: Path) -> str | None:
    """The first file that is not whole though another one follows, if there is one. Reads nothing where no
    rewrite was interrupted, which is nearly always."""
    since = [part for part in parts(folder) if part.kind == "i"]
    for part in since[:-1]:
        path = folder / part.name
        if not path.exists() or whole(path) < path.stat().st_size:
            return part.name
    return None


def whole(path: Path, progress: Progress | None = None) -> int:
    """The length of the beginning that is whole."""
    size, found, told, in_call = path.stat().st_size, 0, 0, False
    if not size:
        return 0
    with path.open("rb") as file, mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ) as data:
        for end, words in _commands(data):
            if words[0] in _BOUNDS:
                in_call = words[0].upper() == b"MULTI"
            if not in_call:
                found = end
            if progress is not None and end - told >= _STEP:
                progress(end - told)
                told = end
    if progress is not None:
        progress(size - told)
    return found


def lost(path: Path, start: int = 0) -> Lost:
    """What is gone with everything from a place on."""
    size, calls, read, in_call = path.stat().st_size, 0, start, False
    keys: Counter[bytes] = Counter()
    if size <= start:
        return Lost(0, 0, 0, keys)
    with path.open("rb") as file, mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ) as data:
        for end, words in _commands(data, start):
            read = end
            if words[0] in _BOUNDS:
                in_call = words[0].upper() == b"MULTI"
                calls += in_call
            elif len(words) > 1 and words[0].upper() != b"SELECT":
                calls += not in_call
                keys[words[1]] += 1
    return Lost(size - start, calls, size - read, keys)


def _commands(data: mmap.mmap, at: int = 0) -> Iterator[tuple[int, list[bytes]]]:
    """Each command's first two words, and where it ends; as far as there are whole ones."""
    size = len(data)
    while at < size:
        if data[at : at + 1] == b"#":  # a note of the server's, as of the time
            end = data.find(b"\n", at)
            if end < 0:
                return
            at = end + 1
            continue
        n, at = _number(data, at, b"*")
        if n < 1:
            return
        words: list[bytes] = []
        for i in range(n):
            length, at = _number(data, at, b"$")
            end = at + length
            if length < 0 or end + 2 > size or data[end : end + 2] != b"\r\n":
                return
            if i < 2:
                words.append(data[at:end])
            at = end + 2
        yield at, words


def _number(data: mmap.mmap, at: int, mark: bytes) -> tuple[int, int]:
    """The number in a line like *3, and where the next line begins; -1 if there is none."""
    end = data.find(b"\r\n", at, at + 32)
    if end < 0 or data[at : at + 1] != mark or not data[at + 1 : end].isdigit():
        return -1, at
    return int(data[at + 1 : end]), end + 2
