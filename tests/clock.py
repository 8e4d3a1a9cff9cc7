"""The clock of a queue or a topic in the hands of a test: it stands still, and moves when told to."""

from __future__ import annotations

from datetime import datetime

from holdfast import Queue, Subscription, Topic
from holdfast.message import utc

START = 1_700_000_000_000


class Clock:
    def __init__(self, *queues: Queue | Topic | Subscription, ms: int = START) -> None:
        self._queues = queues
        self.set(ms)

    def set(self, ms: int) -> None:
        self.ms = ms
        for queue in self._queues:
            queue.set_clock(ms)

    def advance(self, seconds: float) -> None:
        self.set(self.ms + round(seconds * 1000))

    @property
    def now(self) -> datetime:
        return utc(self.ms)

    def at(self, seconds: float) -> datetime:
        """The moment so many seconds from now."""
        return utc(self.ms + round(seconds * 1000))
