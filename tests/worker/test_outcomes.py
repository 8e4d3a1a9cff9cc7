"""What becomes of a task: done, retried, snoozed, discarded, dead; and what is kept of it."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

import pytest

import holdfast
from holdfast import Discard, Retries, Retry, Snooze
from holdfast.errors import InvalidArgument, ResultTimeout, TaskCancelled, TaskFailed
from holdfast.worker.settling import Settler
from holdfast.worker.worker import Worker
from tests.servers import standalone_server
from tests.working import home, new_app, work, working

SOON = Retries(2, first=0.01, most=0.02)


@pytest.mark.parametrize("kind", ["coroutine", "function"])
def test_a_task_is_run_and_acked_and_its_result_kept(app: holdfast.App, kind: str) -> None:
    if kind == "coroutine":

        @app.task
        async def double(n: int) -> int:
            await asyncio.sleep(0)
            return 2 * n
    else:

        @app.task
        def double(n: int) -> int:
            return 2 * n

    handles = double.send_many([(n,) for n in range(100)])
    worker = work(app)
    assert [h.result(timeout=1) for h in handles] == [2 * n for n in range(100)]
    assert {h.status() for h in handles} == {"succeeded"}
    assert worker.counts.by_task == {"double": {"succeeded": 100}}
    stats = home(app).stats()
    assert (stats.total, stats.acked) == (0, 100)


def test_nothing_is_acked_before_the_handler_has_returned(app: holdfast.App) -> None:
    seen: list[Any] = []

    @app.task
    async def look() -> None:
        stats = await app.desk_async().queue(app.default_queue).stats()
        seen.append((stats.leased, stats.acked))

    look.send()
    work(app)
    assert seen == [(1, 0)]
    assert home(app).stats().acked == 1


@pytest.mark.slow
def test_what_was_done_while_the_server_was_away_is_acked_when_it_is_back(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    ran: list[int] = []
    with (
        standalone_server(tmp_path, "durable") as server,
        new_app(server.url, timeout=0.5, retry_for=0.1) as app,
    ):

        @app.task
        async def one(n: int) -> None:
            ran.append(n)
            server.kill()

        async def outage(worker: Worker) -> None:
            while "settling 1 tasks" not in caplog.text:
                await asyncio.sleep(0.01)
            server.start()
            while worker.held:
                await asyncio.sleep(0.01)

        one.send(1)
        work(app, during=outage)
        stats = home(app).stats()
    assert ran == [1]
    assert (stats.total, stats.acked) == (0, 1)


def test_what_cannot_be_settled_is_not_held_for_ever(
    app: holdfast.App, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    build = Settler._calls
    tries: list[None] = []

    async def fail_once(self: Settler, *what: Any) -> Any:
        tries.append(None)
        if len(tries) == 1:
            raise RuntimeError("a fault of ours")
        return await build(self, *what)

    monkeypatch.setattr(Settler, "_calls", fail_once)
    ran: list[None] = []

    @app.task
    async def one() -> None:
        ran.append(None)

    one.send()

    async def twice(worker: Worker) -> None:
        async with asyncio.timeout(10):
            while len(ran) < 2 or worker.held:
                await asyncio.sleep(0.01)

    work(app, during=twice, lease=0.5)
    assert "what could not be settled will be run again" in caplog.text
    assert home(app).stats().total == 0


def test_a_failed_task_is_tried_again_and_tells_what_happened(app: holdfast.App) -> None:
    attempts: list[int] = []

    @app.task(retries=SOON)
    def flaky() -> str:
        attempts.append(holdfast.current().attempt)
        if len(attempts) < 3:
            raise ConnectionError(f"no {len(attempts)}")
        return "there"

    handle = flaky.send()
    worker = work(app, idle=0.3)
    assert attempts == [1, 2, 3]
    assert handle.result(timeout=1) == "there"
    assert worker.counts.by_task == {"flaky": {"retried": 2, "succeeded": 1}}


def test_after_the_last_try_it_is_a_dead_letter_with_its_history(app: holdfast.App) -> None:
    @app.task(retries=SOON)
    def hopeless(n: int) -> None:
        raise ValueError(f"cannot do {n}")

    handle = hopeless.send(7)
    work(app, idle=0.3)
    [dead] = home(app).inspect("dead")
    assert dead.id == handle.id
    assert dead.death is not None
    assert dead.death.reason == "failed after 3 attempts: ValueError: cannot do 7"
    assert 'raise ValueError(f"cannot do {n}")' in dead.death.error
    assert "holdfast/worker" not in dead.death.error
    body = dead.json()
    assert body["args"] == {"n": 7}
    assert [past["error"] for past in body["history"]] == ["ValueError: cannot do 7"] * 3
    assert all(past["at"] > 0 and past["worker"] for past in body["history"])
    assert [bool(past.get("trace")) for past in body["history"]] == [False, False, True]
    with pytest.raises(TaskFailed, match="cannot do 7") as failed:
        handle.result(timeout=1)
    assert "raise ValueError" in failed.value.trace
    assert handle.status() == "failed"


def test_each_exception_class_has_its_own_policy(app: holdfast.App) -> None:
    runs: list[str] = []

    @app.task(retries=Retries(3, first=0.01, most=0.01, on={ValueError: 0, OSError: 1}))
    def fails(how: str) -> None:
        runs.append(how)
        raise {"value": ValueError, "os": FileNotFoundError, "key": KeyError}[how]("x")

    for how in ("value", "os", "key"):
        fails.send(how)
    work(app, idle=0.3)
    assert sorted(runs) == ["key"] * 4 + ["os"] * 2 + ["value"]
    assert home(app).stats().dead == 3


def test_a_handler_can_ask_for_another_try(app: holdfast.App) -> None:
    attempts: list[int] = []

    @app.task(retries=Retries(2, first=1000, most=1000))
    def asks() -> None:
        attempts.append(holdfast.current().attempt)
        raise Retry("not yet", in_=0.01)

    asks.send()
    work(app, idle=0.3)
    assert attempts == [1, 2, 3]
    [dead] = home(app).inspect("dead")
    assert dead.death is not None
    assert "Retry: not yet" in dead.death.reason


def test_to_snooze_is_no_attempt(app: holdfast.App) -> None:
    attempts: list[int] = []

    @app.task(retries=0)
    def sleepy() -> str:
        attempts.append(holdfast.current().attempt)
        if len(attempts) < 4:
            raise Snooze(0.01)
        return "up"

    handle = sleepy.send()
    worker = work(app, idle=0.3)
    assert attempts == [1, 1, 1, 1]
    assert handle.result(timeout=1) == "up"
    assert worker.counts.by_task["sleepy"]["snoozed"] == 3


def test_to_discard_is_the_end_without_a_dead_letter(app: holdfast.App) -> None:
    @app.task
    def moot() -> None:
        raise Discard("the user is gone")

    handle = moot.send()
    work(app)
    assert home(app).stats().total == 0
    with pytest.raises(TaskCancelled, match="the user is gone"):
        handle.result(timeout=1)
    assert handle.status() == "discarded"


@pytest.mark.parametrize("kind", ["coroutine", "function"])
@pytest.mark.parametrize(
    "error", [SystemExit, KeyboardInterrupt, GeneratorExit, asyncio.CancelledError]
)
def test_whatever_a_handler_raises_it_is_the_task_that_fails(
    app: holdfast.App, kind: str, error: type[BaseException]
) -> None:
    if kind == "coroutine":

        @app.task(retries=0)
        async def bad() -> None:
            raise error
    else:

        @app.task(retries=0)
        def bad() -> None:
            raise error

    @app.task
    def good() -> None: ...

    bad.send()
    good.send()
    worker = work(app)
    assert worker.counts.by_task == {"bad": {"buried": 1}, "good": {"succeeded": 1}}
    [dead] = home(app).inspect("dead")
    assert dead.death is not None
    assert error.__name__ in dead.death.reason


def test_an_unknown_task_is_a_dead_letter(app: holdfast.App) -> None:
    @app.task
    def known() -> None: ...

    known.send()
    home(app).send(b'{"task":"other","args":{}}')
    work(app)
    [dead] = home(app).inspect("dead")
    assert dead.death is not None
    assert dead.death.reason == "unknown task 'other': this worker's app has known"
    assert dead.json()["task"] == "other"


@pytest.mark.parametrize("body", [b"no json", b"[]", b'{"args":{}}', b'{"task":7}', b""])
def test_what_is_no_task_is_a_dead_letter(app: holdfast.App, body: bytes) -> None:
    home(app).send(body)
    work(app)
    [dead] = home(app).inspect("dead")
    assert dead.death is not None
    assert dead.death.reason.startswith("the body is not that of a task")
    assert dead.body == body


def test_arguments_that_do_not_fit_are_a_dead_letter(app: holdfast.App) -> None:
    @app.task
    def f(n: int) -> None: ...

    home(app).send(b'{"task":"f","args":{"n":"one"}}')
    work(app)
    [dead] = home(app).inspect("dead")
    assert dead.death is not None
    assert dead.death.reason == (
        "bad arguments for 'f': Expected `int`, got `str` - at `$.n`; it takes (n: int) -> None"
    )


def test_a_result_of_the_wrong_type_is_told_and_not_repeated(app: holdfast.App) -> None:
    runs: list[int] = []

    @app.task(retries=5)
    def lies() -> int:
        runs.append(1)
        return "text"  # type: ignore[return-value]

    handle = lies.send()
    work(app, idle=0.2)
    assert runs == [1]
    with pytest.raises(TaskFailed, match="Expected `int`, got `str`"):
        handle.result(timeout=1)


def test_a_result_that_nobody_wants_is_not_kept(app: holdfast.App) -> None:
    @app.task(result_ttl=None)
    def f() -> object:
        return object()

    handle = f.send()
    work(app)
    assert home(app).stats().acked == 1
    assert handle.status() == "unknown"
    with pytest.raises(InvalidArgument, match="keeps no results"):
        handle.result()


def test_waiting_for_a_result_that_does_not_come_is_told(app: holdfast.App) -> None:
    @app.task
    def f() -> None: ...

    handle = f.send()
    with pytest.raises(ResultTimeout, match="it is queued"):
        handle.result(timeout=0.05)
    with pytest.raises(TimeoutError):
        handle.result(timeout=0)


def test_results_end(app: holdfast.App) -> None:
    from tests.servers import wait_until

    @app.task(result_ttl=0.05)
    def f() -> int:
        return 1

    handle = f.send()
    work(app)
    wait_until(lambda: handle.status() == "unknown", 5, "the end of the result")


@pytest.mark.slow
async def test_those_who_wait_have_the_result_at_once(app: holdfast.App) -> None:
    @app.task
    async def f(n: int) -> int:
        return n

    async def during(worker: Any) -> None:
        handle = await f.send_async(3)
        got = await asyncio.gather(*(handle.result_async(timeout=10) for _ in range(5)))
        assert got == [3] * 5

    await working(app, during)


def test_a_handle_is_only_a_name(app: holdfast.App) -> None:
    @app.task
    def f() -> str:
        return "x"

    handle = f.send()
    work(app)
    assert app.handle("f", handle.id).result(timeout=1) == "x"
    assert app.handle(f, handle.id).status() == "succeeded"
    with pytest.raises(InvalidArgument, match="no task"):
        app.handle("g", handle.id)
