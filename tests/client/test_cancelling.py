"""A cancelled call gives up, whatever it was doing in that moment."""

from __future__ import annotations

import asyncio

import pytest

from holdfast.client.io_async import heeding


async def test_a_cancellation_in_the_moment_of_success_is_not_lost() -> None:
    sent: asyncio.Future[None] = asyncio.get_running_loop().create_future()
    began = asyncio.Event()

    async def sends() -> None:
        began.set()
        await heeding(asyncio.wait_for(sent, 60))

    task = asyncio.create_task(sends())
    await began.wait()
    await asyncio.sleep(0)
    sent.set_result(None)
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task


async def test_a_task_that_was_cancelled_may_still_clean_up() -> None:
    cleaned = []

    async def works() -> None:
        try:
            await asyncio.Event().wait()
        except asyncio.CancelledError:
            cleaned.append(await heeding(asyncio.sleep(0, "done")))
            raise

    task = asyncio.create_task(works())
    await asyncio.sleep(0)
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    assert cleaned == ["done"]
