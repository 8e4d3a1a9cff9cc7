"""A consumer over all topics it is subscribed to."""

from __future__ import annotations

import random
import time
from typing import TYPE_CHECKING

from holdfast.client._async.delivery import AsyncDelivery
from holdfast.client._async.subscription import AsyncSubscription
from holdfast.client._async.waiting import wait_any
from holdfast.engine import replies
from holdfast.engine.keys import topics_of
from holdfast.errors import NoSuchSubscription
from holdfast.settings import AS_SET, Lease, Seconds, milliseconds

if TYPE_CHECKING:
    from holdfast.client._async.client import AsyncClient


class AsyncObserver:
    """Obtained from a client: `hf.consumer("billing")`."""

    def __init__(self, client: AsyncClient, consumer: str, peer: str = "") -> None:
        self.consumer = consumer
        self.peer = peer
        self._client = client

    def __repr__(self) -> str:
        return f"<{type(self).__name__} {self.consumer!r}>"

    async def topics(self) -> list[str]:
        """Names of the topics this consumer has subscribed to."""
        index = topics_of(self.consumer)
        found: list[str] = await self._client.transport.command(
            "SMEMBERS", index, key=index, parse=replies.names
        )
        return found

    async def seats(self) -> list[AsyncSubscription]:
        """Its subscriptions. Raises NoSuchSubscription if it has none."""
        found = []
        for name in await self.topics():
            seat = self._client.topic(name).subscription(self.consumer, peer=self.peer)
            try:
                await seat.refs()
            except NoSuchSubscription:
                continue  # it was given up since, or is another peer's
            found.append(seat)
        if not found:
            raise NoSuchSubscription(
                f"consumer {self.consumer!r} is subscribed to nothing; subscribe it to a topic first"
            )
        return found

    async def observe(
        self, count: int = 1, wait: Seconds = 0, *, lease: Lease = AS_SET
    ) -> list[AsyncDelivery]:
        """Up to `count` messages of all its topics, any of which may be first; waits for the
        first message only. Which topic one came from is in `.source`."""
        give_up = time.monotonic() + milliseconds(wait, "wait") / 1000
        while True:
            seats = await self.seats()
            # By chance, and not in turn: the server makes one of these for each call.
            turn = random.randrange(len(seats))
            got: list[AsyncDelivery] = []
            for seat in seats[turn:] + seats[:turn]:
                got += await seat.observe(count - len(got), lease=lease)
                if len(got) >= count:
                    break
            left = give_up - time.monotonic()
            if got or left <= 0:
                return got
            try:
                await wait_any(seats, left)
            except NoSuchSubscription:
                continue  # one of them was given up meanwhile; the others are looked up anew
