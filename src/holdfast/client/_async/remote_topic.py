"""Topics behind a Holdfast server: the topic, a subscription, and a consumer over many topics."""

from __future__ import annotations

import time
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, cast

from holdfast import names
from holdfast.client import remote_values
from holdfast.client._async.delivery import AsyncDelivery
from holdfast.client._async.observer import AsyncObserver
from holdfast.client._async.remote_place import LONG, AsyncRemotePlace, deliveries, lease_ms
from holdfast.client._async.subscription import AsyncSubscription
from holdfast.client._async.topic import AsyncTopic
from holdfast.client.remote_values import Parcel
from holdfast.client.sender import CallName
from holdfast.engine import calls, replies, topics
from holdfast.engine.calls import Packed
from holdfast.engine.keys import QueueRef
from holdfast.engine.replies import Mode, SubscriptionInfo
from holdfast.errors import InvalidArgument
from holdfast.filters import Filter
from holdfast.message import MessageId
from holdfast.settings import AS_SET, Lease, Seconds, Settings, milliseconds, whole
from holdfast.v1 import broker_pb2 as pb

if TYPE_CHECKING:
    from holdfast.client._async.remote import AsyncRemoteClient

_ROUND_MS = 30_000


class AsyncRemoteSubscription(AsyncRemotePlace, AsyncSubscription):
    """Obtained from a topic: `topic.subscribe("billing")`."""

    _client: AsyncRemoteClient

    @property
    def _stub(self) -> Any:
        return self._remote.broker

    @property
    def _where(self) -> dict[str, Any]:
        return {"seat": pb.Seat(topic=self.name, consumer=self.consumer, peer=self.peer)}

    async def _ask(self, count: int, wait_ms: int, lease: Lease, dead: bool) -> list[AsyncDelivery]:
        if dead:
            asked = pb.ReceiveDeadRequest(
                count=count, wait_ms=wait_ms, lease_ms=lease_ms(lease), **self._where
            )
            found = await self._remote.call(self._stub.ReceiveDead, asked, longer=wait_ms / 1000)
            return deliveries(lambda _: self, found.deliveries)
        topics.check_ends(lease)
        request = pb.ObserveRequest(
            consumer=self.consumer,
            peer=self.peer,
            count=count,
            wait_ms=wait_ms,
            lease_ms=lease_ms(lease),
            topics=[self.name],
        )
        answer = await self._remote.call(self._stub.Observe, request, longer=wait_ms / 1000)
        return deliveries(lambda _: self, answer.records)

    async def touch(self) -> None:
        """Be seen, as by observe, without taking anything."""
        await self._remote.call(self._stub.Touch, pb.TouchRequest(**self._where))

    async def configure(self, **settings: Any) -> Settings:
        """Change settings of this subscription alone."""
        if "shards" in settings:
            raise InvalidArgument("a subscription has no shards")
        return await AsyncRemotePlace.configure(self, **settings)


class AsyncRemoteTopic(AsyncTopic):
    """Obtained from a client: `hf.topic("prices")`."""

    _client: AsyncRemoteClient

    async def _shards(self) -> list[QueueRef]:
        await self.transport.run(cast("Any", None))
        return []

    async def _call(self, method: str, request: Any, **options: Any) -> Any:
        remote = self._client.remote
        return await remote.call(getattr(remote.broker, method), request, **options)

    # ---- publishing -----------------------------------------------------------------------

    def _pack(self, message: Any, unique: str | None = None) -> Parcel:
        return Parcel(message, self.codec, unique)

    async def _publish_packed(
        self, messages: Sequence[Packed], name: CallName | None = None
    ) -> list[MessageId]:
        parcels = cast("Sequence[Parcel]", messages)
        request = pb.PublishRequest(topic=self.name, messages=[p.proto for p in parcels])
        answer = await self._client.send_named(self._client.remote.broker.Publish, request)
        return [remote_values.message_id(sent) for sent in answer.sent]

    # ---- subscribing ----------------------------------------------------------------------

    def subscription(self, consumer: str, *, peer: str = "") -> AsyncRemoteSubscription:
        """A subscription that is there already, or will be: nothing is asked or changed."""
        if peer:
            names.check(peer, "a peer's name")
        return AsyncRemoteSubscription(
            self._client, self._topic, names.check(consumer, "a consumer's id"), peer, self.codec
        )

    async def subscribe(
        self,
        consumer: str,
        *,
        peer: str = "",
        mode: Mode = "broadcast",
        filter: Filter | None = None,
    ) -> AsyncRemoteSubscription:
        """From now on, what is published is kept for this consumer until it acks it."""
        if filter is not None and not isinstance(filter, Filter):
            raise InvalidArgument(f"filter must be a Filter, not {type(filter).__name__}")
        if mode not in remote_values.MODES:
            raise InvalidArgument(f"mode must be 'broadcast' or 'shared', not {mode!r}")
        made = self.subscription(consumer, peer=peer)
        request = pb.SubscribeRequest(
            topic=self.name,
            consumer=consumer,
            peer=peer,
            mode=remote_values.MODES[mode],
            filter_json=filter.to_json().decode() if filter else "",
        )
        await self._call("Subscribe", request)
        return made

    async def unsubscribe(self, consumer: str, *, peer: str | None = None) -> bool:
        """Give up a subscription: of one peer, or of the consumer with all its peers."""
        names.check(consumer, "a consumer's id")
        request = pb.UnsubscribeRequest(topic=self.name, consumer=consumer, peer=peer)
        return bool((await self._call("Unsubscribe", request, repeatable=False)).removed)

    async def subscriptions(self) -> list[SubscriptionInfo]:
        """Who is subscribed, with their peers and when each last observed."""
        answer = await self._call("Subscriptions", pb.SubscriptionsRequest(topic=self.name))
        return [remote_values.subscription(each) for each in answer.subscriptions]

    # ---- keeping house --------------------------------------------------------------------

    async def stats(self) -> replies.Stats:
        """Of the topic itself: what was published, and what waits for a first subscriber."""
        request = pb.TopicRequest(topic=self.name)
        return remote_values.stats(await self._call("TopicStats", request))

    async def settings(self) -> Settings:
        """The topic's settings, defaults included."""
        answer = await self._call("TopicSettings", pb.TopicRequest(topic=self.name))
        return remote_values.settings(answer.settings)

    async def configure(self, **settings: Any) -> Settings:
        """Change settings of the topic and of all its subscriptions, those to come included."""
        if "shards" in settings:
            raise InvalidArgument("a topic has no shards: all its subscriptions lie on one node")
        changes = remote_values.changes(settings)
        request = pb.ConfigureTopicRequest(topic=self.name, changes=changes)
        return remote_values.settings((await self._call("ConfigureTopic", request)).settings)

    async def delete(self) -> None:
        """The topic, its subscriptions and all their messages go."""
        await self._call("DeleteTopic", pb.TopicRequest(topic=self.name), longer=LONG)


class AsyncRemoteObserver(AsyncObserver):
    """Obtained from a client: `hf.consumer("billing")`."""

    _client: AsyncRemoteClient

    async def topics(self) -> list[str]:
        """Names of the topics this consumer has subscribed to."""
        remote = self._client.remote
        request = pb.ConsumerTopicsRequest(consumer=self.consumer)
        return list((await remote.call(remote.broker.ConsumerTopics, request)).topics)

    async def observe(
        self, count: int = 1, wait: Seconds = 0, *, lease: Lease = AS_SET
    ) -> list[AsyncDelivery]:
        """Up to `count` messages of all its topics; waits for the first message only."""
        whole(count, "count", 1, calls.MAX_COUNT)
        topics.check_ends(lease)
        remote = self._client.remote
        left_ms = milliseconds(wait, "wait")
        give_up = time.monotonic() + left_ms / 1000
        while True:
            wait_ms = min(left_ms, _ROUND_MS)
            request = pb.ObserveRequest(
                consumer=self.consumer,
                peer=self.peer,
                count=count,
                wait_ms=wait_ms,
                lease_ms=lease_ms(lease),
            )
            answer = await remote.call(remote.broker.Observe, request, longer=wait_ms / 1000)
            left_ms = int((give_up - time.monotonic()) * 1000)
            if answer.records or left_ms <= 0:
                return deliveries(self._seat, answer.records)

    def _seat(self, topic: str) -> AsyncRemoteSubscription:
        return self._client.topic(topic).subscription(self.consumer, peer=self.peer)
