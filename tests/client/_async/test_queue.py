"""Every verb once, through the client: the engine's own tests go deeper."""

from __future__ import annotations

import time
from datetime import UTC, datetime, timedelta

import pytest

from holdfast import AsyncClient, AsyncQueue, LeaseLost, Outgoing
from holdfast.client.io_async import sleep


async def test_a_message_is_sent_received_and_acked(q: AsyncQueue) -> None:
    mid = await q.send(b"hello", priority=3, attributes={"trace": "t-1"})
    d = await q.receive(lease=60)
    assert d is not None
    assert (d.id, d.body, d.attributes, d.receives, d.priority) == (
        mid,
        b"hello",
        {"trace": "t-1"},
        1,
        3,
    )
    assert d.lease_until is not None
    assert d.lease_until - d.sent_at >= timedelta(seconds=59)
    assert await q.ack(d)
    assert not await q.ack(d)
    assert await q.receive() is None


async def test_text_and_objects_come_back_as_they_were(q: AsyncQueue) -> None:
    await q.send_many(["grüße", {"n": [1, None, "x"]}])
    first, second = await q.receive_many(2)
    assert first.text == "grüße"
    assert second.json() == {"n": [1, None, "x"]}


async def test_send_many_answers_ids_in_order_and_keeps_priorities(q: AsyncQueue) -> None:
    ids = await q.send_many([b"a", Outgoing(b"b", priority=9), "c"])
    got = await q.receive_many(10)
    assert [d.body for d in got] == [b"b", b"a", b"c"]
    assert [d.id for d in got] == [ids[1], ids[0], ids[2]]
    assert await q.send_many([]) == []


async def test_ack_many_answers_what_was_really_removed(q: AsyncQueue) -> None:
    await q.send_many([b"a", b"b", b"c"])
    a, b, c = await q.receive_many(3)
    await q.ack(b.receipt)
    assert await q.ack_many([a, b, c]) == [a, c]
    assert (await q.stats()).total == 0


async def test_nack_release_bury_and_extend_through_the_delivery(q: AsyncQueue) -> None:
    await q.send_many([b"retry", b"release", b"bury", b"extend"])
    retry, release, bury, extend = await q.receive_many(4)
    await retry.nack(delay=3600, error="boom")
    await release.release()
    await bury.bury("bad address")
    before = extend.lease_until
    await extend.extend(3600)
    assert before is not None
    assert extend.lease_until is not None
    assert extend.lease_until > before
    stats = await q.stats()
    assert (stats.ready, stats.delayed, stats.leased, stats.dead) == (1, 1, 1, 1)
    [dead] = await q.inspect("dead")
    assert dead.death is not None
    assert dead.death.reason == "bad address"


async def test_settling_a_lost_delivery_raises_and_changes_nothing(q: AsyncQueue) -> None:
    await q.send(b"x")
    d = await q.receive()
    assert d is not None
    await q.release(d.receipt)
    again = await q.receive()
    assert again is not None
    with pytest.raises(LeaseLost, match=f"cannot ack {d.id} in '{q.name}': the lease is lost"):
        await d.ack()
    for settle in (d.nack, d.release):
        with pytest.raises(LeaseLost, match="use a longer lease, or extend it in long handlers"):
            await settle()
    with pytest.raises(LeaseLost, match="cannot bury"):
        await d.bury("no")
    with pytest.raises(LeaseLost, match="cannot extend"):
        await d.extend(10)
    await again.ack()


async def test_a_block_left_cleanly_acks_and_one_that_raises_nacks(q: AsyncQueue) -> None:
    await q.send_many([b"good", b"bad"])
    good, bad = await q.receive_many(2)
    async with good:
        pass
    with pytest.raises(ZeroDivisionError):
        async with bad:
            raise ZeroDivisionError("by zero")
    assert (await q.stats()).ready == 1
    again = await q.receive()
    assert again is not None
    assert again.receives == 2


async def test_a_delivery_settled_inside_its_block_is_left_alone(q: AsyncQueue) -> None:
    await q.send(b"x")
    d = await q.receive()
    assert d is not None
    async with d:
        await d.bury("by hand")
    assert (await q.stats()).dead == 1


async def test_get_and_remove_find_a_message_in_any_state(q: AsyncQueue) -> None:
    ids = await q.send_many([b"leased", b"ready", Outgoing(b"delayed", delay=3600)])
    d = await q.receive()
    assert d is not None
    states = [m.state for m in [await q.get(i) for i in ids] if m is not None]
    assert states == ["leased", "ready", "delayed"]
    assert [await q.remove(i) for i in ids] == [True, True, True]
    assert [await q.remove(i) for i in ids] == [False, False, False]
    assert await q.get(ids[0]) is None
    assert (await q.stats()).total == 0


async def test_a_delayed_message_can_be_moved_to_now(q: AsyncQueue) -> None:
    mid = await q.send(b"x", due=datetime.now(UTC) + timedelta(days=365))
    assert await q.receive() is None
    assert await q.reschedule(mid, delay=0)
    assert not await q.reschedule(mid, delay=0)
    assert await q.receive() is not None


async def test_dead_letters_are_received_under_a_lease_and_redriven(q: AsyncQueue) -> None:
    await q.send_many([b"a", b"b"])
    await q.bury_many(await q.receive_many(2), "bad")
    [a] = await q.receive_dead()
    assert a.death is not None
    assert (a.body, a.death.reason) == (b"a", "bad")
    assert await q.redrive(dry_run=True) == [m.id for m in await q.inspect("dead")]
    await a.release()
    assert len(await q.redrive(where=lambda m: m.body == b"a")) == 1
    got = await q.receive()
    assert got is not None
    assert (got.body, got.receives) == (b"a", 1)


async def test_recover_takes_over_what_is_long_in_hand(q: AsyncQueue) -> None:
    await q.send(b"x")
    first = await q.receive(lease=None)
    [second] = await q.recover(10, elapsed=0)
    assert first is not None
    assert second.id == first.id
    assert second.receives == 2
    assert not await q.ack(first)
    assert await q.ack(second)


async def test_a_paused_queue_hands_nothing_out(q: AsyncQueue) -> None:
    await q.send(b"x")
    await q.pause()
    assert await q.receive() is None
    assert (await q.stats()).paused
    await q.resume()
    assert await q.receive() is not None


async def test_settings_are_kept_on_the_server(hf: AsyncClient, q: AsyncQueue) -> None:
    await q.configure(lease=7, max_receives=2)
    settings = await hf.queue(q.name).settings()
    assert (settings.lease, settings.max_receives, settings.ttl) == (7.0, 2, None)


async def test_queues_are_listed_once_written_and_gone_once_deleted(
    hf: AsyncClient, q: AsyncQueue
) -> None:
    assert q.name not in await hf.queues()
    await q.send(b"x")
    assert q.name in await hf.queues()
    await q.delete()
    assert q.name not in await hf.queues()
    assert (await q.stats()).sent == 0


async def test_ensure_sends_once_while_the_message_is_there(q: AsyncQueue) -> None:
    first = await q.ensure("job-7", b"x")
    second = await q.ensure("job-7", b"x")
    assert second == first
    assert (first.duplicate, second.duplicate) == (False, True)
    d = await q.receive()
    assert d is not None
    await d.ack()
    assert not (await q.ensure("job-7", b"x")).duplicate


@pytest.mark.direct("events are not offered through a server")
async def test_events_tell_what_happens_one_per_message(q: AsyncQueue) -> None:
    async with q.events() as events:
        await q.send_many([b"a", b"b"])
        await q.ack_many(await q.receive_many(2))
        seen = [await events.get(5) for _ in range(6)]
    assert [e.kind for e in seen if e] == ["sent", "sent", "received", "received", "acked", "acked"]
    assert len({e.id for e in seen if e}) == 2


@pytest.mark.direct("the journal is not offered through a server")
async def test_the_journal_keeps_what_nobody_listened_to(q: AsyncQueue) -> None:
    await q.configure(journal=True)
    mid = await q.send(b"x", priority=4)
    d = await q.receive(lease=9)
    assert d is not None
    await d.bury("why")
    events = await q.journal()
    assert [(e.kind, e.id, e.priority) for e in events] == [
        ("sent", mid, 4),
        ("received", mid, 4),
        ("dead", mid, 4),
    ]
    assert events[1].lease == 9
    assert events[2].reason == "why"


async def test_purge_takes_away_what_it_is_told_to(q: AsyncQueue) -> None:
    await q.send_many([b"a", b"b", Outgoing(b"c", delay=60)])
    await q.receive()
    assert await q.purge("ready", "delayed") == 2
    assert (await q.stats()).leased == 1
    assert await q.purge() == 1


@pytest.mark.direct("the server has its own")
async def test_the_reaper_tends_queues_that_nobody_polls(hf: AsyncClient, q: AsyncQueue) -> None:
    await q.send_many([b"leased", Outgoing(b"delayed", delay=0.05)])
    await q.receive(lease=0.05)
    await hf.start_reaper(every=0.02)
    # Nobody receives any more: only the reaper can bring them back.
    assert await settled_at(q, ready=2)


async def settled_at(q: AsyncQueue, *, ready: int) -> bool:
    """Look until so many are ready, for five seconds at most."""
    give_up = time.monotonic() + 5
    while time.monotonic() < give_up:
        if (await q.stats()).ready == ready:
            return True
        await sleep(0.01)
    return False
