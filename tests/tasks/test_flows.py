"""Chains, groups, and what follows them."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

import holdfast
from holdfast import chain, group
from holdfast.engine import keys
from holdfast.errors import InvalidArgument, TaskFailed
from tests.working import home, work


@pytest.fixture
def ran() -> list[Any]:
    return []


def define(app: holdfast.App, ran: list[Any]) -> tuple[Any, Any, Any]:
    @app.task
    async def start(n: int) -> int:
        ran.append(("start", n))
        return n

    @app.task
    def add(n: int, more: int = 1) -> int:
        ran.append(("add", n, more))
        return n + more

    @app.task
    def total(numbers: list[int]) -> int:
        ran.append(("total", tuple(numbers)))
        return sum(numbers)

    return start, add, total


def test_each_step_gets_what_the_one_before_returned(app: holdfast.App, ran: list[Any]) -> None:
    start, add, _ = define(app, ran)
    handle = chain(start.job(1), add.job(), add.job(more=10)).send()
    assert handle.status() == "running"
    work(app)
    assert ran == [("start", 1), ("add", 1, 1), ("add", 2, 10)]
    assert handle.result(timeout=1) == 12
    assert handle.status() == "succeeded"


def test_all_of_these_then_that(app: holdfast.App, ran: list[Any]) -> None:
    start, _, total = define(app, ran)
    handle = group([start.job(n) for n in range(20)]).then(total.job()).send()
    work(app)
    assert handle.result(timeout=1) == sum(range(20))
    assert ran[-1] == ("total", tuple(range(20)))
    assert len(ran) == 21


def test_a_group_alone_has_the_list_as_its_result(app: holdfast.App, ran: list[Any]) -> None:
    start, add, _ = define(app, ran)
    handle = group([start.job(1), chain(start.job(5), add.job())]).send()
    work(app)
    assert handle.result(timeout=1) == [1, 6]


def test_groups_in_the_middle_and_inside_each_other(app: holdfast.App, ran: list[Any]) -> None:
    start, add, total = define(app, ran)
    flow = chain(
        start.job(1),
        group(
            [
                add.job(more=1),
                add.job(more=2),
                group([add.job(), add.job(more=5)]).then(total.job()),
            ]
        ),
        total.job(),
        add.job(more=100),
    )
    handle = flow.send()
    work(app)
    # 1 → [2, 3, (2 + 6)] → 13 → 113
    assert handle.result(timeout=1) == 113


def test_an_empty_group_is_done_at_once(app: holdfast.App, ran: list[Any]) -> None:
    start, _, total = define(app, ran)
    handle = chain(start.job(1), group([]), total.job()).send()
    work(app)
    assert handle.result(timeout=1) == 0


def test_a_step_may_stand_alone(app: holdfast.App, ran: list[Any]) -> None:
    start, _, _ = define(app, ran)
    handle = chain(start.job(1), start.job(2).alone()).send()
    work(app)
    assert handle.result(timeout=1) == 2


def test_a_step_that_fails_for_good_ends_the_flow_and_redriven_goes_on(app: holdfast.App) -> None:
    broken = True

    @app.task(retries=0)
    def first() -> int:
        return 1

    @app.task(retries=0)
    def second(n: int) -> int:
        if broken:
            raise RuntimeError("out of order")
        return n + 1

    @app.task
    def third(n: int) -> int:
        return n * 10

    handle = chain(first.job(), second.job(), third.job()).send()
    work(app)
    with pytest.raises(TaskFailed, match="out of order"):
        handle.result(timeout=1)
    broken = False
    assert len(home(app).redrive()) == 1
    work(app)
    assert handle.result(timeout=1) == 20


def test_a_step_that_is_done_again_sends_what_follows_once(app: holdfast.App) -> None:
    """As when a worker dies after it has sent the next step and before it has acked."""
    ran: list[int] = []

    @app.task
    def first() -> int:
        return 1

    @app.task
    def second(n: int) -> None:
        ran.append(n)

    chain(first.job(), second.job()).send()
    from holdfast.tasks.attempt import Attempt, open_delivery

    [delivery] = home(app).receive_many(1)
    opened = open_delivery(app, delivery, app.default_queue, "w")
    assert isinstance(opened, Attempt)
    verdict = opened.succeeded(1)
    assert verdict.follow is not None
    app.desk().follow(*verdict.follow)
    home(app).release(delivery)
    work(app)
    assert ran == [1]


def test_the_last_part_of_a_group_can_be_done_again(app: holdfast.App) -> None:
    ran: list[Any] = []

    @app.task
    def part(n: int) -> int:
        return n

    @app.task
    def after(all_: list[int]) -> None:
        ran.append(all_)

    group([part.job(n) for n in range(3)]).then(after.job()).send()
    from holdfast.tasks.attempt import Attempt, open_delivery

    for delivery in [d for _ in range(3) for d in home(app).receive_many(1)]:
        opened = open_delivery(app, delivery, app.default_queue, "w")
        assert isinstance(opened, Attempt)
        verdict = opened.succeeded(*opened.args)
        assert verdict.follow is not None
        app.desk().follow(*verdict.follow)
        home(app).release(delivery)
    work(app)
    assert ran == [[0, 1, 2]]


def test_flows_that_cannot_work_are_refused_before_anything_is_sent(app: holdfast.App) -> None:
    @app.task
    def none() -> None: ...

    @app.task
    def one(n: int) -> None: ...

    for wrong in (
        lambda: chain(none.job(), none.job()).send(),
        lambda: chain(one.job(), one.job()).send(),
        lambda: chain(none.job(), one.job(1, 2)).send(),
        lambda: chain().send(),
        lambda: group([]).send(),
        lambda: chain(none, none).send(),  # type: ignore[arg-type]
    ):
        with pytest.raises(InvalidArgument):
            wrong()
    assert home(app).stats().total == 0


def test_a_flow_goes_through_several_queues(app: holdfast.App) -> None:
    @app.task(queue=f"{app.default_queue}-a")
    def first() -> int:
        return 1

    @app.task(queue=f"{app.default_queue}-b")
    async def second(n: int) -> int:
        return n + 1

    handle = chain(first.job(), second.job()).send()
    work(app)
    assert handle.result(timeout=1) == 2


def test_a_handle_made_from_a_flows_id_is_the_same_handle(
    app: holdfast.App, ran: list[Any]
) -> None:
    start, add, _ = define(app, ran)
    elsewhere = app.task(name="elsewhere", queue=f"{app.default_queue}-other")(lambda: None)
    began = app.start(chain(start.job(1), add.job(2)))
    for task in ("flow", start, elsewhere, "start"):
        handle = app.handle(task, began.id)
        assert (handle.id, handle.queue, handle.task) == (began.id, began.queue, began.task)
        assert handle.status() == "running"
    work(app)
    for task in ("flow", elsewhere):
        handle = app.handle(task, began.id)
        assert (handle.status(), handle.result()) == ("succeeded", 3)
    assert start.handle(began.id).result() == 3
    asyncio.run(assert_status(app, began.id, "succeeded"))


@pytest.mark.parametrize("id", ["0123456789abcdef", "1-1"])
def test_an_id_that_never_was_is_unknown(app: holdfast.App, ran: list[Any], id: str) -> None:
    start, *_ = define(app, ran)
    assert app.handle(start, id).status() == "unknown"
    asyncio.run(assert_status(app, id, "unknown"))


def test_a_flow_whose_result_is_not_kept_is_unknown_when_it_has_ended(
    app: holdfast.App, ran: list[Any]
) -> None:
    start, *_ = define(app, ran)
    began = app.start(start.job(1))
    assert began.status() == "running"
    work(app)
    key = keys.result_key(keys.QueueRef(began.queue), began.id)
    app.desk().client.transport.command("DEL", key, key=key)
    assert began.status() == "unknown"


async def assert_status(app: holdfast.App, id: str, status: str) -> None:
    assert await app.handle("start", id).status_async() == status
    await app.close_async()
