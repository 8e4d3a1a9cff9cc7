"""Waiting on a condition inside an event loop: `tests.servers.wait_until` for coroutines."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Awaitable, Callable
from typing import TypeVar

T = TypeVar("T")


async def eventually(
    condition: Callable[[], Awaitable[T]], timeout: float = 10.0, what: str = "the condition"
) -> T:
    """The first true answer; AssertionError when none came in `timeout` seconds."""
    deadline = time.monotonic() + timeout
    while True:
        if answer := await condition():
            return answer
        if time.monotonic() > deadline:
            raise AssertionError(f"{what}: not within {timeout} s (last answer: {answer!r})")
        await asyncio.sleep(0.01)
