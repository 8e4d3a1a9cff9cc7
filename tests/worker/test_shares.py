"""Which queue is served next, and which task of it: weights, strictness, priorities, groups."""

from __future__ import annotations

import asyncio
import random
from collections import Counter
from collections.abc import Iterator
from typing import Any

import pytest

import holdfast
from holdfast import InvalidArgument
from holdfast.worker.shares import Share, check, order, parse, part_of, portions
from holdfast.worker.worker import Worker
from tests.conftest import Servers
from tests.working import home, new_app, work, working


@pytest.fixture(autouse=True)
def seed() -> Iterator[None]:
    """The same draws every time."""
    state = random.getstate()
    random.seed(7)
    yield
    random.setstate(state)


# ---- the order in which queues are looked at -----------------------------------------------------


def test_a_queue_is_first_as_often_as_its_weight_says() -> None:
    shares = [Share("a", 1), Share("b", 3), Share("c", 6)]
    first = Counter(order(shares, strict=False)[0] for _ in range(10_000))
    for share in shares:
        assert abs(first[share.queue] / 1000 - share.weight) < 0.25


@pytest.mark.slow
def test_of_those_that_are_left_the_next_is_drawn_in_the_same_way() -> None:
    """Once b has nothing, a and c share as if they were alone: 1 to 6."""
    shares = [Share("a", 1), Share("b", 3), Share("c", 6)]
    drawn = [order(shares, strict=False) for _ in range(10_000)]
    second = Counter(names[1] for names in drawn if names[0] == "b")
    assert abs(second["c"] / second.total() - 6 / 7) < 0.03


def test_every_look_goes_through_all_queues() -> None:
    shares = [Share("a", 1000), Share("b"), Share("c")]
    assert {tuple(sorted(order(shares, strict=False))) for _ in range(100)} == {("a", "b", "c")}


def test_strict_is_always_the_order_given() -> None:
    shares = [Share("b"), Share("a", 1000), Share("c", 5)]
    assert {tuple(order(shares, strict=True)) for _ in range(100)} == {("b", "a", "c")}


def test_a_portion_is_the_weight_among_those_that_are_left() -> None:
    shares = [Share("a", 1), Share("b", 3), Share("c", 6)]
    found = portions(shares, ["b", "c", "a"])
    assert found == {"b": pytest.approx(3 / 10), "c": pytest.approx(6 / 7), "a": 1.0}
    assert list(found) == ["b", "c", "a"]


@pytest.mark.parametrize("room", [1, 2, 3, 5, 6, 10, 333])
def test_weights_count_in_a_room_of_any_size(room: int) -> None:
    shares = [Share("a", 3), Share("b", 1)]
    taken: Counter[str] = Counter()
    for _ in range(40_000 // room):
        left = room
        for name, portion in portions(shares, order(shares, strict=False)).items():
            part = part_of(left, portion)
            assert 0 <= part <= left
            taken[name] += part
            left -= part
        assert left == 0
    assert taken["a"] / taken.total() == pytest.approx(0.75, abs=0.015)


@pytest.mark.parametrize(
    ("text", "shares"),
    [
        ("emails:3,default", [Share("emails", 3), Share("default")]),
        (" a , b:1000 ,", [Share("a"), Share("b", 1000)]),
        ("urn:x:2", [Share("urn:x", 2)]),
        ("urn:x", [Share("urn:x")]),
    ],
)
def test_shares_are_read_from_a_line(text: str, shares: list[Share]) -> None:
    assert parse(text) == shares


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("", "name at least one queue"),
        (",", "name at least one queue"),
        ("a:0", "the weight of 'a' must be from 1 to 1000"),
        ("a:1001", "the weight of 'a' must be from 1 to 1000"),
        ("a,a:2", "each queue can be named once"),
        (":3", "a queue's name must have"),
    ],
)
def test_what_makes_no_sense_is_refused(text: str, says: str) -> None:
    with pytest.raises(InvalidArgument, match=says):
        parse(text)


def test_shares_made_by_hand_are_checked_too() -> None:
    with pytest.raises(InvalidArgument, match="each queue can be named once"):
        check([Share("a"), Share("a")])


# ---- through a worker ----------------------------------------------------------------------------


def two_queues(app: holdfast.App, takes: float = 0.001) -> tuple[Any, Any, list[str]]:
    """A task in each of two queues, and what ran in which order."""
    ran: list[str] = []

    @app.task(queue=f"{app.default_queue}-a")
    async def a(n: int) -> None:
        ran.append("a")
        await asyncio.sleep(takes)

    @app.task(queue=f"{app.default_queue}-b")
    async def b(n: int) -> None:
        ran.append("b")
        await asyncio.sleep(takes)

    return a, b, ran


def shares_of(a: Any, b: Any, weights: tuple[int, int] = (1, 1)) -> list[Share]:
    return [Share(task.definition.queue, w) for task, w in zip((a, b), weights, strict=True)]


@pytest.mark.slow
def test_weights_decide_how_much_of_each_queue_is_done_while_both_have_some(
    app: holdfast.App,
) -> None:
    """Tasks of 10 ms, so that a look takes a hundred at most, and where it is cut off matters little."""
    a, b, ran = two_queues(app, 0.01)
    a.send_many([(n,) for n in range(2000)])
    b.send_many([(n,) for n in range(2000)])

    async def enough(worker: Worker) -> None:
        while len(ran) < 800:
            await asyncio.sleep(0.001)

    asyncio.run(working(app, enough, queues=shares_of(a, b, (3, 1)), concurrency=4))
    done = Counter(ran[:800])
    assert 2 < done["a"] / done["b"] < 4


@pytest.mark.slow
def test_a_queue_of_little_weight_is_not_starved_by_one_that_is_never_empty(
    app: holdfast.App,
) -> None:
    a, b, ran = two_queues(app)
    a.send_many([(n,) for n in range(3000)])
    b.send_many([(n,) for n in range(5)])

    async def until_b_is_done(worker: Worker) -> None:
        async with asyncio.timeout(30):
            while ran.count("b") < 5:
                await asyncio.sleep(0.001)

    asyncio.run(working(app, until_b_is_done, queues=shares_of(a, b, (20, 1)), concurrency=4))
    assert ran.index("b") < 1100  # one look takes a thousand at most
    assert ran.count("a") < 3000


def test_strict_does_all_of_the_first_before_any_of_the_second(app: holdfast.App) -> None:
    a, b, ran = two_queues(app)
    b.send_many([(n,) for n in range(50)])
    a.send_many([(n,) for n in range(50)])
    work(app, queues=shares_of(a, b), strict=True, concurrency=1)
    assert ran == ["a"] * 50 + ["b"] * 50


@pytest.mark.slow
def test_strict_comes_back_to_the_first_as_soon_as_it_has_something(app: holdfast.App) -> None:
    a, b, ran = two_queues(app)

    @app.task(queue=b.definition.queue)
    async def calls_a() -> None:
        await a.send_async(1)

    calls_a.send()
    b.send_many([(n,) for n in range(300)])

    async def until_done(worker: Worker) -> None:
        async with asyncio.timeout(30):
            while len(ran) < 301:
                await asyncio.sleep(0.001)

    asyncio.run(working(app, until_done, queues=shares_of(a, b), strict=True, concurrency=1))
    # Not at once: some of b may have been fetched ahead, a quarter of a second's worth.
    assert "a" in ran[:-1]


# ---- within a queue ------------------------------------------------------------------------------


@pytest.fixture
def one_shard(all_servers: Servers) -> Iterator[holdfast.App]:
    """The order over all messages is a promise of one shard."""
    with new_app(all_servers.url("standalone")) as made:
        yield made


def test_what_is_more_urgent_is_run_first_and_the_rest_in_order(one_shard: holdfast.App) -> None:
    ran: list[str] = []

    @one_shard.task
    async def note(what: str) -> None:
        ran.append(what)

    note.send("first")
    note.send("second")
    note.using(priority=9).send("urgent")
    note.using(priority=5).send("soon")
    work(one_shard, concurrency=1)
    assert ran == ["urgent", "soon", "first", "second"]


def test_with_aging_what_has_waited_long_overtakes_what_is_more_urgent(
    one_shard: holdfast.App,
) -> None:
    """Each 10 ms of waiting are worth a level; the urgent ones come later than that."""
    ran: list[str] = []
    one_shard.queue(one_shard.default_queue, aging=0.01)

    @one_shard.task
    async def note(what: str) -> None:
        ran.append(what)

    home(one_shard).configure(aging=0.01)
    old = note.send("old")

    async def later() -> None:
        try:
            await asyncio.sleep(0.3)
            await note.using(priority=9).send_async("urgent")
            assert await old.status_async() == "queued"
        finally:
            await one_shard.close_async()

    asyncio.run(later())
    work(one_shard, concurrency=1)
    assert ran == ["old", "urgent"]


@pytest.mark.slow
def test_tasks_of_a_group_run_one_at_a_time_and_in_order_those_of_others_beside_them(
    app: holdfast.App,
) -> None:
    ran: list[tuple[str, int]] = []
    inside: Counter[str] = Counter()
    most: Counter[str] = Counter()

    @app.task(group=lambda user, n: user)
    async def note(user: str, n: int) -> None:
        for counted in (user, "all"):
            inside[counted] += 1
            most[counted] = max(most[counted], inside[counted])
        await asyncio.sleep(random.uniform(0, 0.005))
        ran.append((user, n))
        for counted in (user, "all"):
            inside[counted] -= 1

    note.send_many([(user, n) for n in range(15) for user in ("ann", "bob", "cid")])

    async def until_done(worker: Worker) -> None:
        async with asyncio.timeout(30):
            while len(ran) < 45:
                await asyncio.sleep(0.001)

    asyncio.run(working(app, until_done, concurrency=16))
    for user in ("ann", "bob", "cid"):
        assert [n for who, n in ran if who == user] == list(range(15))
        assert most[user] == 1
    assert most["all"] > 1
