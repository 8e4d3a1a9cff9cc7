"""Handlers that run long: leases, timeouts, cancelling, stopping."""

from __future__ import annotations

import asyncio
import threading
import time
from contextvars import ContextVar
from datetime import datetime
from typing import Any

import pytest

import holdfast
from holdfast import Retries
from holdfast.errors import TaskCancelled
from holdfast.worker.worker import Worker
from tests.servers import wait_until
from tests.working import home, work, working


async def until(condition: Any, what: str, timeout: float = 10.0) -> None:
    await asyncio.to_thread(wait_until, condition, timeout, what)


@pytest.mark.parametrize("kind", ["coroutine", "function"])
@pytest.mark.slow
async def test_the_lease_of_a_long_task_is_kept(app: holdfast.App, kind: str) -> None:
    runs: list[int] = []
    if kind == "coroutine":

        @app.task
        async def long() -> None:
            runs.append(1)
            await asyncio.sleep(1.5)
    else:

        @app.task
        def long() -> None:
            runs.append(1)
            threading.Event().wait(1.5)

    await long.send_async()

    async def during(worker: Worker) -> None:
        await until(lambda: worker.counts.total("succeeded") == 1, "the task")

    await working(app, during, lease=0.5)
    assert runs == [1]
    assert home(app).stats().acked == 1


@pytest.mark.slow
async def test_a_blocked_loop_does_not_cost_the_lease(app: holdfast.App) -> None:
    runs: list[int] = []

    @app.task
    async def rude() -> None:
        runs.append(1)
        time.sleep(1.5)  # noqa: ASYNC251

    await rude.send_async()

    async def during(worker: Worker) -> None:
        await until(lambda: worker.counts.total("succeeded") == 1, "the task")

    await working(app, during, lease=0.5)
    assert runs == [1]


@pytest.mark.slow
async def test_what_waits_its_turn_keeps_its_lease(app: holdfast.App) -> None:
    order: list[int] = []

    @app.task
    async def slow(n: int) -> None:
        order.append(n)
        await asyncio.sleep(0.01 if n < 20 else 0.8)

    await slow.send_many_async([(n,) for n in range(23)])

    async def during(worker: Worker) -> None:
        await until(lambda: worker.counts.total("succeeded") == 23, "all tasks")
        assert worker.counts.total("lost") == 0

    await working(app, during, lease=0.5, concurrency=1)
    assert sorted(order) == list(range(23))


@pytest.mark.parametrize("kind", ["coroutine", "function", "deaf coroutine", "deaf function"])
@pytest.mark.slow
async def test_a_task_that_takes_too_long_has_failed(app: holdfast.App, kind: str) -> None:
    let_go = threading.Event()
    seen: list[Any] = []
    if kind == "coroutine":

        @app.task(timeout=0.1, retries=0)
        async def hangs() -> None:
            await asyncio.sleep(60)

    elif kind == "function":

        @app.task(timeout=0.1, retries=0)
        def hangs() -> None:
            while not let_go.is_set():
                seen.append(holdfast.current().timed_out)
                time.sleep(0.005)

    elif kind == "deaf coroutine":

        @app.task(timeout=0.1, retries=0)
        async def hangs() -> None:
            while not let_go.is_set():
                try:
                    await asyncio.sleep(0.05)
                except asyncio.CancelledError:
                    continue
    else:

        @app.task(timeout=0.1, retries=0)
        def hangs() -> None:
            let_go.wait(60)

    await hangs.send_async()

    async def during(worker: Worker) -> None:
        await until(lambda: worker.counts.total("buried") == 1, "the end of the task")

    try:
        await working(app, during, concurrency=1)
    finally:
        let_go.set()
    [dead] = home(app).inspect("dead")
    assert dead.death is not None
    assert "took longer than its timeout of 0.1 s" in dead.death.reason


@pytest.mark.slow
async def test_a_thread_that_hangs_does_not_keep_others_from_running(app: holdfast.App) -> None:
    let_go = threading.Event()

    @app.task(timeout=0.1, retries=0)
    def hangs() -> None:
        let_go.wait(60)

    @app.task
    def works() -> None: ...

    await hangs.send_async()
    for _ in range(3):
        await works.send_async()

    async def during(worker: Worker) -> None:
        await until(lambda: worker.counts.total("succeeded") == 3, "the others")
        assert worker.broken() == "all 1 threads hang past their tasks' timeouts"

    try:
        await working(app, during, concurrency=1)
    finally:
        let_go.set()


@pytest.mark.slow
async def test_a_lost_lease_is_noticed_and_the_handler_told(app: holdfast.App) -> None:
    told: list[str] = []

    @app.task
    async def coroutine() -> None:
        try:
            await asyncio.sleep(60)
        except asyncio.CancelledError:
            told.append("coroutine")
            raise

    @app.task
    def function() -> None:
        me = holdfast.current()
        wait_until(lambda: me.lost, 20, "to be told")
        assert me.stopping
        told.append("function")

    ids = [(await coroutine.send_async()).id, (await function.send_async()).id]

    async def during(worker: Worker) -> None:
        await until(lambda: len(worker.running) == 2, "both to run")
        # Somebody takes them away.
        for task_id in ids:
            await asyncio.to_thread(home(app).remove, task_id)
        await until(lambda: worker.counts.total("lost") == 2, "the loss")

    await working(app, during, lease=1)
    assert sorted(told) == ["coroutine", "function"]


@pytest.mark.slow
async def test_a_running_task_can_be_cancelled(app: holdfast.App) -> None:
    @app.task
    async def coroutine() -> None:
        await asyncio.sleep(60)

    @app.task
    def function() -> None:
        me = holdfast.current()
        wait_until(lambda: me.cancelled, 20, "to be told")
        raise RuntimeError("stopped half way")

    handles = [await coroutine.send_async(), await function.send_async()]

    async def during(worker: Worker) -> None:
        await until(lambda: len(worker.running) == 2, "both to run")
        for handle in handles:
            assert await handle.status_async() == "running"
            assert await handle.cancel_async()
        for handle in handles:
            with pytest.raises(TaskCancelled):
                await handle.result_async(timeout=10)

    worker = await working(app, during)
    assert worker.counts.total("cancelled") == 2
    assert home(app).stats().total == 0


def test_a_queued_task_can_be_cancelled(app: holdfast.App) -> None:
    runs: list[int] = []

    @app.task
    def f(n: int) -> None:
        runs.append(n)

    ready, delayed = f.send(1), f.send_in(3600, 2)
    f.send(3)
    assert ready.cancel()
    assert delayed.cancel()
    work(app)
    assert runs == [3]
    assert (ready.status(), delayed.status()) == ("cancelled", "cancelled")
    assert not ready.cancel()


@pytest.mark.slow
async def test_quiet_finishes_what_runs_and_gives_back_the_rest(app: holdfast.App) -> None:
    let_go = threading.Event()
    runs: list[int] = []

    @app.task
    def f(n: int) -> None:
        runs.append(n)
        let_go.wait(20)

    # The worker learns that these are quick, and takes some ahead.
    let_go.set()
    await f.send_many_async([(n,) for n in range(100)])

    async def during(worker: Worker) -> None:
        await until(lambda: worker.counts.total("succeeded") == 100, "the first ones")
        let_go.clear()
        await f.send_many_async([(n,) for n in range(100, 130)])
        await until(lambda: len(worker.running) == 2 and worker.waiting > 0, "two to run")
        worker.quiet()
        await until(lambda: home(app).stats().leased == 2, "the rest to be given back")
        let_go.set()

    worker = await working(app, during, concurrency=2)
    assert worker.counts.total("succeeded") == 102
    stats = home(app).stats()
    assert (stats.ready, stats.leased, stats.dead) == (28, 0, 0)
    assert all(m.receives == 0 for m in home(app).inspect("ready", 0, 100))


@pytest.mark.parametrize("how", ["deadline", "now"])
@pytest.mark.slow
async def test_what_does_not_end_in_time_is_given_back(app: holdfast.App, how: str) -> None:
    let_go = threading.Event()

    @app.task
    def function() -> None:
        let_go.wait(20)

    @app.task
    async def coroutine() -> None:
        await asyncio.sleep(60)

    await function.send_async()
    await coroutine.send_async()

    async def during(worker: Worker) -> None:
        await until(lambda: len(worker.running) == 2, "both to run")
        if how == "now":
            worker.now()

    began = time.monotonic()
    try:
        await working(app, during, deadline=0.1 if how == "deadline" else 60)
    finally:
        let_go.set()
    assert time.monotonic() - began < 30
    stats = home(app).stats()
    assert (stats.ready, stats.leased) == (2, 0)
    assert all(m.receives == 0 for m in home(app).inspect("ready", 0, 10))


@pytest.mark.slow
async def test_what_is_taken_ahead_does_not_wait_for_long(app: holdfast.App) -> None:
    """One worker has taken quick tasks ahead and is then held up: another gets them."""
    let_go = threading.Event()
    let_go.set()
    by: dict[str, int] = {}

    @app.task
    def f() -> None:
        me = holdfast.current().worker
        by[me] = by.get(me, 0) + 1
        if me == "first":
            let_go.wait(30)

    await f.send_many_async([() for _ in range(200)])

    async def during(first: Worker) -> None:
        await until(lambda: first.counts.total("succeeded") == 200, "the first ones")
        let_go.clear()
        await f.send_many_async([() for _ in range(50)])
        await until(lambda: len(first.running) == 1 and first.waiting > 10, "some to wait")
        await until(lambda: home(app).stats().ready == 49, "them to be given back")
        let_go.set()

    await working(app, during, concurrency=1, name="first")


@pytest.mark.slow
async def test_two_workers_share_what_takes_long(app: holdfast.App) -> None:
    by: dict[str, int] = {}

    @app.task
    async def slow() -> None:
        me = holdfast.current().worker
        by[me] = by.get(me, 0) + 1
        await asyncio.sleep(0.1)

    await slow.send_many_async([() for _ in range(40)])

    async def during(first: Worker) -> None:
        second = Worker(app, first.plan.__class__(first.plan.shares, concurrency=2, name="second"))
        run = asyncio.ensure_future(second.run())
        await until(lambda: sum(by.values()) == 40, "all of them")
        second.quiet()
        await run

    await working(app, during, concurrency=2, name="first")
    assert min(by.values()) >= 12


@pytest.mark.parametrize("kind", ["coroutine", "function"])
def test_what_a_handler_sets_in_its_context_is_its_own(app: holdfast.App, kind: str) -> None:
    seen: list[str] = []
    variable: ContextVar[str] = ContextVar("variable", default="clean")
    if kind == "coroutine":

        @app.task
        async def f() -> None:
            seen.append(variable.get())
            variable.set("dirty")
    else:

        @app.task
        def f() -> None:
            seen.append(variable.get())
            variable.set("dirty")

    f.send_many([() for _ in range(10)])
    work(app, concurrency=1)
    assert seen == ["clean"] * 10


@pytest.mark.parametrize("retries", [1])
@pytest.mark.slow
async def test_a_timeout_is_retried_as_other_failures_are(app: holdfast.App, retries: int) -> None:
    attempts: list[int] = []

    @app.task(timeout=0.05, retries=Retries(retries, first=0.01))
    async def f() -> int:
        attempts.append(1)
        await asyncio.sleep(60 if len(attempts) == 1 else 0)
        return len(attempts)

    handle = await f.send_async()

    async def during(worker: Worker) -> None:
        assert await handle.result_async(timeout=10) == 2

    await working(app, during)


def test_a_handler_can_ask_about_its_message(app: holdfast.App) -> None:
    told: list[tuple[str, datetime, dict[str, str]]] = []

    @app.task
    def ask() -> None:
        me = holdfast.current()
        told.append((me.id, me.sent_at, me.attributes))

    handle = ask.send()
    work(app)
    [(id, sent_at, attributes)] = told
    assert id == handle.id
    assert sent_at.timestamp() * 1000 == pytest.approx(int(handle.id.split("-")[0]), abs=1)
    assert attributes == {}
