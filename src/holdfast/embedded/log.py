"""valkey.log: the one place where the server and its keeper explain themselves.

Invariant: it does not grow without bound over many starts; the previous one is kept beside it.
Rejected: a pipe to the process that started the server. It blocks the server when nobody reads.
"""

from __future__ import annotations

from pathlib import Path

_LARGEST_BYTES = 1_000_000
_LINES_SHOWN = 8


def size(log: Path) -> int:
    """How much is in it now, to tell later what was added; starts a new one when it is large."""
    if not log.exists():
        return 0
    found = log.stat().st_size
    if found < _LARGEST_BYTES:
        return found
    log.replace(log.with_suffix(".log.1"))
    return 0


def last_lines(log: Path, since: int) -> str:
    """The last things said after the first `since` bytes."""
    try:
        with log.open("rb") as file:
            file.seek(since)
            lines = file.read().decode(errors="replace").splitlines()
    except FileNotFoundError:
        lines = []
    said = [line for line in lines if line.strip()][-_LINES_SHOWN:]
    return "\n".join(f"    {line}" for line in said) or "    (nothing)"
