"""Settling: what becomes of a delivery. By the delivery itself, its receipt, or the message's id."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import TypeVar

from holdfast.client._async.delivery import AsyncDelivery, AsyncHandful
from holdfast.client._async.shards import AsyncShards
from holdfast.engine import calls
from holdfast.engine.keys import QueueRef
from holdfast.message import parse_receipt
from holdfast.settings import Seconds, milliseconds

Item = TypeVar("Item", bound=AsyncDelivery | str)


class AsyncSettling(AsyncShards):
    async def ack(self, delivery: AsyncDelivery | str) -> bool:
        """Settle one delivery, by itself, its receipt or the message's id. False: it was not ours."""
        return bool(await self.ack_many([delivery]))

    async def ack_many(self, deliveries: Iterable[Item]) -> list[Item]:
        """Settle many in one round trip. Returns those really removed, as they were given."""
        done = await self._settle(deliveries, calls.ack)
        if len(self._refs) > 1 and any(_frees_a_group(item) for item in done):
            await self._wake_home()
        return done

    async def ack_batches(self, batches: Sequence[AsyncHandful]) -> list[list[int]]:
        """Settle all deliveries of each batch, by one receipt for it, in one round trip. For each:
        the places in it of those that were not ours."""
        acks = [
            calls.ack(await self.ref(batch.shard), [calls.batch_receipt(batch)])
            for batch in batches
        ]
        return await self.transport.run_many(acks)

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

    async def extend(self, delivery: AsyncDelivery | str, lease: Seconds | None) -> bool:
        """The lease ends `lease` from now. 0: the message is given back at once, and counts as delivered;
        None: it is ours until it is settled. False: it was not ours."""
        return bool(await self.extend_many([delivery], lease))

    async def extend_many(self, deliveries: Iterable[Item], lease: Seconds | None) -> list[Item]:
        """Extend many leases in one round trip, as `extend`. Returns those really extended."""
        held: list[Item] = []
        back = lease is not None and milliseconds(lease, "lease") == 0
        for ref, items, wires in await self._by_shard(deliveries):
            until, lost = await self.transport.run(calls.extend(ref, lease, wires))
            kept = _without(items, lost)
            # Those who wait do so at the first shard, and count on the end that the lease had.
            sooner = ref.shard > 0 and any(_ends_sooner(item, until) for item in kept)
            for item in kept:
                if isinstance(item, AsyncDelivery):
                    item.settled = item.settled or back
                    item.extended(until)
            if sooner:
                await self._wake_home()
            held += kept
        if held and back:
            await self._wake_home()
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
        if len(items) > 1 and (whole_batch := _whole_batch(items)):
            return [(await self.ref(whole_batch.shard), items, [calls.batch_receipt(whole_batch)])]
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
        return [(await self.ref(shard), *by_shard[shard]) for shard in by_shard]


def _frees_a_group(item: AsyncDelivery | str) -> bool:
    """The next one of its group is to be had, where nobody waits. Of a bare receipt one cannot tell."""
    return not isinstance(item, AsyncDelivery) or (item.shard > 0 and item.group is not None)


def _ends_sooner(item: AsyncDelivery | str, until_ms: int) -> bool:
    """Of a bare receipt one cannot tell."""
    if not until_ms or not isinstance(item, AsyncDelivery):
        return until_ms > 0
    return not item.lease_ms or until_ms < item.lease_ms


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
