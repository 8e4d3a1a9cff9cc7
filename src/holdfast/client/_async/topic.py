"""A topic: what is published on it reaches every subscription, or none."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from contextlib import suppress
from datetime import datetime
from functools import partial
from typing import TYPE_CHECKING, Any

from holdfast import names
from holdfast.client._async.delivery import AsyncDelivery
from holdfast.client._async.keeping import AsyncKeeping
from holdfast.client._async.looking import AsyncLooking
from holdfast.client._async.subscription import AsyncSubscription
from holdfast.client.io_async import Producer
from holdfast.client.sender import CallName
from holdfast.engine import calls, topics
from holdfast.engine.calls import Packed
from holdfast.engine.keys import TOPICS, QueueRef, SeatRef, TopicRef, topics_of
from holdfast.engine.replies import Mode, SubscriptionInfo
from holdfast.errors import FixTheCall, HoldfastError, InvalidArgument, QueueFull, TryAgain
from holdfast.filters import Filter
from holdfast.message import Codec, MessageId, Outgoing
from holdfast.settings import AS_SET, Lease, Seconds, Settings, to_wire

if TYPE_CHECKING:
    from holdfast.client._async.client import AsyncClient


class AsyncTopic(AsyncLooking, AsyncKeeping):
    """A topic by name. Cheap to make; nothing is on the server until something is published or
    somebody subscribes.

    What it holds itself, while nobody is subscribed, can be inspected like a queue. Obtained from a
    client: `hf.topic("prices")`.
    """

    def __init__(self, client: AsyncClient, name: str, codec: Codec[Any] | None = None) -> None:
        super().__init__(client, name, codec)
        self._topic = TopicRef(name)
        self._producer = Producer(self._publish_each)

    async def _shards(self) -> list[QueueRef]:
        return [self._topic]

    def _set_shards(self, n: int) -> None:
        """A topic has one; a queue of the same name may have many."""

    async def _register(self) -> None:
        if self._topic.key not in self._client.listed:
            await self.transport.command("SADD", TOPICS, self.name, key=TOPICS)
            self._client.listed.add(self._topic.key)

    async def list_again(self) -> None:
        self._client.listed.discard(self._topic.key)
        with suppress(TryAgain):  # it is published; who publishes next lists it
            await self._register()

    # ---- publishing -----------------------------------------------------------------------

    async def publish(
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
        """Store a message for every subscription, or for none; its id is the same in all of them.

        While nobody is subscribed the topic holds it for the first who comes. One that no
        subscription's filter wants is gone. Safe to repeat by itself, as `send` is.
        """
        message = Outgoing(body, delay, due, priority, attributes, group, dedup_id, ttl)
        return await self._producer.send(self._pack(message))

    async def publish_many(
        self, messages: Iterable[Any], *, name: CallName | None = None
    ) -> list[MessageId]:
        """Publish many in one round trip, all or none; bodies, or `Outgoing` for those with more to
        say. Ids come back in order. `name`: as for `send_many`."""
        packed = [self._pack(m) for m in messages]
        return await self._publish_packed(packed, name) if packed else []

    async def _publish_each(
        self, messages: Sequence[Packed]
    ) -> Sequence[MessageId | HoldfastError]:
        """Messages of several callers, which travel together: each gets its own answer."""
        try:
            return await self._publish_packed(messages)
        except (QueueFull, FixTheCall) as error:
            # None was published. Alone, each finds out whether there is room for it.
            if len(messages) == 1:
                return [error]
            return [answer for m in messages for answer in await self._publish_each([m])]

    async def _publish_packed(
        self, messages: Sequence[Packed], name: CallName | None = None
    ) -> list[MessageId]:
        await self._register()
        build = partial(topics.publish, self._topic, messages)
        sent = await self._client.run_named(build, name)
        if sent.first:
            await self.list_again()
        return sent.ids

    # ---- subscribing ----------------------------------------------------------------------

    def subscription(self, consumer: str, *, peer: str = "") -> AsyncSubscription:
        """A subscription that is there already, or will be: nothing is asked or changed."""
        if peer:
            names.check(peer, "a peer's name")
        return AsyncSubscription(
            self._client, self._topic, names.check(consumer, "a consumer's id"), peer, self.codec
        )

    async def subscribe(
        self,
        consumer: str,
        *,
        peer: str = "",
        mode: Mode = "broadcast",
        filter: Filter | None = None,
    ) -> AsyncSubscription:
        """From now on, what is published is kept for this consumer until it acks it.

        `mode`: in broadcast each peer gets every message; in shared the peers of a consumer share
        them. A peer's name is yours to choose, and survives a reconnect. `filter`: only messages
        whose attributes match. The first to subscribe gets what the topic has held. Doing it again
        keeps everything and sets the filter anew. Raises InvalidArgument for a second mode.
        """
        if filter is not None and not isinstance(filter, Filter):
            raise InvalidArgument(f"filter must be a Filter, not {type(filter).__name__}")
        made = self.subscription(consumer, peer=peer)
        await self._register()
        # The list first: a topic too many in it is found out, one that is missing never.
        index = topics_of(consumer)
        await self.transport.command("SADD", index, self.name, key=index)
        while not await self.transport.run(
            topics.subscribe(self._topic, consumer, peer, mode, filter)
        ):
            pass
        return made

    async def observe(
        self,
        consumer: str,
        count: int = 1,
        wait: Seconds = 0,
        *,
        peer: str = "",
        lease: Lease = AS_SET,
    ) -> list[AsyncDelivery]:
        """What was published, for a consumer that is subscribed; see `AsyncSubscription.observe`."""
        return await self.subscription(consumer, peer=peer).observe(count, wait, lease=lease)

    async def unsubscribe(self, consumer: str, *, peer: str | None = None) -> bool:
        """Give up a subscription: of one peer, or of the consumer with all its peers.

        What it had not acked is gone, unless it was the topic's last: then the topic holds it for
        whoever comes next. False: it was not subscribed.
        """
        names.check(consumer, "a consumer's id")
        was = False
        while True:
            answer = await self.transport.run(topics.unsubscribe(self._topic, consumer, peer))
            if answer != 0:
                break
            was = True
        if not any(info.consumer == consumer for info in await self.subscriptions()):
            index = topics_of(consumer)
            await self.transport.command("SREM", index, self.name, key=index)
        return was or answer == 1

    async def subscriptions(self) -> list[SubscriptionInfo]:
        """Who is subscribed, with their peers and when each last observed."""
        return await self.transport.run(topics.subscriptions(self._topic))

    # ---- keeping house --------------------------------------------------------------------

    async def configure(self, **settings: Any) -> Settings:
        """Change settings of the topic and of all its subscriptions, those to come included. What was set for
        one subscription alone stays as it is there.

        Beside those of a queue: `peer_timeout` and `retention`. A topic has no shards.
        """
        if "shards" in settings:
            raise InvalidArgument("a topic has no shards: all its subscriptions lie on one node")
        if not settings:
            return await self.settings()
        wire = to_wire(settings)
        before = (await self.transport.run(calls.configure(self._topic, {}))).own
        # The topic last: where this is cut off, whoever does it again finds out what is left to do.
        done = await self._configure_seats(wire, before, set())
        full = await super().configure(**settings)
        await self._configure_seats(wire, before, done)  # those that came meanwhile
        return full

    async def _configure_seats(
        self, wire: dict[str, int | str], before: dict[str, int | str], done: set[str]
    ) -> set[str]:
        for info in await self.subscriptions():
            if info.seat in done:
                continue
            done.add(info.seat)
            seat = SeatRef(self._topic, info.seat)
            has = (await self.transport.run(calls.configure(seat, {}))).own
            # One that differs from the topic's was set for this subscription.
            same = {name: to for name, to in wire.items() if has.get(name) == before.get(name)}
            if same:
                await self.transport.run(calls.configure(seat, same))
        return done

    async def tend(self) -> float | None:
        """Give up subscriptions nobody has observed for longer than the retention."""
        while await self.transport.run(topics.tend_topic(self._topic)):
            pass
        return await super().tend()

    async def set_clock(self, ms: int | None) -> None:
        """Stop the clocks of this topic and its subscriptions. For tests."""
        await super().set_clock(ms)
        for info in await self.subscriptions():
            await self.transport.run(calls.clock(SeatRef(self._topic, info.seat), ms or 0))

    async def delete(self) -> None:
        """The topic, its subscriptions and all their messages go."""
        for consumer in {info.consumer for info in await self.subscriptions()}:
            await self.unsubscribe(consumer)
        # Subscriptions that somebody began to give up are not in that list.
        while await self.transport.run(topics.tend_topic(self._topic)):
            pass
        await self.purge()
        # Before it goes: whoever publishes after that finds it new, and lists it.
        await self.transport.command("SREM", TOPICS, self.name, key=TOPICS)
        self._client.listed.discard(self._topic.key)
        while not await self.transport.run(calls.delete(self._topic)):
            await self.purge()
