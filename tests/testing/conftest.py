"""The plugin's fixtures, also where the package is not installed and pytest does not find it by itself."""

from __future__ import annotations

import pytest

from holdfast.testing.plugin import (
    _holdfast_client,
    _holdfast_url,
    holdfast_app,
    holdfast_kit,
    holdfast_server,
    pytest_runtest_call,
    pytest_runtest_teardown,
)
from tests.testing import shop

__all__ = [
    "_holdfast_client",
    "_holdfast_url",
    "holdfast_app",
    "holdfast_kit",
    "holdfast_server",
    "pytest_runtest_call",
    "pytest_runtest_teardown",
]


@pytest.fixture(autouse=True)
def forgotten() -> None:
    """What the shop's handlers have noted."""
    shop.ran.clear()
    shop.threads.clear()
