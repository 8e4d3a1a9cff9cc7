"""A subscription: a queue of its own, at a topic. All that holds for a queue holds for it."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from holdfast.client._async.delivery import AsyncDelivery
from holdfast.client._async.place import AsyncPlace
from holdfast.engine import calls, replies, topics
from holdfast.engine.keys import QueueRef, SeatRef, TopicRef
from holdfast.errors import InvalidArgument
from holdfast.message import Codec
from holdfast.settings import AS_SET, Lease, Seconds, Settings

if TYPE_CHECKING:
    from holdfast.client._async.client import AsyncClient

_SOONEST_MS = 20


class AsyncSubscription(AsyncPlace):
    """Obtained from a topic: `topic.subscribe("billing")`, or `topic.subscription("billing")` for one
    that is there."""

    def __init__(
        self,
        client: AsyncClient,
        topic: TopicRef,
        consumer: str,
        peer: str = "",
        codec: Codec[Any] | None = None,
    ) -> None:
        super().__init__(client, topic.name, codec)
        self.consumer = consumer
        self.peer = peer
        self._topic = topic

    def __repr__(self) -> str:
        return f"<{type(self).__name__} {self.consumer!r} of {self.name!r}>"

    async def _shards(self) -> list[QueueRef]:
        # Which seat it is depends on the mode, which only the server knows.
        refs = self._refs
        if not refs:
            call = topics.seat(self._topic, self.consumer, self.peer)
            refs = self._refs = [SeatRef(self._topic, await self.transport.run(call))]
        return refs

    def _set_shards(self, n: int) -> None:
        """A subscription has one, and nobody needs to remember that."""

    async def _register(self) -> None:
        """The topic is listed; its subscriptions are found there."""

    def _receive_call(
        self, ref: QueueRef, count: int, lease: Lease, wait_ms: int, dead: bool
    ) -> calls.Call[replies.Received]:
        if dead:
            return super()._receive_call(ref, count, lease, wait_ms, dead)
        return topics.observe(self._topic, self.consumer, self.peer, ref, count, lease, wait_ms)

    def tend_call(self, ref: QueueRef, wait_ms: int) -> calls.Call[tuple[bool, int]]:
        # Who waits is there.
        return topics.attend(self._topic, self.consumer, self.peer, ref, wait_ms)

    async def observe(
        self, count: int = 1, wait: Seconds = 0, *, lease: Lease = AS_SET
    ) -> list[AsyncDelivery]:
        """Up to `count` messages under a lease, in one round trip; waits for the first one only.

        Being seen to observe, or to wait here, is what keeps a broadcast peer from being dropped.
        Raises NoSuchSubscription.
        """
        return await self.receive_many(count, wait=wait, lease=lease)

    async def touch(self) -> None:
        """Be seen, as by observe, without taking anything: for those who work on something for
        longer than the topic's peer_timeout."""
        await self.transport.run(topics.touch(self._topic, self.consumer, self.peer))

    async def attend(self) -> float:
        """The same, for those who come back: seconds after which to be seen again at the latest."""
        [ref] = await self._shards()
        _, ms = await self.transport.run(self.tend_call(ref, 0))
        # Not at once, though something may have fallen due here: nothing is taken.
        return max(ms, _SOONEST_MS) / 1000

    async def unsubscribe(self) -> bool:
        """Give this peer's subscription up; see `AsyncTopic.unsubscribe`."""
        return await self._client.topic(self.name).unsubscribe(self.consumer, peer=self.peer)

    async def configure(self, **settings: Any) -> Settings:
        """Change settings of this subscription alone."""
        if "shards" in settings:
            raise InvalidArgument("a subscription has no shards")
        return await super().configure(**settings)

    async def delete(self) -> None:
        """The same as unsubscribe."""
        await self.unsubscribe()
