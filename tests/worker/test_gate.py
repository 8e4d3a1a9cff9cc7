"""Limits through real workers, several at a time; what ran when is told by the server itself."""

from __future__ import annotations

import asyncio
from collections import Counter
from typing import Any

import pytest

import holdfast
from holdfast import Concurrency, Rate
from holdfast.worker.plan import Plan
from holdfast.worker.shares import Share
from holdfast.worker.worker import Worker
from tests.undisturbed import TooSlow, undisturbed
from tests.worker.limiting import Records, put, run, work_until
from tests.working import home

SLACK = 0.25
"""Seconds by which a handler may begin later than it was let in, on a machine that is busy."""


@pytest.fixture
def records(app: holdfast.App) -> Records:
    return Records(app)


def check_rate(moments: list[float], most: int, per: float, without: float = 0.0) -> None:
    """No more than the rate and its burst, in whichever window; and made use of, where the machine can.
    `without`: seconds that the same takes here without a rate."""
    for i, start in enumerate(moments):
        for j in range(i, len(moments)):
            assert j - i + 1 <= most * (1 + (moments[j] - start + SLACK) / per), (i, j)
    ideal = max(per * (len(moments) / most - 1), without)
    if moments[-1] - moments[0] > ideal / 0.8 + SLACK:
        raise TooSlow(f"{moments[-1] - moments[0]:.2f} s instead of {ideal:.2f}")


@pytest.mark.parametrize("where", ["queue", "task"])
@pytest.mark.slow
def test_a_rate_is_kept_by_all_workers_together_and_made_use_of(
    app: holdfast.App, records: Records, where: str
) -> None:
    @app.task(**put(app, where, [Rate(30, per=1)]))
    async def one(n: int) -> None:
        await records.moment()

    async def main() -> list[float]:
        await work_until(app, 90)
        return await records.moments()

    def attempt() -> None:
        records.begin()
        one.send_many([(n,) for n in range(90)])
        moments = run(app, main)
        assert len(moments) == 90
        check_rate(moments, 30, 1)

    undisturbed(attempt)


@pytest.mark.parametrize("where", ["queue", "task"])
@pytest.mark.slow
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


@pytest.mark.slow
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


@pytest.mark.slow
def test_each_key_has_a_rate_of_its_own(app: holdfast.App, records: Records) -> None:
    @app.task(limits=[Rate(20, key=lambda user, n: user)])
    async def one(user: str, n: int) -> None:
        await records.moment(user)

    async def main() -> None:
        await work_until(app, 180)
        for user in ("ann", "bob", "cid"):
            moments = await records.moments(user)
            assert len(moments) == 60
            check_rate(moments, 20, 1)

    def attempt() -> None:
        records.begin()
        one.send_many([(user, n) for n in range(60) for user in ("ann", "bob", "cid")])
        run(app, main)

    undisturbed(attempt)


@pytest.mark.slow
def test_all_limits_of_a_call_must_let_it_in(app: holdfast.App, records: Records) -> None:
    app.queue(app.default_queue, limits=[Concurrency(5)])

    @app.task(limits=[Rate(1000, per=1), Concurrency(2), Rate(20, per=1)])
    async def one(n: int) -> None:
        await records.moment()
        await records.inside(0.03)

    @app.task(limits=[Concurrency(2)])
    async def without_a_rate(n: int) -> None:
        await records.moment("without")
        await records.inside(0.03, "without")

    async def main() -> None:
        await work_until(app, 40)
        first, *_, last = await records.moments("without")
        await one.send_many_async([(n,) for n in range(40)])
        await work_until(app, 40)
        assert await records.most() == 2
        moments = await records.moments()
        assert len(moments) == 40
        check_rate(moments, 20, 1, last - first)

    def attempt() -> None:
        records.begin()
        without_a_rate.send_many([(n,) for n in range(40)])
        run(app, main)

    undisturbed(attempt)


@pytest.mark.slow
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


@pytest.mark.parametrize(
    ("key", "says"),
    [
        (lambda n: 1 / 0, "ZeroDivisionError"),
        (lambda n: n, "must be text, not int"),
        (lambda n: "", "must have 1 to 200 characters"),
    ],
)
@pytest.mark.slow
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


@pytest.mark.slow
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


@pytest.mark.slow
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


@pytest.mark.slow
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
