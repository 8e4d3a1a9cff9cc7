"""A gRPC door on a real server, opened for each test in the test's own event loop."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from typing import Any

import grpc
import pytest

from holdfast import AsyncClient
from holdfast.server.broker import Broker
from holdfast.server.gate import Gate
from holdfast.server.grpc.door import GrpcDoor
from holdfast.server.limits import Limits
from holdfast.server.meter import Meter
from holdfast.v1.broker_pb2_grpc import BrokerStub, QueuesStub


@dataclass
class Opened:
    """A door and a channel to it."""

    door: GrpcDoor
    channel: grpc.aio.Channel
    meter: Meter

    @property
    def queues(self) -> Any:
        return QueuesStub(self.channel)

    @property
    def broker(self) -> Any:
        return BrokerStub(self.channel)


@asynccontextmanager
async def opened(
    client: AsyncClient,
    *,
    gate: Gate | None = None,
    limits: Limits | None = None,
    credentials: grpc.ChannelCredentials | None = None,
    **options: Any,
) -> AsyncIterator[Opened]:
    limits = limits or Limits()
    meter = Meter(limits)
    door = GrpcDoor(Broker(client, limits), gate or Gate(), meter, "127.0.0.1", 0, **options)
    await door.open()
    channel = (
        grpc.aio.secure_channel(door.address.replace("127.0.0.1", "localhost"), credentials)
        if credentials
        else grpc.aio.insecure_channel(door.address)
    )
    try:
        yield Opened(door, channel, meter)
    finally:
        await channel.close(None)
        await door.close(1.0)


@pytest.fixture
async def served(direct: AsyncClient) -> AsyncIterator[Opened]:
    async with opened(direct) as it:
        yield it
