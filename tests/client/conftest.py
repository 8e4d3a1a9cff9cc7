"""One server for all tests of the client; each test has queues of its own.

Tests that take `hf` or `q` run twice: straight on Valkey, and through a gRPC door. To run only on
Valkey, say so and why: `@pytest.mark.direct("events are not offered through a server")`.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.server.grpc.running import running
from tests.servers import standalone_server

WAYS = ("direct", "grpc")


def pytest_configure(config: pytest.Config) -> None:
    config.addinivalue_line("markers", "direct(reason): not through a gRPC door")


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    if "way" in metafunc.fixturenames:
        direct = any(metafunc.definition.iter_markers("direct"))
        metafunc.parametrize("way", WAYS[:1] if direct else WAYS)


@pytest.fixture(scope="session")
def url(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    folder: Path = tmp_path_factory.mktemp("server")
    with standalone_server(folder) as server:
        yield server.url


@pytest.fixture(scope="session")
def door_url(url: str) -> Iterator[str]:
    """A gRPC door to the same server."""
    with running(url) as door:
        yield door.url
