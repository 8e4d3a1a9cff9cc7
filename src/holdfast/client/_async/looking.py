"""Looking: at messages in any state, at counts and events, without taking anything; and finding one
message by its id, to look at it, move it or take it away."""

from __future__ import annotations

from datetime import datetime
from functools import partial
from typing import TYPE_CHECKING, Any, cast

from holdfast.client._async.events import AsyncEvents
from holdfast.client._async.reserving import AsyncReserving
from holdfast.engine import calls, notes, replies
from holdfast.engine.keys import QueueRef
from holdfast.errors import InvalidArgument
from holdfast.message import Message, State, parse_id, utc
from holdfast.settings import Seconds, milliseconds, whole

if TYPE_CHECKING:
    from holdfast.client._async.queue import AsyncQueue


class AsyncLooking(AsyncReserving):
    async def inspect(
        self, state: State, start: int = 0, count: int = 10, *, group: str | None = None
    ) -> list[Message]:
        """Messages of one state, from position `start` (negative: from the end); nothing changes.

        Ready ones in the order in which they would go out (messages behind their group come last),
        delayed by due time, leased by last delivery, reserved by
        reservation, dead by time of death. On a queue with several
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
        found = found or await self._find_reserved(ref, packed)
        return found or await self._find(ref, packed, remove=False)

    async def remove(self, message_id: str) -> bool:
        """Take the message away, in whatever state it is. False: it was not there; or it is reserved,
        and its reader counts on it: `release_reserved` the reservation first."""
        packed, ref = await self._locate(message_id)
        if await self.transport.run(calls.remove(ref, packed)):
            await self._wake_home()
            return True
        return await self._find(ref, packed, remove=True) is not None

    async def remove_ready(self, message_id: str) -> bool:
        """The same only where it is ready: what is in somebody's hands stays there."""
        packed, ref = await self._locate(message_id)
        return await self._find(ref, packed, remove=True) is not None

    async def _locate(self, message_id: str) -> tuple[bytes, QueueRef]:
        packed, shard = parse_id(message_id)
        return packed, await self.ref(shard)

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

    async def held_without_end(self, longer: Seconds = 3600) -> list[Message]:
        """Messages that somebody took longer ago than that, and whose delivery has no lease: only `recover`
        brings them back. Looks at the hundred oldest deliveries of each shard."""
        oldest_ms = milliseconds(longer, "longer")
        found: list[Message] = []
        for ref in await self._shards():
            stats = await self.transport.run(calls.stats(ref))
            if not stats.leased:
                continue
            before = utc(stats.now - oldest_ms)
            page, _ = await self._pages(ref, "leased", 0, 100, "")
            found += [
                m
                for m in page
                if m.lease_until is None and m.received_at and m.received_at < before
            ]
        return found

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
        return AsyncEvents(cast("AsyncQueue", self), frozenset(kinds))

    async def journal(self, count: int = 1000) -> list[notes.Event]:
        """The last `count` entries of the journal (one entry per call), expanded to events, oldest
        first. Empty where the journal was never on."""
        found: list[notes.Event] = []
        for ref in await self._shards():
            key = ref.below("journal")
            limits = ("+", "-", "COUNT", whole(count, "count", 1, 2**31))
            found += await self.transport.command(
                "XREVRANGE", key, *limits, key=key, parse=partial(self._expanded, ref.shard)
            )
        return sorted(found, key=lambda event: event.time)

    def _expanded(self, shard: int, entries: list[Any]) -> list[notes.Event]:
        return [
            event
            for _, fields in reversed(entries)
            for event in notes.expand(fields[1], self.name, shard)
        ]
