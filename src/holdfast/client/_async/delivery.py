"""A message in somebody's hands, and what they can do with it."""

from __future__ import annotations

import logging
from datetime import datetime
from types import TracebackType
from typing import TYPE_CHECKING, Self

from holdfast.client.backoff import Backoff
from holdfast.errors import LeaseLost
from holdfast.message import Message, format_receipt, split_dead, utc
from holdfast.settings import Seconds

if TYPE_CHECKING:
    from holdfast.client._async.consumer import AsyncConsumer
    from holdfast.client._async.queue import AsyncQueue

log = logging.getLogger("holdfast")


class AsyncDelivery(Message):
    """A message under a lease. Settle it once: ack, nack, release or bury; or use it in `async with`,
    which acks when the block is left cleanly and nacks when it raises.

    A receipt names this delivery and no other: when the lease has ended and the message went to
    somebody else, settling raises LeaseLost and changes nothing.
    """

    __slots__ = ("_lease_ms", "_queue", "backoff", "batch", "consumer", "settled", "wire")

    def __init__(
        self, queue: AsyncQueue, record: bytes, shard: int, batch: int, lease_ms: int, dead: bool
    ) -> None:
        self.death = None
        if dead:
            self.death, record = split_dead(record)
        self._record = record
        self._counted = 0 if dead else 1
        self._codec = queue.codec
        self._queue = queue
        self._lease_ms = lease_ms
        self.shard = shard
        self.batch = batch
        # What the engine wants to see as the receipt.
        self.wire = batch.to_bytes(6, "big") + record[:10]
        self.state = "leased"
        self.due = self.received_at = None
        self.settled = False
        self.backoff: Backoff | None = None
        self.consumer: AsyncConsumer | None = None

    @property
    def receipt(self) -> str:
        """Names this delivery; can be stored and used elsewhere with the queue's ack and others."""
        return format_receipt(self.id, self.batch)

    @property
    def lease_until(self) -> datetime | None:  # type: ignore[override]
        """When the lease ends by the server's clock; None: when it is settled."""
        return utc(self._lease_ms) if self._lease_ms else None

    async def ack(self) -> None:
        """Done: the message is gone. Raises LeaseLost if it is no longer ours.

        From a consume loop, it goes with the consumer's next batch of acks.
        """
        if self.consumer is not None:
            await self.consumer.ack(self)
        elif not await self._queue.ack(self):
            raise self._lost("ack")

    async def nack(self, delay: Seconds | None = None, error: str = "") -> None:
        """Failed: try again, after `delay`. Counts; the last permitted try makes it a dead letter."""
        if delay is None:
            delay = self.backoff(self.receives) if self.backoff else 0
        if not await self._queue.nack(self, delay=delay, error=error):
            raise self._lost("nack")

    async def release(self) -> None:
        """Not now: ready again at once, at the head. Does not count as a failed delivery."""
        if not await self._queue.release(self):
            raise self._lost("release")

    async def bury(self, reason: str) -> None:
        """Hopeless: straight to the dead letters, with the reason."""
        if not await self._queue.bury(self, reason):
            raise self._lost("bury")

    async def extend(self, lease: Seconds) -> None:
        """More time: the lease ends `lease` from now. Raises LeaseLost if it is no longer ours."""
        if not await self._queue.extend(self, lease):
            raise self._lost("extend")

    def extended(self, until_ms: int) -> None:
        """The lease was moved, by us or on our behalf."""
        self._lease_ms = until_ms

    def _lost(self, verb: str) -> LeaseLost:
        until = (
            f"it was to end at {self.lease_until:%H:%M:%S.%f}"
            if self._lease_ms
            else "it had no end"
        )
        return LeaseLost(
            f"cannot {verb} {self.id} in {self._queue.name!r}: the lease is lost ({until}), and the "
            "message was settled, or went back and may be in other hands; use a longer lease, or "
            "extend it in long handlers"
        )

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> bool:
        if self.settled:
            return self._swallow(error)
        if error is None:
            await self.ack()
        elif isinstance(error, Exception):
            await self._queue.nack(
                self, delay=self._delay(), error=f"{type(error).__name__}: {error}"
            )
        else:
            # The consumer is being stopped: no fault of the message.
            await self._queue.release(self)
        return self._swallow(error)

    def _delay(self) -> float:
        return self.backoff(self.receives) if self.backoff else 0.0

    def _swallow(self, error: BaseException | None) -> bool:
        """In a consume loop an error of the handler is logged and the loop goes on."""
        if self.backoff is None or not isinstance(error, Exception):
            return False
        log.error("handling %s of %r failed: %r", self.id, self._queue.name, error, exc_info=error)
        return True

    def __eq__(self, other: object) -> bool:
        return isinstance(other, AsyncDelivery) and (self.wire, self.shard) == (
            other.wire,
            other.shard,
        )

    def __hash__(self) -> int:
        return hash((self.wire, self.shard))


Item = AsyncDelivery | str
