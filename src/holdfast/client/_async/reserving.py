"""Reserving: batches with a name, for readers that may have to ask for the same one again.

A reader (owner) takes reservations 1, 2, 3 …. Asking for one again gives the same messages, whatever
happened in between; commit acks them, all up to one; release gives them back. This is what makes a
queue a source that Spark can replay. For everybody else there is `receive`.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from holdfast.client._async.shards import AsyncShards
from holdfast.engine import calls, reserving
from holdfast.engine.keys import QueueRef, SeatRef, reserved_list
from holdfast.errors import ReservationLost
from holdfast.message import Message, parse_id
from holdfast.settings import Seconds


class AsyncReserving(AsyncShards):
    async def reserve(
        self,
        owner: str,
        seq: int,
        rows: Sequence[int],
        *,
        known: int | None = None,
        ttl: Seconds | None = None,
        adopt: bool = False,
    ) -> list[int]:
        """Reserve up to so many ready messages of each shard, and seal that. How many there are in
        each; the same again for a reservation that is sealed, whatever `rows` says now.

        Reservations do not end by themselves unless `ttl` says so: whoever reads them may have
        stored what it read. Raises ReservationLost for one that was committed or released, and for
        one that does not follow the last (`adopt` takes the reader at its word). `known`: how many
        shards the queue had at the reader's last one; further ones never heard of it.
        """
        found = []
        for shard, wanted in enumerate(rows):
            ref = await self.ref(shard)
            new = adopt or (known is not None and shard >= known)
            call = reserving.reserve(ref, owner, seq, wanted, ttl, new)
            while not (state := await self.transport.run(call)).sealed:
                pass
            found.append(state.rows)
        return found

    async def read_reserved(
        self, owner: str, seq: int, shard: int, start: int, count: int
    ) -> list[bytes]:
        """Packed messages of a sealed reservation, by position. All of them or ReservationLost: a
        missing message is never a shorter answer."""
        ref = await self.ref(shard)
        if isinstance(ref, SeatRef):
            # Bodies may lie at the topic, which the function knows.
            found = await self.transport.run(reserving.reserved(ref, owner, seq, start, count))
        else:
            key = reserved_list(ref, owner, seq)
            found = await self.transport.command("LRANGE", key, start, start + count - 1, key=key)
        if len(found) != count:
            raise ReservationLost(
                f"{owner}/{seq} of {self.name!r} has {len(found)} messages at {start} where {count} "
                "were reserved: it was given back, or committed while it was being read"
            )
        return list(found)

    async def commit(self, owner: str, seq: int, shards: int = 1, *, adopt: bool = False) -> int:
        """This reader is done with its reservations up to `seq`, on its first `shards` shards: their
        messages are acked, or buried if condemned. Idempotent. How many messages went now."""
        gone = 0
        for shard in range(shards):
            gone += await self._until_done(
                reserving.commit(await self.ref(shard), owner, seq, adopt)
            )
        if gone:  # whose groups go on
            await self._wake_home()
        return gone

    async def release_reserved(self, owner: str, seq: int | None = None) -> int:
        """Give reserved messages back, before all others: of one reservation, or of all that this
        reader has. It can never have them again. How many."""
        gone = 0
        for ref in await self._shards():
            gone += await self._until_done(reserving.release(ref, owner, seq or 0))
        await self._wake_home()
        return gone

    async def _until_done(self, call: calls.Call[tuple[int, bool]]) -> int:
        gone = 0
        while True:
            count, done = await self.transport.run(call)
            gone += count
            if done:
                return gone

    async def condemn(self, owner: str, seq: int, reasons: Mapping[str, str]) -> int:
        """Reserved messages, by id, that shall become dead letters for these reasons when their
        reservation is committed. Idempotent: a batch that is done again says the same. How many
        had not been condemned before."""
        by_shard: dict[int, list[tuple[bytes, str]]] = {}
        for message_id, reason in reasons.items():
            packed, shard = parse_id(message_id)
            by_shard.setdefault(shard, []).append((packed, reason))
        fresh = 0
        for shard, pairs in by_shard.items():
            ref = await self.ref(shard)
            for at in range(0, len(pairs), 1000):
                part = pairs[at : at + 1000]
                fresh += await self.transport.run(reserving.condemn(ref, owner, seq, part))
        return fresh

    async def reservations(self) -> list[reserving.Reservation]:
        """What readers hold now, shard by shard."""
        return [held for _, all_held in await self._readers() for held in all_held]

    async def readers(self) -> list[reserving.Reader]:
        """Who reads this queue by reservations, and how far they are: those of the first shard."""
        return (await self._readers())[0][0]

    async def _readers(
        self,
    ) -> list[tuple[list[reserving.Reader], list[reserving.Reservation]]]:
        refs = await self._shards()
        return await self.transport.run_many([reserving.reservations(ref) for ref in refs])

    async def _find_reserved(self, ref: QueueRef, packed: bytes) -> Message | None:
        """A reserved message by its id; looked for in steps."""
        start, cursor = 0, 0
        while cursor >= 0:
            page = await self.transport.run(
                calls.inspect(ref, "reserved", start, 1000, "", cursor, self.codec)
            )
            for message in page.messages:
                if parse_id(message.id)[0] == packed:
                    return message
            start, cursor = page.start, page.cursor
        return None
