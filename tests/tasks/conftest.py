"""Apps of tests."""

from tests.working import app, pytest_generate_tests

__all__ = ["app", "pytest_generate_tests"]
