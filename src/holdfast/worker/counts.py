"""What a worker has done since it began: per task and moment, and how long it took.

Counted on the worker's loop, and looked at from threads beside it: `copy` is for those.
"""

from __future__ import annotations

import threading
import time


class Counts:
    def __init__(self) -> None:
        self.by_task: dict[str, dict[str, int]] = {}
        self.seconds: dict[str, float] = {}
        self._lock = threading.Lock()

    def add(self, task: str, moment: str, started: float = 0.0) -> None:
        with self._lock:
            found = self.by_task.get(task)
            if found is None:
                found = self.by_task[task] = {}
            found[moment] = found.get(moment, 0) + 1
            if started:
                self.seconds[task] = self.seconds.get(task, 0.0) + time.monotonic() - started

    def total(self, moment: str) -> int:
        with self._lock:
            return sum(found.get(moment, 0) for found in self.by_task.values())

    def copy(self) -> dict[str, dict[str, int]]:
        """By task and moment, as it is now."""
        with self._lock:
            return {task: dict(found) for task, found in self.by_task.items()}
