from __future__ import annotations

import secrets
from collections.abc import AsyncIterator

import pytest

import holdfast
from holdfast import AsyncClient, AsyncQueue


@pytest.fixture
async def hf(way: str, request: pytest.FixtureRequest) -> AsyncIterator[AsyncClient]:
    url = request.getfixturevalue("url" if way == "direct" else "door_url")
    async with holdfast.connect_async(url) as client:
        yield client


@pytest.fixture
def q(hf: AsyncClient) -> AsyncQueue:
    return hf.queue(f"q-{secrets.token_hex(4)}")
