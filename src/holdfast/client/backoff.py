"""How long to wait before a failed delivery is tried again."""

from __future__ import annotations

import random
from collections.abc import Callable

Backoff = Callable[[int], float]
"""From the number of deliveries so far (1 after the first) to seconds."""


def exponential(first: float = 1.0, most: float = 300.0, jitter: float = 0.5) -> Backoff:
    """first, 2·first, 4·first … up to `most`; each shortened by up to `jitter` of itself, so that
    what failed together does not come back together."""

    def delay(receives: int) -> float:
        whole = min(first * 2.0 ** min(receives - 1, 60), most)
        return whole * (1 - random.random() * jitter)

    return delay
