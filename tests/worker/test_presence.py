"""What workers say of themselves: there while they work, gone when they are not."""

from __future__ import annotations

import asyncio
import os
import signal
import subprocess
import sys
import threading
import time
from pathlib import Path
from typing import Any

import pytest

import holdfast
from holdfast.client._sync.client import Client
from holdfast.engine import keys
from holdfast.worker import presence
from holdfast.worker.plan import Plan
from holdfast.worker.presence import Presence, read_all
from holdfast.worker.shares import Share
from holdfast.worker.worker import Worker
from tests.servers import standalone_server, wait_until
from tests.working import home, new_app, working


async def _until(condition: Any, what: str, timeout: float = 15.0) -> Any:
    """As wait_until, for coroutines: the loop goes on meanwhile."""
    return await asyncio.to_thread(wait_until, condition, timeout, what)


def _client(app: holdfast.App) -> Client:
    found: Client = app.desk().client
    return found


def _named(app: holdfast.App, name: str) -> Presence | None:
    return next((p for p in read_all(_client(app)) if p.name == name), None)


@pytest.mark.slow
async def test_a_worker_says_what_it_is_and_what_it_runs(app: holdfast.App) -> None:
    go_on = threading.Event()

    @app.task
    def blocks() -> None:
        go_on.wait(20)

    @app.task
    async def waits() -> None:
        while not go_on.is_set():
            await asyncio.sleep(0.01)

    ids = {blocks.send().id, waits.send().id}
    found: list[Presence] = []

    async def look(worker: Any) -> None:
        def both_run() -> Presence | None:
            said = _named(app, "looked-at")
            return said if said is not None and len(said.running) == 2 else None

        try:
            found.append(await _until(both_run, "a worker with two tasks"))
        finally:
            go_on.set()

    queue, other = app.default_queue, "never-used"
    shares = [Share(queue, 3), Share(other)]
    await working(
        app, look, queues=shares, name="looked-at", presence=True, concurrency=7, target="shop:app"
    )
    [said] = found
    assert {run.id for run in said.running} == ids
    assert {(run.task, run.queue, run.attempt) for run in said.running} == {
        ("blocks", queue, 1),
        ("waits", queue, 1),
    }
    assert all(0 <= run.seconds < 20 for run in said.running)
    assert (said.pid, said.app, said.version) == (os.getpid(), "shop:app", holdfast.__version__)
    assert said.queues == {queue: 3, other: 1}
    assert (said.concurrency, said.busy, said.held) == (7, 2, 2)
    assert said.rss > 1_000_000
    assert said.stalled == 0
    assert 0 <= time.time() - said.started_at < 60


@pytest.mark.slow
async def test_what_a_worker_has_done_is_counted_by_task_and_moment(app: holdfast.App) -> None:
    @app.task(retries=0)
    async def may_fail(fails: bool) -> None:
        if fails:
            raise ValueError("as told")

    may_fail.send_many([(False,), (False,), (True,)])

    async def look(worker: Any) -> None:
        def all_done() -> bool:
            said = _named(app, "counted")
            return said is not None and said.counts == {"may_fail": {"succeeded": 2, "buried": 1}}

        await _until(all_done, "three counted")

    await working(app, look, name="counted", presence=True)


@pytest.mark.slow
async def test_those_that_run_longest_are_named_and_the_rest_counted(app: holdfast.App) -> None:
    go_on = asyncio.Event()

    @app.task
    async def waits(n: int) -> None:
        await go_on.wait()

    first = {handle.id for handle in waits.send_many([(n,) for n in range(5)])}

    def busy_with(n: int) -> Presence | None:
        said = _named(app, "busy")
        return said if said is not None and said.busy == n else None

    async def look(worker: Any) -> None:
        try:
            await _until(lambda: busy_with(5), "5 run")
            waits.send_many([(n,) for n in range(20)])
            said = await _until(lambda: busy_with(25), "25 run")
            assert len(said.running) == presence.SHOWN == 20
            assert {run.id for run in said.running[:5]} == first
        finally:
            go_on.set()

    await working(app, look, name="busy", presence=True, concurrency=30)


@pytest.mark.slow
async def test_a_worker_that_stops_is_gone_at_once(app: holdfast.App) -> None:
    async def look(worker: Any) -> None:
        await _until(lambda: _named(app, "brief"), "the worker")

    home(app).stats()
    await working(app, look, name="brief", presence=True)
    command = _client(app).transport.command
    key = keys.worker_key("brief")
    assert command("GET", key, key=key) is None
    assert b"brief" not in command("SMEMBERS", keys.WORKERS, key=keys.WORKERS)


@pytest.mark.slow
async def test_a_worker_whose_loop_is_blocked_is_seen_and_says_so(
    app: holdfast.App, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(presence, "_STALLED", 0.7)
    go_on = threading.Event()

    @app.task
    async def blocks_the_loop() -> None:
        go_on.wait(20)

    blocks_the_loop.send()
    found: list[Presence] = []

    def stalled() -> Presence | None:
        said = _named(app, "stuck")
        return said if said is not None and said.stalled else None

    def look_from_a_thread() -> None:
        try:
            seen = wait_until(stalled, 15, "a stalled worker")
            assert seen is not None
            found.append(seen)
        finally:
            go_on.set()

    async def look(worker: Any) -> None:
        await asyncio.to_thread(look_from_a_thread)

    await working(app, look, name="stuck", presence=True)
    [said] = found
    assert [run.task for run in said.running] == ["blocks_the_loop"]
    assert said.stalled >= 0.7


@pytest.mark.slow
def test_a_worker_that_was_killed_disappears_by_itself(app: holdfast.App, tmp_path: Path) -> None:
    (tmp_path / "shop.py").write_text("import holdfast\napp = holdfast.App(check='off')\n")
    program = (
        "import asyncio, shop\n"
        "from holdfast.worker.worker import Plan, Worker\n"
        "from holdfast.worker.shares import Share\n"
        "async def main(): await Worker(shop.app, Plan([Share('q')], name='killed')).run()\n"
        "asyncio.run(main())\n"
    )
    source = str(Path(holdfast.__file__).parents[1])
    environment = os.environ | {
        "HOLDFAST_URL": str(app._url),
        "PYTHONPATH": os.pathsep.join([source, str(tmp_path)]),
    }
    process = subprocess.Popen([sys.executable, "-c", program], env=environment)
    try:
        wait_until(lambda: _named(app, "killed"), 20, "the worker")
        process.send_signal(signal.SIGKILL)
        process.wait()
        wait_until(lambda: _named(app, "killed") is None, 20, "the end of its entry")
    finally:
        process.kill()
        process.wait()
    command = _client(app).transport.command
    assert b"killed" not in command("SMEMBERS", keys.WORKERS, key=keys.WORKERS)


def test_names_of_those_who_are_gone_are_dropped_by_whoever_reads(app: holdfast.App) -> None:
    command = _client(app).transport.command
    command("SADD", keys.WORKERS, "long-gone", key=keys.WORKERS)
    assert _named(app, "long-gone") is None
    assert b"long-gone" not in command("SMEMBERS", keys.WORKERS, key=keys.WORKERS)


def test_what_cannot_be_read_is_passed_over(app: holdfast.App) -> None:
    command = _client(app).transport.command
    key = keys.worker_key("odd")
    command("SADD", keys.WORKERS, "odd", key=keys.WORKERS)
    command("SET", key, '{"name": "from the future"}', "PX", 5000, key=key)
    assert _named(app, "from the future") is None


@pytest.mark.slow
async def test_a_server_that_goes_away_and_comes_back_hears_of_the_worker_again(
    tmp_path: Path,
) -> None:
    with standalone_server(tmp_path) as server, new_app(server.url) as app:

        async def look(worker: Any) -> None:
            await _until(lambda: _named(app, "patient"), "the worker")
            await asyncio.to_thread(server.kill)
            await asyncio.to_thread(server.start)
            # What was remembered of it before does not count.
            key = keys.worker_key("patient")
            _client(app).transport.command("DEL", key, key=key)
            _client(app).transport.command("DEL", keys.WORKERS, key=keys.WORKERS)
            await _until(lambda: _named(app, "patient"), "the worker again")

        await working(app, look, name="patient", presence=True)


@pytest.mark.slow
async def test_a_worker_stops_although_the_server_does_not_answer(tmp_path: Path) -> None:
    """Saying goodbye is not worth a wait."""
    with standalone_server(tmp_path) as server, new_app(server.url, retry_for=60.0) as app:
        worker = Worker(app, Plan([Share("q")], name="leaving"))
        serving = asyncio.ensure_future(presence.serve(worker))
        await _until(lambda: _named(app, "leaving"), "the worker")
        server.kill()
        serving.cancel()
        await asyncio.wait_for(asyncio.gather(serving, return_exceptions=True), 30)
        server.start()
