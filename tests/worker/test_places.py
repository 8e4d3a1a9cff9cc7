"""Places under limits of concurrency: kept as long as they are needed, and free afterwards, come what may."""

from __future__ import annotations

import asyncio
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import pytest

import holdfast
from holdfast import Concurrency, Rate
from holdfast.worker import places
from holdfast.worker.plan import Plan
from holdfast.worker.shares import Share
from holdfast.worker.worker import Worker
from tests.conftest import SETTINGS, Servers
from tests.servers import standalone_server
from tests.worker.limiting import Records, held, run, work_until


@pytest.fixture
def records(app: holdfast.App) -> Records:
    return Records(app)


def test_who_gets_one_place_and_not_the_other_keeps_none(app: holdfast.App) -> None:
    many, one = f"many of {app.default_queue}", f"one of {app.default_queue}"

    @app.task(limits=[Concurrency(5, name=many), Concurrency(1, name=one)])
    async def wait() -> None:
        await asyncio.sleep(60)

    wait.send_many([()] * 3)

    async def main() -> None:
        worker = Worker(app, Plan([Share(app.default_queue)], deadline=0.1, presence=False))
        life = asyncio.ensure_future(worker.run())
        try:
            async with asyncio.timeout(10):
                while worker.counts.total("deferred") < 2 or held(app, many) != 1:
                    await asyncio.sleep(0.01)
            assert held(app, one) == 1
        finally:
            worker.quiet()
            await life

    run(app, main)


@pytest.mark.slow
def test_places_are_kept_while_a_task_runs_however_long(
    app: holdfast.App, monkeypatch: pytest.MonkeyPatch, records: Records
) -> None:
    monkeypatch.setattr(places, "HOLD", 0.5)
    monkeypatch.setattr(places, "RENEW", 0.1)

    @app.task(limits=[Concurrency(1)])
    async def one(n: int) -> None:
        await records.inside(1.0 if n == 0 else 0.0)

    async def main() -> None:
        await one.send_async(0)
        await one.send_async(1)
        await work_until(app, 2)
        assert (await records.most(), await records.ran()) == (1, 2)

    run(app, main)


@pytest.mark.slow
def test_places_are_kept_although_keeping_them_failed_once(
    app: holdfast.App, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(places, "HOLD", 0.6)
    monkeypatch.setattr(places, "RENEW", 0.1)
    name = f"desks of {app.default_queue}"
    keep = places.Places._permit
    asked: list[None] = []

    def fail_once(self: places.Places, *what: Any) -> Any:
        asked.append(None)
        if len(asked) == 2:
            raise RuntimeError("a fault of ours")
        return keep(self, *what)

    monkeypatch.setattr(places.Places, "_permit", fail_once)

    @app.task(limits=[Concurrency(1, name=name)])
    async def one() -> None:
        await asyncio.sleep(30)

    one.send()

    async def main() -> None:
        worker = Worker(app, Plan([Share(app.default_queue)], deadline=0.1, presence=False))
        life = asyncio.ensure_future(worker.run())
        try:
            async with asyncio.timeout(10):
                while len(asked) < 15:
                    await asyncio.sleep(0.01)
            assert held(app, name) == 1
        finally:
            worker.quiet()
            await life

    run(app, main)
    assert "keeping places under limits" in caplog.text


def test_a_worker_that_ends_leaves_no_place_taken(app: holdfast.App) -> None:
    name = f"desks of {app.default_queue}"
    app.queue(app.default_queue, limits=[Concurrency(5, name=name)])

    @app.task(limits=[Concurrency(5, name=f"{name}, too")])
    async def one(n: int) -> None:
        await asyncio.sleep(30)

    one.send_many([(n,) for n in range(20)])

    async def main() -> None:
        worker = Worker(app, Plan([Share(app.default_queue)], deadline=0.1, presence=False))
        life = asyncio.ensure_future(worker.run())
        while len(worker.running) < 5:
            await asyncio.sleep(0.01)
        assert (held(app, name), held(app, f"{name}, too")) == (5, 5)
        worker.quiet()
        await life

    run(app, main)
    assert (held(app, name), held(app, f"{name}, too")) == (0, 0)


@pytest.mark.slow
def test_a_rate_that_is_used_up_keeps_no_places_taken(app: holdfast.App) -> None:
    name = f"seats of {app.default_queue}"
    app.queue(app.default_queue, limits=[Concurrency(2, name=name), Rate(1, per=3600)])

    @app.task
    async def one(n: int) -> None: ...

    one.send_many([(n,) for n in range(3)])

    async def main() -> None:
        worker = Worker(app, Plan([Share(app.default_queue)], presence=False))
        life = asyncio.ensure_future(worker.run())
        async with asyncio.timeout(10):
            while not worker.counts.total("succeeded") or held(app, name):
                await asyncio.sleep(0.01)
        worker.quiet()
        await life

    run(app, main)


KILLED = """
import asyncio, sys
import holdfast
from holdfast.worker import places
from holdfast.worker.plan import Plan
from holdfast.worker.shares import Share
from holdfast.worker.worker import Worker

places.HOLD = 1.0
app = holdfast.App(sys.argv[1], check="off")

@app.task(name="one", queue=sys.argv[2], limits=[holdfast.Concurrency(2, name=sys.argv[2])])
async def one(n: int) -> None:
    print("began", flush=True)
    await asyncio.sleep(60)

asyncio.run(Worker(app, Plan([Share(sys.argv[2])], lease=1, presence=False)).run())
"""


@pytest.mark.slow
def test_the_places_of_a_worker_that_was_killed_are_free_soon(
    app: holdfast.App, all_servers: Servers, request: pytest.FixtureRequest
) -> None:
    queue = app.default_queue
    url = all_servers.url(SETTINGS[request.node.callspec.params["app"]].kind)

    @app.task(name="one", limits=[Concurrency(2, name=queue)])
    async def one(n: int) -> None: ...

    one.send_many([(n,) for n in range(5)])
    with subprocess.Popen(
        [sys.executable, "-c", KILLED, str(url), queue], stdout=subprocess.PIPE
    ) as child:
        assert child.stdout is not None
        assert [child.stdout.readline() for _ in range(2)] == [b"began\n"] * 2
        assert held(app, queue) == 2
        child.kill()
        child.wait()
    assert held(app, queue) == 2
    started = time.monotonic()

    async def main() -> None:
        await work_until(app, 5, workers=1)

    run(app, main)
    assert time.monotonic() - started < 10


@pytest.mark.slow
def test_a_server_that_does_not_answer_lets_nobody_through_and_loses_nobody(
    tmp_path: Path,
) -> None:
    with standalone_server(tmp_path, "durable") as server:
        app = holdfast.App(server.url, check="off", timeout=0.5, retry_for=0.2)
        ran: list[int] = []

        @app.task(limits=[Rate(1000)])
        async def one(n: int) -> None:
            ran.append(n)

        async def main() -> None:
            worker = Worker(app, Plan([Share("default")], concurrency=50, presence=False))
            life = asyncio.ensure_future(worker.run())
            while not hasattr(worker, "_gate"):
                await asyncio.sleep(0)
            gate = worker._gate
            admit = gate.admit

            async def admit_without_server(pieces: Any) -> Any:
                gate.admit = admit  # type: ignore[method-assign]
                server.kill()
                try:
                    return await admit(pieces)
                finally:
                    server.start()

            gate.admit = admit_without_server  # type: ignore[method-assign]
            await one.send_many_async([(n,) for n in range(20)])
            async with asyncio.timeout(20):
                while len(ran) < 20:
                    await asyncio.sleep(0.01)
            assert worker.counts.total("deferred") > 0
            worker.quiet()
            await life

        run(app, main)
        app.close()
    assert sorted(ran) == list(range(20))
