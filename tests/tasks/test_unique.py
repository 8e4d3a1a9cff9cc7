"""Unique tasks: while queued, until they have run, for a while; what is the same, and what frees it."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

import holdfast
from holdfast import InvalidArgument, Retries
from holdfast.worker.worker import Worker
from tests.servers import wait_until
from tests.working import home, work, working


def test_a_second_one_is_not_sent_while_the_first_is_queued(app: holdfast.App) -> None:
    @app.task(unique="queued")
    def sync(account: int) -> str:
        return f"synced {account}"

    first, second, other = sync.send(1), sync.send(1), sync.send(2)
    assert (first.duplicate, second.duplicate, other.duplicate) == (False, True, False)
    assert (second.id == first.id, other.id == first.id) == (True, False)
    assert home(app).stats().ready == 2
    work(app)
    assert second.result(0) == "synced 1"


def test_also_while_it_is_delayed_and_by_whichever_way_it_is_sent(app: holdfast.App) -> None:
    @app.task(unique="queued")
    def sync(account: int, deep: bool = False) -> None: ...

    first = sync.send_in(3600, 1)
    again = [
        sync.send(1),
        sync.using(priority=9).send(account=1),
        *sync.send_many([(1,), {"account": 1}]),
    ]

    async def on_the_loop() -> Any:
        try:
            return await sync.send_async(1)
        finally:
            await app.close_async()

    again.append(asyncio.run(on_the_loop()))
    assert [(h.id, h.duplicate) for h in again] == [(first.id, True)] * 5
    assert not sync.send(1, deep=True).duplicate


def test_duplicates_within_one_send_many_are_found_too(app: holdfast.App) -> None:
    @app.task(unique="running")
    def sync(account: int) -> None: ...

    handles = sync.send_many([(1,), (2,), (1,), sync.job(2), {"account": 1}])
    assert [h.duplicate for h in handles] == [False, False, True, True, True]
    assert [h.id for h in handles[2:]] == [handles[0].id, handles[1].id, handles[0].id]
    assert home(app).stats().ready == 2


def test_an_argument_left_out_counts_as_left_out_not_as_its_default(app: holdfast.App) -> None:
    """The default of whoever runs it counts, and that may be another one by then."""

    @app.task(unique="queued")
    def sync(account: int, deep: bool = False) -> None: ...

    assert not sync.send(1).duplicate
    assert not sync.send(1, False).duplicate
    assert sync.send(1, deep=False).duplicate


def test_another_task_of_the_same_arguments_is_another(app: holdfast.App) -> None:
    @app.task(unique="queued")
    def sync(account: int) -> None: ...

    @app.task(unique="queued")
    def audit(account: int) -> None: ...

    assert not sync.send(1).duplicate
    assert not audit.send(1).duplicate


def test_what_is_unique_while_queued_can_be_sent_again_once_it_has_begun(app: holdfast.App) -> None:
    runs: list[int] = []

    @app.task(unique="queued")
    async def sync(account: int) -> None:
        runs.append(account)
        if len(runs) == 1:
            # The name is freed while the handler begins.
            async with asyncio.timeout(10):
                while (await sync.send_async(account)).duplicate:
                    await asyncio.sleep(0.01)

    sync.send(1)
    work(app)
    assert runs == [1, 1]


def test_what_is_unique_while_running_cannot_be_sent_again_until_it_has_ended(
    app: holdfast.App,
) -> None:
    seen: list[bool] = []

    @app.task(unique="running")
    async def sync(account: int) -> None:
        seen.append((await sync.send_async(account)).duplicate)

    first = sync.send(1)
    work(app)
    assert seen == [True]
    assert not sync.send(1).duplicate
    assert first.result(0) is None


def test_a_retry_does_not_meet_itself(app: holdfast.App) -> None:
    attempts: list[int] = []

    @app.task(unique="queued", retries=Retries(3, first=0.01, jitter=0))
    async def sync(account: int) -> None:
        attempts.append(holdfast.current().attempt)
        if len(attempts) < 3:
            raise ValueError

    handle = sync.send(1)
    work(app, idle=0.3)
    assert attempts == [1, 2, 3]
    assert handle.status() == "succeeded"
    assert not sync.send(1).duplicate


@pytest.mark.slow
def test_a_retry_and_one_that_was_sent_meanwhile_are_both_run(app: holdfast.App) -> None:
    """The first one's name was free once it had begun; who has it now keeps it."""
    runs: list[str] = []

    @app.task(unique="queued", retries=Retries(1, first=0.05, jitter=0))
    async def sync(account: int) -> None:
        runs.append(holdfast.current().id)
        if len(runs) == 1:
            async with asyncio.timeout(10):
                while (await sync.send_async(account)).duplicate:
                    await asyncio.sleep(0.01)
            raise ValueError

    first = sync.send(1)
    work(app, idle=0.5)
    assert len(runs) == 3
    assert runs.count(first.id) == 2


def test_while_a_retry_waits_what_is_unique_while_running_is_still_taken(app: holdfast.App) -> None:
    @app.task(unique="running", retries=Retries(1, first=3600, jitter=0))
    def sync(account: int) -> None:
        raise ValueError

    first = sync.send(1)
    work(app)
    assert first.status() == "retrying"
    again = sync.send(1)
    assert (again.id, again.duplicate) == (first.id, True)


@pytest.mark.parametrize("unique", ["queued", "running"])
def test_a_dead_letter_frees_the_name(app: holdfast.App, unique: Any) -> None:
    @app.task(unique=unique, retries=0)
    def sync(account: int) -> None:
        raise ValueError

    first = sync.send(1)
    work(app)
    assert first.status() == "failed"
    assert not sync.send(1).duplicate


def test_one_that_was_cancelled_frees_the_name(app: holdfast.App) -> None:
    @app.task(unique="running")
    def sync(account: int) -> None: ...

    assert sync.send(1).cancel()
    assert not sync.send(1).duplicate


def test_what_was_given_back_unstarted_is_still_there_once(app: holdfast.App) -> None:
    """The worker takes two, can begin with one, and stops."""

    @app.task(unique="queued")
    async def sync(account: int) -> None:
        await asyncio.sleep(0.2)

    sync.send(1)
    waiting = sync.send(2)

    async def stop_soon(worker: Worker) -> None:
        while not worker.running:
            await asyncio.sleep(0.001)

    asyncio.run(working(app, stop_soon, concurrency=1))
    assert waiting.status() == "queued"
    assert sync.send(2).duplicate


def test_unique_for_a_while_holds_also_after_it_has_run(app: holdfast.App) -> None:
    @app.task(unique_for=3600)
    def sync(account: int) -> str:
        return "done"

    first = sync.send(1)
    work(app)
    again = sync.send(1)
    assert (again.id, again.duplicate) == (first.id, True)
    assert again.result(0) == "done"
    assert home(app).stats().ready == 0


def test_unique_for_a_while_ends_with_the_while(app: holdfast.App) -> None:
    @app.task(unique_for=0.2)
    def sync(account: int) -> None: ...

    first = sync.send(1)
    assert sync.send(1).duplicate
    wait_until(lambda: sync.send(1).id != first.id, 10, "the end of the window")


def test_a_key_says_what_counts_as_the_same(app: holdfast.App) -> None:
    @app.task(unique="queued", unique_key=lambda account, reason: str(account))
    def sync(account: int, reason: str) -> None: ...

    first = sync.send(1, "because")
    assert sync.send(1, reason="another").id == first.id
    assert not sync.send(2, "because").duplicate


@pytest.mark.parametrize(
    ("options", "says"),
    [
        ({"unique": "always"}, "unique must be 'queued' or 'running'"),
        ({"unique": "queued", "unique_for": 3}, "give unique or unique_for, not both"),
        ({"unique_key": str}, "unique_key is of use only with"),
        ({"unique": "queued", "unique_key": "id"}, "unique_key must be a function"),
        ({"unique_for": 0}, "unique_for must be from 0.001"),
    ],
)
def test_what_cannot_be_is_refused_where_it_is_written(options: Any, says: str) -> None:
    with pytest.raises(InvalidArgument, match=says):
        holdfast.App().task(**options)


@pytest.mark.parametrize("key", [7, "", "x" * 300, None])
def test_a_key_that_is_no_name_is_refused_before_anything_is_sent(
    app: holdfast.App, key: Any
) -> None:
    @app.task(unique="queued", unique_key=lambda account: key)
    def sync(account: int) -> None: ...

    with pytest.raises(InvalidArgument, match="unique_key of task 'sync'"):
        sync.send(1)
    assert home(app).stats().ready == 0
