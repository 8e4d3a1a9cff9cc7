"""A cancelled call gives up, whatever it was doing in that moment."""

from __future__ import annotations

import asyncio
import secrets
import time

import pytest

import holdfast
from holdfast import AsyncQueue
from holdfast.client._async.waiting import wait_any
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


@pytest.mark.slow
@pytest.mark.parametrize("how", ["receives", "waits", "waits and gives up"])
async def test_the_next_one_watches_the_clock_when_a_waiter_goes(url: str, how: str) -> None:
    async with holdfast.connect_async(url) as hf:
        q = hf.queue(f"q-{secrets.token_hex(4)}")

        async def clients_waiting(n: int) -> None:
            async with asyncio.timeout(10):
                while (await blocked(q)) != n:
                    await asyncio.sleep(0.01)

        goes: asyncio.Future[object]
        if how == "receives":
            goes = asyncio.ensure_future(q.receive(wait=20))
        else:
            goes = asyncio.ensure_future(wait_any([q], 20 if how == "waits" else 0.6))
        await clients_waiting(1)
        stays = asyncio.ensure_future(q.receive(wait=20))
        await clients_waiting(2)
        # The first who waits is woken, and watches.
        start = time.monotonic()
        await q.send(b"x", delay=1)
        if how == "waits and gives up":
            assert await goes is False
        else:
            await asyncio.sleep(0.3)
            goes.cancel()
            with pytest.raises(asyncio.CancelledError):
                await goes
        got = await stays
        assert got is not None
        assert time.monotonic() - start < 3


async def blocked(q: AsyncQueue) -> int:
    """Clients of the server that wait; no other test waits meanwhile."""
    info = await q.transport.command("CLIENT", "LIST")
    return sum(b"cmd=blpop" in line for line in info.splitlines())
