"""A gRPC door in a thread of its own, for clients that block, and for those that must not share its
event loop."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Coroutine, Iterator
from contextlib import contextmanager
from typing import Any, TypeVar

from holdfast.client._async.client import AsyncClient
from holdfast.server.broker import Broker
from holdfast.server.gate import Gate
from holdfast.server.grpc.door import GrpcDoor
from holdfast.server.limits import Limits
from holdfast.server.meter import Meter
from holdfast.server.tls import TlsFiles

T = TypeVar("T")


class Running:
    def __init__(self, valkey: str, port: int, **options: Any) -> None:
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._loop.run_forever, name="grpc-door")
        self._thread.start()
        self._valkey = valkey
        self._options = options
        self._client, self.door = self.call(self._open(port))

    async def _open(self, port: int) -> tuple[AsyncClient, GrpcDoor]:
        limits: Limits = self._options.get("limits") or Limits()
        gate: Gate = self._options.get("gate") or Gate()
        tls: TlsFiles | None = self._options.get("tls")
        client = AsyncClient(self._valkey, check="off", retry_for=5)
        door = GrpcDoor(Broker(client, limits), gate, Meter(limits), "127.0.0.1", port, tls=tls)
        await door.open()
        return client, door

    def call(self, work: Coroutine[Any, Any, T]) -> T:
        """Something to be done where the door lives."""
        return asyncio.run_coroutine_threadsafe(work, self._loop).result(30)

    @property
    def url(self) -> str:
        return f"grpc://{self.door.address}"

    @property
    def port(self) -> int:
        return int(self.door.address.rpartition(":")[2])

    def close_door(self) -> None:
        self.call(self.door.close(0.2))

    def open_door(self) -> None:
        """Again, at the same address."""
        self.call(self._client.close())
        self._client, self.door = self.call(self._open(self.port))

    def stop(self) -> None:
        self.close_door()
        self.call(self._client.close())
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join(10)
        self._loop.close()


@contextmanager
def running(valkey: str, port: int = 0, **options: Any) -> Iterator[Running]:
    it = Running(valkey, port, **options)
    try:
        yield it
    finally:
        it.stop()
