"""Measurements that a busy machine can only make worse: they are taken again, and one must be good.

What must hold whatever the machine does is asserted as ever, and never tried again.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeVar

T = TypeVar("T")


class TooSlow(AssertionError):
    """It was slower than it should be, for which the machine may be to blame."""


def undisturbed(attempt: Callable[[], T], times: int = 3) -> T:
    for _ in range(times - 1):
        try:
            return attempt()
        except TooSlow:
            continue
    return attempt()
