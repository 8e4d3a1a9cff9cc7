"""The pytest plugin: fixtures for apps under test. pytest finds it by the package's entry point.

One server per test process (so one for each worker of pytest-xdist), a real Valkey in a temporary folder,
started when a test first asks for it, emptied before each test that does, and gone when the tests are over.
What an app keeps open on the loop of an async test is closed before that loop is.

pytest loads this file whatever is tested, so it imports nothing of Holdfast until a fixture is asked for.
"""

from __future__ import annotations

import inspect
from collections.abc import Awaitable, Callable, Generator, Iterator
from functools import wraps
from typing import TYPE_CHECKING, Any

import pytest

if TYPE_CHECKING:
    from holdfast.client._sync.client import Client
    from holdfast.tasks.app import App
    from holdfast.testing.kit import Kit, MakeKit

_APPS = pytest.StashKey["list[App]"]()


@pytest.fixture(scope="session")
def holdfast_server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """The URL of a server for these tests alone."""
    from holdfast import embedded

    home = tmp_path_factory.mktemp("holdfast")
    with embedded.join(home, "fast") as server:
        yield server.url
        embedded.down(home)


@pytest.fixture(scope="session")
def _holdfast_client(holdfast_server: str) -> Iterator[Client]:
    from holdfast.client._sync.client import Client

    with Client(holdfast_server, check="off") as client:
        yield client


@pytest.fixture
def _holdfast_url(
    _holdfast_client: Client, holdfast_server: str, request: pytest.FixtureRequest
) -> str:
    """The same, empty."""
    _holdfast_client.transport.command("FLUSHALL")
    request.node.stash[_APPS] = []
    return holdfast_server


@pytest.fixture
def holdfast_kit(_holdfast_url: str, request: pytest.FixtureRequest) -> Iterator[MakeKit]:
    """`kit = holdfast_kit(app)`: the app goes to the tests' server until the end of this test."""
    from holdfast.errors import InvalidArgument
    from holdfast.testing.kit import Kit

    made: list[Kit] = []

    def make(app: App, **options: Any) -> Kit:
        if made:
            raise InvalidArgument(
                f"this test has a kit already, around {made[0].app!r}: a test has one kit, and a kit one app"
            )
        request.node.stash[_APPS].append(app)
        made.append(Kit(app, _holdfast_url, **options))
        return made[0]

    yield make
    for kit in made:
        kit.close()


@pytest.fixture
def holdfast_app(_holdfast_url: str, request: pytest.FixtureRequest) -> Iterator[App]:
    """An app without tasks on the tests' server, for tests that define their own."""
    from holdfast.tasks.app import App

    app = App(_holdfast_url, check="off")
    request.node.stash[_APPS].append(app)
    yield app
    app.close()


@pytest.hookimpl(wrapper=True)
def pytest_runtest_call(item: pytest.Item) -> Generator[None]:
    """What an async test leaves open is closed on its own loop, whoever runs that, before it is gone."""
    test = getattr(item, "obj", None)
    if item.stash.get(_APPS, None) is None or not inspect.iscoroutinefunction(test):
        return (yield)
    item.obj = _closing(test, item.stash[_APPS])  # type: ignore[attr-defined]
    try:
        return (yield)
    finally:
        item.obj = test  # type: ignore[attr-defined]


def _closing(test: Callable[..., Awaitable[Any]], apps: list[App]) -> Callable[..., Any]:
    @wraps(test)
    async def closing(*args: Any, **kwargs: Any) -> Any:
        try:
            return await test(*args, **kwargs)
        finally:
            for app in apps:
                await app.close_async()

    return closing


@pytest.hookimpl(tryfirst=True)
def pytest_runtest_teardown(item: pytest.Item) -> None:
    """The same for what async fixtures have opened: before any fixture ends, since loops are fixtures too."""
    for app in item.stash.get(_APPS, []):
        for loop in list(app._desks):
            if not loop.is_closed() and not loop.is_running():
                loop.run_until_complete(app.close_async())
