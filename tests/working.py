"""Apps and workers for tests: real ones, in this process."""

from __future__ import annotations

import asyncio
import itertools
from collections.abc import Awaitable, Callable, Iterator
from contextlib import contextmanager
from datetime import datetime
from typing import Any, NamedTuple

import pytest

import holdfast
from holdfast.message import utc
from holdfast.worker.plan import Plan
from holdfast.worker.shares import Share
from holdfast.worker.worker import Worker
from tests.conftest import SETTINGS, Servers

_numbers = itertools.count(1)


class Letter(NamedTuple):
    """A task's message, where a test needs a context and nothing was sent."""

    id: str = "1-1"
    attributes: dict[str, str] = {}  # noqa: RUF012 (nobody writes to it)
    sent_at: datetime = utc(1)


@contextmanager
def new_app(url: str | None, shards: int = 1, **options: Any) -> Iterator[holdfast.App]:
    """An app whose tasks go to a queue that no other test has seen."""
    app = holdfast.App(url, queue=f"tasks{next(_numbers)}", check="off", **options)
    if shards > 1:
        home(app).configure(shards=shards)
    try:
        yield app
    finally:
        app.close()


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    """On a cluster where its queue has shards, which takes all the ways that one server takes; `--quick`: on
    one server; `--settings all`: on both."""
    if "app" in metafunc.fixturenames:
        one, all_ways = "standalone", "cluster-shards"
        asked = metafunc.config.getoption("settings")
        quick = metafunc.config.getoption("quick") or asked == "one"
        chosen = [one] if quick else [one, all_ways] if asked == "all" else [all_ways]
        metafunc.parametrize("app", chosen, indirect=True)


@pytest.fixture
def app(request: pytest.FixtureRequest, all_servers: Servers) -> Iterator[holdfast.App]:
    where = SETTINGS[request.param]
    with new_app(all_servers.url(where.kind), where.shards) as made:
        yield made


def home(app: holdfast.App) -> Any:
    """The queue that an app's tasks go to."""
    return app.desk().queue(app.default_queue)


async def working(
    app: holdfast.App,
    during: Callable[[Worker], Awaitable[Any]] | None = None,
    *,
    idle: float | None = 0.05,
    queues: list[Share] | None = None,
    **plan: Any,
) -> Worker:
    """A worker, until it has been idle; or, with `during`, until that has ended."""
    shares = queues or [Share(name) for name in app.queues or [app.default_queue]]
    plan.setdefault("presence", False)
    worker = Worker(app, Plan(shares, idle=None if during else idle, **plan))
    run = asyncio.ensure_future(worker.run())
    try:
        if during is not None:
            meanwhile = asyncio.ensure_future(during(worker))
            await asyncio.wait([meanwhile, run], return_when=asyncio.FIRST_COMPLETED)
            worker.quiet()
            await run
            await meanwhile
        await run
    finally:
        await app.close_async()
    return worker


def work(app: holdfast.App, **options: Any) -> Worker:
    """The same, from where there is no loop."""
    return asyncio.run(working(app, **options))
