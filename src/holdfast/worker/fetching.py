"""Fetching: from which queue, how many, and waiting where all are empty.

A receive is never given up half way, since what it took would be in nobody's hands until its lease ends; to
stop is to let the last one end, which waits a second at most.
"""

from __future__ import annotations

import asyncio
import logging
import random
import time
from typing import TYPE_CHECKING

from holdfast.client._async.queue import AsyncQueue
from holdfast.client._async.waiting import wait_any
from holdfast.errors import TryAgain
from holdfast.worker.gate import Gate
from holdfast.worker.shares import order, part_of, portions

if TYPE_CHECKING:
    from holdfast.worker.worker import Worker

log = logging.getLogger("holdfast.worker")

_WAIT = 1.0
# Less than what processes have to do already; see pace.AHEAD.
_BUSY_WAIT = 0.1


class Fetcher:
    def __init__(self, worker: Worker, queues: dict[str, AsyncQueue], gate: Gate) -> None:
        self._worker = worker
        self._queues = queues
        self._gate = gate

    async def run(self) -> None:
        worker, problem_wait, busy = self._worker, 0.05, time.monotonic()
        idle = worker.plan.idle
        while not worker.stopping:
            await worker.wait_for_room()
            try:
                if await self._fetch() or worker.held:
                    busy = time.monotonic()
                elif idle is not None and time.monotonic() - busy >= idle:
                    return
                problem_wait = 0.05
            except TryAgain as error:
                log.warning("fetching: %s; trying again", error)
                await asyncio.sleep(problem_wait * random.uniform(0.5, 1.0))
                problem_wait = min(problem_wait * 2, 5.0)

    async def _fetch(self) -> bool:
        """Take what there is room for, each queue's share of it; where there is nothing, wait until there may
        be. Strict: from the first queue that has something."""
        worker, strict = self._worker, self._worker.plan.strict
        names = order(worker.plan.shares, strict=strict)
        alone = len(names) == 1 and not self._gate.limits(names[0])
        shut: dict[str, float] = {}
        # As it is now: what is taken on the way leaves no room by itself, and others shall have theirs.
        room, found = worker.room, False
        apart = {name: worker.room_apart(name) for name in names}
        row = list(portions(worker.plan.shares, names).items())
        for name, portion in row:
            if worker.stopping or room <= 0:
                return found
            queue = self._queues[name]
            part = room if strict else part_of(room, portion)
            if not part:
                row.append((name, 1.0))  # its turn comes when the others leave something
                continue
            wanted = min(part, apart[name])
            count, wait = await self._gate.room(name, wanted) if wanted else (0, _BUSY_WAIT)
            if count == 0:
                shut[name] = wait
                continue
            # Who is let in by a limit does not wait inside, where others would like to be.
            pause = self._patience() if alone else 0
            got = await queue.receive_many(count, wait=pause, lease=worker.plan.lease)
            if count > len(got):
                await self._gate.unused(name, count - len(got))
            if got:
                await worker.take(queue, got)
                # Those that may begin do so before the next ones are asked for: somebody waits for them.
                await asyncio.sleep(0)
                if strict:
                    return True
                room, found = room - len(got), True
        if found:
            return True
        patience = min([self._patience(), *shut.values()])
        if len(shut) == len(names):
            await self._gate.opening(patience)
        elif not alone:
            # Then there is something to do, whoever will be faster.
            return await wait_any([q for n, q in self._queues.items() if n not in shut], patience)
        return False

    def _patience(self) -> float:
        idle = self._worker.plan.idle
        return _WAIT if idle is None else min(_WAIT, max(idle, 0.01))
