"""A stream of deliveries: take what there is room for, write it, go on; at the end give back the rest.

Three things hold a stream back: the window (what is not settled), the reader (each write is awaited,
and the next messages are taken only after it), and the size of one response. So what the server
keeps for a stream is one response, however slow its reader is.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable, Iterator, Sequence
from typing import Any

from holdfast.client._async.delivery import AsyncDelivery
from holdfast.client._async.place import AsyncPlace
from holdfast.errors import HoldfastError, Unavailable
from holdfast.server.entrance import Place, Seat
from holdfast.server.grpc.call import STOPPING, Call
from holdfast.server.grpc.windows import Window
from holdfast.server.taking import give_back
from holdfast.settings import Lease, WireSettings, whole
from holdfast.v1 import broker_pb2 as pb

log = logging.getLogger("holdfast.server")

# A wait of this many seconds at most: a server that stops and a token that is revoked are noticed.
_ROUND = 5.0
# Many languages' clients refuse answers past 4 MB unless told otherwise.
_RESPONSE_BYTES = 1024 * 1024
# Of what is observed where the topic has none.
_DEFAULT_LEASE = WireSettings().lease_ms / 1000

Take = Callable[[int, float], Any]
Attend = Callable[[], Awaitable[float]]
PlaceOf = Callable[[AsyncDelivery], Place]
Wrap = Callable[[Sequence[AsyncDelivery]], Any]


class Stream:
    def __init__(
        self, call: Call, flow: pb.Flow, *, place_of: PlaceOf, lease: Lease, auto_ack: bool
    ) -> None:
        most = call.session.limits.batch
        self._call = call
        self._size = whole(_or(flow, "max_in_flight", 100), "flow.max_in_flight", 1, most)
        self._batch = whole(_or(flow, "batch", 100), "flow.batch", 1, most)
        self._heartbeat = flow.heartbeat
        self._place_of = place_of
        self._lease = lease
        self._auto_ack = auto_ack
        # Seconds that a lease lasts, by place; asked for once.
        self._leases: dict[Place, float] = {}

    async def run(self, take: Take, wrap: Wrap, attend: Attend | None = None) -> None:
        """`attend`: how to be seen while nothing is taken; seconds after which to be seen again."""
        windows = self._call.desk.windows
        window = windows.open(self._size)
        keeper = asyncio.ensure_future(self._keep(window)) if self._heartbeat else None
        try:
            await self._deliver(window, take, wrap, attend)
        finally:
            if keeper is not None:
                keeper.cancel()
            if rest := windows.close(window):
                # Not awaited here: a cancelled call must not be cancelled in this too.
                self._call.desk.aside(give_back(rest))

    async def _deliver(self, window: Window, take: Take, wrap: Wrap, attend: Attend | None) -> None:
        desk = self._call.desk
        pause = min(_ROUND, self._call.session.limits.wait_seconds)
        while not desk.quieting:
            self._call.look_again()
            if window.room <= 0:
                # Who has its hands full does not observe, and must not be taken for gone.
                again = await attend() if attend is not None else _ROUND
                await window.change(min(again, _ROUND))
                continue
            count = min(window.room, self._batch)
            got = await desk.until_quiet(take(count, pause))
            if not self._auto_ack:
                # Before anything else is awaited: whatever happens now, they are known as ours.
                self._hold(window, got)
                await self._learn_leases(window, got)
            for part in _parts(got):
                response = wrap(part)
                with desk.meter.holding(response.ByteSize()):
                    await self._call.context.write(response)
        while window.held:
            await window.change(_ROUND)
        raise Unavailable(STOPPING)

    def _hold(self, window: Window, got: Sequence[AsyncDelivery]) -> None:
        for place, mine in self._by_place(got):
            window.add(place, mine, self._leases.get(place, 0.0))

    async def _learn_leases(self, window: Window, got: Sequence[AsyncDelivery]) -> None:
        for place, mine in self._by_place(got):
            if place not in self._leases:
                lease = 0.0
                if isinstance(self._lease, int | float):
                    lease = self._lease
                elif mine[0].lease_until:
                    lease = (await mine[0].batch.queue.settings()).lease or _DEFAULT_LEASE
                self._leases[place] = lease
                window.add(place, mine, lease)

    def _by_place(self, got: Sequence[AsyncDelivery]) -> list[tuple[Place, list[AsyncDelivery]]]:
        found: dict[Place, list[AsyncDelivery]] = {}
        for delivery in got:
            found.setdefault(self._place_of(delivery), []).append(delivery)
        return list(found.items())

    async def _keep(self, window: Window) -> None:
        """Extends what is handed out, for as long as the stream is open."""
        while True:
            shortest = min((s for s in self._leases.values() if s), default=1.0)
            await asyncio.sleep(shortest / 3)
            by_place: dict[Place, list[str]] = {}
            for (place, _), held in window.held.items():
                by_place.setdefault(place, []).append(held.receipt)
            for place, receipts in by_place.items():
                if lease := self._leases.get(place):
                    try:
                        await self._extend(place, receipts, lease)
                    except HoldfastError as error:
                        log.warning("keeping leases of a stream: %s; trying again", error)
                    except Exception:
                        # Without a keeper all leases would end, and nobody would know why.
                        log.exception("keeping leases of a stream; trying again")

    def _at(self, place: Place) -> AsyncPlace:
        client = self._call.desk.broker.client
        if isinstance(place, Seat):
            return client.topic(place.topic).subscription(place.consumer, peer=place.peer)
        return client.queue(place)

    async def _extend(self, place: Place, receipts: list[str], lease: float) -> None:
        # The stream's own doing: it needs no right to extend by hand.
        done = set(await self._at(place).extend_many(receipts, lease))
        windows = self._call.desk.windows
        windows.extended(place, [r for r in receipts if r in done], lease)
        windows.settled(place, [r for r in receipts if r not in done])


def _or(flow: pb.Flow, name: Any, default: int) -> int:
    return int(getattr(flow, name)) if flow.HasField(name) else default


def _parts(got: Sequence[AsyncDelivery]) -> Iterator[Sequence[AsyncDelivery]]:
    """Cut so that each part is a response of bearable size; a huge message goes alone."""
    start, size = 0, 0
    for i, delivery in enumerate(got):
        size += delivery.size
        if size > _RESPONSE_BYTES and i > start:
            yield got[start:i]
            start, size = i, delivery.size
    if got:
        yield got[start:]
