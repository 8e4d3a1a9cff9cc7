"""A RESP door that really listens, in a thread of its own, for clients that block."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Coroutine, Iterator
from contextlib import contextmanager
from typing import Any, TypeVar

from holdfast.client._async.client import AsyncClient
from holdfast.server.broker import Broker
from holdfast.server.gate import Gate
from holdfast.server.limits import Limits
from holdfast.server.meter import Meter
from holdfast.server.resp.door import RespDoor

T = TypeVar("T")


class Running:
    """A door, and how to reach it."""

    def __init__(self, loop: asyncio.AbstractEventLoop, door: RespDoor) -> None:
        self._loop = loop
        self.door = door
        self.host, _, port = door.address.rpartition(":")
        self.port = int(port)

    def call(self, work: Coroutine[Any, Any, T]) -> T:
        """Something to be done where the door lives."""
        return asyncio.run_coroutine_threadsafe(work, self._loop).result(30)


@contextmanager
def running(
    url: str, limits: Limits | None = None, gate: Gate | None = None, tls: Any = None
) -> Iterator[Running]:
    limits = limits or Limits()
    loop = asyncio.new_event_loop()
    thread = threading.Thread(target=loop.run_forever, name="resp-door")
    thread.start()

    async def start() -> tuple[AsyncClient, RespDoor]:
        client = AsyncClient(url, check="off")
        door = RespDoor(
            Broker(client, limits), gate or Gate(), Meter(limits), "127.0.0.1", 0, tls=tls
        )
        await door.open()
        return client, door

    client, door = asyncio.run_coroutine_threadsafe(start(), loop).result(30)
    it = Running(loop, door)
    try:
        yield it
    finally:
        it.call(door.close(1.0))
        it.call(client.close())
        loop.call_soon_threadsafe(loop.stop)
        thread.join(10)
        loop.close()
