"""A line between two processes of a worker: whole messages, msgpack, each with its length before it.

A supervisor has one to each worker process, a worker process one to each of its own for CPU-bound tasks. It
is a socket pair that the child inherits, so nobody else can speak on it, and its end is the other's end: no
process has to be told that its parent was killed. Never pickle: what a task returns must not run code in its
worker. Rejected: stdin and stdout, which belong to the handlers.
"""

from __future__ import annotations

import asyncio
import io
import os
import signal
import socket
import struct
import sys
import sysconfig
import threading
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Any, TypeVar

import msgspec

T = TypeVar("T")
_LENGTH = struct.Struct(">I")
_LAST_WORDS = 0.5
_encode = msgspec.msgpack.Encoder().encode


def packed(message: Any) -> bytes:
    data = _encode(message)
    return _LENGTH.pack(len(data)) + data


class ChildEnd:
    """Blocking; several threads may send."""

    def __init__(self, number: int) -> None:
        self._socket = socket.socket(fileno=number)
        self._socket.settimeout(None)
        # What handlers start must not hold the line of a process that is gone.
        os.set_inheritable(number, False)
        self._lock = threading.Lock()
        self.number = number

    def send(self, message: Any) -> None:
        """Raises OSError when nobody is there any more."""
        with self._lock:
            self._socket.sendall(packed(message))

    def receive(self, decoder: msgspec.msgpack.Decoder[T]) -> T | None:
        """The next one; None when the other end is gone."""
        head = self._exactly(_LENGTH.size)
        data = self._exactly(_LENGTH.unpack(head)[0]) if head else None
        return None if data is None else decoder.decode(data)

    def _exactly(self, size: int) -> bytes | None:
        parts = bytearray()
        while len(parts) < size:
            try:
                part = self._socket.recv(min(size - len(parts), 1 << 20))
            except ConnectionError:
                return None
            if not part:
                return None
            parts += part
        return bytes(parts)


def show_output_at_once() -> None:
    """What a handler prints goes to the worker's own stdout, which is often a pipe: line by line."""
    if isinstance(sys.stdout, io.TextIOWrapper):
        sys.stdout.reconfigure(line_buffering=True)


class Child(asyncio.Protocol):
    """A child process and the parent's end of the line to it. `heard` is called with each message's bytes.

    The process leads a session of its own: a Ctrl-C in the terminal is for its parent to hear and to pass
    on, and a kill takes along what its handlers have started.
    """

    def __init__(self, heard: Callable[[bytes], None]) -> None:
        self._heard = heard
        self._buffer = bytearray()
        self._transport: asyncio.WriteTransport | None = None
        self._process: asyncio.subprocess.Process | None = None
        self._closed = asyncio.Event()

    async def start(self, module: str, stdout: int | None = None) -> None:
        """`stdout`: a file of ours that its output goes to, if not to our own."""
        ours, theirs = socket.socketpair()
        try:
            self._process = await asyncio.create_subprocess_exec(
                # -P: a json.py in the current folder is for the app, not for us; the app is loaded later.
                *(sys.executable, "-P", "-m", module, str(theirs.fileno())),
                env=_environment(),
                stdin=asyncio.subprocess.DEVNULL,
                stdout=stdout,
                pass_fds=(theirs.fileno(),),
                start_new_session=True,
            )
            loop = asyncio.get_running_loop()
            await loop.create_unix_connection(lambda: self, sock=ours)
        except BaseException:
            ours.close()
            raise
        finally:
            theirs.close()

    @property
    def pid(self) -> int:
        return self._process.pid if self._process is not None else 0

    @property
    def status(self) -> int | None:
        """Its exit status, or minus the signal that ended it; None: it has not ended."""
        return self._process.returncode if self._process is not None else None

    def send(self, message: Any) -> None:
        """To one that is gone: nothing."""
        if self._transport is not None and not self._transport.is_closing():
            self._transport.write(packed(message))

    def hang_up(self) -> None:
        if self._transport is not None:
            self._transport.close()

    def kill(self) -> None:
        """It and all it has started, if it has not ended."""
        if self._process is not None and self.status is None:
            with suppress(ProcessLookupError):  # it may have ended, and nobody has looked yet
                os.killpg(self.pid, signal.SIGKILL)

    async def ended(self) -> int:
        """When it has, and what it said last is heard: its status."""
        status = await self._process.wait() if self._process is not None else 0
        # What it has started may hold the line, and has nothing to say.
        with suppress(TimeoutError):
            await asyncio.wait_for(self._closed.wait(), _LAST_WORDS)
        return status

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = transport  # type: ignore[assignment]

    def connection_lost(self, error: Exception | None) -> None:
        self._closed.set()

    def data_received(self, data: bytes) -> None:
        buffer = self._buffer
        buffer += data
        at, head = 0, _LENGTH.size
        while len(buffer) - at >= head:
            end = at + head + _LENGTH.unpack_from(buffer, at)[0]
            if len(buffer) < end:
                break
            self._heard(bytes(buffer[at + head : end]))
            at = end
        del buffer[:at]


def _environment() -> dict[str, str]:
    """With this very package on the path, however it came to be importable here; at the end of it, and not
    where a new interpreter finds it anyway: what comes first is the app's business."""
    root = str(Path(__file__).parents[2])
    inherited = os.environ.get("PYTHONPATH", "")
    if root in (sysconfig.get_path("purelib"), sysconfig.get_path("platlib")):
        return dict(os.environ)
    return os.environ | {"PYTHONPATH": os.pathsep.join(filter(None, [inherited, root]))}
