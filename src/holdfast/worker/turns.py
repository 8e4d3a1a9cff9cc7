"""When those that a limit turned away shall come back: one after the other, about as fast as it lets them in.

If they all came back at once, a long backlog would be fetched and turned away over and over. So each gets a
turn after the one before it. We know only those that we turned away ourselves; several workers give the same
turns twice, and who comes too early is given another one.
"""

from __future__ import annotations

import random
import time
from collections.abc import Callable

from holdfast.tasks.limits import Limit, Rate

# A turn is never further away than this: the limit may be raised, or others may be gone by then.
FURTHEST = 30.0
# Under a limit of concurrency nobody knows when a place will be free; it is guessed from how long others have
# held theirs, and from this before any has left.
_GUESS = 0.05
_SOONEST = 0.01
_WEIGHT = 0.1
_REMEMBER = 10_000


class Turns:
    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._next: dict[str, float] = {}
        self._took: dict[Limit, float] = {}
        self._many = _REMEMBER

    def took(self, limit: Limit, seconds: float) -> None:
        """Something held a place under it for so long."""
        before = self._took.get(limit, seconds)
        self._took[limit] = before + (seconds - before) * _WEIGHT

    def open(self, name: str) -> None:
        """It turns nobody away any more."""
        self._next.pop(name, None)

    def give(self, name: str, limit: Limit, wait: float) -> float:
        """Seconds until the next turn; `wait`: until the first one, as the server says."""
        now = self._clock()
        if isinstance(limit, Rate):
            apart, first = limit.each, wait
        else:
            # Twice as many as there will be places for, since none shall stay empty.
            apart = self._took.get(limit, _GUESS) / limit.most / 2
            first = max(apart * random.uniform(1, 3), _SOONEST)
        turn = max(self._next.get(name, 0.0) + apart, now + first)
        if turn > now + FURTHEST:
            return random.uniform(FURTHEST / 2, FURTHEST)
        if len(self._next) > self._many:
            self._next = {key: at for key, at in self._next.items() if at > now}
            self._many = max(2 * len(self._next), _REMEMBER)
        self._next[name] = turn
        return turn - now
