"""The long-lived receiver: acks, failures, leases and stopping."""

from __future__ import annotations

import logging

import pytest

from holdfast import AsyncClient, AsyncQueue


async def test_consuming_hands_out_everything_and_acks_it(q: AsyncQueue) -> None:
    await q.send_many([b"%d" % i for i in range(1, 251)])
    seen = []
    async for d in q.consume(prefetch=100, idle=0.1):
        async with d:
            seen.append(int(d.body))
    assert seen == list(range(1, 251))
    stats = await q.stats()
    assert (stats.total, stats.acked) == (0, 250)


async def test_who_waits_for_nothing_still_has_all_that_is_there(q: AsyncQueue) -> None:
    await q.send_many([b"x"] * 30)
    seen = 0
    async for d in q.consume(prefetch=10, idle=0):
        async with d:
            seen += 1
    assert seen == 30


@pytest.mark.direct("it looks into the journal")
async def test_acks_are_gathered_into_few_calls(hf: AsyncClient, q: AsyncQueue) -> None:
    await q.configure(journal=True)
    await q.send_many([b"x"] * 300)
    async for d in q.consume(prefetch=100, idle=0.1):
        async with d:
            pass
    key = f"hf1:{{{q.name}}}:j"
    entries = await hf.transport.command("XRANGE", key, "-", "+", key=key)
    calls_that_acked = sum(1 for _, fields in entries if fields[1][0] == 7)
    assert 1 <= calls_that_acked <= 12


async def test_an_error_in_the_handler_is_logged_and_retried_with_backoff(
    q: AsyncQueue, caplog: pytest.LogCaptureFixture
) -> None:
    await q.send_many([b"good", b"bad"])
    with caplog.at_level(logging.ERROR, "holdfast"):
        async for d in q.consume(idle=0.1, backoff=lambda receives: 3600 * receives):
            async with d:
                if d.body == b"bad":
                    raise ValueError("no good")
    stats = await q.stats()
    assert (stats.acked, stats.delayed, stats.requeued) == (1, 1, 1)
    [waiting] = await q.inspect("delayed")
    assert waiting.due is not None
    assert (waiting.due - waiting.sent_at).total_seconds() >= 3600
    assert "no good" in caplog.text


async def test_breaking_out_gives_back_what_was_prefetched(q: AsyncQueue) -> None:
    await q.send_many([b"a", b"b", b"c"])
    async with q.consume() as deliveries:
        async for d in deliveries:
            async with d:
                break
    stats = await q.stats()
    assert (stats.acked, stats.ready, stats.leased) == (1, 2, 0)
    again = await q.receive()
    assert again is not None
    assert (again.body, again.receives) == (b"b", 1)


async def test_being_interrupted_releases_the_message_in_hand(q: AsyncQueue) -> None:
    await q.send(b"x")
    with pytest.raises(KeyboardInterrupt):
        async with q.consume() as deliveries:
            async for d in deliveries:
                async with d:
                    raise KeyboardInterrupt
    again = await q.receive()
    assert again is not None
    assert again.receives == 1


async def test_stop_ends_the_loop(q: AsyncQueue) -> None:
    await q.send_many([b"a", b"b", b"c"])
    deliveries = q.consume()
    async for d in deliveries:
        async with d:
            deliveries.stop()
    stats = await q.stats()
    assert (stats.acked, stats.ready) == (1, 2)


@pytest.mark.slow
async def test_leases_are_kept_alive_while_the_handler_works(
    hf: AsyncClient, q: AsyncQueue
) -> None:
    await q.send_many([b"slow", b"prefetched"])
    other = hf.queue(q.name)
    async for d in q.consume(lease=1, idle=0.1):
        async with d:
            if d.body == b"slow":
                # Far longer than the lease: whoever else asks meanwhile must get nothing.
                assert await other.receive(wait=3) is None
    stats = await q.stats()
    assert (stats.acked, stats.requeued) == (2, 0)
    assert stats.extended >= 4


async def test_an_ack_that_comes_too_late_is_told(
    q: AsyncQueue, caplog: pytest.LogCaptureFixture
) -> None:
    await q.send(b"x")
    with caplog.at_level(logging.WARNING, "holdfast"):
        async for d in q.consume(idle=0.1):
            async with d:
                await q.remove(d.id)
    assert "1 of 1 acks" in caplog.text
    assert "came too late" in caplog.text
