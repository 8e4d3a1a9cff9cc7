"""How a piece ends: judged, told to middleware and counted, followed by what comes next in its flow, settled.

In this order. What follows in a flow is sent before the piece is settled: a worker that dies in between has
its task done again, and the dedup id of the next step makes that one message.
"""

from __future__ import annotations

import asyncio
import logging
import time
import traceback
from collections.abc import Callable, Iterable, Sequence
from typing import Any

from holdfast.client._async.delivery import AsyncDelivery
from holdfast.client._async.queue import AsyncQueue
from holdfast.engine.tasks import settle
from holdfast.errors import HoldfastError
from holdfast.tasks import context as contexts
from holdfast.tasks._async.desk import AsyncDesk
from holdfast.tasks.attempt import DONE, Verdict
from holdfast.tasks.context import Context
from holdfast.tasks.judging import judge, tell
from holdfast.tasks.middleware import Stack
from holdfast.worker.counts import Counts
from holdfast.worker.pace import Pace
from holdfast.worker.piece import Piece
from holdfast.worker.settling import Settler

log = logging.getLogger("holdfast.worker")


class Ending:
    """`gone` hears of pieces that are out of our hands."""

    def __init__(
        self,
        desk: AsyncDesk,
        stack: Stack,
        counts: Counts,
        pace: Pace,
        spawn: Callable[[Any], Any],
        gone: Callable[[Sequence[Piece]], None],
    ) -> None:
        self._desk = desk
        self._stack = stack
        self._counts = counts
        self._pace = pace
        self._spawn = spawn
        self._gone = gone
        self._settler = Settler(desk.client, self._settled)
        self._following = 0
        self._followed = asyncio.Event()

    def ended(self, piece: Piece, value: Any, error: BaseException | None) -> None:
        """A handler is done, one way or the other."""
        attempt = piece.attempt
        self._pace.took(time.monotonic() - attempt.started)
        if piece.over:
            return
        if attempt.context.lost:
            self.drop(piece)
        elif error is None and attempt.leaves_nothing and not self._stack.listens("succeeded"):
            self.finish(piece, DONE)
        else:
            self.judged(piece, judge(attempt, value, error))

    def judged(self, piece: Piece, verdict: Verdict) -> None:
        try:
            tell(self._stack, piece.attempt, verdict)
        except Exception:
            # A log handler of the user's may raise; the piece must be settled all the same.
            traceback.print_exc()
        self.finish(piece, verdict)

    def finish(self, piece: Piece, verdict: Verdict) -> None:
        """What is to become of it is decided."""
        piece.over = True
        self._counts.add(piece.attempt.task.name, verdict.moment, piece.attempt.started)
        if verdict.follow is None and verdict.ends is None:
            self._settler.add(piece, verdict)
        else:
            self._following += 1
            self._spawn(self._follow(piece, verdict))

    async def _follow(self, piece: Piece, verdict: Verdict) -> None:
        wait = 0.1
        # What is sent now is sent by this task, as middleware sees it.
        contexts.enter(piece.attempt.context)
        try:
            while not piece.attempt.context.lost:
                try:
                    if verdict.follow is not None:
                        await self._desk.follow(*verdict.follow)
                    if verdict.ends is not None:
                        await self._desk.end(*verdict.ends)
                    break
                except HoldfastError as error:
                    log.warning(
                        "going on after %s %s: %s; trying again",
                        *piece.names,
                        error,
                        extra=piece.extra,
                    )
                    await asyncio.sleep(wait)
                    wait = min(wait * 2, 5.0)
            self._settler.add(piece, verdict)
        finally:
            self._following -= 1
            self._followed.set()

    def _settled(self, pieces: Sequence[Piece], lost: Iterable[Piece]) -> None:
        for piece in lost:
            self._counts.add(piece.attempt.task.name, "lost")
            log.warning(
                "%s %s was settled too late: its lease was lost before",
                *piece.names,
                extra=piece.extra,
            )
            self._stack.tell("lost", piece.attempt.context)
        self._gone(pieces)

    def drop(self, piece: Piece) -> None:
        """Others have it now."""
        piece.over = True
        self._counts.add(piece.attempt.task.name, "lost")
        self._stack.tell("lost", piece.attempt.context)
        self._gone([piece])

    async def refuse(self, queue: AsyncQueue, delivery: AsyncDelivery, verdict: Verdict) -> None:
        """A delivery that nothing can be done for."""
        reason = verdict.settlement.reason
        log.error("%s in %r is a dead letter: %s", delivery.id, queue.name, reason)
        self._stack.tell("buried", Context(delivery, "", queue.name, delivery.receives), reason)
        self._counts.add("", "buried")
        if verdict.ends is not None:
            await self._desk.end(*verdict.ends)
        ref = await queue.ref(delivery.shard)
        await self._desk.client.transport.run(settle(ref, [verdict.settlement]))

    async def flush(self) -> None:
        """All that has ended is settled when this returns."""
        while self._following:
            self._followed.clear()
            await self._followed.wait()
        await self._settler.flush()
