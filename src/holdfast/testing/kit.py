"""A kit: an app under test, on a server of its own, whose work is run when the test says so.

    kit = holdfast_kit(app)
    handle = send_welcome.send(42)
    kit.run()
    assert handle.result() == "hi 42"

While the kit is there the app's clients go to its server; afterwards the app is as it was. `run` is a real
worker in this process. Nothing is imitated but time.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Sequence
from datetime import datetime
from typing import Any, Protocol, Self

from holdfast.client._sync.client import Client
from holdfast.client._sync.queue import Queue
from holdfast.engine.calls import Packed
from holdfast.engine.keys import PREFIX, suffixed
from holdfast.errors import InvalidArgument
from holdfast.message import Message, MessageId, parse_id, utc
from holdfast.settings import Seconds
from holdfast.tasks.app import App
from holdfast.tasks.context import Context
from holdfast.tasks.handle import Handle
from holdfast.tasks.task import Task
from holdfast.testing import records
from holdfast.testing.clients import AsyncWatchedClient, WatchedClient
from holdfast.testing.clock import Clock
from holdfast.testing.inline import Inline
from holdfast.testing.loop import Loop, in_a_loop
from holdfast.testing.records import Dead, Ran, Sent
from holdfast.testing.steps import Steps
from holdfast.worker.plan import Plan
from holdfast.worker.shares import Share
from holdfast.worker.worker import Worker

_DAY = 24 * 3600


class Kit:
    """Get one from the fixture `holdfast_kit`; or make one, and close it, with the URL of a server on which
    there is no work of others."""

    def __init__(
        self,
        app: App,
        url: str,
        *,
        inline: bool = False,
        raise_errors: bool = False,
        at: datetime | None = None,
    ) -> None:
        self.app = app
        self.clock = Clock(_begin(at), self._moved)
        self._client = Client(url, check="off")
        self._queues: dict[str, Queue] = {}
        self._sent: list[Sent] = []
        self._errors: list[BaseException] = []
        self._raise_errors = raise_errors
        self._ticked = self.clock.now
        self._lock = threading.RLock()
        self._loop = Loop(app)
        self._inline = Inline(app, self._all_queues, self._loop.run) if inline else None
        for name, settings in app.settings.items():
            if settings:
                self._client.queue(name).configure(**settings)
        for name in {*app.queues, *app.settings}:
            self.adopt(name)
        self._was = (app.connection["url"], app.connecting, app.connecting_async)
        app.connecting = lambda *_, **__: WatchedClient(url, self)
        app.connecting_async = lambda *_, **__: AsyncWatchedClient(url, self)
        app.connect_to(url)
        app.stack.on("failed", self._failed)

    # ---- running --------------------------------------------------------------------------

    def run(
        self,
        *,
        until_done: bool = False,
        within: Seconds = _DAY,
        raise_errors: bool | None = None,
    ) -> Ran:
        """Run what is due, and what it sends in turn, until nothing is; how the attempts ended.

        `until_done`: also what is due later: whenever nothing is due the clock moves on to what is next, for
        up to `within` seconds in all. `raise_errors`: raise the first error of a handler, once all is run.

        In an async test: `await kit.run_async()`.
        """
        if in_a_loop():
            raise InvalidArgument(
                "an event loop runs here: `await kit.run_async()` instead of kit.run()"
            )
        steps = Steps(self, until_done, within)
        while steps.go_on():
            if self._inline is not None:
                steps.add(records.ran(self._inline.drain()))
            else:
                steps.add(self._loop.run(self._work()))
        return self._done(steps.ran, raise_errors)

    async def run_async(
        self,
        *,
        until_done: bool = False,
        within: Seconds = _DAY,
        raise_errors: bool | None = None,
    ) -> Ran:
        """As `run`; coroutines run on this loop."""
        steps = Steps(self, until_done, within)
        while steps.go_on():
            if self._inline is not None:
                steps.add(records.ran(await self._inline.drain_async()))
            else:
                steps.add(await self._work())
        return self._done(steps.ran, raise_errors)

    async def _work(self) -> Ran:
        """One worker, until it finds nothing to do."""
        shares = [Share(queue.name) for queue in self._all_queues()]
        if not shares:
            return Ran()
        plan = Plan(shares, idle=0, scheduler=False, presence=False, apart=False, name="kit")
        worker = Worker(self.app, plan)
        await worker.run()
        return records.ran(worker.counts)

    def _done(self, ran: Ran, raise_errors: bool | None) -> Ran:
        errors, self._errors = self._errors, []
        if errors and (self._raise_errors if raise_errors is None else raise_errors):
            raise errors[0]
        return ran

    # ---- looking --------------------------------------------------------------------------

    def sent(self, task: str | Task[Any, Any] | None = None) -> list[Sent]:
        """What was sent since the kit was made, in order, steps of flows included; all tasks, or one."""
        with self._lock:
            return [each for each in self._sent if task is None or each.task == _name(task)]

    def dead(self, task: str | Task[Any, Any] | None = None) -> list[Dead]:
        """Dead letters, and why."""
        found = [
            records.dead(message, queue.name)
            for queue in self._all_queues()
            for message in self._messages(queue, "dead")
        ]
        return [each for each in found if task is None or each.task == _name(task)]

    def queue(self, name: str) -> Queue:
        """A queue on the kit's server, to look at or to send something odd to; it keeps the kit's time."""
        self.adopt(name)
        return self._queues[name]

    def _messages(self, queue: Queue, state: Any) -> list[Message]:
        count = getattr(queue.stats(), state)
        return queue.inspect(state, count=count) if count else []

    # ---- time -----------------------------------------------------------------------------

    def tick_crons(self) -> list[Handle[Any]]:
        """Send what schedules would have sent since the kit was made, or since the last time."""
        until, since = self.clock.now, self._ticked
        self._ticked = until
        ticks = []
        for cron in self.app.crons.values():
            for tick in cron.after(since):
                if tick > until:
                    break
                ticks.append((tick, cron))
        ticks.sort(key=lambda each: (each[0], each[1].name))
        return [cron.task.send() for _, cron in ticks]

    def _moved(self, ms: int) -> None:
        for queue in self._all_queues():
            queue.set_clock(ms)
        # Rates are counted by the server's clock; by ours time has passed, so they begin anew.
        rates = self._client.transport.command("KEYS", suffixed(f"{PREFIX}{{*#l}}", "rate"))
        if rates:
            self._client.transport.command("DEL", *rates)

    def next_due(self) -> int | None:
        """When the next delayed message falls due, ms."""
        found = []
        for queue in self._all_queues():
            found += [
                round(m.due.timestamp() * 1000) for m in self._messages(queue, "delayed") if m.due
            ]
        return min(found, default=None)

    def anything_ready(self) -> bool:
        for queue in self._all_queues():
            queue.tend()
        return any(queue.stats().ready for queue in self._all_queues())

    # ---- told by the clients --------------------------------------------------------------

    def adopt(self, queue: str) -> None:
        with self._lock:
            if queue not in self._queues:
                place = self._client.queue(queue)
                place.set_clock(self.clock.ms)
                self._queues[queue] = place

    def sent_(self, queue: str, messages: Sequence[Packed], ids: Sequence[MessageId]) -> None:
        for packed, message_id in zip(messages, ids, strict=True):
            if message_id.duplicate:
                continue
            name, shard = parse_id(message_id)
            message = Message(name + b"\0\0" + packed.envelope, shard, "ready")
            with self._lock:
                self._sent.append(records.sent(message, queue, self._due(packed.when)))

    def _due(self, when: str) -> datetime | None:
        if not when:
            return None
        return utc(int(when[1:]) + (self.clock.ms if when[0] == "+" else 0))

    def drain(self, queue: str, ids: Sequence[MessageId]) -> None:
        if self._inline is not None:
            self._inline.drain((queue, each) for each in ids)
            self._done(Ran(), None)

    async def drain_async(self, queue: str, ids: Sequence[MessageId]) -> None:
        if self._inline is not None:
            await self._inline.drain_async((queue, each) for each in ids)
            self._done(Ran(), None)

    def _failed(self, _: Context, error: BaseException) -> None:
        self._errors.append(error)

    def _all_queues(self) -> list[Queue]:
        with self._lock:
            return [self._queues[name] for name in sorted(self._queues)]

    # ---- ending ---------------------------------------------------------------------------

    def close(self) -> None:
        """The app goes back to where it was; its clock is the server's again."""
        self.app.stack.off("failed", self._failed)
        self._loop.close()
        url, self.app.connecting, self.app.connecting_async = self._was
        self.app.connect_to(url)
        for queue in self._all_queues():
            queue.set_clock(None)
        self._client.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def __repr__(self) -> str:
        return f"<Kit around {self.app!r} at {self.clock.now.isoformat()}>"


class MakeKit(Protocol):
    """What the fixture `holdfast_kit` is: `kit = holdfast_kit(app)`."""

    def __call__(
        self,
        app: App,
        *,
        inline: bool = False,
        raise_errors: bool = False,
        at: datetime | None = None,
    ) -> Kit: ...


def _begin(at: datetime | None) -> int:
    if at is None:
        return time.time_ns() // 1_000_000
    if at.tzinfo is None:
        raise InvalidArgument(
            "at must have a time zone, for example datetime(2030, 1, 1, tzinfo=UTC)"
        )
    return round(at.timestamp() * 1000)


def _name(task: str | Task[Any, Any]) -> str:
    return task.name if isinstance(task, Task) else task
