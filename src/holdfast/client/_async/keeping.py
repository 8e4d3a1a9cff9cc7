"""Keeping house: settings, dead letters, pauses, and the end of messages and queues."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from datetime import datetime
from typing import Any

from holdfast.client._async.shards import AsyncShards
from holdfast.engine import calls
from holdfast.engine.keys import REGISTRY, QueueRef
from holdfast.errors import InvalidArgument, Unavailable
from holdfast.message import STATES, Message, State, format_id, parse_id
from holdfast.settings import Seconds, Settings, named, to_wire, whole

# How often a change of settings starts anew because others changed the number of shards meanwhile.
_ATTEMPTS = 5


class AsyncKeeping(AsyncShards):
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
        await self.refresh()
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

    async def purge(self, *states: State) -> int:
        """Take away all messages of these states; of all states if none is named. Returns how many."""
        gone = 0
        await self.refresh()
        for state in [calls.state(s) for s in states] or STATES:
            for ref in await self._shards():
                more = True
                while more:
                    count, more = await self.transport.run(calls.purge(ref, state))
                    gone += count
        if gone:  # which may have been what held a group back
            await self._wake_home()
        return gone

    async def pause(self, until: datetime | Seconds | None = None) -> None:
        """Hand nothing out, until a time, for so many seconds, or until `resume`."""
        await self.refresh()
        for ref in await self._shards():
            await self.transport.run(calls.pause(ref, until))

    async def resume(self) -> None:
        """Hand messages out again."""
        await self.refresh()
        for ref in await self._shards():
            await self.transport.run(calls.resume(ref))

    async def configure(self, **settings: Any) -> Settings:
        """Change settings; those not named stay. They are kept on the server, for all who use the
        queue. See `holdfast.Settings` for what there is. Returns all of them.

        `shards` can grow at any time, and shrink when the shards to be dropped are empty.
        """
        wire = to_wire(settings)
        if not wire:
            return await self.settings()
        await self._register()
        for _ in range(_ATTEMPTS):
            if (changed := await self._configure(wire)) is not None:
                return changed
        raise Unavailable(
            f"others keep changing the number of shards of {self.name!r}; try again when they are done"
        )

    async def _configure(self, wire: dict[str, int | str]) -> Settings | None:
        """None: others have changed the number of shards meanwhile.

        A shard takes messages only while the first one counts it, whoever dies or races here: a new one is
        told after the first, one that goes is told before, and is looked at once it refuses.
        """
        first = (await self._shards())[0]
        have = (await self.transport.run(calls.configure(first, {}))).settings.shards
        n = int(wire.get("shards", have))
        if n < have:
            wire = wire | {"edition": await self._close_shards(first, n, have)}
        full = await self.transport.run(calls.configure(first, wire))
        if "edition" in wire and full.own["edition"] != wire["edition"]:
            return None
        # Further shards get all that was ever set, since they may be new.
        for shard in range(1, max(n, have)):
            await self.transport.run(calls.configure(QueueRef(self.name, shard), full.own))
        self._set_shards(full.settings.shards)
        return full.settings

    async def _close_shards(self, first: QueueRef, n: int, have: int) -> int:
        """Those past `n` take nothing new from now on, and are empty. Answers the edition that says so."""
        begun = (await self.transport.run(calls.configure(first, {"edition": 0}))).own
        closing = [QueueRef(self.name, shard) for shard in range(n, have)]
        for ref in closing:
            await self.transport.run(calls.configure(ref, begun | {"shards": n}))
        for ref in closing:
            if (await self.transport.run(calls.stats(ref))).total:
                again = (await self.transport.run(calls.configure(first, {"edition": 0}))).own
                for other in closing:
                    await self.transport.run(calls.configure(other, again))
                raise InvalidArgument(
                    f"cannot shrink {self.name!r} to {n} shards: shard {ref.shard} holds messages; "
                    "let consumers empty it, or purge, and try again"
                )
        return int(begun["edition"])

    async def settings(self) -> Settings:
        """The queue's settings, defaults included."""
        return (await self.transport.run(calls.configure((await self._shards())[0], {}))).settings

    async def own_settings(self) -> frozenset[str]:
        """Names of the settings that somebody has set; the others are at their defaults."""
        reply = await self.transport.run(calls.configure((await self._shards())[0], {}))
        return frozenset(named(name) for name in reply.own)

    async def delete(self) -> None:
        """The queue and all its messages go, whatever their state."""
        await self.refresh()
        refs = list(await self._shards())
        await self.purge()
        # Before it goes: whoever sends after that finds it new, and lists it.
        await self.transport.command("SREM", REGISTRY, self.name, key=REGISTRY)
        self._client.listed.discard(self.name)
        for ref in refs:
            while not await self.transport.run(calls.delete(ref)):
                await self.purge()
        self._refs = []
        self._client.shards.pop(self.name, None)

    async def tend(self) -> float | None:
        """Do what time has brought: promote what is due, reclaim what has expired. Every receive
        does so by itself; this is for queues that nobody polls. Seconds until it is worth doing
        again; None: nothing is pending."""
        answers = await self.transport.run_many([calls.tend(ref) for ref in await self._shards()])
        return min((ms / 1000 for _, ms in answers if ms >= 0), default=None)

    async def set_clock(self, ms: int | None) -> None:
        """Stop this queue's clock at a time, in ms; None: let the server's run again. For tests."""
        for ref in await self._shards():
            await self.transport.run(calls.clock(ref, ms or 0))
