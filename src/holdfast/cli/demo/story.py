"""The demo, in the order in which it happens."""

from __future__ import annotations

import tempfile
import time
from collections.abc import Callable
from pathlib import Path

from holdfast.cli import output
from holdfast.cli.demo.account import Account, Records
from holdfast.cli.demo.crew import Crew
from holdfast.cli.demo.orders import LEASE_SECONDS, MAX_RECEIVES, QUEUE, SHIPMENTS, Orders
from holdfast.cli.demo.view import View
from holdfast.client._sync.client import Client
from holdfast.engine.replies import Stats
from holdfast.errors import HoldfastError

_BATCH = 500
_LOOK_SECONDS = 0.1
# Nothing moves while a lease runs out; much longer than that, and something is wrong.
_STALLED_SECONDS = 30.0


class Story:
    def __init__(self, client: Client, url: str, orders: Orders, workers: int, view: View) -> None:
        self._url = url
        self._orders = orders
        self._workers = workers
        self._view = view
        self._queue = client.queue(QUEUE)
        self._shipments = client.queue(SHIPMENTS)
        self._deaths = 0

    def run(self) -> Account:
        for queue in (self._queue, self._shipments):
            queue.delete()
            queue.configure(lease=LEASE_SECONDS, max_receives=MAX_RECEIVES, journal=True)
        with tempfile.TemporaryDirectory(prefix="holdfast-demo-") as folder:
            place = Path(folder)
            with Crew(self._workers, self._url, QUEUE, self._orders, place) as crew:
                crew.start()
                self._view.event(f"{output.several(self._workers, 'worker process')} started")
                self._send(crew)
                before = self._work(crew, lambda now: now.acked + now.dead == self._orders.count)
                self._view.event(
                    f"all quiet: {before.acked:,} acked, {output.several(before.dead, 'dead letter')}",
                    "bold",
                )
                crew.stop()
                redriven = self._fix(crew)
                after = self._work(crew, lambda now: now.acked == self._orders.count)
                crew.stop()
                seconds = self._view.seconds
                self._view.event(f"all {after.acked:,} orders are acked", "bold green")
            return Account(
                orders=self._orders.count,
                deaths=self._deaths,
                redriven=redriven,
                poison=len(self._orders.poison),
                before=before,
                after=self._queue.stats(),
                records=Records.read(place),
                seconds=seconds,
            )

    def _send(self, crew: Crew) -> None:
        numbers = range(1, self._orders.count + 1)
        for first in range(0, len(numbers), _BATCH):
            batch = numbers[first : first + _BATCH]
            self._queue.send_many([self._orders.body(number) for number in batch])
            self._look(crew)
        self._view.event(f"{self._orders.count:,} orders sent")

    def _look(self, crew: Crew) -> Stats:
        now = self._queue.stats()
        for dead, replacement in crew.replace_the_dead():
            self._deaths += 1
            self._view.event(
                f"worker {dead.number} was killed with orders in hand; "
                f"worker {replacement.number} takes its place",
                "red",
            )
        self._view.update(now, len(crew.members))
        return now

    def _work(self, crew: Crew, done: Callable[[Stats], bool]) -> Stats:
        moved, last = time.monotonic(), Stats()
        while not done(now := self._look(crew)):
            if (now.received, now.acked) != (last.received, last.acked):
                moved, last = time.monotonic(), now
            if time.monotonic() - moved > _STALLED_SECONDS:
                raise HoldfastError(
                    f"nothing has moved for {_STALLED_SECONDS:.0f} s: {now.acked:,} acked, "
                    f"{now.ready:,} ready, {now.delayed:,} delayed, {now.leased:,} leased"
                )
            time.sleep(_LOOK_SECONDS)
        return now

    def _fix(self, crew: Crew) -> int:
        crew.fixed = True
        crew.start()
        redriven = len(self._queue.redrive())
        letters = output.several(redriven, "dead letter")
        self._view.event(f"bug fixed, new workers started, {letters} redriven", "cyan")
        return redriven
