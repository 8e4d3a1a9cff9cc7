"""A queue or subscription behind a Holdfast server: the bottom methods of each verb, as gRPC calls.

All that stands on them (single verbs, `with delivery`, consume) is inherited. What is not overridden
here or below raises Unsupported, since there is no transport under it.
"""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from typing import TYPE_CHECKING, Any, cast

from holdfast.client import remote_values
from holdfast.client._async.delivery import AsyncDelivery, AsyncHandful
from holdfast.client._async.place import AsyncPlace
from holdfast.client._async.settling import Item
from holdfast.engine import calls, notes, replies
from holdfast.engine.keys import QueueRef
from holdfast.errors import Unsupported
from holdfast.message import Message, State, parse_receipt
from holdfast.settings import AS_SET, IF_SET, Lease, Seconds, Settings, milliseconds, whole
from holdfast.v1 import broker_pb2 as pb

if TYPE_CHECKING:
    from holdfast.client._async.events import AsyncEvents
    from holdfast.client._async.remote import AsyncRemoteClient
    from holdfast.client._async.remote_call import AsyncRemote

# One wait of many, so that a lost connection is noticed and no server's limit is met.
_ROUND_MS = 30_000
# Receipts in one call, well below what servers permit.
_MANY = 1_000
# Seconds that house-keeping over many messages may take beside the timeout.
LONG = 60.0


def lease_ms(lease: Lease) -> int | None:
    """Absent: as the queue is set. 0: until settled."""
    if lease is IF_SET:
        raise Unsupported("a lease 'if set' is for direct clients")
    return None if lease is AS_SET else calls.lease_ms(lease)


def deliveries(
    place_of: Callable[[str], AsyncPlace], found: Sequence[pb.Delivery]
) -> list[AsyncDelivery]:
    """Deliveries out of an answer; `place_of` knows where to settle what came from a source."""
    batches: dict[tuple[str, int, str, int], AsyncHandful] = {}
    got: list[AsyncDelivery] = []
    for each in found:
        death = remote_values.death(each)
        record, shard = remote_values.record(each, 0 if death else 1)
        number = each.receipt.partition("@")[2]
        until = each.lease_until_ms
        key = (each.source, shard, number, until)
        batch = batches.get(key)
        if batch is None:
            # A size that is never that of a list: whole batches are not settled as one here.
            batch = AsyncHandful(place_of(each.source), shard, int(number or 0), -1, until)
            batches[key] = batch
        delivery = AsyncDelivery(batch, record, 0)
        if death:
            delivery.death = death
            delivery._counted = 0
        got.append(delivery)
    return got


class AsyncRemotePlace(AsyncPlace):
    _client: AsyncRemoteClient

    @property
    def _remote(self) -> AsyncRemote:
        return self._client.remote

    @property
    def _stub(self) -> Any:
        """The service that knows this kind of place."""
        raise NotImplementedError

    @property
    def _where(self) -> dict[str, Any]:
        """How requests name this place."""
        raise NotImplementedError

    async def _shards(self) -> list[QueueRef]:
        await self.transport.run(cast("Any", None))
        return []

    # ---- taking ---------------------------------------------------------------------------

    async def _ask(self, count: int, wait_ms: int, lease: Lease, dead: bool) -> list[AsyncDelivery]:
        raise NotImplementedError

    async def _receive(
        self, count: int, wait: Seconds, lease: Lease, dead: bool
    ) -> list[AsyncDelivery]:
        left_ms = milliseconds(wait, "wait")
        whole(count, "count", 1, calls.MAX_COUNT)
        give_up = time.monotonic() + left_ms / 1000
        while True:
            got = await self._ask(count, min(left_ms, _ROUND_MS), lease, dead)
            left_ms = int((give_up - time.monotonic()) * 1000)
            if got or left_ms <= 0:
                return got

    # ---- settling -------------------------------------------------------------------------

    async def ack_many(self, deliveries: Iterable[Item]) -> list[Item]:
        """Settle many in one round trip. Returns those really removed, as they were given."""
        return await self._settled(
            deliveries,
            lambda receipts: (self._stub.Ack, pb.AckRequest(receipts=receipts, **self._where)),
        )

    async def _give_back(
        self, deliveries: Iterable[Item], action: str, delay: Seconds, text: str
    ) -> list[Item]:
        delay_ms = milliseconds(delay, "delay")
        kind = pb.NackRequest.Action.Value(f"ACTION_{action.upper()}")
        return await self._settled(
            deliveries,
            lambda receipts: (
                self._stub.Nack,
                pb.NackRequest(
                    receipts=receipts, action=kind, delay_ms=delay_ms, text=text, **self._where
                ),
            ),
        )

    async def extend_many(self, deliveries: Iterable[Item], lease: Seconds | None) -> list[Item]:
        """Extend many leases in one round trip, as `extend`. Returns those really extended."""
        ms = None if lease is None else milliseconds(lease, "lease")
        until = 0 if ms is None else round(time.time() * 1000) + ms
        kept = await self._settled(
            deliveries,
            lambda receipts: (
                self._stub.Extend,
                pb.ExtendRequest(receipts=receipts, lease_ms=ms, **self._where),
            ),
            settles=ms == 0,
        )
        for item in kept:
            if isinstance(item, AsyncDelivery):
                item.extended(until)
        return kept

    async def _settled(
        self,
        deliveries: Iterable[Item],
        build: Callable[[list[str]], tuple[Any, Any]],
        settles: bool = True,
    ) -> list[Item]:
        items = list(deliveries)
        receipts = [item.receipt if isinstance(item, AsyncDelivery) else item for item in items]
        for receipt in receipts:
            parse_receipt(receipt)
        answered: Counter[str] = Counter()
        for start in range(0, len(items), _MANY):
            method, request = build(receipts[start : start + _MANY])
            answered.update((await self._remote.call(method, request)).receipts)
        done: list[Item] = []
        for item, receipt in zip(items, receipts, strict=True):
            if answered[receipt] > 0:
                answered[receipt] -= 1
                done.append(item)
                if settles and isinstance(item, AsyncDelivery):
                    item.settled = True
        return done

    # ---- looking --------------------------------------------------------------------------

    async def inspect(
        self, state: State, start: int = 0, count: int = 10, *, group: str | None = None
    ) -> list[Message]:
        """Messages of one state, from position `start` (negative: from the end); nothing changes."""
        calls.state(state)
        request = pb.InspectRequest(
            state=remote_values.STATES[state],
            start=whole(start, "start", -(2**46), 2**46),
            count=whole(count, "count", 1, 2**31),
            group=group,
            **self._where,
        )
        answer = await self._remote.call(self._stub.Inspect, request)
        return [remote_values.stored(m, self.codec) for m in answer.messages]

    async def get(self, message_id: str) -> Message | None:
        """The message with this id, in whatever state, or None."""
        request = pb.GetRequest(id=message_id, **self._where)
        answer = await self._remote.call(self._stub.Get, request, longer=LONG)
        if not answer.HasField("message"):
            return None
        return remote_values.stored(answer.message, self.codec)

    async def stats(self) -> replies.Stats:
        """Messages by state, and counters of what has happened."""
        return remote_values.stats(
            await self._remote.call(self._stub.Stats, pb.StatsRequest(**self._where))
        )

    def events(self, *kinds: str) -> AsyncEvents:
        """Not offered through a server."""
        raise Unsupported("events are not offered through a Holdfast server")

    async def journal(self, count: int = 1000) -> list[notes.Event]:
        """Not offered through a server."""
        raise Unsupported("the journal is not offered through a Holdfast server")

    # ---- keeping house --------------------------------------------------------------------

    async def settings(self) -> Settings:
        """The settings, defaults included."""
        answer = await self._remote.call(self._stub.Settings, pb.SettingsRequest(**self._where))
        return remote_values.settings(answer.settings)

    async def configure(self, **settings: Any) -> Settings:
        """Change settings; those not named stay. Returns all of them."""
        request = pb.ConfigureRequest(changes=remote_values.changes(settings), **self._where)
        answer = await self._remote.call(self._stub.Configure, request)
        return remote_values.settings(answer.settings)

    async def redrive(
        self,
        count: int | None = None,
        *,
        ids: Iterable[str] | None = None,
        where: Callable[[Message], bool] | None = None,
        rate: float | None = None,
        dry_run: bool = False,
    ) -> list[str]:
        """Dead letters become ready again, in the order in which they died; as for a direct client,
        but `where` is asked here, about every dead letter."""
        if count is not None:
            whole(count, "count", 1, 2**31)
        calls.gap_us(rate)
        chosen = None if ids is None else list(ids)
        if where is not None:
            chosen = await self._dead_where(where, None if chosen is None else set(chosen))
        if chosen is not None and not chosen:
            return []
        request = pb.RedriveRequest(
            count=count, ids=chosen, per_second=rate, dry_run=dry_run, **self._where
        )
        answer = await self._remote.call(
            self._stub.Redrive, request, repeatable=dry_run or chosen is not None, longer=LONG
        )
        return list(answer.ids)

    async def _dead_where(
        self, where: Callable[[Message], bool], among: set[str] | None
    ) -> list[str]:
        chosen: list[str] = []
        start = 0
        while page := await self.inspect("dead", start, _MANY):
            start += len(page)
            chosen += [m.id for m in page if (among is None or m.id in among) and where(m)]
        return chosen
