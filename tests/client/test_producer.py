"""Coalescing: many concurrent sends become few calls, within bounds."""

from __future__ import annotations

import asyncio
import secrets
from collections.abc import Sequence

import pytest

import holdfast
from holdfast import InvalidArgument, MessageId, QueueFull, WrongType
from holdfast.client.producer import Producer
from holdfast.engine.calls import Packed, pack
from tests.client.proxy import proxied


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


async def test_concurrent_sends_fill_what_room_there_is(url: str) -> None:
    """That they travelled together is nothing their senders know or want."""
    async with holdfast.connect_async(url) as hf:
        q = hf.queue(f"room-{secrets.token_hex(4)}")
        await q.configure(max_length=10)
        sends = [q.send(b"%d" % i, dedup_id=str(i % 12)) for i in range(14)]
        answers = await asyncio.gather(*sends, return_exceptions=True)
        assert [type(a) for a in answers[:10]] == [MessageId] * 10
        assert [type(a) for a in answers[10:12]] == [QueueFull] * 2
        assert answers[12:] == answers[:2], "a duplicate needs no room"
        assert "holds 10 of at most 10 messages" in str(answers[10])
        shown = await q.inspect("ready", 0, 20)
        assert [(m.id, m.body) for m in shown] == [(answers[i], b"%d" % i) for i in range(10)]


async def test_concurrent_sends_are_never_refused_where_the_oldest_give_way(url: str) -> None:
    async with holdfast.connect_async(url) as hf:
        q = hf.queue(f"room-{secrets.token_hex(4)}")
        await q.configure(max_length=10, overflow="drop_oldest")
        ids = await asyncio.gather(*[q.send(b"%d" % i) for i in range(34)])
        shown = await q.inspect("ready", 0, 20)
        assert [m.id for m in shown] == ids[-10:]
        assert (await q.stats()).dropped == 24
        with pytest.raises(QueueFull):
            await q.send_many([b"x"] * 11)


async def test_what_is_delayed_does_not_give_way(url: str) -> None:
    async with holdfast.connect_async(url) as hf:
        q = hf.queue(f"room-{secrets.token_hex(4)}")
        await q.configure(max_length=4, overflow="drop_oldest")
        sends = [q.send(b"%d" % i, delay=60 if i % 2 else None) for i in range(12)]
        answers = await asyncio.gather(*sends, return_exceptions=True)
        stored = [a for a in answers if isinstance(a, MessageId)]
        stats = await q.stats()
        assert (stats.ready + stats.delayed, stats.delayed) == (4, 4)
        assert len(stored) == stats.sent == stats.dropped + 4


async def test_a_message_that_cannot_be_stored_takes_no_other_with_it(url: str) -> None:
    async with holdfast.connect_async(url) as hf:
        q = hf.queue(f"fate-{secrets.token_hex(4)}")
        await q.send(b"first")
        key = f"hf1:{{{q.name}}}:g:broken"
        await hf.transport.command("SET", key, "not a list", key=key)
        answers = await asyncio.gather(
            *[q.send(b"x", group=g) for g in ("a", "broken", "b")], return_exceptions=True
        )
        assert [type(a) for a in answers] == [MessageId, WrongType, MessageId]
        assert (await q.stats()).sent == 3


async def test_of_several_shards_one_that_is_full_refuses_only_its_own(url: str) -> None:
    async with holdfast.connect_async(url) as hf:
        q = hf.queue(f"shards-{secrets.token_hex(4)}")
        await q.configure(shards=2, max_length=3)
        sends = [q.send(b"x", group=g) for g in ("a", "b", "c", "d") for _ in range(3)]
        answers = await asyncio.gather(*sends, return_exceptions=True)
        stored = [a for a in answers if isinstance(a, MessageId)]
        assert len(stored) == (await q.stats()).ready == 6
        assert {type(a) for a in answers} == {MessageId, QueueFull}


async def test_concurrent_publishes_get_an_answer_each(url: str) -> None:
    async with holdfast.connect_async(url) as hf:
        topic = hf.topic(f"room-{secrets.token_hex(4)}")
        await topic.configure(max_length=4)
        seat = await topic.subscribe("a")
        answers = await asyncio.gather(
            *[topic.publish(b"%d" % i) for i in range(6)], return_exceptions=True
        )
        assert [type(a) for a in answers] == [MessageId] * 4 + [QueueFull] * 2
        assert [m.body for m in await seat.inspect("ready")] == [b"0", b"1", b"2", b"3"]


async def test_sends_whose_common_answer_was_lost_get_the_same_answers_again(url: str) -> None:
    with proxied(url) as proxy:
        async with holdfast.connect_async(proxy.url) as hf:
            q = hf.queue(f"room-{secrets.token_hex(4)}")
            await q.configure(max_length=5)
            proxy.lose(b"each plain")
            sends = [q.send(b"%d" % i) for i in range(8)]
            answers = await asyncio.gather(*sends, return_exceptions=True)
            assert proxy.lost == 1
            assert [type(a) for a in answers] == [MessageId] * 5 + [QueueFull] * 3
            assert [m.id for m in await q.inspect("ready")] == answers[:5]
