"""Commands as bytes, by hiredis: redis-py's own way looks at each argument once more in Python."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import hiredis

from holdfast.engine.calls import Argument

_packed: Any = hiredis.pack_command


def packed(commands: Sequence[tuple[Argument, ...]]) -> list[bytes]:
    """All commands in one piece, as a Connection's send_packed_command takes it."""
    return [b"".join([_packed(command) for command in commands])]


def packed_one(command: tuple[Argument, ...]) -> list[bytes]:
    return [_packed(command)]
