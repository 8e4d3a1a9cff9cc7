"""What every door of the server runs: the rules that are neither the engine's nor a protocol's.

A door turns bytes into calls on a `Session` and answers back into bytes; it decides nothing. A
Session is one principal's view: each verb checks rights and limits, then runs the same client that
a Python program would use.

What it takes for a caller who goes away meanwhile is given back: see `taking.py`.
"""

from __future__ import annotations

import random
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any, Literal

from holdfast import names
from holdfast.client._async.client import AsyncClient
from holdfast.client._async.delivery import AsyncDelivery, AsyncHandful
from holdfast.client._async.queue import AsyncQueue
from holdfast.client._async.subscription import AsyncSubscription
from holdfast.client.sender import CallName
from holdfast.engine.replies import Mode, Stats, SubscriptionInfo
from holdfast.errors import InvalidArgument, Refused
from holdfast.filters import Filter
from holdfast.message import Message, MessageId, Outgoing, State, body_bytes
from holdfast.server import taking
from holdfast.server.access import Kind, Principal
from holdfast.server.limits import Limits
from holdfast.settings import Lease, Seconds, Settings, milliseconds

Action = Literal["retry", "release", "bury"]


@dataclass(frozen=True, slots=True)
class Seat:
    """A place where a consumer observes a topic: what receipts of observed messages belong to."""

    topic: str
    consumer: str
    peer: str = ""


Place = str | Seat
"""A queue by its name, or a seat at a topic."""


def _named(name: CallName | None) -> CallName | None:
    if name is not None:
        names.check(name.sender, "a sender's name")
    return name


class Broker:
    def __init__(self, client: AsyncClient, limits: Limits | None = None) -> None:
        self.client = client
        self.limits = limits or Limits()

    def session(self, who: Principal) -> Session:
        return Session(self, who)


class Session:
    """What one principal may ask for. Cheap to make; keeps nothing between calls."""

    def __init__(self, broker: Broker, who: Principal) -> None:
        self._client = broker.client
        self.limits = broker.limits
        self.who = who

    # ---- places ---------------------------------------------------------------------------

    def _queue(self, verb: str, name: str) -> AsyncQueue:
        queue = self._client.queue(name)
        self.who.require(verb, "queue", name)
        return queue

    def _seat(self, verb: str, seat: Seat) -> AsyncSubscription:
        found = self._client.topic(seat.topic).subscription(seat.consumer, peer=seat.peer)
        self.who.require(verb, "topic", seat.topic)
        return found

    def _place(self, verb: str, place: Place) -> AsyncQueue | AsyncSubscription:
        return self._queue(verb, place) if isinstance(place, str) else self._seat(verb, place)

    def _checked(self, messages: Sequence[Outgoing]) -> Sequence[Outgoing]:
        self.limits.check_batch(len(messages), "messages")
        for message in messages:
            self.limits.check_message(len(body_bytes(message.body)))
        return messages

    def _wait(self, wait: Seconds) -> float:
        seconds = milliseconds(wait, "wait") / 1000
        if seconds > self.limits.wait_seconds:
            raise InvalidArgument(
                f"wait must be at most {self.limits.wait_seconds:g} seconds, not {seconds:g}"
            )
        return seconds

    # ---- sending --------------------------------------------------------------------------

    async def send(
        self, queue: str, messages: Sequence[Outgoing], *, name: CallName | None = None
    ) -> list[MessageId]:
        """Store messages; ids in order. `name`: the caller's own, so that it may repeat the call."""
        target = self._queue("send", queue)
        return await target.send_many(list(self._checked(messages)), name=_named(name))

    async def send_bodies(
        self, queue: str, bodies: list[bytes], *, name: CallName | None = None
    ) -> list[MessageId]:
        """As send, for bodies about which nothing else is said."""
        target = self._queue("send", queue)
        self.limits.check_batch(len(bodies), "messages")
        if bodies:
            self.limits.check_message(max(map(len, bodies)))
        return await target.send_many(bodies, name=_named(name))

    async def ensure(self, queue: str, unique: str, message: Outgoing) -> MessageId:
        """Send, unless a message of that unique name is in the queue."""
        target = self._queue("send", queue)
        [m] = self._checked([message])
        return await target.ensure(
            unique,
            m.body,
            delay=m.delay,
            due=m.due,
            priority=m.priority,
            attributes=dict(m.attributes or {}),
            group=m.group,
            ttl=m.ttl,
        )

    # ---- taking ---------------------------------------------------------------------------

    async def receive(
        self,
        queues: str | Sequence[str],
        count: int,
        *,
        wait: Seconds = 0,
        lease: Lease = None,
        dead: bool = False,
    ) -> list[AsyncDelivery]:
        """Up to `count` messages from these queues, the first named first; waits for the first."""
        named = [queues] if isinstance(queues, str) else list(queues)
        places = [self._queue("receive", name) for name in named]
        self.limits.check_batch(count, "messages")

        if dead:
            return await taking.first_dead(places, count, self._wait(wait), lease)

        async def take(place: AsyncQueue, n: int) -> list[AsyncDelivery]:
            return await place.receive_many(n, lease=lease)

        return await taking.first(places, count, self._wait(wait), take)

    async def receive_dead(
        self, place: Place, count: int, *, wait: Seconds = 0, lease: Lease = None
    ) -> list[AsyncDelivery]:
        """Dead letters of one queue or subscription."""
        at = self._place("receive" if isinstance(place, str) else "observe", place)
        self.limits.check_batch(count, "messages")
        return await taking.first_dead([at], count, self._wait(wait), lease)

    async def receive_rounds(
        self, queue: str, count: int, rounds: int, *, lease: Lease = None
    ) -> list[list[AsyncDelivery]]:
        """The same as so many receives of `count`, one after the other; nobody waits."""
        place = self._queue("receive", queue)
        self.limits.check_batch(count, "messages")
        answers: list[list[AsyncDelivery]] = []

        async def take() -> list[AsyncDelivery]:
            answers.extend(await place.receive_rounds(count, rounds, lease=lease))
            return [delivery for got in answers for delivery in got]

        await taking.kept(take())
        return answers

    async def recover(
        self, queue: str, count: int, *, elapsed: Seconds, lease: Lease = None
    ) -> list[AsyncDelivery]:
        """Take over what has been in hand for so long."""
        place = self._queue("recover", queue)
        self.limits.check_batch(count, "messages")
        return await taking.kept(place.recover(count, elapsed=elapsed, lease=lease))

    async def observe(
        self,
        consumer: str,
        count: int,
        *,
        peer: str = "",
        topics: Sequence[str] | None = None,
        wait: Seconds = 0,
        lease: Lease = None,
        auto_ack: bool = False,
    ) -> list[AsyncDelivery]:
        """What has been published on the topics this consumer is subscribed to: on all of them, or
        on those named. `auto_ack`: settled before it is handed out."""
        watching = self._client.consumer(consumer, peer=peer)
        self.limits.check_batch(count, "messages")
        if topics is None:
            seats = [s for s in await watching.seats() if self.who.may("observe", "topic", s.name)]
        else:
            seats = [self._seat("observe", Seat(name, consumer, peer)) for name in topics]
        if not seats:
            raise Refused(f"{self.who.name} may observe none of the topics of {consumer!r}")
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

    async def touch(self, seat: Seat) -> None:
        """Be seen there without taking anything."""
        await self._seat("observe", seat).touch()

    # ---- settling -------------------------------------------------------------------------

    async def ack(self, place: Place, receipts: Sequence[str]) -> list[str]:
        """Those really removed, of receipts or bare ids."""
        at = self._place("ack", place)
        self.limits.check_batch(len(receipts), "receipts")
        return await at.ack_many(list(receipts))

    async def ack_batches(self, queue: str, batches: Sequence[AsyncHandful]) -> list[list[int]]:
        """All deliveries of each batch, by one receipt. Of each: positions of those not current."""
        at = self._queue("ack", queue)
        for batch in batches:
            self.limits.check_batch(batch.size, "receipts")
        return await at.ack_batches(batches)

    async def nack(
        self,
        place: Place,
        receipts: Sequence[str],
        *,
        action: Action = "retry",
        delay: Seconds = 0,
        text: str = "",
    ) -> list[str]:
        """Those really given back. `text`: the error, or the reason of a bury."""
        at = self._place("nack", place)
        self.limits.check_batch(len(receipts), "receipts")
        if action == "release":
            return await at.release_many(list(receipts))
        if action == "bury":
            return await at.bury_many(list(receipts), text)
        if action != "retry":
            raise InvalidArgument(f"action must be retry, release or bury, not {action!r}")
        return await at.nack_many(list(receipts), delay=delay, error=text)

    async def extend(self, place: Place, receipts: Sequence[str], lease: Seconds) -> list[str]:
        """Those whose lease was really moved."""
        at = self._place("extend", place)
        self.limits.check_batch(len(receipts), "receipts")
        return await at.extend_many(list(receipts), lease)

    # ---- looking --------------------------------------------------------------------------

    async def inspect(
        self, place: Place, state: State, start: int, count: int, *, group: str | None = None
    ) -> list[Message]:
        at = self._place("inspect", place)
        self.limits.check_batch(count, "messages")
        return await at.inspect(state, start, count, group=group)

    async def get(self, place: Place, message_id: str) -> Message | None:
        return await self._place("inspect", place).get(message_id)

    async def stats(self, place: Place) -> Stats:
        return await self._place("stats", place).stats()

    async def clock(self, verb: str, place: Place) -> int | None:
        """The queue's time, ms; None: there is no such queue. Part of the answer to another verb, and
        so under that one's right."""
        return (await self._place(verb, place).stats()).now or None

    async def settings(self, place: Place) -> Settings:
        return await self._place("stats", place).settings()

    async def queues(self) -> list[str]:
        """Those this principal may do anything with."""
        return [name for name in await self._client.queues() if self._sees("queue", name)]

    def _sees(self, kind: Kind, name: str) -> bool:
        return any(
            right.permits(verb, kind, name) for right in self.who.rights for verb in right.verbs
        )

    # ---- keeping house --------------------------------------------------------------------

    async def redrive(
        self,
        place: Place,
        count: int | None = None,
        *,
        ids: Sequence[str] | None = None,
        rate: float | None = None,
        dry_run: bool = False,
    ) -> list[str]:
        at = self._place("redrive", place)
        return await at.redrive(count, ids=ids, rate=rate, dry_run=dry_run)

    async def remove(self, queue: str, message_id: str) -> bool:
        return await self._queue("remove", queue).remove(message_id)

    async def reschedule(
        self,
        queue: str,
        message_id: str,
        *,
        delay: Seconds | None = None,
        due: datetime | None = None,
    ) -> bool:
        return await self._queue("reschedule", queue).reschedule(message_id, delay=delay, due=due)

    async def purge(self, queue: str, *states: State) -> int:
        return await self._queue("purge", queue).purge(*states)

    async def pause(self, queue: str, until: datetime | Seconds | None = None) -> None:
        await self._queue("pause", queue).pause(until)

    async def resume(self, queue: str) -> None:
        await self._queue("pause", queue).resume()

    async def configure(self, place: Place, **settings: Any) -> Settings:
        return await self._place("configure", place).configure(**settings)

    async def delete(self, queue: str) -> None:
        await self._queue("delete", queue).delete()

    # ---- topics ---------------------------------------------------------------------------

    async def publish(
        self, topic: str, messages: Sequence[Outgoing], *, name: CallName | None = None
    ) -> list[MessageId]:
        """To all subscriptions, or none. `name`: as for send."""
        target = self._client.topic(topic)
        self.who.require("publish", "topic", topic)
        return await target.publish_many(list(self._checked(messages)), name=_named(name))

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
