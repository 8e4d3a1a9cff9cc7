"""A RESP door over the tests' Valkey, and clients of it."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import ExitStack
from typing import Any

import pytest
import redis

from tests.server.resp.running import Running, running


@pytest.fixture(scope="session")
def door(valkey: str) -> Iterator[Running]:
    with running(valkey) as it:
        yield it


@pytest.fixture
def open_door(valkey: str) -> Iterator[Callable[..., Running]]:
    """Opens doors of a test's own, with limits, a gate or TLS."""
    with ExitStack() as stack:
        yield lambda **options: stack.enter_context(running(valkey, **options))


@pytest.fixture
def r(door: Running) -> Iterator[redis.Redis]:
    with redis.Redis(port=door.port, protocol=2) as client:
        yield client


@pytest.fixture(params=[2, 3], ids=["resp2", "resp3"])
def mq(request: pytest.FixtureRequest, door: Running) -> Iterator[Callable[..., Any]]:
    """Sends a command as bytes go over the wire, in both versions of the protocol."""
    with redis.Redis(port=door.port, protocol=request.param) as client:
        yield client.execute_command
