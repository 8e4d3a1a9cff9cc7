"""Several workers at a time, and what their handlers write down in the server."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import Any, TypeVar

import holdfast
from holdfast.engine.keys import LimitRef
from holdfast.tasks.limits import Limit
from holdfast.worker.plan import Plan
from holdfast.worker.shares import Share
from holdfast.worker.worker import Worker

T = TypeVar("T")


class Records:
    """What handlers write down, in the server."""

    def __init__(self, app: holdfast.App) -> None:
        self._app = app
        self._attempts = 0
        self.begin()

    def begin(self) -> None:
        """From a clean page."""
        self._attempts += 1
        self._key = f"{self._app.default_queue} seen {self._attempts}"

    async def _do(self, *command: str | int) -> Any:
        transport = self._app.desk_async().client.transport
        return await transport.command(*command, key=str(command[1]))

    async def moment(self, what: str = "") -> None:
        seconds, micros = await self._app.desk_async().client.transport.command("TIME")
        await self._do("RPUSH", self._key + what, f"{int(seconds) + int(micros) / 1e6:.6f}")

    async def moments(self, what: str = "") -> list[float]:
        return sorted(map(float, await self._do("LRANGE", self._key + what, 0, -1)))

    async def inside(self, seconds: float, what: str = "") -> None:
        """Be one of those that run, for so long; how many there were is written down."""
        now = await self._do("INCR", f"{self._key}:n" + what)
        await self._do("RPUSH", f"{self._key}:most" + what, now)
        await asyncio.sleep(seconds)
        await self._do("DECR", f"{self._key}:n" + what)

    async def most(self, what: str = "") -> int:
        return max(map(int, await self._do("LRANGE", f"{self._key}:most" + what, 0, -1)))

    async def ran(self, what: str = "") -> int:
        return int(await self._do("LLEN", f"{self._key}:most" + what))


def run(app: holdfast.App, main: Callable[[], Awaitable[T]]) -> T:
    async def whole() -> T:
        try:
            return await main()
        finally:
            await app.close_async()

    return asyncio.run(whole())


async def work_until(
    app: holdfast.App, total: int, *, workers: int = 3, patience: float = 30.0, **plan: Any
) -> list[Worker]:
    """Several workers, until all tasks have ended."""
    plan.setdefault("presence", False)
    shares = [Share(name) for name in app.queues]
    made = [Worker(app, Plan(shares, name=f"w{i}", **plan)) for i in range(workers)]
    runs = [asyncio.ensure_future(worker.run()) for worker in made]

    async def all_done() -> None:
        while sum(ended(worker) for worker in made) < total:
            await asyncio.sleep(0.01)

    try:
        await asyncio.wait_for(all_done(), patience)
    finally:
        for worker in made:
            worker.quiet()
        await asyncio.gather(*runs)
    return made


def ended(worker: Worker) -> int:
    return sum(map(worker.counts.total, ("succeeded", "buried")))


def put(app: holdfast.App, where: str, limits: list[Limit]) -> dict[str, Any]:
    """The same limits on the queue, or on the task."""
    if where == "queue":
        app.queue(app.default_queue, limits=limits)
        return {}
    return {"limits": limits}


async def counting(app: holdfast.App) -> list[str]:
    """The verbs of all calls from now on."""
    asks: list[str] = []
    transport: Any = app.desk_async().client.transport
    run_many, run_one = transport.run_many, transport.run

    async def many(calls: Any) -> Any:
        asks.extend(call.verb for call in calls)
        return await run_many(calls)

    async def one(call: Any) -> Any:
        asks.append(call.verb)
        return await run_one(call)

    transport.run_many, transport.run = many, one
    return asks


def held(app: holdfast.App, name: str) -> int:
    """How many places under a limit are taken."""
    ref = LimitRef(f"concurrency:{name}")
    return int(app.desk().client.transport.command("ZCARD", ref.below("permits"), key=ref.key))
