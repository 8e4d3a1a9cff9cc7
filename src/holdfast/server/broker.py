"""What every door of the server runs: the rules that are neither the engine's nor a protocol's.

A door turns bytes into calls on a `Session` and answers back into bytes; it decides nothing. A
Session is one principal's view: each verb checks rights and limits, then runs the same client that
a Python program would use.

What it takes for a caller who goes away meanwhile is given back: see `taking.py`.
"""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime
from typing import Any, Literal

from holdfast.client._async.client import AsyncClient
from holdfast.client._async.delivery import AsyncDelivery, AsyncHandful
from holdfast.client._async.queue import AsyncQueue
from holdfast.client.sender import CallName
from holdfast.engine.replies import Stats
from holdfast.errors import InvalidArgument
from holdfast.message import Message, MessageId, Outgoing, State
from holdfast.server import taking
from holdfast.server.access import Principal
from holdfast.server.entrance import Place, Seat, named
from holdfast.server.limits import Limits
from holdfast.server.topics import TopicVerbs
from holdfast.settings import AS_SET, Lease, Seconds, Settings

Action = Literal["retry", "release", "bury"]


class Broker:
    def __init__(self, client: AsyncClient, limits: Limits | None = None) -> None:
        self.client = client
        self.limits = limits or Limits()

    def session(self, who: Principal) -> Session:
        return Session(self, who)


class Session(TopicVerbs):
    """What one principal may ask for. Cheap to make; keeps nothing between calls."""

    def __init__(self, broker: Broker, who: Principal) -> None:
        super().__init__(broker.client, broker.limits, who)

    # ---- sending --------------------------------------------------------------------------

    async def send(
        self, queue: str, messages: Sequence[Outgoing], *, name: CallName | None = None
    ) -> list[MessageId]:
        """Store messages; ids in order. `name`: the caller's own, so that it may repeat the call."""
        target = self._queue("send", queue)
        return await target.send_many(list(self._checked(messages)), name=named(name))

    async def send_bodies(
        self, queue: str, bodies: list[bytes], *, name: CallName | None = None
    ) -> list[MessageId]:
        """As send, for bodies about which nothing else is said."""
        target = self._queue("send", queue)
        self.limits.check_batch(len(bodies), "messages")
        if bodies:
            self.limits.check_message(max(map(len, bodies)))
        return await target.send_many(bodies, name=named(name))

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
        lease: Lease = AS_SET,
    ) -> list[AsyncDelivery]:
        """Up to `count` messages from these queues, the first named first; waits for the first."""
        asked = [queues] if isinstance(queues, str) else list(queues)
        places = [self._queue("receive", name) for name in asked]
        self.limits.check_batch(count, "messages")

        async def take(place: AsyncQueue, n: int) -> list[AsyncDelivery]:
            return await place.receive_many(n, lease=lease)

        return await taking.first(places, count, self._wait(wait), take)

    async def receive_dead(
        self,
        places: Place | Sequence[Place],
        count: int,
        *,
        wait: Seconds = 0,
        lease: Lease = AS_SET,
    ) -> list[AsyncDelivery]:
        """The same for dead letters, of queues or subscriptions."""
        asked = [places] if isinstance(places, str | Seat) else list(places)
        found = [self._place("receive" if isinstance(p, str) else "observe", p) for p in asked]
        self.limits.check_batch(count, "messages")
        return await taking.first_dead(found, count, self._wait(wait), lease)

    async def receive_rounds(
        self, queue: str, count: int, rounds: int, *, lease: Lease = AS_SET
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
        self, queue: str, count: int, *, elapsed: Seconds, lease: Lease = AS_SET
    ) -> list[AsyncDelivery]:
        """Take over what has been in hand for so long."""
        place = self._queue("recover", queue)
        self.limits.check_batch(count, "messages")
        return await taking.kept(place.recover(count, elapsed=elapsed, lease=lease))

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

    async def extend(
        self, place: Place, receipts: Sequence[str], lease: Seconds | None
    ) -> list[str]:
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

    async def pop_lease(self, queue: str, verb: str = "stats") -> float | None:
        """For how long MQ.POP leases, seconds: as the queue is set, if somebody has set it; else until the
        message is settled: None. `verb`: what the caller has a right to."""
        place = self._place(verb, queue)
        return (await place.settings()).lease if "lease" in await place.own_settings() else None

    async def queues(self) -> list[str]:
        """Those this principal may do anything with."""
        return [name for name in await self._client.queues() if self._sees("queue", name)]

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
