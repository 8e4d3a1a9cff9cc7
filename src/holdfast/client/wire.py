"""Commands as bytes, by hiredis: redis-py's own way looks at each argument once more in Python."""

from __future__ import annotations

from collections.abc import Sequence

import hiredis

from holdfast.engine.calls import Argument


def packed(commands: Sequence[tuple[Argument, ...]]) -> list[bytes]:
    """All commands in one piece, as a Connection's send_packed_command takes it."""
    return [b"".join([hiredis.pack_command(command) for command in commands])]  # type: ignore[arg-type]
