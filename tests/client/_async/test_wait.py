"""Waiting: a receive with `wait` gets a message when there is one, and not before."""

from __future__ import annotations

import time
from functools import partial

import pytest

from holdfast import AsyncClient, AsyncQueue, Outgoing
from tests.client.together import after


async def test_waiting_for_nothing_ends_when_the_time_is_over(q: AsyncQueue) -> None:
    start = time.monotonic()
    assert await q.receive(wait=0.3) is None
    assert 0.3 <= time.monotonic() - start < 2


async def test_a_message_sent_meanwhile_wakes_the_waiter(hf: AsyncClient, q: AsyncQueue) -> None:
    async with after(0.1, hf, lambda client: client.queue(q.name).send(b"x")):
        d = await q.receive(wait=20)
    assert d is not None
    assert d.body == b"x"


async def test_a_message_that_falls_due_wakes_the_waiter_in_time(q: AsyncQueue) -> None:
    await q.send(b"x", delay=0.4)
    start = time.monotonic()
    d = await q.receive(wait=20)
    assert d is not None
    assert 0.35 <= time.monotonic() - start < 2


async def test_a_delayed_message_sent_meanwhile_is_waited_for(
    hf: AsyncClient, q: AsyncQueue
) -> None:
    async with after(0.1, hf, lambda client: client.queue(q.name).send(b"x", delay=0.3)):
        d = await q.receive(wait=20)
    assert d is not None


async def test_a_lease_that_ends_wakes_the_waiter(q: AsyncQueue) -> None:
    await q.send(b"x")
    first = await q.receive(lease=0.4)
    second = await q.receive(wait=20)
    assert first is not None
    assert second is not None
    assert (second.id, second.receives) == (first.id, 2)


async def test_resume_wakes_the_waiter(hf: AsyncClient, q: AsyncQueue) -> None:
    await q.send(b"x")
    await q.pause()
    async with after(0.1, hf, lambda client: client.queue(q.name).resume()):
        assert await q.receive(wait=20) is not None


async def test_the_end_of_a_pause_wakes_the_waiter(q: AsyncQueue) -> None:
    await q.send(b"x")
    await q.pause(0.3)
    assert await q.receive(wait=20) is not None


async def test_a_death_wakes_who_waits_for_dead_letters(hf: AsyncClient, q: AsyncQueue) -> None:
    await q.send(b"x")
    d = await q.receive()
    assert d is not None
    async with after(0.1, hf, lambda client: client.queue(q.name).bury(d.receipt, "bad")):
        [dead] = await q.receive_dead(wait=20)
    assert dead.id == d.id


async def test_a_waiter_on_a_sharded_queue_is_woken_by_any_shard(
    hf: AsyncClient, q: AsyncQueue
) -> None:
    await q.configure(shards=4)
    for _ in range(4):
        async with after(0.05, hf, lambda client: client.queue(q.name).send(b"x")):
            d = await q.receive(wait=20)
        assert d is not None
        await d.ack()


async def _ack(queue: str, receipt: str, client: AsyncClient) -> None:
    await client.queue(queue).ack(receipt)


@pytest.mark.slow
async def test_the_next_of_a_group_wakes_a_waiter_on_a_sharded_queue(
    hf: AsyncClient, q: AsyncQueue
) -> None:
    await q.configure(shards=4)
    for n in range(6):
        await q.send_many([Outgoing(b"x", group=f"g{n}"), Outgoing(b"y", group=f"g{n}")])
        first = await q.receive()
        assert first is not None
        receipt = first.receipt
        began = time.monotonic()
        async with after(0.05, hf, partial(_ack, q.name, receipt)):
            second = await q.receive(wait=20)
        assert second is not None
        # Unwoken, a waiter looks again after ten seconds.
        assert time.monotonic() - began < 8
        await second.ack()


@pytest.mark.slow
@pytest.mark.parametrize("by", ["delivery", "receipt"])
async def test_a_lease_made_shorter_on_another_shard_wakes_the_waiter(
    hf: AsyncClient, q: AsyncQueue, by: str
) -> None:
    await q.configure(shards=2)
    for _ in range(4):
        await q.send(b"x")
    got = []
    while (await q.stats()).ready:
        got += await q.receive_many(4, lease=600)
    [other, *_] = [d for d in got if d.id.count("-") == 2]
    start = time.monotonic()

    async def shorten(client: AsyncClient) -> None:
        queue = client.queue(q.name)
        assert await queue.extend(other if by == "delivery" else other.receipt, 0.3)

    async with after(0.3, hf, shorten):
        d = await q.receive(wait=20)
    assert d is not None
    assert d.id == other.id
    assert time.monotonic() - start < 1.5
