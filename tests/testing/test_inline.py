"""The inline mode: tasks run before send returns, in the thread of the test."""

from __future__ import annotations

import asyncio
import threading
from typing import Any

import pytest

import holdfast
from holdfast.testing import Kit, MakeKit, Ran
from tests.testing import shop
from tests.testing.shop import Order


@pytest.fixture
def kit(holdfast_kit: MakeKit) -> Kit:
    return holdfast_kit(shop.app, inline=True)


def test_a_task_has_run_when_send_returns_in_the_very_thread_of_the_test(kit: Kit) -> None:
    handle = shop.welcome.send(42)
    assert handle.result(0) == "hi 42"
    assert shop.threads == [threading.get_ident()]


def test_a_coroutine_too(kit: Kit) -> None:
    assert shop.newsletter.send(7).result(0) == 7


def test_retries_do_not_wait(kit: Kit) -> None:
    assert shop.flaky.send(2).result(0) == 3
    began = kit.clock.now
    with pytest.raises(holdfast.TaskFailed, match="after 3 attempts"):
        shop.flaky.send(3).result(0)
    assert kit.clock.now == began
    assert [dead.task for dead in kit.dead()] == ["flaky"]


def test_tasks_that_are_sent_by_tasks_run_inside_of_them(kit: Kit) -> None:
    shop.descend.send(2)
    assert shop.ran == ["in 2", "in 1", "in 0", "out 0", "out 1", "out 2"]


def test_a_task_can_wait_for_one_that_it_sends_however_many_were_sent_before(
    holdfast_app: holdfast.App, holdfast_kit: MakeKit
) -> None:
    holdfast_kit(holdfast_app, inline=True)

    @holdfast_app.task
    def inner(n: int) -> int:
        return n

    @holdfast_app.task
    def outer(n: int) -> int:
        return inner.send(n).result(0)

    handles = outer.send_many([(n,) for n in range(30)])
    assert [handle.result(0) for handle in handles] == list(range(30))


@pytest.mark.slow
def test_a_long_row_of_tasks_that_send_the_next_does_not_exhaust_the_stack(kit: Kit) -> None:
    shop.descend.send(300)
    assert len(shop.ran) == 602
    assert kit.dead() == []


def test_what_is_for_later_or_snoozed_waits_for_the_clock(kit: Kit) -> None:
    shop.ship.send(Order(1))
    snoozed = shop.nap.send()
    assert (len(shop.threads), snoozed.status()) == (1, "delayed")
    kit.clock.advance(60)
    assert kit.run() == Ran(succeeded=2)
    assert snoozed.result(0) == "awake"


@pytest.mark.slow
def test_flows_run_to_their_end(kit: Kit) -> None:
    parts = holdfast.group([shop.add.job(n, 10) for n in range(3)])
    assert parts.then(shop.total.job()).send().result(0) == 33
    steps = [shop.add.job(1, 1), *[shop.add.job(1)] * 200]
    assert holdfast.chain(*steps).send().result(0) == 202


def test_a_task_can_wait_for_a_flow_that_it_starts(
    holdfast_app: holdfast.App, holdfast_kit: MakeKit
) -> None:
    holdfast_kit(holdfast_app, inline=True)

    @holdfast_app.task
    def increase(n: int) -> int:
        return n + 1

    @holdfast_app.task
    def outer() -> int:
        flow: holdfast.Handle[int] = holdfast.chain(
            increase.job(1), increase.job(), increase.job()
        ).send()
        return flow.result(0)

    assert outer.send().result(0) == 4


def test_an_error_can_be_raised_where_it_was_sent(holdfast_kit: MakeKit) -> None:
    kit = holdfast_kit(shop.app, inline=True, raise_errors=True)
    with pytest.raises(ConnectionError, match="attempt 1"):
        shop.flaky.send(1)
    assert len(kit.sent()) == 1


def test_what_is_broken_off_is_ready_again(
    holdfast_app: holdfast.App, holdfast_kit: MakeKit
) -> None:
    kit = holdfast_kit(holdfast_app, inline=True)

    @holdfast_app.task
    def interrupted() -> None:
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        interrupted.send()
    assert kit.queue("default").stats().ready == 1


def test_a_message_that_is_no_task_becomes_a_dead_letter(kit: Kit) -> None:
    kit.queue("default").send(b"odd")
    assert kit.run() == Ran(buried=1)


async def test_on_the_loop_of_an_async_test(
    holdfast_app: holdfast.App, holdfast_kit: MakeKit
) -> None:
    holdfast_kit(holdfast_app, inline=True)
    mine = asyncio.get_running_loop()

    @holdfast_app.task
    async def inner() -> bool:
        return asyncio.get_running_loop() is mine

    @holdfast_app.task
    async def outer() -> bool:
        return await (await inner.send_async()).result_async(0)

    @holdfast_app.task
    def plain() -> bool:
        return asyncio.run(asyncio.sleep(0, result=True))

    assert await (await outer.send_async()).result_async(0)
    assert await (await plain.send_async()).result_async(0)
    handles = await asyncio.gather(*[outer.send_async() for _ in range(20)])
    assert all([await handle.result_async(0) for handle in handles])
    # A plain send there: the coroutine needs another loop.
    assert inner.send().result(0) is False


async def test_each_of_several_that_send_at_once_waits_for_its_own(
    holdfast_app: holdfast.App, holdfast_kit: MakeKit
) -> None:
    holdfast_kit(holdfast_app, inline=True)

    @holdfast_app.task
    async def quick() -> None: ...

    @holdfast_app.task
    async def slow() -> None:
        await asyncio.sleep(0.05)  # as real work would, it lets others go on

    async def sent(task: holdfast.Task[[], Any]) -> None:
        handle = await task.send_async()
        assert await handle.status_async() == "succeeded"

    await asyncio.gather(sent(quick), sent(slow), sent(slow))


async def test_a_plain_run_in_a_loop_is_refused(kit: Kit) -> None:
    with pytest.raises(holdfast.InvalidArgument, match="run_async"):
        kit.run()
    assert await kit.run_async() == Ran()
