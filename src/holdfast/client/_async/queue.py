"""One queue, as users handle it: every verb of the glossary, over however many shards."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Sequence
from datetime import datetime
from functools import partial
from typing import TYPE_CHECKING, Any, TypeVar
from zlib import crc32

from holdfast.client._async.consumer import AsyncConsumer
from holdfast.client._async.delivery import AsyncDeadDelivery, AsyncDelivery, AsyncHandful
from holdfast.client._async.events import AsyncEvents
from holdfast.client.backoff import Backoff, exponential
from holdfast.client.io_async import Producer
from holdfast.engine import calls, notes, replies
from holdfast.engine.calls import Packed
from holdfast.engine.keys import REGISTRY, QueueRef
from holdfast.errors import InvalidArgument
from holdfast.message import (
    STATES,
    Codec,
    Message,
    MessageId,
    Outgoing,
    State,
    corrupt,
    format_id,
    parse_id,
    parse_receipt,
)
from holdfast.settings import Seconds, Settings, milliseconds, to_wire, whole

if TYPE_CHECKING:
    from holdfast.client._async.client import AsyncClient

Item = TypeVar("Item", bound=AsyncDelivery | str)

# A waiting receive looks again at least this often, in case the one who should wake it died.
_LOOK_AGAIN = 10.0
# What is known of which shards hold something is good for this long, seconds.
_HINTS_LAST = 0.05
# Queues about which a client remembers something.
_REMEMBER = 10_000


class AsyncQueue:
    """A queue by name. Cheap to make; nothing is on the server until something is sent or set.

    Obtained from a client: `hf.queue("orders")`.
    """

    def __init__(self, client: AsyncClient, name: str, codec: Codec[Any] | None = None) -> None:
        self.name = name
        self.codec = codec
        self._client = client
        self.transport = client.transport
        self._refs: list[QueueRef] = []
        self._turn = 0
        self._full: list[int] = []
        self._looked = 0.0
        self._producer = Producer(self._send_packed)

    def __repr__(self) -> str:
        return f"<{type(self).__name__} {self.name!r}>"

    # ---- shards ---------------------------------------------------------------------------

    async def _shards(self) -> list[QueueRef]:
        if not self._refs:
            known = self._client.shards.get(self.name)
            if known is None:
                known = (await self.transport.run(calls.configure(QueueRef(self.name), {}))).shards
            self._set_shards(known)
        return self._refs

    def _set_shards(self, n: int) -> None:
        if n != len(self._refs):
            self._refs = [QueueRef(self.name, shard) for shard in range(n)]
            if len(self._client.shards) > _REMEMBER:
                self._client.shards.clear()
            self._client.shards[self.name] = n

    async def _ref(self, shard: int) -> QueueRef:
        refs = await self._shards()
        return refs[shard] if shard < len(refs) else QueueRef(self.name, shard)

    async def _register(self) -> None:
        listed = self._client.listed
        if self.name not in listed:
            await self.transport.command("SADD", REGISTRY, self.name, key=REGISTRY)
            if len(listed) > _REMEMBER:
                listed.clear()
            listed.add(self.name)

    async def _wake_home(self) -> None:
        """Waiters of a sharded queue block at its first shard; see lua/wake.lua."""
        if len(self._refs) > 1:
            await self.transport.run(calls.wake(self._refs[0]))

    # ---- send -----------------------------------------------------------------------------

    async def send(
        self,
        body: Any,
        *,
        delay: Seconds | None = None,
        due: datetime | None = None,
        priority: int = 0,
        attributes: dict[str, str] | None = None,
        group: str | None = None,
        dedup_id: str | None = None,
        ttl: Seconds | None = None,
    ) -> MessageId:
        """Store a message; once this returns, it is held until somebody acks it.

        Safe to repeat by itself: if the answer is lost on the way, Holdfast asks again without
        sending twice. Raises InvalidArgument before anything is sent, QueueFull if the queue is at
        its max_length, Unavailable if the server stays away.
        """
        message = Outgoing(body, delay, due, priority, attributes, group, dedup_id, ttl)
        return await self._producer.send(calls.pack(message, self.codec))

    async def send_many(self, messages: Iterable[Any]) -> list[MessageId]:
        """Store many messages in one round trip; bodies, or `Outgoing` for those with more to say.

        All of them are checked before any is sent. Ids come back in order. Atomic per shard.
        """
        listed = messages if isinstance(messages, list) else list(messages)
        if not listed:
            return []
        if len(await self._shards()) == 1 and all(type(m) is bytes for m in listed):
            await self._register()
            return await self._send_to(0, partial(calls.send_plain, self._refs[0], listed))
        return await self._send_packed([calls.pack(m, self.codec) for m in listed])

    async def ensure(
        self,
        unique: str,
        body: Any,
        *,
        delay: Seconds | None = None,
        due: datetime | None = None,
        priority: int = 0,
        attributes: dict[str, str] | None = None,
        group: str | None = None,
        ttl: Seconds | None = None,
    ) -> MessageId:
        """Send, unless a message with this unique name is ready, delayed or leased already.

        Then the id is that one's, and `.duplicate` is True. A dead letter frees the name.
        """
        message = Outgoing(body, delay, due, priority, attributes, group, None, ttl)
        return (await self._send_packed([calls.pack(message, self.codec, unique)]))[0]

    async def _send_packed(self, messages: Sequence[Packed]) -> list[MessageId]:
        refs = await self._shards()
        await self._register()
        if len(refs) == 1:
            return await self._send_to(0, partial(calls.send, refs[0], messages))
        by_shard: dict[int, list[int]] = {}
        self._turn += 1
        for i, m in enumerate(messages):
            shard = crc32(m.home.encode()) if m.home else self._turn
            by_shard.setdefault(shard % len(refs), []).append(i)
        ids: dict[int, MessageId] = {}
        for shard, places in by_shard.items():
            part = [messages[i] for i in places]
            sent = await self._send_to(shard, partial(calls.send, refs[shard], part))
            ids |= zip(places, sent, strict=True)
        return [ids[i] for i in range(len(messages))]

    async def _send_to(
        self, shard: int, build: Callable[[str, int], calls.Call[replies.Sent]]
    ) -> list[MessageId]:
        sender = self._client.senders.pop() if self._client.senders else self._client.new_sender()
        sender.number += 1
        sent = await self.transport.run(build(sender.name, sender.number))
        # Not after an error: its last call may still be under way somewhere.
        self._client.senders.append(sender)
        if shard and sent.somebody_waits:
            await self._wake_home()
        self._set_shards(sent.shards)
        return sent.ids

    # ---- receive --------------------------------------------------------------------------

    async def receive(
        self, *, wait: Seconds = 0, lease: Seconds | None = None
    ) -> AsyncDelivery | None:
        """One message under a lease, or None. `wait`: how long to wait for one.

        `lease` None: as the queue is set; 0: until it is settled.
        """
        got = await self.receive_many(1, wait=wait, lease=lease)
        return got[0] if got else None

    async def receive_many(
        self, count: int, *, wait: Seconds = 0, lease: Seconds | None = None
    ) -> list[AsyncDelivery]:
        """Up to `count` messages under one lease, in one round trip. Waits for the first one only."""
        return await self._receive(count, wait, lease, dead=False)

    async def receive_dead(
        self, count: int = 1, *, wait: Seconds = 0, lease: Seconds | None = None
    ) -> list[AsyncDelivery]:
        """Up to `count` dead letters under a lease: ack removes them; anything else, or the end of
        the lease, makes them dead letters again. Why each died is in `.death`."""
        return await self._receive(count, wait, lease, dead=True)

    async def _receive(
        self, count: int, wait: Seconds, lease: Seconds | None, dead: bool
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
                seconds = min(left, _LOOK_AGAIN)
                if next_ms > 0:
                    seconds = min(seconds, next_ms / 1000 + 0.001)
                if dead and len(refs) > 1:  # nobody forwards a death in another shard
                    seconds = min(seconds, 0.5)
                call = calls.receive(refs[0], count, lease, max(int(left * 1000), 1), dead=dead)
                marker = refs[0].below("wake_dead" if dead else "wake")
                reply = await self.transport.run_after(marker, max(seconds, 0.001), call)
                got, next_ms = await self._take(refs[0], reply, dead), reply.next_ms
                left_ms = max(int((give_up - time.monotonic()) * 1000), 0)
            else:
                left_ms = max(int(left * 1000), 0)
            refs = self._refs
            if not got and (len(refs) > 1 or next_ms == 0):
                got, next_ms = await self._look(refs, count, lease, left_ms, dead)
        if not got and wait:
            # The last look, and only this one, tells that nobody of ours goes on waiting: the engine
            # then has another waiter watch the time.
            got, _ = await self._look(self._refs, count, lease, 0, dead)
        return got

    async def _look(
        self, refs: list[QueueRef], count: int, lease: Seconds | None, wait_ms: int, dead: bool
    ) -> tuple[list[AsyncDelivery], int]:
        """What can be had now, and ms until there may be more (-1: unknown)."""
        if len(refs) == 1 or dead:
            next_ms = -1
            got: list[AsyncDelivery] = []
            for ref in refs:
                while True:
                    call = calls.receive(ref, count - len(got), lease, wait_ms, dead=dead)
                    reply = await self.transport.run(call)
                    got += await self._take(ref, reply, dead)
                    if got or not reply.records:  # else all were corrupt: go on to the next
                        break
                if reply.next_ms >= 0:
                    next_ms = reply.next_ms if next_ms < 0 else min(next_ms, reply.next_ms)
                if len(got) >= count:
                    break
                if reply.more and not got:
                    next_ms = 0
            return got, next_ms
        return await self._look_around(refs, count, lease, wait_ms)

    async def _look_around(
        self, refs: list[QueueRef], count: int, lease: Seconds | None, wait_ms: int
    ) -> tuple[list[AsyncDelivery], int]:
        """Receive from those shards that hold something, each in its turn.

        All are asked at once whether they do; what they say is used for a moment, so that a busy
        queue costs one round trip a receive and an idle shard none, and none is overlooked.
        """
        next_ms = -1
        fresh = not self._full or time.monotonic() - self._looked > _HINTS_LAST
        if fresh:
            answers = await self.transport.run_many([calls.tend(ref, wait_ms) for ref in refs])
            self._full = [shard for shard, (ready, _) in enumerate(answers) if ready]
            self._looked = time.monotonic()
            due = [ms for _, ms in answers if ms >= 0]
            next_ms = min(due, default=-1)
        if not self._full:
            return [], next_ms
        self._turn += 1
        turn = self._turn % len(self._full)
        chosen = (self._full[turn:] + self._full[:turn])[:count]
        share, extra = divmod(count, len(chosen))
        parts = [
            calls.receive(refs[shard], share + (i < extra), lease, 0)
            for i, shard in enumerate(chosen)
        ]
        got: list[AsyncDelivery] = []
        corrupt = False
        for shard, reply in zip(chosen, await self.transport.run_many(parts), strict=True):
            corrupt = corrupt or bool(reply.records)
            if not reply.more and shard in self._full:
                self._full.remove(shard)
            got += await self._take(refs[shard], reply, dead=False)
        if not got and (corrupt or not fresh):
            # All were corrupt, or somebody else was faster there: look at the others too.
            self._full.clear()
            return await self._look_around(refs, count, lease, wait_ms)
        return got, 0 if self._full else next_ms

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
            batch = AsyncHandful(self, ref.shard, number, len(part), reply.lease_until)
            got += [kind(batch, record, place) for place, record in enumerate(part)]
        if not dead and (bad := corrupt(records)):
            why = "corrupt: the checksum does not match"
            await self.transport.run(calls.nack(ref, "bury", 0, why, [got[i].wire for i in bad]))
            got = [d for i, d in enumerate(got) if i not in set(bad)]
        return got

    async def recover(
        self, count: int, *, elapsed: Seconds, lease: Seconds | None = None
    ) -> list[AsyncDelivery]:
        """Take over up to `count` deliveries that have been in hand for `elapsed` or longer, oldest
        first. Each counts as failed once more; those past max_receives become dead letters."""
        got: list[AsyncDelivery] = []
        whole(count, "count", 1, calls.MAX_COUNT)
        for ref in await self._shards():
            reply = await self.transport.run(calls.recover(ref, count - len(got), elapsed, lease))
            got += await self._take(ref, reply, dead=False)
            if len(got) >= count:
                break
        return got

    def consume(
        self,
        prefetch: int = 100,
        *,
        lease: Seconds | None = None,
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
            self,
            prefetch=whole(prefetch, "prefetch", 1, calls.MAX_COUNT),
            lease=lease,
            backoff=backoff or exponential(),
            ack_every=whole(ack_every, "ack_every", 1, calls.MAX_COUNT),
            idle=None if idle is None else milliseconds(idle, "idle") / 1000,
        )

    # ---- settle ---------------------------------------------------------------------------

    async def ack(self, delivery: AsyncDelivery | str) -> bool:
        """Settle one delivery, by itself, its receipt or the message's id. False: it was not ours."""
        return bool(await self.ack_many([delivery]))

    async def ack_many(self, deliveries: Iterable[Item]) -> list[Item]:
        """Settle many in one round trip. Returns those really removed, as they were given."""
        return await self._settle(deliveries, calls.ack)

    async def nack(
        self, delivery: AsyncDelivery | str, *, delay: Seconds = 0, error: str = ""
    ) -> bool:
        """Give back for another try after `delay`; counts. False: it was not ours."""
        return bool(await self.nack_many([delivery], delay=delay, error=error))

    async def nack_many(
        self, deliveries: Iterable[Item], *, delay: Seconds = 0, error: str = ""
    ) -> list[Item]:
        """Give back many for another try after `delay`. Returns those really given back."""
        return await self._give_back(deliveries, "retry", delay, error)

    async def release(self, delivery: AsyncDelivery | str) -> bool:
        """Give back, ready at once; does not count. False: it was not ours."""
        return bool(await self.release_many([delivery]))

    async def release_many(self, deliveries: Iterable[Item]) -> list[Item]:
        """Give back many, ready at once, in their order. Returns those really given back."""
        return await self._give_back(deliveries, "release", 0, "")

    async def bury(self, delivery: AsyncDelivery | str, reason: str) -> bool:
        """Make it a dead letter, with the reason. False: it was not ours."""
        return bool(await self.bury_many([delivery], reason))

    async def bury_many(self, deliveries: Iterable[Item], reason: str) -> list[Item]:
        """Make many dead letters. Returns those really buried."""
        return await self._give_back(deliveries, "bury", 0, reason)

    async def extend(self, delivery: AsyncDelivery | str, lease: Seconds) -> bool:
        """The lease ends `lease` from now (0: when settled). False: it was not ours."""
        return bool(await self.extend_many([delivery], lease))

    async def extend_many(self, deliveries: Iterable[Item], lease: Seconds) -> list[Item]:
        """Extend many leases in one round trip. Returns those really extended."""
        held: list[Item] = []
        for ref, items, wires in await self._by_shard(deliveries):
            until, lost = await self.transport.run(calls.extend(ref, lease, wires))
            kept = _without(items, lost)
            for item in kept:
                if isinstance(item, AsyncDelivery):
                    item.extended(until)
            held += kept
        return held

    async def _give_back(
        self, deliveries: Iterable[Item], action: str, delay: Seconds, text: str
    ) -> list[Item]:
        done = await self._settle(
            deliveries, lambda ref, wires: calls.nack(ref, action, delay, text, wires)
        )
        if done:
            await self._wake_home()
        return done

    async def _settle(
        self,
        deliveries: Iterable[Item],
        build: Callable[[QueueRef, Sequence[bytes]], calls.Call[list[int]]],
    ) -> list[Item]:
        done: list[Item] = []
        for ref, items, wires in await self._by_shard(deliveries):
            kept = _without(items, await self.transport.run(build(ref, wires)))
            for item in kept:
                if isinstance(item, AsyncDelivery):
                    item.settled = True
            done += kept
        return done

    async def _by_shard(
        self, deliveries: Iterable[Item]
    ) -> list[tuple[QueueRef, list[Item], list[bytes]]]:
        """What to settle where: the items, and their receipts in the same order."""
        items = list(deliveries)
        if items and (whole_batch := _whole_batch(items)):
            return [(await self._ref(whole_batch.shard), items, [calls.batch_receipt(whole_batch)])]
        by_shard: dict[int, tuple[list[Item], list[bytes]]] = {}
        for item in items:
            if isinstance(item, AsyncDelivery):
                wire, shard = item.wire, item.shard
            else:
                wire, shard = parse_receipt(item)
            found = by_shard.get(shard)
            if found is None:
                found = by_shard[shard] = ([], [])
            found[0].append(item)
            found[1].append(wire)
        return [(await self._ref(shard), *by_shard[shard]) for shard in by_shard]

    # ---- look -----------------------------------------------------------------------------

    async def inspect(
        self, state: State, start: int = 0, count: int = 10, *, group: str | None = None
    ) -> list[Message]:
        """Messages of one state, from position `start` (negative: from the end); nothing changes.

        Ready ones in the order in which they would go out (messages behind their group come last),
        delayed by due time, leased by last delivery, dead by time of death. On a queue with several
        shards, shard after shard. `group`: only that group's waiting messages.
        """
        calls.state(state)
        whole(count, "count", 1, 2**31)
        whole(start, "start", -(2**46), 2**46)
        if start < 0:
            start = max(await self._count(state, group) + start, 0)
        found: list[Message] = []
        for ref in await self._shards():
            behind = await self._groups(ref) if state == "ready" and group is None else []
            for source in (group or "", *behind):
                if len(found) >= count:
                    return found
                page, total = await self._pages(ref, state, start, count - len(found), source)
                found += page
                start = max(start - total, 0)
        return found

    async def _pages(
        self, ref: QueueRef, state: State, start: int, count: int, group: str
    ) -> tuple[list[Message], int]:
        """Up to `count` messages of one source, and how many entries it has."""
        found: list[Message] = []
        cursor = 0
        while True:
            want = min(count - len(found), calls.PAGE)
            page = await self.transport.run(
                calls.inspect(ref, state, start, want, group, cursor, self.codec)
            )
            found += page.messages
            if page.cursor < 0 or len(found) >= count:
                return found, page.total
            start, cursor = page.start, page.cursor

    async def _groups(self, ref: QueueRef) -> list[str]:
        names, cursor = [], "0"
        while True:
            page = await self.transport.run(calls.sources(ref, cursor))
            names += page.groups
            cursor = page.cursor
            if cursor == "0":
                return sorted(set(names))

    async def _count(self, state: State, group: str | None) -> int:
        if group is not None:
            refs = await self._shards()
            pages = await self.transport.run_many(
                [calls.inspect(r, state, 0, 1, group) for r in refs]
            )
            return sum(page.total for page in pages)
        return int(getattr(await self.stats(), state))

    async def get(self, message_id: str) -> Message | None:
        """The message with this id, in whatever state, or None. A ready one is looked for in steps
        that never hold the server long."""
        packed, ref = await self._locate(message_id)
        found = await self.transport.run(calls.get(ref, packed, self.codec))
        return found or await self._find(ref, packed, remove=False)

    async def remove(self, message_id: str) -> bool:
        """Take the message away, in whatever state it is. False: it was not there."""
        packed, ref = await self._locate(message_id)
        if await self.transport.run(calls.remove(ref, packed)):
            return True
        return await self._find(ref, packed, remove=True) is not None

    async def _locate(self, message_id: str) -> tuple[bytes, QueueRef]:
        packed, shard = parse_id(message_id)
        return packed, await self._ref(shard)

    async def _find(self, ref: QueueRef, packed: bytes, *, remove: bool) -> Message | None:
        page = "0"
        while True:
            sources = await self.transport.run(calls.sources(ref, page))
            for source in sources.lists:
                cursor = (-1, 0)
                while cursor[0] != 0:
                    call = calls.find(ref, packed, source, cursor, remove, self.codec)
                    found = await self.transport.run(call)
                    if isinstance(found, Message):
                        return found
                    cursor = found
            page = sources.cursor
            if page == "0":
                return None

    async def reschedule(
        self, message_id: str, *, delay: Seconds | None = None, due: datetime | None = None
    ) -> bool:
        """Change when a delayed message falls due. False: it is not delayed (any more)."""
        packed, ref = await self._locate(message_id)
        done = await self.transport.run(calls.reschedule(ref, packed, delay, due))
        if done:
            await self._wake_home()
        return done

    async def stats(self) -> replies.Stats:
        """Messages by state, and counters of what has happened; shards added up."""
        each = await self.transport.run_many([calls.stats(ref) for ref in await self._shards()])
        return sum(each[1:], each[0])

    async def shard_stats(self) -> list[replies.Stats]:
        """The same for each shard."""
        return await self.transport.run_many([calls.stats(ref) for ref in await self._shards()])

    # ---- dead letters ---------------------------------------------------------------------

    async def redrive(
        self,
        count: int | None = None,
        *,
        ids: Iterable[str] | None = None,
        where: Callable[[Message], bool] | None = None,
        rate: float | None = None,
        dry_run: bool = False,
    ) -> list[str]:
        """Dead letters become ready again, as if never tried, in the order in which they died.

        All of them, or up to `count`, or those with these `ids`, or those for which `where` says so.
        `rate`: so many a second; the server lets them fall due one by one, and this returns at
        once. `dry_run`: only say which. Returns their ids.
        """
        if count is not None:
            whole(count, "count", 1, 2**31)
        gap_us = calls.gap_us(rate)
        chosen = None if ids is None else [parse_id(i) for i in ids]
        moved: list[str] = []
        for ref in await self._shards():
            left = None if count is None else count - len(moved)
            if left == 0:
                break
            mine: list[bytes] | None = None
            if chosen is not None:
                mine = [packed for packed, shard in dict.fromkeys(chosen) if shard == ref.shard]
            if mine is not None or where is not None or dry_run:
                mine = await self._choose_dead(ref, mine, where, left)
            moved += await self._redrive(ref, mine, left, gap_us, len(moved), dry_run)
        if moved and not dry_run:
            await self._wake_home()
        return moved

    async def _redrive(
        self,
        ref: QueueRef,
        ids: list[bytes] | None,
        left: int | None,
        gap_us: int,
        offset: int,
        dry: bool,
    ) -> list[str]:
        if dry:
            return [format_id(packed, ref.shard) for packed in ids or []]
        moved: list[str] = []
        step = 1000
        while ids or ids is None:
            what: int | list[bytes] = step if left is None else min(step, left - len(moved))
            if ids is not None:
                what, ids = ids[:step], ids[step:]
            if what == 0:
                break
            done = await self.transport.run(calls.redrive(ref, what, gap_us, offset + len(moved)))
            moved += [format_id(packed, ref.shard) for packed in done]
            if ids is None and len(done) < step:
                break
        return moved

    async def _choose_dead(
        self,
        ref: QueueRef,
        ids: list[bytes] | None,
        where: Callable[[Message], bool] | None,
        left: int | None,
    ) -> list[bytes]:
        """Ids of dead letters to redrive: of those given, or of all, those that `where` accepts."""
        chosen: list[bytes] = []
        start, given = 0, ids
        while True:
            if given is None:
                page = await self.transport.run(
                    calls.inspect(ref, "dead", start, 1000, codec=self.codec)
                )
                messages = page.messages
                start += 1000
            else:
                found = await self.transport.run_many(
                    [calls.get(ref, i, self.codec) for i in given]
                )
                dead = [m for m in found if m is not None and m.death and m.state == "dead"]
                messages = sorted(
                    dead, key=lambda m: (m.death.at, parse_id(m.id)) if m.death else ()
                )
            for message in messages:
                if left is not None and len(chosen) >= left:
                    return chosen
                if where is None or where(message):
                    chosen.append(parse_id(message.id)[0])
            if given is not None or not messages:
                return chosen

    # ---- keep house -----------------------------------------------------------------------

    async def purge(self, *states: State) -> int:
        """Take away all messages of these states; of all states if none is named. Returns how many."""
        gone = 0
        for state in [calls.state(s) for s in states] or STATES:
            for ref in await self._shards():
                more = True
                while more:
                    count, more = await self.transport.run(calls.purge(ref, state))
                    gone += count
        return gone

    async def pause(self, until: datetime | Seconds | None = None) -> None:
        """Hand nothing out, until a time, for so many seconds, or until `resume`."""
        for ref in await self._shards():
            await self.transport.run(calls.pause(ref, until))

    async def resume(self) -> None:
        """Hand messages out again."""
        for ref in await self._shards():
            await self.transport.run(calls.resume(ref))

    async def configure(self, **settings: Any) -> Settings:
        """Change settings; those not named stay. They are kept on the server, for all who use the
        queue. See `holdfast.Settings` for what there is. Returns all of them.

        `shards` can grow at any time, and shrink when the shards to be dropped are empty.
        """
        wire = to_wire(settings)
        refs = list(await self._shards())
        n = int(wire.get("shards", len(refs)))
        for ref in refs[n:]:
            if (await self.transport.run(calls.stats(ref))).total:
                raise InvalidArgument(
                    f"cannot shrink {self.name!r} to {n} shards: shard {ref.shard} holds messages; "
                    "let consumers empty it, or purge, and try again"
                )
        if not wire:
            return await self.settings()
        await self._register()
        full = await self.transport.run(calls.configure(refs[0], wire))
        # Further shards get everything, since they may be new.
        everything = to_wire({name: getattr(full, name) for name in full.__dataclass_fields__})
        for shard in range(1, max(n, len(refs))):
            await self.transport.run(calls.configure(QueueRef(self.name, shard), everything))
        self._set_shards(n)
        return full

    async def settings(self) -> Settings:
        """The queue's settings, defaults included."""
        return await self.transport.run(calls.configure((await self._shards())[0], {}))

    async def delete(self) -> None:
        """The queue and all its messages go, whatever their state."""
        refs = list(await self._shards())
        for ref in refs:
            while True:
                await self.purge()
                if await self.transport.run(calls.delete(ref)):
                    break
        await self.transport.command("SREM", REGISTRY, self.name, key=REGISTRY)
        self._refs = []
        self._client.shards.pop(self.name, None)
        self._client.listed.discard(self.name)

    async def tend(self) -> float | None:
        """Do what time has brought: promote what is due, reclaim what has expired. Every receive
        does so by itself; this is for queues that nobody polls. Seconds until it is worth doing
        again; None: nothing is pending."""
        answers = await self.transport.run_many([calls.tend(ref) for ref in await self._shards()])
        return min((ms / 1000 for _, ms in answers if ms >= 0), default=None)

    def events(self, *kinds: str) -> AsyncEvents:
        """What happens on this queue from now on, as it happens. Use it in a `with` block.

        For what happened before, switch the journal on and read `journal`.
        """
        known = set(notes.KINDS.values())
        for kind in kinds:
            if kind not in known:
                raise InvalidArgument(
                    f"there is no event {kind!r}; there are: {', '.join(sorted(known))}"
                )
        return AsyncEvents(self, frozenset(kinds))

    async def journal(self, count: int = 1000) -> list[notes.Event]:
        """The last `count` entries of the journal (one entry per call), expanded to events, oldest
        first. Empty where the journal was never on."""
        found: list[notes.Event] = []
        for ref in await self._shards():
            key = ref.below("journal")
            entries = await self.transport.command(
                "XREVRANGE", key, "+", "-", "COUNT", whole(count, "count", 1, 2**31), key=key
            )
            for _, fields in reversed(entries):
                found += notes.expand(fields[1], self.name, ref.shard)
        return sorted(found, key=lambda event: event.time)

    async def set_clock(self, ms: int | None) -> None:
        """Stop this queue's clock at a time, in ms; None: let the server's run again. For tests."""
        for ref in await self._shards():
            await self.transport.run(calls.clock(ref, ms or 0))

    # ---- for consumers and events ---------------------------------------------------------

    async def refs(self) -> list[QueueRef]:
        return list(await self._shards())


def _whole_batch(items: Sequence[AsyncDelivery | str]) -> AsyncHandful | None:
    """The batch, if these are all its deliveries in their order: one receipt will do for them."""
    first = items[0]
    if not isinstance(first, AsyncDelivery) or first.batch.size != len(items):
        return None
    batch = first.batch
    for place, item in enumerate(items):
        if not isinstance(item, AsyncDelivery) or item.place != place or item.batch is not batch:
            return None
    return batch


def _without(items: list[Item], positions: list[int]) -> list[Item]:
    if not positions:
        return items
    lost = set(positions)
    return [item for i, item in enumerate(items) if i not in lost]
