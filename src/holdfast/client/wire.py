"""Commands as bytes, by hiredis: redis-py's own way looks at each argument once more in Python. And what
becomes of bytes that were never sent."""

from __future__ import annotations

import contextlib
import socket
import struct
from collections.abc import Sequence
from typing import Any

import hiredis

from holdfast.engine.calls import Argument

_packed: Any = hiredis.pack_command


def packed(commands: Sequence[tuple[Argument, ...]]) -> list[bytes]:
    """All commands in one piece, as a Connection's send_packed_command takes it."""
    return [b"".join([_packed(command) for command in commands])]


def forget_unsent(sock: Any) -> None:
    """When this socket is closed, the kernel drops what it has not sent. Else it goes on trying for minutes,
    and a call that was given up arrives after its repetition."""
    if sock.fileno() < 0:
        return  # closed already; of such a one uvloop says ValueError
    with contextlib.suppress(OSError):
        sock.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))


def packed_one(command: tuple[Argument, ...]) -> list[bytes]:
    return [_packed(command)]
