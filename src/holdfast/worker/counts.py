"""What a worker has done since it began: per task and moment, and how long it took."""

from __future__ import annotations

import time


class Counts:
    def __init__(self) -> None:
        self.by_task: dict[str, dict[str, int]] = {}
        self.seconds: dict[str, float] = {}

    def add(self, task: str, moment: str, started: float = 0.0) -> None:
        found = self.by_task.get(task)
        if found is None:
            found = self.by_task[task] = {}
        found[moment] = found.get(moment, 0) + 1
        if started:
            self.seconds[task] = self.seconds.get(task, 0.0) + time.monotonic() - started

    def total(self, moment: str) -> int:
        return sum(found.get(moment, 0) for found in self.by_task.values())
