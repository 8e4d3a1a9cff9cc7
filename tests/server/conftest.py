"""One Valkey for all tests of the server; each test has names of its own."""

from __future__ import annotations

import secrets
from collections.abc import AsyncIterator, Iterator

import pytest

import holdfast
from holdfast import AsyncClient
from tests.servers import standalone_server


@pytest.fixture(scope="session")
def valkey(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    with standalone_server(tmp_path_factory.mktemp("valkey")) as server:
        yield server.url


@pytest.fixture
async def direct(valkey: str) -> AsyncIterator[AsyncClient]:
    """The same Valkey, past the server."""
    async with holdfast.connect_async(valkey, check="off") as client:
        yield client


@pytest.fixture
def name() -> str:
    """Of a queue or topic that no other test has seen."""
    return f"shop.{secrets.token_hex(4)}"
