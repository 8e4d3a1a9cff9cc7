"""One worker process: fetch, run, settle, until it is told to stop.

    fetch ──► waiting ──► running ──► settling ──► gone
              (bounded by time)       (in batches)

Everything but handlers in threads and the keeping of leases happens on one event loop. A piece (a delivery in
our hands) is in exactly one of waiting, running and settling; all of them are in `held`, and their leases are
kept.

How it ends: `quiet` (first SIGTERM) fetches no more and gives back what has not begun; what runs may go on
until the deadline; then it is interrupted and given back. `now` (second signal) does the last step at once.
kill -9 needs no code: leases end.
"""

from __future__ import annotations

import asyncio
import logging
import time
from collections import deque
from collections.abc import Awaitable, Callable, Sequence
from typing import Any

from holdfast.client._async.delivery import AsyncDelivery
from holdfast.client._async.queue import AsyncQueue
from holdfast.engine.tasks import unname
from holdfast.errors import HoldfastError
from holdfast.settings import LeaseOf, lease_of
from holdfast.tasks.app import App
from holdfast.tasks.attempt import Attempt, Verdict, open_delivery
from holdfast.worker import presence, scheduler
from holdfast.worker.counts import Counts
from holdfast.worker.ending import Ending
from holdfast.worker.fetching import Fetcher
from holdfast.worker.gate import Gate
from holdfast.worker.leases import Leases
from holdfast.worker.pace import PATIENCE, Pace
from holdfast.worker.piece import Piece
from holdfast.worker.plan import Plan
from holdfast.worker.running import Runner

__all__ = ["Plan", "Worker"]

log = logging.getLogger("holdfast.worker")

Service = Callable[["Worker"], Awaitable[None]]
_SERVICE_PAUSE = 5.0


class Worker:
    def __init__(self, app: App, plan: Plan) -> None:
        self.app = app
        self.plan = plan
        self.name = plan.name
        self.counts = Counts()
        self.pace = Pace(plan.concurrency)
        self.held: dict[Piece, None] = {}
        self.running: dict[Piece, None] = {}
        self.started_at = time.time()
        self._waiting: deque[Piece] = deque()
        self._stopping = False
        self._now = asyncio.Event()
        self._over = asyncio.Event()
        self._room = asyncio.Event()
        self._leases: Leases | None = None
        self._runner: Runner | None = None

    # ---- life -----------------------------------------------------------------------------

    async def run(self) -> None:
        """Work until `quiet` or `now` is called, or there has been nothing to do for `idle`."""
        loop = asyncio.get_running_loop()
        desk = self.desk = self.app.desk_async()
        self._queues = {share.queue: desk.queue(share.queue) for share in self.plan.shares}
        for name, settings in self.app.settings.items():
            if settings and name in self._queues:
                await self._queues[name].configure(**settings)
        runner = self._runner = Runner(self.plan, self.app.stack, self._ended, self._judged)
        self._ending = Ending(
            desk, self.app.stack, self.counts, self.pace, runner.spawn, self._gone
        )
        self._apart = _all_apart(self.app) if self.plan.apart else frozenset()
        self._gate = Gate(self.app, desk.client, self.name)
        # In a thread: the first call of the other client connects, and that may take a while.
        times = await self._lease_times()
        leases = self._leases = await asyncio.to_thread(self._keep_leases, loop, times)
        self.app.stack.tell("worker_started", self)
        fetching = loop.create_task(
            Fetcher(self, self._queues, self._gate).run(), name="holdfast-fetcher"
        )
        fetching.add_done_callback(lambda _: self._over.set())
        services = [loop.create_task(self._serve(service)) for service in self._services()]
        telling = loop.create_task(self._serve(presence.serve)) if self.plan.presence else None
        patience = loop.call_later(PATIENCE / 2, self._watch_waiting)
        try:
            await self._over.wait()
        finally:
            self._stopping = True
            self._room.set()
            patience.cancel()
            for service in services:
                service.cancel()
            await asyncio.gather(*services, return_exceptions=True)
            await self._end(fetching)
            if telling is not None:
                telling.cancel()
                await asyncio.gather(telling, return_exceptions=True)
            leases.stop()
            self.app.stack.tell("worker_stopped", self)
        # Not stopped but broken off.
        if not fetching.cancelled() and (problem := fetching.exception()) is not None:
            raise problem

    def _services(self) -> list[Service]:
        return [scheduler.serve] if self.plan.scheduler and self.app.crons else []

    async def _serve(self, service: Service) -> None:
        """A service that fails is no reason to stop working."""
        while True:
            try:
                return await service(self)
            except Exception:
                log.exception("%s failed; starting it again", service.__module__)
                await asyncio.sleep(_SERVICE_PAUSE)

    async def _lease_times(self) -> dict[str, float]:
        asked = self.plan.lease
        if not isinstance(asked, LeaseOf):
            return dict.fromkeys(self._queues, lease_of(asked) / 1000)
        return {name: (await q.settings()).lease or 0.0 for name, q in self._queues.items()}

    def _keep_leases(self, loop: asyncio.AbstractEventLoop, times: dict[str, float]) -> Leases:
        soon: Callable[..., Any] = loop.call_soon_threadsafe
        leases = Leases(
            self.app.desk().client,
            times,
            lambda: self.held,
            lost=lambda piece: soon(self._lost, piece),
            cancelled=lambda piece: soon(self._cancelled, piece),
            nudge=lambda: soon(leases.alive),
        )
        leases.start()
        return leases

    def quiet(self) -> None:
        """Fetch no more, give back what has not begun, end when what runs has ended, or at the deadline."""
        self._stopping = True
        self._over.set()
        self._room.set()

    def now(self) -> None:
        """Do not wait for what runs."""
        self._now.set()
        self.quiet()

    def broken(self) -> str | None:
        """Why this process can do no more, if so. May be asked from any thread."""
        if self._runner is not None and self._runner.stuck >= self.plan.concurrency:
            return f"all {self.plan.concurrency} threads hang past their tasks' timeouts"
        if self._leases is not None and (blocked := self._leases.blocked_by()) is not None:
            return f"{blocked.names[0]} {blocked.names[1]} blocks the event loop past its timeout"
        return None

    async def _end(self, fetching: asyncio.Task[None]) -> None:
        await asyncio.gather(fetching, return_exceptions=True)
        assert self._runner is not None
        waiting = [*self._waiting, *self._runner.take_back()]
        self._waiting.clear()
        for piece in waiting:
            if not piece.over:
                self._finish(piece, piece.attempt.released())
        done, hurry = asyncio.ensure_future(self._idle()), asyncio.ensure_future(self._now.wait())
        await asyncio.wait(
            [done, hurry], timeout=self.plan.deadline, return_when=asyncio.FIRST_COMPLETED
        )
        done.cancel()
        hurry.cancel()
        for piece in list(self.running):
            if not piece.over:
                log.warning(
                    "%s %s is given back: the worker stops", *piece.names, extra=piece.extra
                )
                self._finish(piece, piece.attempt.released())
                if piece.stop is not None:
                    piece.stop()
        await self._ending.flush()
        await self._gate.close()
        await self._runner.close()

    async def _idle(self) -> None:
        while self.held:
            self._room.clear()
            await self._ending.flush()
            if self.held:
                await self._room.wait()

    # ---- taking in ------------------------------------------------------------------------

    @property
    def stopping(self) -> bool:
        return self._stopping

    @property
    def waiting(self) -> int:
        """How many were taken ahead of what runs."""
        return len(self._waiting)

    @property
    def room(self) -> int:
        """How many more may be fetched now."""
        return 0 if self._stopping else self.pace.room(len(self.held), len(self._waiting))

    def room_apart(self, queue: str) -> int:
        """The same for one queue. Where all tasks run in processes, these being busy is what counts: the
        queue's tasks are left to workers that are free."""
        assert self._runner is not None
        return self._runner.room_apart if queue in self._apart else self.room

    async def wait_for_room(self) -> None:
        while not self._stopping and self.room <= 0:
            self._room.clear()
            await self._room.wait()

    async def take(self, queue: AsyncQueue, deliveries: Sequence[AsyncDelivery]) -> None:
        """Deliveries that were fetched."""
        now = time.monotonic()
        app, name, source = self.app, self.name, queue.name
        pieces: list[Piece] = []
        refused: list[tuple[AsyncDelivery, Verdict]] = []
        for delivery in deliveries:
            opened = open_delivery(app, delivery, source, name)
            if isinstance(opened, Attempt):
                piece = Piece(delivery, queue, opened, now)
                self.held[piece] = None
                pieces.append(piece)
            else:
                refused.append((delivery, opened))
        if self._gate.guards:
            pieces = await self._admit(pieces)
        self._waiting += pieces
        self._dispatch()
        for delivery, verdict in refused:
            await self._ending.refuse(queue, delivery, verdict)

    async def _admit(self, pieces: list[Piece]) -> list[Piece]:
        admitted = []
        for piece, verdict in await self._gate.admit(pieces):
            if verdict is None:
                admitted.append(piece)
            elif not piece.over:
                if verdict.moment == "buried":
                    self._judged(piece, verdict)
                else:
                    self._finish(piece, verdict)
        return admitted

    def _dispatch(self) -> None:
        """Begin with as many as there are places."""
        waiting, running, most = self._waiting, self.running, self.plan.concurrency
        assert self._runner is not None
        while waiting and len(running) < most and not self._stopping:
            piece = waiting.popleft()
            context = piece.attempt.context
            if piece.over:
                continue
            if context.lost:
                self._ending.drop(piece)
            elif context.cancelled:
                self._finish(piece, piece.attempt.cancelled())
            else:
                running[piece] = None
                if piece.attempt.task.definition.unique == "queued":
                    self._runner.spawn(self._unname(piece))
                self._runner.begin(piece)
        # While some wait, only those that are gone make room.
        if not waiting and not self._room.is_set() and self.room > 0:
            self._room.set()

    async def _unname(self, piece: Piece) -> None:
        try:
            ref = await piece.queue.ref(piece.delivery.shard)
            await self.desk.client.transport.run(unname(ref, [piece.delivery.wire]))
        except HoldfastError as error:
            log.warning("freeing the unique name of %s: %s", piece.delivery.id, error)

    def _watch_waiting(self) -> None:
        """What was taken ahead and has waited too long goes back: others may be free."""
        if self._stopping:
            return
        asyncio.get_running_loop().call_later(PATIENCE / 2, self._watch_waiting)
        before = time.monotonic() - PATIENCE
        if self._waiting and self._waiting[0].fetched < before:
            self.pace.slow()
            while self._waiting and self._waiting[-1].fetched < before:
                piece = self._waiting.pop()
                if not piece.over:
                    self._finish(piece, piece.attempt.released())

    # ---- ending ---------------------------------------------------------------------------

    def _ended(self, piece: Piece, value: Any, error: BaseException | None, /) -> None:
        self.running.pop(piece, None)
        if piece.holds and not piece.over:
            self._leave(piece)
        self._ending.ended(piece, value, error)
        self._dispatch()

    def _judged(self, piece: Piece, verdict: Verdict) -> None:
        self.running.pop(piece, None)
        if not piece.over:
            if piece.holds:
                self._leave(piece)
            self._ending.judged(piece, verdict)
        self._dispatch()

    def _finish(self, piece: Piece, verdict: Verdict) -> None:
        if piece.holds:
            self._leave(piece)
        self._ending.finish(piece, verdict)

    def _leave(self, piece: Piece) -> None:
        """Its places under limits are free."""
        assert self._runner is not None
        self._runner.spawn(self._gate.leave(piece))

    def _gone(self, pieces: Sequence[Piece]) -> None:
        for piece in pieces:
            self.held.pop(piece, None)
            if piece.holds:
                self._leave(piece)
        if not self._room.is_set() and (not self.held or self.room > 0):
            self._room.set()

    # ---- told by the keeper of leases -----------------------------------------------------

    def _lost(self, piece: Piece) -> None:
        if piece.over:
            return
        log.warning(
            "the lease on %s %s is lost; what it does no longer counts",
            *piece.names,
            extra=piece.extra,
        )
        if piece.running and piece.stop is not None:
            piece.stop()
        else:
            self._ending.drop(piece)

    def _cancelled(self, piece: Piece) -> None:
        if piece.running and piece.stop is not None:
            log.info("%s %s is cancelled", *piece.names, extra=piece.extra)
            piece.stop()


def _all_apart(app: App) -> frozenset[str]:
    """Queues whose tasks all run in processes."""
    tasks = [task.definition for task in app.tasks.values()]
    return frozenset(d.queue for d in tasks) - {d.queue for d in tasks if d.run != "process"}
