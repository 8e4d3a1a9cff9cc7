"""Coalescing: many concurrent sends become few calls, within bounds."""

from __future__ import annotations

import asyncio
import secrets
from collections.abc import Sequence

import pytest

import holdfast
from holdfast import InvalidArgument, MessageId, QueueFull
from holdfast.client.producer import Producer
from holdfast.engine.calls import Packed, pack


async def test_many_concurrent_sends_become_few_calls(url: str) -> None:
    async with holdfast.connect_async(url) as hf:
        q = hf.queue(f"many-{secrets.token_hex(4)}")
        await q.configure(journal=True)
        ids = await asyncio.gather(*(q.send(b"%d" % i, priority=i % 3) for i in range(3000)))
        assert len(set(ids)) == 3000
        assert (await q.stats()).sent == 3000
        assert (await q.stats()).journal <= 10
        key = f"hf1:{{{q.name}}}:r1"
        assert await hf.transport.command("LLEN", key, key=key) == 1000


async def test_each_sender_learns_its_own_fate(url: str) -> None:
    async with holdfast.connect_async(url) as hf:
        q = hf.queue(f"fate-{secrets.token_hex(4)}")
        answers = await asyncio.gather(
            q.send(b"good"), q.send(b"bad", priority=10), q.send(b"good"), return_exceptions=True
        )
        assert [type(a) for a in answers] == [MessageId, InvalidArgument, MessageId]
        await q.configure(max_length=2)
        with pytest.raises(QueueFull, match="holds 2 of at most 2 messages"):
            await q.send(b"one too many")


class Slow:
    """Delivers when told to."""

    def __init__(self) -> None:
        self.go = asyncio.Event()
        self.batches: list[int] = []

    async def deliver(self, messages: Sequence[Packed]) -> list[MessageId]:
        self.batches.append(len(messages))
        await self.go.wait()
        return [MessageId(f"1-{i}") for i in range(len(messages))]


async def test_what_gathers_is_bounded_by_count_and_by_bytes() -> None:
    for bounds in ({"max_waiting": 10}, {"max_waiting_bytes": 10 * len(pack(b"x" * 100).envelope)}):
        slow = Slow()
        producer = Producer(slow.deliver, **bounds)
        tasks = [asyncio.create_task(producer.send(pack(b"x" * 100))) for _ in range(100)]
        while not slow.batches:
            await asyncio.sleep(0)
        for _ in range(50):
            await asyncio.sleep(0)
            assert producer.waiting <= 10
        slow.go.set()
        assert len(await asyncio.gather(*tasks)) == 100
        assert max(slow.batches) <= 11


async def test_senders_that_give_up_while_waiting_for_room_block_nobody() -> None:
    slow = Slow()
    producer = Producer(slow.deliver, max_waiting=2)
    tasks = [asyncio.create_task(producer.send(pack(b"x"))) for _ in range(20)]
    while not slow.batches:
        await asyncio.sleep(0)
    await asyncio.sleep(0)
    for task in tasks[::2]:
        task.cancel()
    slow.go.set()
    answers = await asyncio.wait_for(asyncio.gather(*tasks, return_exceptions=True), 5)
    assert all(isinstance(a, str) for a in answers[1::2])
