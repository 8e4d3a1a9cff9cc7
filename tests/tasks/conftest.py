"""Apps of tests."""

from tests.working import app

__all__ = ["app"]
