"""Taking messages for callers who may go away at any moment.

Waiting takes nothing (`client/_async/waiting.py`), and taking does not wait: so a caller who goes away
while it waits holds nothing, and one who goes away in the moment of taking is noticed here, and what
was taken for them is given back.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Awaitable, Callable, Sequence
from typing import TypeVar

from holdfast.client._async.delivery import AsyncDelivery
from holdfast.client._async.place import AsyncPlace
from holdfast.client._async.waiting import wait_any
from holdfast.errors import HoldfastError
from holdfast.settings import Lease

P = TypeVar("P", bound=AsyncPlace)

# Dead letters are waited for and taken in one call; a caller who goes away is let go when it ends.
_SLICE = 0.5


async def first(
    places: Sequence[P],
    count: int,
    wait: float,
    take: Callable[[P, int], Awaitable[list[AsyncDelivery]]],
) -> list[AsyncDelivery]:
    """Up to `count`, from the first place first; waits until there is one, `wait` seconds at most."""
    give_up = time.monotonic() + wait
    while True:
        got: list[AsyncDelivery] = []
        try:
            for place in places:
                got += await kept(take(place, count - len(got)))
                if len(got) >= count:
                    break
        except BaseException:
            await give_back(got)
            raise
        left = give_up - time.monotonic()
        if got or left <= 0:
            return got
        await wait_any(places, left)


async def first_dead(
    places: Sequence[AsyncPlace], count: int, wait: float, lease: Lease
) -> list[AsyncDelivery]:
    """The same for dead letters."""
    give_up = time.monotonic() + wait
    while True:
        left = max(give_up - time.monotonic(), 0)
        pause = min(left, _SLICE) / len(places)
        got: list[AsyncDelivery] = []
        try:
            for place in places:
                seconds = 0 if got else pause
                taking = place.receive_dead(count - len(got), wait=seconds, lease=lease)
                got += await kept(taking)
                if len(got) >= count:
                    break
        except BaseException:
            await give_back(got)
            raise
        if got or left == 0:
            return got


async def kept(taking: Awaitable[list[AsyncDelivery]]) -> list[AsyncDelivery]:
    """The answer, or, if the one it is for goes away meanwhile, nothing is kept for them."""
    task = asyncio.ensure_future(taking)
    try:
        return await asyncio.shield(task)
    except asyncio.CancelledError:
        try:
            got = await task
        except (HoldfastError, asyncio.CancelledError):
            got = []
        await give_back(got)
        raise


async def give_back(deliveries: Sequence[AsyncDelivery]) -> None:
    """Ready again at once, at the head, as if never handed out."""
    by_place: dict[int, list[AsyncDelivery]] = {}
    for delivery in deliveries:
        by_place.setdefault(id(delivery.batch.queue), []).append(delivery)
    for mine in by_place.values():
        try:
            await mine[0].batch.queue.release_many(mine)
        except HoldfastError:
            continue  # their leases end by themselves
