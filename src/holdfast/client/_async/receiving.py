"""Receiving: what is ready or dead, under a lease, over however many shards, waiting if need be."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, Any, cast

from holdfast.client._async.consumer import AsyncConsumer
from holdfast.client._async.delivery import AsyncDeadDelivery, AsyncDelivery, AsyncHandful
from holdfast.client._async.shards import AsyncShards
from holdfast.client._async.waiting import look_again
from holdfast.client.backoff import Backoff, exponential
from holdfast.client.io_async import cancelled, last_words
from holdfast.engine import calls, replies
from holdfast.engine.keys import QueueRef
from holdfast.message import Codec, corrupt
from holdfast.settings import AS_SET, Lease, Seconds, milliseconds, whole

if TYPE_CHECKING:
    from holdfast.client._async.client import AsyncClient
    from holdfast.client._async.place import AsyncPlace

# What is known of which shards hold something is good for this long, seconds.
_HINTS_LAST = 0.05
# Calls in which one recover passes over deliveries that die, some 1,000 each.
_PASS_OVER = 20


class AsyncReceiving(AsyncShards):
    def __init__(self, client: AsyncClient, name: str, codec: Codec[Any] | None = None) -> None:
        super().__init__(client, name, codec)
        # Shards that held something when we last looked, and when that was.
        self._full: list[int] = []
        self._looked = 0.0

    async def receive(self, *, wait: Seconds = 0, lease: Lease = AS_SET) -> AsyncDelivery | None:
        """One message under a lease, or None. `wait`: how long to wait for one.

        `lease`: how long it is ours before it comes back; None: until it is settled. Not given: as the
        queue is set.
        """
        got = await self.receive_many(1, wait=wait, lease=lease)
        return got[0] if got else None

    async def receive_many(
        self, count: int, *, wait: Seconds = 0, lease: Lease = AS_SET
    ) -> list[AsyncDelivery]:
        """Up to `count` messages under one lease, in one round trip. Waits for the first one only."""
        return await self._receive(count, wait, lease, dead=False)

    async def receive_rounds(
        self, count: int, rounds: int, *, lease: Lease = AS_SET
    ) -> list[list[AsyncDelivery]]:
        """The same as so many `receive_many(count)`, one after the other, in one round trip."""
        refs = await self._shards()
        if len(refs) > 1:
            return [await self.receive_many(count, lease=lease) for _ in range(rounds)]
        takes = [self._receive_call(refs[0], count, lease, 0, dead=False) for _ in range(rounds)]
        answers = await self.transport.run_many(takes)
        got = [await self._take(refs[0], reply, dead=False) for reply in answers]
        if not any(got) and answers[-1].more:
            got[0] = await self.receive_many(count, lease=lease)
        return got

    async def receive_dead(
        self, count: int = 1, *, wait: Seconds = 0, lease: Lease = AS_SET
    ) -> list[AsyncDelivery]:
        """Up to `count` dead letters under a lease: ack removes them; anything else, or the end of
        the lease, makes them dead letters again. Why each died is in `.death`."""
        return await self._receive(count, wait, lease, dead=True)

    def _receive_call(
        self, ref: QueueRef, count: int, lease: Lease, wait_ms: int, dead: bool
    ) -> calls.Call[replies.Received]:
        return calls.receive(ref, count, lease, wait_ms, dead=dead)

    async def _receive(
        self, count: int, wait: Seconds, lease: Lease, dead: bool
    ) -> list[AsyncDelivery]:
        left_ms = milliseconds(wait, "wait")
        whole(count, "count", 1, calls.MAX_COUNT)
        calls.lease_ms(lease)
        give_up = time.monotonic() + left_ms / 1000
        refs = await self._shards()
        got, next_ms = await self._look(refs, count, lease, left_ms, dead)
        while not got and left_ms > 0:
            left = give_up - time.monotonic()
            if next_ms != 0 and left > 0:
                seconds = min(left, look_again(refs))
                if next_ms > 0:
                    seconds = min(seconds, next_ms / 1000 + 0.001)
                if dead and len(refs) > 1:  # nobody forwards a death in another shard
                    seconds = min(seconds, 0.5)
                call = self._receive_call(refs[0], count, lease, max(int(left * 1000), 1), dead)
                marker = refs[0].below("wake_dead" if dead else "wake")
                try:
                    reply = await self.transport.run_after(marker, max(seconds, 0.001), call)
                except cancelled:
                    # What falls due next was perhaps ours to watch: another waiter must look.
                    await last_words(self.transport.run(calls.wake(refs[0])))
                    raise
                got, next_ms = await self._take(refs[0], reply, dead), reply.next_ms
                left_ms = max(int((give_up - time.monotonic()) * 1000), 0)
            else:
                left_ms = max(int(left * 1000), 0)
            refs = await self._shards()
            if not got and (len(refs) > 1 or next_ms == 0):
                got, next_ms = await self._look(refs, count, lease, left_ms, dead)
        if not got and wait:
            # The last look, and only this one, tells that nobody of ours goes on waiting: the engine
            # then has another waiter watch the time.
            got, _ = await self._look(refs, count, lease, 0, dead)
        return got

    async def _look(
        self, refs: list[QueueRef], count: int, lease: Lease, wait_ms: int, dead: bool
    ) -> tuple[list[AsyncDelivery], int]:
        """What can be had now, and ms until there may be more (-1: unknown)."""
        if len(refs) == 1 or dead:
            next_ms = -1
            got: list[AsyncDelivery] = []
            for ref in refs:
                while True:
                    call = self._receive_call(ref, count - len(got), lease, wait_ms, dead)
                    reply = await self.transport.run(call)
                    got += await self._take(ref, reply, dead)
                    # Nothing although there is more: all were corrupt, or the engine has done a bounded
                    # piece of what it must do before it hands anything out. It is not empty.
                    if got or not (reply.records or reply.more):
                        break
                if reply.next_ms >= 0:
                    next_ms = reply.next_ms if next_ms < 0 else min(next_ms, reply.next_ms)
                if len(got) >= count:
                    break
            return got, next_ms
        return await self._look_around(refs, count, lease, wait_ms)

    async def _look_around(
        self, refs: list[QueueRef], count: int, lease: Lease, wait_ms: int
    ) -> tuple[list[AsyncDelivery], int]:
        """Receive from those shards that hold something, each in its turn.

        All are asked at once whether they do; what they say is used for a moment, so that a busy
        queue costs one round trip a receive and an idle shard none, and none is overlooked.
        """
        while True:
            next_ms = -1
            # Only ever replaced as a whole: another thread may be at it too. It is a hint, and may be late,
            # or of shards that the queue does not have any more.
            full = [shard for shard in self._full if shard < len(refs)]
            fresh = not full or time.monotonic() - self._looked > _HINTS_LAST
            if fresh:
                answers = await self.transport.run_many([calls.tend(ref, wait_ms) for ref in refs])
                full = [shard for shard, (ready, _) in enumerate(answers) if ready]
                self._looked = time.monotonic()
                due = [ms for _, ms in answers if ms >= 0]
                next_ms = min(due, default=-1)
            if not full:
                self._full = full
                return [], next_ms
            self._turn += 1
            turn = self._turn % len(full)
            chosen = (full[turn:] + full[:turn])[:count]
            share, extra = divmod(count, len(chosen))
            parts = [
                calls.receive(refs[shard], share + (i < extra), lease, 0)
                for i, shard in enumerate(chosen)
            ]
            got: list[AsyncDelivery] = []
            again, emptied = not fresh, set()
            for shard, reply in zip(chosen, await self.transport.run_many(parts), strict=True):
                again = again or bool(reply.records) or reply.more
                if not reply.more:
                    emptied.add(shard)
                got += await self._take(refs[shard], reply, dead=False)
            if not got and again:
                # All were corrupt, somebody else was faster there, or the engine is at it, a piece a call:
                # look at the others too.
                self._full = []
                continue
            self._full = full = [shard for shard in full if shard not in emptied]
            return got, 0 if full else next_ms

    async def _take(
        self, ref: QueueRef, reply: replies.Received, dead: bool
    ) -> list[AsyncDelivery]:
        """Deliveries out of a reply. A message that is not as it was sent goes to the dead letters
        instead: it must never be taken for good."""
        self._set_shards(reply.shards)
        records, kind = reply.records, AsyncDeadDelivery if dead else AsyncDelivery
        got: list[AsyncDelivery] = []
        for start in range(0, len(records), replies.BATCH):
            part = records[start : start + replies.BATCH]
            number = reply.first + start // replies.BATCH
            batch = AsyncHandful(
                cast("AsyncPlace", self), ref.shard, number, len(part), reply.lease_until
            )
            got += [kind(batch, record, place) for place, record in enumerate(part)]
        if not dead and (bad := corrupt(records)):
            why = "corrupt: the checksum does not match"
            # What is too short to have an id cannot be named: it comes back until it is past max_receives.
            named = [got[i].wire for i in bad if isinstance(records[i], bytes) and records[i][9:]]
            if named:
                await self.transport.run(calls.nack(ref, "bury", 0, why, named))
            got = [d for i, d in enumerate(got) if i not in set(bad)]
        return got

    async def recover(
        self, count: int, *, elapsed: Seconds, lease: Lease = AS_SET
    ) -> list[AsyncDelivery]:
        """Take over up to `count` deliveries that have been in hand for `elapsed` or longer, oldest
        first. Each counts as failed once more; those past max_receives become dead letters, some 20,000
        of them in one call at most: where there are more, call again."""
        got: list[AsyncDelivery] = []
        whole(count, "count", 1, calls.MAX_COUNT)
        for ref in await self._shards():
            more, below, calls_left = len(got) < count, 0, _PASS_OVER + count // 1000
            while more:
                call = calls.recover(ref, count - len(got), elapsed, lease, below)
                reply = await self.transport.run(call)
                below = below or reply.first
                got += await self._take(ref, reply, dead=False)
                calls_left -= 1
                more = reply.more and len(got) < count and calls_left > 0
        await self._wake_home()  # one that died may have held its group back
        return got

    def consume(
        self,
        prefetch: int = 100,
        *,
        lease: Lease = AS_SET,
        backoff: Backoff | None = None,
        ack_every: int = 100,
        idle: Seconds | None = None,
    ) -> AsyncConsumer:
        """Deliveries, for as long as you iterate. Leases are kept alive while you work.

        Use each in a `with` block: left cleanly it is acked, raising it is nacked with a delay from
        `backoff` (exponential, 1 s to 5 min, by default), the error is logged and the loop goes on.
        Acks are gathered into batches of `ack_every`, and never wait longer than a tenth of a
        second. Lost connections are waited out. `idle`: end when nothing has come for so long.
        """
        return AsyncConsumer(
            cast("AsyncPlace", self),
            prefetch=whole(prefetch, "prefetch", 1, calls.MAX_COUNT),
            lease=lease,
            backoff=backoff or exponential(),
            ack_every=whole(ack_every, "ack_every", 1, calls.MAX_COUNT),
            idle=None if idle is None else milliseconds(idle, "idle") / 1000,
        )
