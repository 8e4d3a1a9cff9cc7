"""Doing something while somebody waits, in both worlds: the generated tests use the second half."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from contextlib import asynccontextmanager, contextmanager
from typing import Any

import holdfast


@asynccontextmanager
async def after(
    seconds: float,
    client: holdfast.AsyncClient,
    act: Callable[[holdfast.AsyncClient], Awaitable[Any]],
) -> AsyncIterator[None]:
    """Inside the block, `act` happens `seconds` from now, over a client of its own."""

    async def work() -> None:
        await asyncio.sleep(seconds)
        async with holdfast.connect_async(client.url) as other:
            await act(other)

    task = asyncio.create_task(work())
    yield
    await task


@contextmanager
def after_sync(
    seconds: float, client: holdfast.Client, act: Callable[[holdfast.Client], Any]
) -> Iterator[None]:
    """The same for the synchronous client."""
    failed: list[BaseException] = []

    def work() -> None:
        try:
            with holdfast.connect(client.url) as other:
                act(other)
        except BaseException as error:
            failed.append(error)

    timer = threading.Timer(seconds, work)
    timer.start()
    yield
    timer.join()
    if failed:
        raise failed[0]
