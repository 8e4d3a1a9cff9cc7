"""A long-lived receiver: prefetches, keeps leases alive, gathers acks, outlives lost connections.

Every delivery handed to the caller or waiting in the prefetch is *held* until it is settled; a
background task extends the leases of all that is held. The caller settles deliveries as usual;
acks are gathered here and sent in batches, soon (a tenth of a second at most), and always before
the next wait. A crash before that means redelivery, never loss.
"""

from __future__ import annotations

import logging
import math
import random
import threading
import time
from collections import deque
from collections.abc import AsyncIterator, Sequence
from types import TracebackType
from typing import TYPE_CHECKING, Self

from holdfast import forks
from holdfast.client._async.delivery import AsyncDelivery
from holdfast.client.backoff import Backoff
from holdfast.client.io_async import Background, Lock, sleep
from holdfast.errors import HoldfastError, TryAgain
from holdfast.settings import Lease, LeaseOf, lease_of

if TYPE_CHECKING:
    from holdfast.client._async.place import AsyncPlace

log = logging.getLogger("holdfast")

_TICK = 0.1
# Short enough for stop() to be noticed soon.
_WAIT = 1.0


class AsyncConsumer:
    """Iterate over it. Stop by breaking out and closing it (`with q.consume() as deliveries:`), or
    from elsewhere with `stop()`; what was prefetched and not handled is released at once."""

    def __init__(
        self,
        queue: AsyncPlace,
        *,
        prefetch: int,
        lease: Lease,
        backoff: Backoff,
        ack_every: int,
        idle: float | None,
    ) -> None:
        self._queue = queue
        self._prefetch = prefetch
        self._lease = lease
        self._backoff = backoff
        self._ack_every = ack_every
        self._idle = idle
        # Around every use of these three, and never while the server is asked: the keeper, whoever iterates
        # and whoever acks may be different threads. One thread may come twice, by the garbage collector.
        self._lock = threading.RLock()
        self._ready: deque[AsyncDelivery] = deque()
        self._held: dict[AsyncDelivery, None] = {}
        self._acks: list[AsyncDelivery] = []
        self._acks_since = 0.0
        self._ack_lock = Lock()
        # Breaking out closes twice: the end of the loop, and of the block around it.
        self._close_lock = Lock()
        self._lease_seconds = 0.0
        self._keeper: Background | None = None
        self._stopping = False
        forks.watch(self)

    def forked(self) -> None:
        """In the child of a fork: another consumer. What the parent holds, it keeps, hands out and acks."""
        self._lock = threading.RLock()
        self._ack_lock, self._close_lock = Lock(), Lock()
        self._ready, self._held, self._acks = deque(), {}, []
        self._keeper = None

    # ---- iteration ------------------------------------------------------------------------

    async def __aiter__(self) -> AsyncIterator[AsyncDelivery]:
        """A generator, so that breaking out of the loop closes the consumer too."""
        try:
            while True:
                if len(self._acks) >= self._ack_every:
                    await self._flush()
                while (delivery := self._next()) is None:
                    if not await self._refill():
                        return
                yield delivery
        finally:
            await self.close()

    def _next(self) -> AsyncDelivery | None:
        with self._lock:
            return self._ready.popleft() if self._ready and not self._stopping else None

    async def _start(self) -> None:
        lease = self._lease
        if isinstance(lease, LeaseOf):
            lease = (await self._queue.settings()).lease
        self._lease_seconds = lease_of(lease) / 1000
        self._keeper = Background(self._keep, f"holdfast-consumer-{self._queue.name}")

    async def _refill(self) -> bool:
        """Wait for messages, through failures of the server. False: nothing came for too long, or we are
        told to stop."""
        waited, problem_wait = time.monotonic(), 0.05
        while not self._stopping:
            if self._keeper is None:
                await self._start()
            await self._flush()
            left = math.inf if self._idle is None else self._idle - (time.monotonic() - waited)
            try:
                # At least one look, however long it took to come here.
                wait = max(min(_WAIT, left), 0)
                got = await self._queue.receive_many(self._prefetch, wait=wait, lease=self._lease)
            except TryAgain as error:
                got = []
                log.warning("receiving from %r: %s; trying again", self._queue.name, error)
                await sleep(problem_wait * random.uniform(0.5, 1.0))
                problem_wait = min(problem_wait * 2, 5.0)
            if got:
                self._hold(got)
                return True
            if left <= 0:
                return False
        return False

    def _hold(self, got: Sequence[AsyncDelivery]) -> None:
        for delivery in got:
            delivery.consumer = self
            delivery.backoff = self._backoff
        with self._lock:
            self._held.update(dict.fromkeys(got))
            self._ready.extend(got)

    # ---- acks -----------------------------------------------------------------------------

    async def ack(self, delivery: AsyncDelivery) -> None:
        """Take note that a delivery is done."""
        with self._lock:
            if not self._acks:
                self._acks_since = time.monotonic()
            self._acks.append(delivery)
            delivery.settled = True
        if self._keeper is None:
            await self._flush()

    async def _flush(self) -> None:
        """Send the acks gathered so far. Those that a lost connection kept from going are kept."""
        async with self._ack_lock:
            with self._lock:
                acks, self._acks = self._acks, []
            if not acks:
                return
            try:
                done = await self._queue.ack_many(acks)
            except TryAgain as error:
                log.warning("acking on %r: %s; trying again", self._queue.name, error)
                with self._lock:
                    self._acks[:0] = acks
                return
            with self._lock:
                for delivery in acks:
                    self._held.pop(delivery, None)
            if len(done) < len(acks):
                log.warning(
                    "%d of %d acks on %r came too late: the leases were lost, and the messages will "
                    "be or were delivered again",
                    len(acks) - len(done),
                    len(acks),
                    self._queue.name,
                )

    # ---- leases ---------------------------------------------------------------------------

    async def _keep(self, me: Background) -> None:
        """Runs in the background: late acks, and leases that would end."""
        extended = time.monotonic()
        while not me.stopped:
            try:
                if self._acks and time.monotonic() - self._acks_since >= _TICK:
                    await self._flush()
                if self._lease_seconds and time.monotonic() - extended >= self._lease_seconds / 3:
                    extended = time.monotonic()
                    await self._extend()
            except HoldfastError as error:
                log.warning("keeping leases on %r: %s", self._queue.name, error)
            except Exception:
                # Without a keeper all leases would end, and nobody would know why.
                log.exception("keeping leases on %r; going on", self._queue.name)
            await me.pause(min(_TICK, self._lease_seconds / 10 or _TICK))

    async def _extend(self) -> None:
        """Move the end of every held lease. What is no longer ours is dropped from the prefetch;
        what the caller has in hand finds out when it settles."""
        with self._lock:
            acks = set(self._acks)
            held = [d for d in self._held if not d.settled or d in acks]
            self._held = dict.fromkeys(held)
        if not held:
            return
        kept = set(await self._queue.extend_many(held, self._lease_seconds))
        lost = [delivery for delivery in held if delivery not in kept]
        with self._lock:
            for delivery in lost:
                self._held.pop(delivery, None)
                if delivery in self._ready:
                    self._ready.remove(delivery)
        for delivery in lost:
            if not delivery.settled:
                log.warning("the lease on %s of %r is lost", delivery.id, self._queue.name)

    # ---- stopping -------------------------------------------------------------------------

    def stop(self) -> None:
        """End the iteration soon: what is prefetched goes back, what is in hand may be settled."""
        self._stopping = True

    async def close(self) -> None:
        """Send outstanding acks, and release what was prefetched and not handled."""
        self._stopping = True
        async with self._close_lock:
            if self._keeper is not None:
                keeper, self._keeper = self._keeper, None
                await keeper.stop()
            await self._flush()
            with self._lock:
                unhandled = [d for d in self._held if not d.settled]
                self._held.clear()
                self._ready.clear()
            if unhandled:
                try:
                    await self._queue.release_many(unhandled)
                except TryAgain as error:
                    log.warning(
                        "releasing on %r: %s; they come back by themselves", self._queue.name, error
                    )

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        await self.close()
