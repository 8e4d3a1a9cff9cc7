"""A message in somebody's hands, and what they can do with it."""

from __future__ import annotations

import logging
from datetime import datetime
from types import TracebackType
from typing import TYPE_CHECKING, Any, Self

from holdfast.client.backoff import Backoff
from holdfast.errors import LeaseLost
from holdfast.message import Codec, Death, Message, State, format_receipt, split_dead, utc
from holdfast.settings import Seconds

if TYPE_CHECKING:
    from holdfast.client._async.consumer import AsyncConsumer
    from holdfast.client._async.place import AsyncPlace

log = logging.getLogger("holdfast")


class AsyncHandful:
    """What deliveries of one batch have in common: one receive, one lease."""

    __slots__ = ("fence", "lease_ms", "number", "queue", "shard", "size")

    def __init__(
        self, queue: AsyncPlace, shard: int, number: int, size: int, lease_ms: int
    ) -> None:
        self.queue = queue
        self.shard = shard
        self.number = number
        self.size = size
        self.lease_ms = lease_ms
        self.fence = number.to_bytes(6, "big")


class AsyncDelivery(Message):
    """A message under a lease. Settle it once: ack, nack, release or bury; or use it in `async with`,
    which acks when the block is left cleanly and nacks when it raises.

    A receipt names this delivery and no other: when the lease has ended and the message went to
    somebody else, settling raises LeaseLost and changes nothing.
    """

    # Made by the hundred: what is the same for all of a kind is on the class.
    state: State = "leased"
    due: datetime | None = None
    received_at: datetime | None = None
    death: Death | None = None
    settled = False
    backoff: Backoff | None = None
    consumer: AsyncConsumer | None = None
    _counted = 1
    _lease_ms = -1

    def __init__(self, of: AsyncHandful, record: bytes, place: int) -> None:
        self._of = of
        self._record = record
        # Its place in the batch.
        self.place = place

    @property
    def shard(self) -> int:  # type: ignore[override]
        return self._of.shard

    @property
    def batch(self) -> AsyncHandful:
        return self._of

    @property
    def source(self) -> str:
        """The name of the queue or topic it came from."""
        return self._of.queue.name

    @property
    def wire(self) -> bytes:
        """What the engine wants to see as the receipt."""
        return self._of.fence + self._record[:10]

    @property
    def _queue(self) -> AsyncPlace:
        return self._of.queue

    @property
    def _codec(self) -> Codec[Any] | None:  # type: ignore[override]
        return self._of.queue.codec

    @property
    def receipt(self) -> str:
        """Names this delivery; can be stored and used elsewhere with the queue's ack and others."""
        return format_receipt(self.id, self._of.number)

    @property
    def lease_until(self) -> datetime | None:  # type: ignore[override]
        """When the lease ends by the server's clock; None: when it is settled."""
        return utc(self.lease_ms) if self.lease_ms else None

    @property
    def lease_ms(self) -> int:
        """The same, in ms; 0: when it is settled."""
        return self._lease_ms if self._lease_ms >= 0 else self._of.lease_ms

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

    async def extend(self, lease: Seconds | None) -> None:
        """More time: the lease ends `lease` from now; None: when it is settled. 0 gives the message back
        at once, as a delivery that failed. Raises LeaseLost if it is no longer ours."""
        if not await self._queue.extend(self, lease):
            raise self._lost("extend")

    def extended(self, until_ms: int) -> None:
        """The lease was moved, by us or on our behalf."""
        self._lease_ms = until_ms

    def _lost(self, verb: str) -> LeaseLost:
        end = self.lease_until
        until = f"it was to end at {end:%H:%M:%S.%f}" if end else "it had no end"
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
        if not isinstance(other, AsyncDelivery):
            return NotImplemented
        return (self.wire, self.shard) == (other.wire, other.shard)

    def __hash__(self) -> int:
        return hash(self._record[:10])


class AsyncDeadDelivery(AsyncDelivery):
    """A dead letter under a lease; why it died is in `.death`."""

    _counted = 0

    def __init__(self, of: AsyncHandful, record: bytes, place: int) -> None:
        self.death, record = split_dead(record)
        super().__init__(of, record, place)
