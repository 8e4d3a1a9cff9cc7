"""Settling what was done: in batches, each message as its verdict says.

What one receive handed out is settled together if it is done soon, since the engine forgets a whole batch at
the cost of one message; what is not waits a moment at most. While one call is under way the next gathers. A
connection that is lost is waited out: until the answer is there, leases are kept.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from holdfast.client._async.delivery import AsyncHandful
from holdfast.engine import calls
from holdfast.engine import tasks as engine
from holdfast.engine.calls import Call
from holdfast.errors import HoldfastError, TryAgain
from holdfast.tasks.attempt import DONE, Verdict

if TYPE_CHECKING:
    from holdfast.client._async.client import AsyncClient
    from holdfast.worker.piece import Piece

log = logging.getLogger("holdfast.worker")

Done = tuple["Piece", Verdict]
_LINGER = 0.02
_PROBLEM_WAIT = 0.5


class Settler:
    """`settled` hears of pieces that are settled, and of those among them that were no longer ours."""

    def __init__(
        self, client: AsyncClient, settled: Callable[[list[Piece], list[Piece]], None]
    ) -> None:
        self._client = client
        self._settled = settled
        self._gathering: dict[AsyncHandful, list[Done]] = {}
        self._ready: list[list[Done]] = []
        self._task: asyncio.Task[None] | None = None
        self._timer: asyncio.TimerHandle | None = None
        self._loop = asyncio.get_running_loop()

    def add(self, piece: Piece, verdict: Verdict) -> None:
        batch = piece.delivery.batch
        done = self._gathering.get(batch)
        if done is None:
            done = self._gathering[batch] = []
        done.append((piece, verdict))
        if len(done) == batch.size:
            del self._gathering[batch]
            self._ready.append(done)
            self._start()
        elif self._timer is None:
            self._timer = self._loop.call_later(_LINGER, self._hurry)

    def _hurry(self) -> None:
        self._timer = None
        self._ready += self._gathering.values()
        self._gathering.clear()
        self._start()

    def _start(self) -> None:
        if self._task is None and self._ready:
            self._task = self._loop.create_task(self._run(), name="holdfast-settler")

    async def flush(self) -> None:
        """All that was added is settled when this returns."""
        if self._timer is not None:
            self._timer.cancel()
        self._hurry()
        if self._task is not None:
            # Who waits may be told to wait no longer; settling goes on.
            await asyncio.shield(self._task)

    async def _run(self) -> None:
        try:
            while self._ready:
                batches, self._ready = self._ready, []
                try:
                    await self._settle(batches)
                except Exception:
                    # Nobody may hold for ever what cannot be settled: it comes back when its lease ends.
                    log.exception("settling; what could not be settled will be run again")
                    pieces = [piece for done in batches for piece, _ in done]
                    self._settled(pieces, pieces)
        finally:
            self._task = None

    async def _settle(self, batches: list[list[Done]]) -> None:
        """Until it is done: what is not settled comes back and is done twice."""
        parts: list[list[Done]] = []
        built: list[Call[list[int]]] = []
        for done in batches:
            for part, call in await self._calls(done):
                parts.append(part)
                built.append(call)
        while True:
            try:
                answers = await self._client.transport.run_many(built)
                break
            except TryAgain as error:
                log.warning("settling %d tasks: %s; trying again", sum(map(len, parts)), error)
                await asyncio.sleep(_PROBLEM_WAIT)
            except HoldfastError as error:
                # One of them cannot be settled so. Alone, each finds out whether it is the one.
                if len(built) == 1 and len(parts[0]) == 1:
                    log.error("cannot settle %s: %s", parts[0][0][0].delivery.id, error)
                    self._settled([parts[0][0][0]], [parts[0][0][0]])
                    return
                for part in parts:
                    for each in part:
                        await self._settle([[each]])
                return
        await self._wake(parts)
        for part, lost in zip(parts, answers, strict=True):
            pieces = [piece for piece, _ in part]
            self._settled(pieces, [pieces[i] for i in lost])

    async def _wake(self, parts: list[list[Done]]) -> None:
        """Who waits for a queue of several shards does so at its first one, and has to be told there of what
        is to be had in others: what was given back, and the next one of a group."""
        homes = {
            piece.queue.name: piece.queue
            for part in parts
            if part[0][0].delivery.shard  # all of a part are in one
            for piece, verdict in part
            if verdict.settlement.action != "ack" or piece.delivery.group is not None
        }
        for queue in homes.values():
            try:
                await self._client.transport.run(calls.wake(await queue.ref(0)))
            except HoldfastError as error:
                log.debug("waking those who wait for %r: %s; they look again", queue.name, error)

    async def _calls(self, done: list[Done]) -> list[tuple[list[Done], Call[list[int]]]]:
        piece = done[0][0]
        batch: Any = piece.delivery.batch
        ref = await piece.queue.ref(batch.shard)
        plain = [each for each in done if each[1] is DONE or each[1].plain]
        if len(plain) == batch.size:
            plain.sort(key=lambda each: each[0].delivery.place)
            return [(plain, calls.ack(ref, [calls.batch_receipt(batch)]))]
        found: list[tuple[list[Done], Call[list[int]]]] = []
        if plain:
            found.append((plain, calls.ack(ref, [each[0].delivery.wire for each in plain])))
        rest = [each for each in done if not each[1].plain]
        for start in range(0, len(rest), 500):
            part = rest[start : start + 500]
            found.append((part, engine.settle(ref, [verdict.settlement for _, verdict in part])))
        return found
