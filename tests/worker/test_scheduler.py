"""Cron ticks: sent once each, whoever else schedules, whatever the local clock says and whoever dies."""

from __future__ import annotations

import asyncio
import json
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest

import holdfast
from holdfast.tasks.body import decode
from holdfast.worker import scheduler
from holdfast.worker.plan import Plan
from holdfast.worker.scheduler import Schedule
from holdfast.worker.server_clock import ServerClock
from holdfast.worker.shares import Share
from holdfast.worker.worker import Worker
from tests.conftest import SETTINGS, Servers
from tests.servers import standalone_server, wait_until
from tests.worker.limiting import run
from tests.working import home

EVERY_SECOND = "* * * * * *"
LONG_AGO = timedelta(days=800)


def sent(app: holdfast.App) -> list[str]:
    """The ticks that wait in the queue."""
    return [m.attributes["tick"] for m in home(app).inspect("ready", count=1000)]


def second(tick: str) -> int:
    return int(datetime.fromisoformat(tick).timestamp())


def schedule(app: holdfast.App, name: str = "tick") -> Schedule:
    desk = app.desk_async()
    return Schedule(app.crons[name], desk, ServerClock(desk.client, "hf1:{default}"))


async def until(condition: Callable[[], Any], timeout: float = 15.0) -> None:
    async with asyncio.timeout(timeout):
        while not condition():
            await asyncio.sleep(0.01)


async def begin(made: Schedule) -> None:
    """Let it do what it does when its worker starts."""
    life = asyncio.ensure_future(made.run())
    await until(lambda: made._done is not None)
    life.cancel()


# ---- once per tick -------------------------------------------------------------------------------

WORKER = """
import asyncio, sys
import holdfast
from holdfast.worker.plan import Plan
from holdfast.worker.shares import Share
from holdfast.worker.worker import Worker

app = holdfast.App(sys.argv[1], queue=sys.argv[2], check="off")

@app.cron("* * * * * *", name="proof")
async def proof() -> None:
    tick = holdfast.current().attributes["tick"]
    key = sys.argv[2] + " ran"
    await app.desk_async().client.transport.command("RPUSH", key, tick, key=key)

print("ready", flush=True)
asyncio.run(Worker(app, Plan([Share(sys.argv[2])], lease=2, presence=False)).run())
"""


@pytest.mark.slow
def test_one_run_per_tick_with_three_schedulers_of_which_one_is_killed(
    app: holdfast.App, all_servers: Servers, request: pytest.FixtureRequest
) -> None:
    url = all_servers.url(SETTINGS[request.node.callspec.params["app"]].kind)
    queue = app.default_queue
    command = app.desk().client.transport.command
    key = f"{queue} ran"

    def ran() -> list[int]:
        return [second(tick.decode()) for tick in command("LRANGE", key, 0, -1, key=key)]

    children = [
        subprocess.Popen([sys.executable, "-c", WORKER, str(url), queue], stdout=subprocess.PIPE)
        for _ in range(3)
    ]
    try:
        for child in children:
            assert child.stdout is not None
            assert child.stdout.readline() == b"ready\n"
        wait_until(lambda: len(set(ran())) >= 3, 30, "the first ticks")
        # Not with a task in its hands: that would be run again, and rightly so.
        wait_until(lambda: home(app).stats().leased == 0, 10, "the last one settled")
        children[0].kill()
        wait_until(lambda: len(set(ran())) >= 8, 40, "the other ticks")
    finally:
        for child in children:
            child.kill()
            child.wait()
            assert child.stdout is not None
            child.stdout.close()
    waiting = home(app).inspect("ready", count=100) + home(app).inspect("leased", count=100)
    found = Counter(ran())
    first, last = min(found), max(found)
    # Those that were killed may have had the very last ones in their hands.
    missing = set(range(first, last)) - set(found)
    assert missing <= {second(m.attributes["tick"]) for m in waiting}
    assert len(missing) <= 1
    assert set(found.values()) == {1}


def test_many_schedulers_send_a_tick_once(app: holdfast.App) -> None:
    @app.cron("@yearly")
    def tick() -> None: ...

    async def main() -> None:
        at = app.crons["tick"].next(datetime.now(UTC))
        await asyncio.gather(*(schedule(app)._send(at) for _ in range(10)))

    run(app, main)
    assert len(sent(app)) == 1


def test_a_tick_is_not_sent_once_a_later_one_was(app: holdfast.App) -> None:
    @app.cron(EVERY_SECOND)
    def tick() -> None: ...

    async def main() -> None:
        now = datetime.now(UTC).replace(microsecond=0)
        for seconds in (1, 3, 2, 3):
            await schedule(app)._send(now + timedelta(seconds=seconds))

    run(app, main)
    assert len(sent(app)) == 2


# ---- what was missed -----------------------------------------------------------------------------


@pytest.mark.parametrize(("missed", "late"), [("skip", 0), ("run", 1)])
def test_what_was_missed_while_no_worker_was_there(
    app: holdfast.App, missed: Any, late: int
) -> None:
    @app.cron("@yearly", missed=missed)
    def tick() -> None: ...

    async def main() -> None:
        await schedule(app)._send(app.crons["tick"].next(datetime.now(UTC) - LONG_AGO))
        for _ in range(2):
            await begin(schedule(app))

    run(app, main)
    last = app.crons["tick"].last(datetime.now(UTC))
    assert last is not None
    assert sent(app)[1:] == [last.isoformat()] * late


def test_a_new_schedule_has_missed_nothing(app: holdfast.App) -> None:
    @app.cron("@yearly", missed="run")
    def tick() -> None: ...

    async def main() -> None:
        await begin(schedule(app))

    run(app, main)
    assert sent(app) == []


def test_ticks_of_a_short_pause_are_all_sent_late(app: holdfast.App) -> None:
    """A worker that was restarted, or could not run for a moment, leaves no gap."""

    @app.cron(EVERY_SECOND)
    def tick() -> None: ...

    async def main() -> list[int]:
        made = schedule(app)
        now = (await made._clock.now()).replace(microsecond=0)
        await made._send(now - timedelta(seconds=5))
        await made._catch_up()
        return [int(now.timestamp()) - 5 + n for n in range(6)]

    expected = run(app, main)
    assert [second(tick) for tick in sent(app)][:6] == expected


@pytest.mark.slow
def test_ticks_of_an_outage_are_sent_once_it_is_over_the_latest_at_least(tmp_path: Path) -> None:
    with standalone_server(tmp_path, "durable") as server:
        app = holdfast.App(server.url, check="off", timeout=0.5, retry_for=0.2)

        @app.cron(EVERY_SECOND)
        def tick() -> None: ...

        async def main() -> datetime:
            made = schedule(app)
            life = asyncio.ensure_future(made.run())
            await until(lambda: len(sent(app)) >= 2)
            server.kill()
            await asyncio.sleep(2.5)
            server.start()
            back = datetime.now(UTC)
            await until(lambda: second(sent(app)[-1]) > back.timestamp())
            life.cancel()
            return back

        run(app, main)
        found = [second(tick) for tick in sent(app)]
        app.close()
    assert found == list(range(found[0], found[-1] + 1))


# ---- whose time ----------------------------------------------------------------------------------


@pytest.mark.slow
def test_the_time_is_the_servers_however_wrong_the_local_clock_is(
    app: holdfast.App, monkeypatch: pytest.MonkeyPatch
) -> None:
    @app.cron(EVERY_SECOND)
    def tick() -> None: ...

    right = time.time

    async def main() -> list[float]:
        made = schedule(app)
        life = asyncio.ensure_future(made.run())
        await until(lambda: len(sent(app)) >= 1)
        monkeypatch.setattr(time, "time", lambda: right() + 7200)
        await until(lambda: len(sent(app)) >= 2)
        monkeypatch.setattr(time, "time", lambda: right() - 7200)
        await until(lambda: len(sent(app)) >= 3)
        life.cancel()
        return [right() - second(tick) for tick in sent(app)]

    assert all(0 <= ago < 15 for ago in run(app, main))


@pytest.mark.slow
def test_a_tick_never_comes_before_its_time(app: holdfast.App) -> None:
    @app.cron(EVERY_SECOND)
    def tick() -> None: ...

    async def main() -> None:
        life = asyncio.ensure_future(schedule(app).run())
        await until(lambda: len(sent(app)) >= 3)
        life.cancel()

    run(app, main)
    for message in home(app).inspect("ready", count=100):
        # A message's id begins with the server's time, in ms.
        assert int(message.id.split("-")[0]) >= 1000 * second(message.attributes["tick"])


# ---- what is sent, and by whom -------------------------------------------------------------------


def test_a_tick_is_an_ordinary_task_of_its_queue(app: holdfast.App) -> None:
    @app.cron("@yearly", priority=7, group=lambda: "sweepers")
    def sweep(depth: int = 3) -> None: ...

    at = datetime(2031, 1, 1, tzinfo=UTC)

    async def main() -> None:
        await schedule(app, "sweep")._send(at)

    run(app, main)
    [message] = home(app).inspect("ready")
    assert (message.priority, message.group) == (7, "sweepers")
    assert message.attributes == {"cron": "sweep", "tick": at.isoformat()}
    body = decode(message.body)
    assert (body.task, json.loads(bytes(body.args))) == ("sweep", {})
    assert home(app).name in app.desk().client.queues()


def test_a_tick_gives_way_to_one_that_still_waits_where_the_task_is_unique(
    app: holdfast.App,
) -> None:
    @app.cron(EVERY_SECOND, unique="queued")
    def tick() -> None: ...

    async def main() -> None:
        now = datetime.now(UTC).replace(microsecond=0)
        for seconds in range(3):
            await schedule(app)._send(now + timedelta(seconds=seconds))

    run(app, main)
    assert len(sent(app)) == 1


@pytest.mark.slow
def test_a_worker_schedules_whichever_queues_it_serves(app: holdfast.App) -> None:
    @app.cron(EVERY_SECOND)
    def tick() -> None: ...

    async def main() -> None:
        worker = Worker(app, Plan([Share(f"not {app.default_queue}")], presence=False))
        life = asyncio.ensure_future(worker.run())
        await until(lambda: len(sent(app)) >= 1)
        worker.quiet()
        await life

    run(app, main)


def test_a_worker_that_is_told_not_to_schedule_does_not(app: holdfast.App) -> None:
    @app.cron(EVERY_SECOND)
    def tick() -> None: ...

    async def main() -> None:
        told = {
            told: scheduler.serve in Worker(app, Plan([Share("any")], scheduler=told))._services()
            for told in (True, False)
        }
        assert told == {True: True, False: False}

    run(app, main)


@pytest.mark.slow
def test_a_schedule_that_cannot_send_keeps_no_other_from_going_on(app: holdfast.App) -> None:
    def no_group() -> str:
        raise RuntimeError("no group today")

    @app.cron(EVERY_SECOND, group=no_group)
    def broken() -> None: ...

    @app.cron(EVERY_SECOND)
    def tick() -> None: ...

    async def main() -> None:
        worker = Worker(app, Plan([Share("elsewhere")], presence=False))
        life = asyncio.ensure_future(worker.run())
        await until(lambda: len(sent(app)) >= 3)
        worker.quiet()
        await life

    run(app, main)
    assert {m.attributes["cron"] for m in home(app).inspect("ready")} == {"tick"}
