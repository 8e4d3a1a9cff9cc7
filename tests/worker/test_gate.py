"""Limits through real workers, several at a time; what ran when is told by the server itself."""

from __future__ import annotations

import asyncio
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any, TypeVar

import pytest

import holdfast
from holdfast import Concurrency, Rate
from holdfast.engine import tasks as engine
from holdfast.engine.keys import LimitRef
from holdfast.tasks.limits import Limit
from holdfast.worker import places
from holdfast.worker.plan import Plan
from holdfast.worker.shares import Share
from holdfast.worker.worker import Worker
from tests.conftest import SETTINGS, Servers
from tests.servers import standalone_server
from tests.working import home

T = TypeVar("T")
SLACK = 0.25
"""Seconds by which a handler may begin later than it was let in, on a machine that is busy."""


class Records:
    """What handlers write down, in the server."""

    def __init__(self, app: holdfast.App) -> None:
        self._app = app
        self._key = f"{app.default_queue} seen"

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


@pytest.fixture
def records(app: holdfast.App) -> Records:
    return Records(app)


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


def put(app: holdfast.App, where: str, limits: list[Limit]) -> dict[str, Any]:
    """The same limits on the queue, or on the task."""
    if where == "queue":
        app.queue(app.default_queue, limits=limits)
        return {}
    return {"limits": limits}


def check_rate(moments: list[float], most: int, per: float) -> None:
    """No more than the rate and its burst, in whichever window; and not much less than it allows."""
    for i, start in enumerate(moments):
        for j in range(i, len(moments)):
            assert j - i + 1 <= most * (1 + (moments[j] - start + SLACK) / per), (i, j)
    ideal = per * (len(moments) / most - 1)
    assert moments[-1] - moments[0] <= ideal / 0.8 + SLACK


@pytest.mark.parametrize("where", ["queue", "task"])
def test_a_rate_is_kept_by_all_workers_together_and_made_use_of(
    app: holdfast.App, records: Records, where: str
) -> None:
    @app.task(**put(app, where, [Rate(30, per=1)]))
    async def one(n: int) -> None:
        await records.moment()

    one.send_many([(n,) for n in range(90)])

    async def main() -> list[float]:
        await work_until(app, 90)
        return await records.moments()

    moments = run(app, main)
    assert len(moments) == 90
    check_rate(moments, 30, 1)


@pytest.mark.parametrize("where", ["queue", "task"])
def test_no_more_run_at_a_time_than_may_and_as_many_as_may(
    app: holdfast.App, records: Records, where: str
) -> None:
    @app.task(**put(app, where, [Concurrency(4)]))
    async def one(n: int) -> None:
        await records.inside(0.05)

    one.send_many([(n,) for n in range(60)])

    async def main() -> tuple[int, int]:
        await work_until(app, 60)
        return await records.most(), await records.ran()

    assert run(app, main) == (4, 60)


def test_each_key_has_places_of_its_own(app: holdfast.App, records: Records) -> None:
    @app.task(limits=[Concurrency(2, key=lambda user, n: user)])
    async def one(user: str, n: int) -> None:
        await records.inside(0.02, user)

    one.send_many([(user, n) for n in range(20) for user in ("ann", "bob", "cid")])

    async def main() -> None:
        await work_until(app, 60)
        assert [await records.most(user) for user in ("ann", "bob", "cid")] == [2, 2, 2]
        assert [await records.ran(user) for user in ("ann", "bob", "cid")] == [20, 20, 20]

    run(app, main)


def test_each_key_has_a_rate_of_its_own(app: holdfast.App, records: Records) -> None:
    @app.task(limits=[Rate(20, key=lambda user, n: user)])
    async def one(user: str, n: int) -> None:
        await records.moment(user)

    one.send_many([(user, n) for n in range(60) for user in ("ann", "bob", "cid")])

    async def main() -> None:
        await work_until(app, 180)
        for user in ("ann", "bob", "cid"):
            moments = await records.moments(user)
            assert len(moments) == 60
            check_rate(moments, 20, 1)

    run(app, main)


def test_all_limits_of_a_call_must_let_it_in(app: holdfast.App, records: Records) -> None:
    app.queue(app.default_queue, limits=[Concurrency(5)])

    @app.task(limits=[Rate(1000, per=1), Concurrency(2), Rate(20, per=1)])
    async def one(n: int) -> None:
        await records.moment()
        await records.inside(0.03)

    one.send_many([(n,) for n in range(40)])

    async def main() -> None:
        await work_until(app, 40)
        assert await records.most() == 2
        moments = await records.moments()
        assert len(moments) == 40
        check_rate(moments, 20, 1)

    run(app, main)


def test_a_limit_of_one_name_counts_wherever_it_is_used(
    app: holdfast.App, records: Records
) -> None:
    one_at_a_time = Concurrency(1, name=f"the printer of {app.default_queue}")

    @app.task(limits=[one_at_a_time])
    async def one() -> None:
        await records.inside(0.01)

    @app.task(limits=[one_at_a_time])
    async def other() -> None:
        await records.inside(0.01)

    for _ in range(8):
        one.send()
        other.send()

    async def main() -> None:
        await work_until(app, 16)
        assert (await records.most(), await records.ran()) == (1, 16)

    run(app, main)


def test_limits_of_a_task_and_of_a_queue_of_the_same_name_are_two(app: holdfast.App) -> None:
    """Were they one, a call would wait for itself."""
    app.queue("twin", limits=[Concurrency(1)])

    @app.task(name="twin", queue="twin", limits=[Concurrency(1)])
    async def one() -> str:
        return "ran"

    handle = one.send()

    async def main() -> None:
        await work_until(app, 1, workers=1)

    run(app, main)
    assert handle.result(0) == "ran"


@pytest.mark.parametrize(
    ("key", "says"),
    [
        (lambda n: 1 / 0, "ZeroDivisionError"),
        (lambda n: n, "must be text, not int"),
        (lambda n: "", "must have 1 to 200 characters"),
    ],
)
def test_a_key_that_cannot_be_told_makes_a_dead_letter_that_says_so(
    app: holdfast.App, key: Any, says: str
) -> None:
    told: list[str] = []

    @app.task(limits=[Rate(1, key=key)])
    async def one(n: int) -> None: ...

    @app.on("buried")
    def buried(context: Any, error: Any) -> None:
        told.append(context.id)

    handle = one.send(7)

    async def main() -> None:
        await work_until(app, 1, workers=1)

    run(app, main)
    assert handle.status() == "failed"
    [dead] = home(app).inspect("dead")
    assert "the key of a limit of 'one' cannot be told" in dead.death.reason
    assert says in dead.death.reason
    assert told == [handle.id]


def test_what_is_turned_away_does_not_count_as_an_attempt(app: holdfast.App) -> None:
    attempts: list[int] = []

    @app.task(limits=[Concurrency(1)], retries=0)
    async def one(n: int) -> None:
        attempts.append(holdfast.current().attempt)
        await asyncio.sleep(0.02)

    one.send_many([(n,) for n in range(20)])

    async def main() -> int:
        workers = await work_until(app, 20)
        return sum(worker.counts.total("deferred") for worker in workers)

    assert run(app, main) > 0
    assert attempts == [1] * 20


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


def held(app: holdfast.App, name: str) -> int:
    """How many places under a limit are taken."""
    ref = LimitRef(f"concurrency:{name}")
    return int(app.desk().client.transport.command("ZCARD", ref.below("permits"), key=ref.key))


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


def test_what_a_rate_allowed_and_was_not_there_is_not_used_up(app: holdfast.App) -> None:
    """Five an hour, for a worker that would take sixteen at a time and finds one."""
    app.queue(app.default_queue, limits=[Rate(5, per=3600)])

    @app.task
    async def one(n: int) -> int:
        return n

    async def main() -> list[int]:
        worker = Worker(app, Plan([Share(app.default_queue)], presence=False))
        life = asyncio.ensure_future(worker.run())
        found = [await (await one.send_async(n)).result_async(5) for n in range(5)]
        last = await one.send_async(5)
        with pytest.raises(holdfast.ResultTimeout):
            await last.result_async(0.3)
        worker.quiet()
        await life
        return found

    assert run(app, main) == [0, 1, 2, 3, 4]


def test_who_is_turned_away_by_one_limit_uses_up_nothing_of_another(app: holdfast.App) -> None:
    by_user = Rate(1, per=3600, key=lambda user: user)

    @app.task(
        limits=[Rate(5, per=3600), by_user, Concurrency(3), Concurrency(1, key=lambda user: user)]
    )
    async def one(user: str) -> str:
        return user

    async def main() -> None:
        worker = Worker(app, Plan([Share(app.default_queue)], presence=False))
        life = asyncio.ensure_future(worker.run())
        ann = [await one.send_async("ann") for _ in range(30)]
        async with asyncio.timeout(10):
            while worker.counts.total("deferred") < 29:
                await asyncio.sleep(0.01)
        for user in ("bob", "cid", "dan"):
            assert await (await one.send_async(user)).result_async(5) == user
        worker.quiet()
        await life
        assert Counter([await handle.status_async() for handle in ann])["succeeded"] == 1

    run(app, main)


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
