"""How much a worker takes ahead of what it runs: as much as it will begin with within a moment.

Small tasks come in large batches, which makes them cheap; of long ones nothing is taken that others could
begin with at once. Known from how long recent tasks took; a new worker takes nothing ahead until some have
ended.
"""

from __future__ import annotations

# Seconds of work that may wait here.
AHEAD = 0.25
MOST = 1000
# What waited longer than this goes back: others may be free.
PATIENCE = 2.0
_WEIGHT = 0.05


class Pace:
    def __init__(self, concurrency: int) -> None:
        self._concurrency = concurrency
        self._average: float | None = None

    def took(self, seconds: float) -> None:
        """A task has ended after so long."""
        if self._average is None:
            self._average = seconds
        else:
            self._average += (seconds - self._average) * _WEIGHT

    def slow(self) -> None:
        """What was taken ahead has waited too long."""
        self._average = max(self._average or 0.0, 2 * AHEAD * self._concurrency)

    @property
    def ahead(self) -> int:
        if self._average is None:
            return 0
        return min(MOST, int(self._concurrency * AHEAD / max(self._average, 1e-6)))

    def room(self, held: int, waiting: int) -> int:
        """How many to fetch. Not each place that falls free alone, while others wait to fill it."""
        ahead = self.ahead
        free = self._concurrency + ahead - held
        return 0 if waiting and free < ahead / 2 else max(free, 0)
