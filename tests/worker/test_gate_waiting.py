"""A worker whose queues are shut by limits waits, and does what else there is."""

from __future__ import annotations

import asyncio

import pytest

import holdfast
from holdfast import Concurrency, Rate
from holdfast.engine import tasks as engine
from holdfast.engine.keys import LimitRef
from holdfast.worker.plan import Plan
from holdfast.worker.shares import Share
from holdfast.worker.worker import Worker
from tests.worker.limiting import counting, run


@pytest.mark.slow
def test_a_shut_queue_does_not_keep_its_worker_busy_nor_from_others(app: holdfast.App) -> None:
    """Of an hour's rate one is left; the other queue goes on as if nothing were."""
    app.queue("slow", limits=[Rate(1, per=3600, name=f"hour of {app.default_queue}")])
    ran: list[str] = []

    @app.task(queue="slow")
    async def slow() -> None:
        ran.append("slow")

    @app.task
    async def quick(n: int) -> None:
        ran.append("quick")

    slow.send()
    slow.send()

    async def main() -> list[str]:
        worker = Worker(app, Plan([Share("slow"), Share(app.default_queue)], presence=False))
        life = asyncio.ensure_future(worker.run())
        asks = await counting(app)
        for n in range(20):
            await (await quick.send_async(n)).result_async(5)
        while "slow" not in ran:
            await asyncio.sleep(0.01)
        await asyncio.sleep(1.0)
        worker.quiet()
        await life
        return asks

    asks = run(app, main)
    assert ran.count("slow") == 1
    assert ran.count("quick") == 20
    assert asks.count("permit") <= 5
    assert len(asks) < 1000
    app.desk().queue("slow").purge("ready")


@pytest.mark.slow
def test_a_limited_queue_that_is_empty_does_not_keep_its_worker_busy(app: holdfast.App) -> None:
    app.queue(app.default_queue, limits=[Rate(5), Concurrency(2), Concurrency(3)])

    @app.task
    async def one() -> None: ...

    async def main() -> int:
        worker = Worker(app, Plan([Share(app.default_queue)], presence=False))
        life = asyncio.ensure_future(worker.run())
        asks = await counting(app)
        await asyncio.sleep(2)
        worker.quiet()
        await life
        return len(asks)

    assert run(app, main) < 100


@pytest.mark.slow
def test_a_queue_shut_by_one_of_two_limits_does_not_keep_its_worker_busy(app: holdfast.App) -> None:
    """What it gives back of the other one is no reason to ask again."""
    name = f"taken of {app.default_queue}"
    app.queue(app.default_queue, limits=[Concurrency(5), Concurrency(1, name=name)])
    taken = engine.permit_concurrency(LimitRef(f"concurrency:{name}"), 1, 60, ["somebody"])
    app.desk().client.transport.run(taken)

    @app.task
    async def one() -> None: ...

    one.send()

    async def main() -> int:
        worker = Worker(app, Plan([Share(app.default_queue)], presence=False))
        life = asyncio.ensure_future(worker.run())
        asks = await counting(app)
        await asyncio.sleep(2)
        worker.quiet()
        await life
        return asks.count("permit")

    # Every 150 ms or so, two limits.
    assert 4 <= run(app, main) < 100
