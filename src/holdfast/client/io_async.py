"""What the asynchronous client stands on. `io_sync.py` offers the same names to the generated one.

Only what differs between the two worlds is here: connections, sleeping, background work, and how
single sends become calls.
"""

from __future__ import annotations

import asyncio
import math
from collections.abc import Awaitable, Callable
from typing import Any

from redis.asyncio.connection import Connection, SSLConnection, UnixDomainSocketConnection
from redis.asyncio.retry import Retry
from redis.backoff import NoBackoff

from holdfast.client.address import Address
from holdfast.client.producer import Producer

__all__ = [
    "Background",
    "Connection",
    "Lock",
    "Producer",
    "aside",
    "connection",
    "read_within",
    "sleep",
    "stop_iteration",
]

sleep = asyncio.sleep
Lock = asyncio.Lock
stop_iteration = StopAsyncIteration

_KINDS: dict[str, Any] = {
    "unix": UnixDomainSocketConnection,
    "tls": SSLConnection,
    "tcp": Connection,
}


def connection(address: Address, host: str, port: int, timeout: float) -> Connection:
    """A connection, not yet open, that never retries by itself: the transport decides that."""
    options = address.options(host, port, timeout)
    return _KINDS[address.kind](retry=Retry(NoBackoff(), 0), **options)  # type: ignore[no-any-return]


async def aside(work: Callable[[], None]) -> None:
    """Something that may block for a while: not on the event loop."""
    await asyncio.to_thread(work)


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
        self._task = asyncio.ensure_future(work(self))
        self._task.set_name(name)

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
