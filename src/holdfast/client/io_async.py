"""What the asynchronous client stands on. `io_sync.py` offers the same names to the generated one.

Only what differs between the two worlds is here: connections, sleeping, background work, and how
single sends become calls.
"""

from __future__ import annotations

import asyncio
import logging
import math
import os
import time
from collections.abc import Awaitable, Callable, Sequence
from contextlib import suppress
from typing import Any, TypeVar

from redis.asyncio.connection import Connection, SSLConnection, UnixDomainSocketConnection
from redis.asyncio.retry import Retry
from redis.backoff import NoBackoff

from holdfast.client.address import Address
from holdfast.client.producer import Producer
from holdfast.client.wire import forget_unsent
from holdfast.errors import HoldfastError

__all__ = [
    "Background",
    "Connection",
    "Lock",
    "Producer",
    "abandon",
    "aside",
    "cancelled",
    "connection",
    "heeding",
    "last_words",
    "read_for",
    "read_within",
    "send",
    "side_by_side",
    "sleep",
    "stop_iteration",
]

T = TypeVar("T")

log = logging.getLogger("holdfast")

sleep = asyncio.sleep
Lock = asyncio.Lock
stop_iteration = StopAsyncIteration
cancelled = asyncio.CancelledError

# Seconds.
_LAST_WORDS = 0.5

# What is larger may not fit into the buffers of a connection, bytes.
LARGE = 65_536


class _Abrupt:
    """Closed at once, by redis-py or by us: what was not sent by then never will be. All that we close has
    either had all its answers, or has failed. And lost is lost, on every event loop."""

    async def disconnect(self: Any, *args: Any, **options: Any) -> None:
        writer = self._writer
        if writer is not None:
            line = writer.get_extra_info("socket")
            if line is not None:  # else it is closed already
                forget_unsent(line)
            writer.transport.abort()  # or it would go on to send what it holds itself
        await super().disconnect(*args, **options)  # type: ignore[misc]

    async def _send_packed_command(self: Any, command: Any) -> None:
        writer = self._writer
        try:
            await super()._send_packed_command(command)  # type: ignore[misc]
        except RuntimeError as error:  # what uvloop says of a line that the other side has reset
            if not writer.transport.is_closing():
                raise
            raise ConnectionResetError(str(error)) from error


class _Tcp(_Abrupt, Connection):
    pass


class _Tls(_Abrupt, SSLConnection):
    pass


class _Unix(_Abrupt, UnixDomainSocketConnection):
    pass


_KINDS: dict[str, Any] = {"unix": _Unix, "tls": _Tls, "tcp": _Tcp}


def connection(address: Address, host: str, port: int, timeout: float) -> Connection:
    """A connection, not yet open, that never retries by itself: the transport decides that."""
    options = address.options(host, port, timeout)
    return _KINDS[address.kind](retry=Retry(NoBackoff(), 0), **options)  # type: ignore[no-any-return]


# What the parent of a fork left us. Never freed: that would close files by numbers that others have by then.
_inherited: list[asyncio.StreamWriter] = []


def abandon(used: Connection) -> None:
    """In the child of a fork: close our copy of the parent's socket, and nothing else. The event loop is not
    told: what the kernel watches for it is shared with the parent, which would hear no more."""
    writer, used._reader, used._writer = used._writer, None, None
    if writer is not None:
        _inherited.append(writer)
        with suppress(OSError):
            os.close(writer.get_extra_info("socket").fileno())


async def aside(work: Callable[[], None]) -> None:
    """Something that may block for a while: not on the event loop."""
    await asyncio.to_thread(work)


async def heeding(work: Awaitable[T]) -> T:
    """The answer of `work`, unless this task was cancelled meanwhile: then CancelledError.

    redis-py sends under asyncio.wait_for, and Python 3.11's loses a cancellation that comes in the
    moment the inner work is done (CPython issue 81839, mended in 3.12): a waiter that was told to
    give up would go on to wait.
    """
    me = asyncio.current_task()
    before = me.cancelling() if me else 0
    answer = await work
    # Only a new one counts: a task that cleans up after its own cancellation still may send.
    if me and me.cancelling() > before:
        raise asyncio.CancelledError
    return answer


async def send(used: Connection, data: list[bytes], timeout: float) -> None:
    """Send what is packed already. More than fits into buffers may take as long as an exchange may."""
    if len(data[0]) <= LARGE:
        await heeding(used.send_packed_command(data, check_health=False))
        return
    patience, used.socket_timeout = used.socket_timeout, timeout
    try:
        await heeding(used.send_packed_command(data, check_health=False))
    finally:
        used.socket_timeout = patience


async def side_by_side(
    works: Sequence[Callable[[], Awaitable[T]]], enough: Callable[[list[T]], bool], soon: float
) -> tuple[list[T], list[Exception]]:
    """Do all of these at once. What has come of them, and what went wrong, as soon as it is enough, or
    all are done, or `soon` seconds have passed and there is anything."""
    got: list[T] = []
    problems: list[Exception] = []
    pending = {asyncio.ensure_future(work()) for work in works}
    deadline = time.monotonic() + soon
    try:
        while pending and not enough(got):
            left = max(deadline - time.monotonic(), 0) if got else None
            done, pending = await asyncio.wait(
                pending, timeout=left, return_when=asyncio.FIRST_COMPLETED
            )
            for each in done:
                if (error := each.exception()) is None:
                    got.append(each.result())
                elif isinstance(error, Exception):
                    problems.append(error)
                else:
                    raise error
            if got and time.monotonic() >= deadline:
                break
    finally:
        for each in pending:
            each.cancel()
        await asyncio.gather(*pending, return_exceptions=True)
    return got, problems


async def last_words(work: Awaitable[Any]) -> None:
    """What has still to be said by one who was cancelled. It keeps nobody waiting for long."""
    with suppress(TimeoutError, HoldfastError):
        async with asyncio.timeout(_LAST_WORDS):
            await work


async def read_for(used: Connection, seconds: float) -> None:
    """From now on an answer that has not come for so long is a TimeoutError."""
    used.socket_timeout = seconds


async def read_within(used: Connection, seconds: float) -> Any:
    """The next answer, or TimeoutError; the connection stays usable either way."""
    async with asyncio.timeout(seconds):
        return await used.read_response(
            disable_decoding=True, timeout=math.inf, disconnect_on_error=False
        )


class Background:
    """Something that goes on until it is told to stop: `work` gets this object, and should look at
    `stopped` often."""

    def __init__(self, work: Callable[[Background], Awaitable[None]], name: str) -> None:
        self._stop = asyncio.Event()
        self._work, self._name = work, name
        self._task = asyncio.ensure_future(self._run())
        self._task.set_name(name)

    async def _run(self) -> None:
        try:
            await self._work(self)
        except Exception:
            log.exception("%s has ended, and should not have", self._name)

    @property
    def stopped(self) -> bool:
        return self._stop.is_set()

    async def pause(self, seconds: float) -> None:
        """Sleep, or until told to stop."""
        try:
            await asyncio.wait_for(self._stop.wait(), seconds)
        except TimeoutError:
            return

    async def stop(self) -> None:
        self._stop.set()
        if self._task is not asyncio.current_task():
            await asyncio.gather(self._task, return_exceptions=True)
