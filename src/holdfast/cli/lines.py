"""Standard input or a file as batches of lines: memory is bounded, and nothing waits for long.

A batch ends when it is full, or when nothing more is there to read at the moment: so
`tail -f log | holdfast send logs --lines` sends each line as it comes, and a file goes in
batches of a thousand.
"""

from __future__ import annotations

import select
import sys
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from io import UnsupportedOperation
from pathlib import Path
from typing import BinaryIO, NamedTuple

from holdfast.errors import InvalidArgument
from holdfast.message import MAX_BODY

BATCH = 1000
_BATCH_BYTES = 8 * 1024 * 1024
_READ = 256 * 1024


class Line(NamedTuple):
    number: int
    text: bytes


@contextmanager
def opened(file: Path | None) -> Iterator[BinaryIO]:
    """The file, or stdin. Raises InvalidArgument where there is nothing to read."""
    if file is None or str(file) == "-":
        if sys.stdin.isatty():
            raise InvalidArgument("nothing to read: pipe something in, or name a --file")
        yield sys.stdin.buffer
        return
    try:
        stream = file.open("rb", buffering=0)
    except OSError as error:
        raise InvalidArgument(f"cannot read {str(file)!r}: {error.strerror}") from error
    with stream:
        yield stream


def batches(stream: BinaryIO) -> Iterator[list[Line]]:
    """All lines, without their ends. Raises InvalidArgument for one too long to be a message."""
    batch: list[Line] = []
    size = 0
    for line in _numbered(stream):
        if line is not None:
            batch.append(line)
            size += len(line.text)
        if batch and (line is None or len(batch) >= BATCH or size >= _BATCH_BYTES):
            yield batch
            batch, size = [], 0
    if batch:
        yield batch


def _numbered(stream: BinaryIO) -> Iterator[Line | None]:
    """Lines; None where one would have to wait for more."""
    number = 0
    for text in _split(stream):
        if text is None:
            yield None
        else:
            number += 1
            yield Line(number, text)
            if len(text) > MAX_BODY:
                raise InvalidArgument(f"line {number} is longer than a body may be")


def _split(stream: BinaryIO) -> Iterator[bytes | None]:
    pieces: list[bytes] = []  # of a line whose end has not come yet
    length = 0
    read = getattr(stream, "read1", stream.read)
    while chunk := read(_READ):
        first, *rest = chunk.split(b"\n")
        pieces.append(first)
        length += len(first)
        if rest:
            yield _joined(pieces)
            for whole in rest[:-1]:
                yield whole.removesuffix(b"\r")
            pieces, length = [rest[-1]], len(rest[-1])
        if length > MAX_BODY:
            break
        if not _more_at_hand(stream):
            yield None
    if length:
        yield _joined(pieces)


def _joined(pieces: Iterable[bytes]) -> bytes:
    return b"".join(pieces).removesuffix(b"\r")


def _more_at_hand(stream: BinaryIO) -> bool:
    try:
        return bool(select.select([stream], [], [], 0)[0])
    except (UnsupportedOperation, ValueError, OSError):
        return True  # not something that one could wait for
