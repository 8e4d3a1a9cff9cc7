"""One Valkey with every door to it. A test that takes `door` runs through each of them; `other` is
always the direct way, to see what a door did."""

from __future__ import annotations

import secrets
from collections.abc import Iterator

import pytest
import redis

import holdfast
from tests.conformance.doors import Door, Python, Resp
from tests.server.grpc.running import running as running_grpc
from tests.server.resp.running import running as running_resp
from tests.servers import standalone_server

DOORS = ("direct", "grpc", "resp2", "resp3")


@pytest.fixture(scope="session")
def doors(tmp_path_factory: pytest.TempPathFactory) -> Iterator[dict[str, Door]]:
    with (
        standalone_server(tmp_path_factory.mktemp("valkey")) as valkey,
        running_grpc(valkey.url) as grpc_door,
        running_resp(valkey.url) as resp_door,
        holdfast.connect(valkey.url, check="off") as direct,
        holdfast.connect(grpc_door.url) as through_grpc,
        redis.Redis(resp_door.host, resp_door.port) as two,
        redis.Redis(resp_door.host, resp_door.port, protocol=3) as three,
    ):
        yield {
            "direct": Python(direct),
            "grpc": Python(through_grpc),
            "resp2": Resp(two),
            "resp3": Resp(three),
        }


@pytest.fixture(params=DOORS)
def door(request: pytest.FixtureRequest, doors: dict[str, Door]) -> Door:
    return doors[request.param]


@pytest.fixture
def other(doors: dict[str, Door]) -> Door:
    return doors["direct"]


@pytest.fixture
def name() -> str:
    return f"c-{secrets.token_hex(4)}"
