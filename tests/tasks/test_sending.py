"""Sending tasks: what lies in the queue afterwards, and what is refused before."""

from __future__ import annotations

import asyncio
from datetime import UTC, datetime, timedelta
from typing import Any

import msgspec
import pytest

import holdfast
from holdfast.errors import InvalidArgument, Unsupported
from tests.working import home


def bodies(app: holdfast.App, state: Any = "ready") -> list[Any]:
    return [m.json() for m in home(app).inspect(state, 0, 100)]


def test_a_task_is_a_message_that_anybody_can_read(app: holdfast.App) -> None:
    @app.task
    def welcome(user_id: int, template: str = "hi") -> str:
        return template

    handle = welcome.send(42)
    [message] = home(app).inspect("ready")
    assert message.id == handle.id
    assert message.json() == {"task": "welcome", "args": {"user_id": 42}}
    assert (handle.queue, handle.task) == (app.default_queue, "welcome")
    assert handle.status() == "queued"


def test_calling_a_task_calls_the_function(app: holdfast.App) -> None:
    @app.task
    def twice(n: int) -> int:
        return 2 * n

    @app.task
    async def thrice(n: int) -> int:
        return 3 * n

    assert twice(4) == 8
    assert asyncio.run(thrice(4)) == 12
    assert twice.__name__ == "twice"


def test_at_a_time_and_after_a_time(app: holdfast.App) -> None:
    @app.task
    def later(n: int) -> None: ...

    at = datetime.now(UTC) + timedelta(hours=2)
    first = later.send_at(at, 1)
    second = later.send_in(3600, 2)
    third = later.send_in(timedelta(minutes=5), 3)
    due = {m.id: m.due for m in home(app).inspect("delayed", 0, 10)}
    assert abs(due[first.id] - at) < timedelta(milliseconds=2)
    assert due[third.id] < due[second.id] < due[first.id]
    assert first.status() == "delayed"
    with pytest.raises(InvalidArgument, match="time zone"):
        later.send_at(datetime.now(), 1)


def test_many_are_sent_in_one_go_in_their_order(app: holdfast.App) -> None:
    @app.task
    def f(a: int, b: str = "x") -> None: ...

    handles = f.send_many([(1,), (2, "y"), {"a": 3, "b": "z"}, f.job(4)])
    assert len({h.id for h in handles}) == 4
    assert sorted((b["args"] for b in bodies(app)), key=lambda a: a["a"]) == [
        {"a": 1},
        {"a": 2, "b": "y"},
        {"a": 3, "b": "z"},
        {"a": 4},
    ]
    assert f.send_many([]) == []


def test_nothing_is_sent_if_one_of_many_is_wrong(app: holdfast.App) -> None:
    @app.task
    def f(a: int) -> None: ...

    @app.task
    def g(a: int) -> None: ...

    for wrong in ([(1,), ("x",)], [(1,), 2], [(1,), g.job(1)], [{"b": 1}]):
        with pytest.raises(InvalidArgument):
            f.send_many(wrong)  # type: ignore[arg-type]
    assert bodies(app) == []


def test_more_can_be_said_of_a_call(app: holdfast.App) -> None:
    @app.task(priority=5, group=lambda n: f"g{n}")
    def f(n: int) -> None: ...

    f.send(1)
    f.using(priority=9, group="other", ttl=60).send(2)
    messages = sorted(home(app).inspect("ready", 0, 10), key=lambda m: m.priority)
    assert [(m.priority, m.group) for m in messages] == [(5, "g1"), (9, "other")]
    assert messages[0].expires_at is None
    assert messages[1].expires_at is not None


def test_coroutines_send_too(app: holdfast.App) -> None:
    @app.task
    def f(n: int) -> None: ...

    async def main() -> None:
        await asyncio.gather(*(f.send_async(n) for n in range(50)))
        await f.send_many_async([(n,) for n in range(50, 60)])
        await f.send_in_async(60, 60)
        handle = await f.using(priority=3).send_async(61)
        assert await handle.status_async() == "queued"
        assert await handle.cancel_async()
        assert await handle.status_async() == "cancelled"
        await app.close_async()

    asyncio.run(main())
    assert sorted(b["args"]["n"] for b in bodies(app)) == list(range(60))


def test_a_name_can_be_used_once(app: holdfast.App) -> None:
    @app.task(name="one")
    def f() -> None: ...

    with pytest.raises(InvalidArgument, match="already"):

        @app.task(name="one")
        def g() -> None: ...


@pytest.mark.parametrize(
    "options",
    [
        {"priority": 10},
        {"priority": "high"},
        {"retries": -1},
        {"timeout": 0},
        {"run": "somewhere"},
        {"queue": ""},
        {"unique": "always"},
        {"unique": "queued", "unique_for": 3},
        {"unique_key": str},
        {"limits": [5]},
        {"result_ttl": 0},
        {"group": "name"},
    ],
)
def test_options_that_make_no_sense_are_refused(options: dict[str, Any]) -> None:
    app = holdfast.App("redis://nowhere.invalid")
    with pytest.raises(InvalidArgument):

        @app.task(**options)
        def f() -> None: ...


def test_a_function_runs_where_it_can(app: holdfast.App) -> None:
    async def coroutine() -> None: ...
    def function() -> None: ...

    with pytest.raises(InvalidArgument, match="coroutine"):
        app.task(run="process")(coroutine)
    with pytest.raises(InvalidArgument, match="coroutine"):
        app.task(run="loop")(function)
    with pytest.raises(InvalidArgument, match="function"):
        app.task(int)


def test_an_app_is_made_without_a_server() -> None:
    app = holdfast.App("redis://nowhere.invalid")

    @app.task(queue="elsewhere")
    def f() -> None: ...

    assert app.queues == ["elsewhere"]
    assert "f" in app.tasks


def test_an_app_does_not_go_through_a_holdfast_server() -> None:
    app = holdfast.App("grpc://localhost:1")

    @app.task
    def f() -> None: ...

    with pytest.raises(Unsupported, match="grpc"):
        f.send()


def test_other_languages_send_the_same(app: holdfast.App) -> None:
    @app.task
    def f(n: int) -> int:
        return n + 1

    home(app).send(msgspec.json.encode({"task": "f", "args": {"n": 1}}))
    from tests.working import work

    done = work(app)
    assert done.counts.by_task == {"f": {"succeeded": 1}}
