"""Counting, cheap enough for tasks that take microseconds: plain numbers, turned into metrics when
somebody scrapes.

prometheus_client's own counters take a lock and a walk over buckets for each; together they cost more
than a small task does.
"""

from __future__ import annotations

from bisect import bisect_left

# From what a no-op takes to what a batch job takes, seconds.
BUCKETS = (0.001, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30, 60, 300, 1800)


class Spread:
    """How often a time fell into which bucket."""

    __slots__ = ("counts", "sum")

    def __init__(self) -> None:
        self.counts = [0] * (len(BUCKETS) + 1)
        self.sum = 0.0

    def add(self, seconds: float) -> None:
        self.counts[bisect_left(BUCKETS, seconds)] += 1
        self.sum += seconds

    def copy(self) -> Spread:
        made = Spread()
        made.counts, made.sum = list(self.counts), self.sum
        return made

    def cumulative(self) -> list[tuple[str, float]]:
        """As Prometheus wants it: how many were at most so long."""
        total, found = 0, []
        for bound, n in zip((*map(float, BUCKETS), "+Inf"), self.counts, strict=True):
            total += n
            found.append((str(bound), float(total)))
        return found


class Tally:
    """What has happened to the tasks of one name from one queue."""

    __slots__ = ("outcomes", "ran", "sent", "waited")

    def __init__(self) -> None:
        self.outcomes: dict[str, int] = {}
        self.ran = Spread()
        self.waited = Spread()
        self.sent = 0

    def copy(self) -> Tally:
        """For whoever looks while counting goes on."""
        made = Tally()
        made.outcomes, made.sent = dict(self.outcomes), self.sent
        made.ran, made.waited = self.ran.copy(), self.waited.copy()
        return made
