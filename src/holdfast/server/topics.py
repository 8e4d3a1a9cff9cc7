"""What a principal may do with topics."""

from __future__ import annotations

import random
from collections.abc import Sequence
from typing import Any

from holdfast.client._async.delivery import AsyncDelivery
from holdfast.client._async.subscription import AsyncSubscription
from holdfast.client.sender import CallName
from holdfast.engine.replies import Mode, Stats, SubscriptionInfo
from holdfast.errors import Refused
from holdfast.filters import Filter
from holdfast.message import MessageId, Outgoing
from holdfast.server import taking
from holdfast.server.entrance import Entrance, Seat, named
from holdfast.settings import AS_SET, Lease, Seconds, Settings


class TopicVerbs(Entrance):
    async def publish(
        self, topic: str, messages: Sequence[Outgoing], *, name: CallName | None = None
    ) -> list[MessageId]:
        """To all subscriptions, or none. `name`: as for send."""
        target = self._client.topic(topic)
        self.who.require("publish", "topic", topic)
        return await target.publish_many(list(self._checked(messages)), name=named(name))

    async def subscribe(
        self,
        topic: str,
        consumer: str,
        *,
        peer: str = "",
        mode: Mode = "broadcast",
        filter: Filter | None = None,
    ) -> None:
        target = self._client.topic(topic)
        self.who.require("subscribe", "topic", topic)
        await target.subscribe(consumer, peer=peer, mode=mode, filter=filter)

    async def unsubscribe(self, topic: str, consumer: str, *, peer: str | None = None) -> bool:
        """False: it was not subscribed. `peer` None: all peers."""
        target = self._client.topic(topic)
        self.who.require("unsubscribe", "topic", topic)
        return await target.unsubscribe(consumer, peer=peer)

    async def subscriptions(self, topic: str) -> list[SubscriptionInfo]:
        target = self._client.topic(topic)
        self.who.require("stats", "topic", topic)
        return await target.subscriptions()

    async def topic_stats(self, topic: str) -> Stats:
        """Of the topic itself: what was published, and what waits for a first subscriber."""
        target = self._client.topic(topic)
        self.who.require("stats", "topic", topic)
        return await target.stats()

    async def topic_settings(self, topic: str) -> Settings:
        target = self._client.topic(topic)
        self.who.require("stats", "topic", topic)
        return await target.settings()

    async def consumer_topics(self, consumer: str) -> list[str]:
        """Those it is subscribed to and this principal may observe."""
        named = await self._client.consumer(consumer).topics()
        return [name for name in named if self.who.may("observe", "topic", name)]

    async def configure_topic(self, topic: str, **settings: Any) -> Settings:
        target = self._client.topic(topic)
        self.who.require("configure", "topic", topic)
        return await target.configure(**settings)

    async def topics(self) -> list[str]:
        """Those this principal may do anything with."""
        return [name for name in await self._client.topics() if self._sees("topic", name)]

    async def delete_topic(self, topic: str) -> None:
        target = self._client.topic(topic)
        self.who.require("delete", "topic", topic)
        await target.delete()

    async def observe(
        self,
        consumer: str,
        count: int,
        *,
        peer: str = "",
        topics: Sequence[str] | None = None,
        wait: Seconds = 0,
        lease: Lease = AS_SET,
        auto_ack: bool = False,
    ) -> list[AsyncDelivery]:
        """What has been published on the topics this consumer is subscribed to: on all of them, or
        on those named. `auto_ack`: settled before it is handed out."""
        self.limits.check_batch(count, "messages")
        seats = await self._observed(consumer, peer, topics)
        # Any may be first, so that a busy topic does not keep the others from being observed.
        random.shuffle(seats)
        seconds = self._wait(wait)

        async def take(place: AsyncSubscription, n: int) -> list[AsyncDelivery]:
            return await place.observe(n, lease=lease)

        got = await taking.first(seats, count, seconds, take)
        if auto_ack:
            for seat in seats:
                mine = [d for d in got if d.batch.queue is seat]
                if mine:
                    await seat.ack_many(mine)
        return got

    async def _observed(
        self, consumer: str, peer: str, topics: Sequence[str] | None
    ) -> list[AsyncSubscription]:
        watching = self._client.consumer(consumer, peer=peer)
        if topics is None:
            seats = [s for s in await watching.seats() if self.who.may("observe", "topic", s.name)]
        else:
            seats = [self._seat("observe", Seat(name, consumer, peer)) for name in topics]
        if not seats:
            raise Refused(f"{self.who.name} may observe none of the topics of {consumer!r}")
        return seats

    async def attend(
        self, consumer: str, *, peer: str = "", topics: Sequence[str] | None = None
    ) -> float:
        """Be seen wherever `observe` would look, for one who has its hands full. Seconds after which to
        be seen again."""
        return min([await seat.attend() for seat in await self._observed(consumer, peer, topics)])

    async def touch(self, seat: Seat) -> None:
        """Be seen there without taking anything."""
        await self._seat("observe", seat).touch()
