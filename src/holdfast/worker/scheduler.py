"""Cron ticks: each becomes one message, however many workers there are and whichever of them die.

Every worker of an app sends every tick. The message is written together with a line in a ledger of the
schedule (engine: send_once), and only if no other has written it for this tick or a later one; so it is
there exactly once, and is as soon as any of the workers gets through. Rejected: electing one that schedules,
which needs a lease that runs out before another may go on, and so comes late when it dies.

The time is the server's. A tick is sent up to GRACE seconds late; of older ones, which fell into an outage of
the server, only the latest. What was missed while no worker was there at all is skipped or run (the latest,
once) as the schedule says. Schedules of one name in one queue are one, whichever apps they are in.
"""

from __future__ import annotations

import asyncio
import logging
import random
from datetime import UTC, datetime, timedelta
from itertools import takewhile
from typing import TYPE_CHECKING

from holdfast.engine import ledger
from holdfast.engine.keys import QueueRef
from holdfast.engine.ledger import Ledger
from holdfast.errors import HoldfastError, InvalidArgument
from holdfast.tasks.cron import Cron
from holdfast.tasks.options import PLAIN
from holdfast.worker.server_clock import ServerClock

if TYPE_CHECKING:
    from holdfast.tasks._async.desk import AsyncDesk
    from holdfast.worker.worker import Worker

log = logging.getLogger("holdfast.worker")

GRACE = timedelta(seconds=10)
# The server's clock may be set meanwhile.
_LONGEST_SLEEP = 30.0
_WEEK = timedelta(days=7)
_FIRST_WAIT, _LONGEST_WAIT = 0.1, 5.0


async def serve(worker: Worker) -> None:
    """Send the ticks of all schedules of the worker's app until cancelled."""
    crons = list(worker.app.crons.values())
    if not crons:
        return
    first = QueueRef(crons[0].task.definition.queue)
    clock = ServerClock(worker.desk.client, first.key)
    schedules = [asyncio.ensure_future(Schedule(c, worker.desk, clock).run()) for c in crons]
    try:
        # One that waits for a server does not keep the others from going on.
        await asyncio.gather(*schedules)
    finally:
        for schedule in schedules:
            schedule.cancel()
        await asyncio.gather(*schedules, return_exceptions=True)


class Schedule:
    """One schedule. All ticks up to `_done` are sent, by whomever, or will not be."""

    def __init__(self, cron: Cron, desk: AsyncDesk, clock: ServerClock) -> None:
        self._cron = cron
        self._desk = desk
        self._clock = clock
        self._queue = desk.queue(cron.task.definition.queue)
        self._ref = QueueRef(self._queue.name)
        self._ledger = f"cron/{cron.name}"
        self._done: datetime | None = None

    async def run(self) -> None:
        wait = _FIRST_WAIT
        while True:
            try:
                if self._done is None:
                    self._done = await self._catch_up()
                else:
                    self._done = await self._go_on(self._done, latest=True)
                wait = _FIRST_WAIT
                await asyncio.sleep(await self._pause())
                continue
            except HoldfastError as error:
                log.warning("schedule %r: %s; trying again", self._cron.name, error)
            except Exception:  # of functions of the user's, such as the task's group
                log.exception("schedule %r; trying again", self._cron.name)
            await asyncio.sleep(wait * random.uniform(0.5, 1.0))
            wait = min(wait * 2, _LONGEST_WAIT)

    async def _catch_up(self) -> datetime:
        """What was missed before we came. A schedule that is new has missed nothing."""
        reached = await self._reached()
        if reached is None:
            return await self._clock.now()
        return await self._go_on(reached, latest=self._cron.missed == "run")

    async def _go_on(self, done: datetime, *, latest: bool) -> datetime:
        """Send the ticks since then that are not too late; `latest`: the last of them in any case."""
        now = await self._clock.now()
        ticks = takewhile(lambda t: t <= now, self._cron.after(max(done, now - GRACE)))
        sent = False
        for tick in ticks:
            await self._send(tick)
            done, sent = tick, True
        if latest and not sent:
            last = self._cron.last(now)
            if last is not None and last > done:
                log.warning("schedule %r: %s comes late", self._cron.name, last.isoformat())
                await self._send(last)
        return max(done, now)

    async def _pause(self) -> float:
        assert self._done is not None
        now = await self._clock.now()
        left = (self._cron.next(max(self._done, now)) - now).total_seconds()
        return min(max(left, 0.0), _LONGEST_SLEEP)

    async def _send(self, tick: datetime) -> None:
        cron, at = self._cron, int(tick.timestamp())
        said = {"cron": cron.name, "tick": tick.isoformat()}
        # With its unique name, so that a tick gives way to one that still waits; without a dedup id: what the
        # ledger says is enough.
        message = cron.task.pack(PLAIN, (), {}, said).envelope
        keep = _WEEK + cron.next(cron.next(tick)) - tick
        entry = Ledger(self._ledger, 0, at, round(keep.total_seconds() * 1000))
        await self._queue._register()
        try:
            call = ledger.send(self._ref, entry, 0, [at.to_bytes(ledger.DIGEST, "big")], [message])
            outcome = await self._desk.client.transport.run(call)
        except InvalidArgument:
            reached = await self._reached()
            if reached is None or reached < tick:
                raise
            return
        if outcome.first:
            await self._queue.list_again()
        if outcome.done:
            log.debug("schedule %r: sent %s", cron.name, tick.isoformat())

    async def _reached(self) -> datetime | None:
        """The last tick that anybody has sent, as far as it is known."""
        key = ledger.key(self._ref, self._ledger)
        found = await self._desk.client.transport.command("LINDEX", key, 0, key=key)
        return None if found is None else datetime.fromtimestamp(int(found), UTC)
