"""Apps on a standalone server, a cluster, and one whose queues have shards."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

import holdfast
from tests.conftest import SETTINGS, Servers, Setting
from tests.working import new_app

HERE = ("standalone", "cluster-shards")


@pytest.fixture(params=HERE)
def app(request: pytest.FixtureRequest, all_servers: Servers) -> Iterator[holdfast.App]:
    where: Setting = SETTINGS[request.param]
    with new_app(all_servers.url(where.kind), where.shards) as made:
        yield made
