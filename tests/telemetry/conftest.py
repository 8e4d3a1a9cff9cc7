"""Apps on a standalone server: what is seen of a task does not depend on where its queue lies."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

import holdfast
from tests.conftest import Servers
from tests.working import new_app


@pytest.fixture
def app(all_servers: Servers) -> Iterator[holdfast.App]:
    with new_app(all_servers.url("standalone")) as made:
        yield made
