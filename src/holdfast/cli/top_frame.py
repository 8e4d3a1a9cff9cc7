"""What `holdfast top` shows at one moment: workers and queues as they are, and rates since the look
before.

A worker writes down what it does once a second, by its own clock, and so do we look: a rate is taken
between two different writings, however often each was seen, and stays until the next one is there.
"""

from __future__ import annotations

import time
from dataclasses import asdict, dataclass, field
from typing import Any

import msgspec

from holdfast.client._sync.client import Client
from holdfast.engine.replies import Stats
from holdfast.message import STATES
from holdfast.worker.presence import Presence, Running, read_all

ENDED = ("succeeded", "retried", "buried", "snoozed", "discarded", "cancelled")
FAILED = ("retried", "buried", "lost")
# Each costs a call; a person reads fewer.
MOST_QUEUES = 200


@dataclass(frozen=True)
class WorkerSeen:
    now: Presence
    tasks: float = 0.0
    """Attempts that ended, per second."""
    failures: float = 0.0


@dataclass(frozen=True)
class QueueSeen:
    name: str
    now: Stats
    arriving: float = 0.0
    """Messages sent, per second."""
    leaving: float = 0.0
    """Messages acked, per second."""

    @property
    def active(self) -> bool:
        return bool(self.now.total or self.arriving or self.leaving)


@dataclass(frozen=True)
class Frame:
    at: float = field(default_factory=time.time)
    workers: tuple[WorkerSeen, ...] = ()
    queues: tuple[QueueSeen, ...] = ()
    unseen_queues: int = 0
    unreadable: tuple[str, ...] = ()
    """Queues whose keys are not as a queue's should be, and why."""

    @property
    def running(self) -> list[tuple[WorkerSeen, Running]]:
        """What runs anywhere, longest first."""
        found = [(worker, run) for worker in self.workers for run in worker.now.running]
        return sorted(found, key=lambda pair: -pair[1].seconds)

    @property
    def totals(self) -> dict[str, float]:
        """Over all workers and queues."""
        workers, queues = self.workers, self.queues
        return {
            "workers": len(workers),
            "busy": sum(w.now.busy for w in workers),
            "concurrency": sum(w.now.concurrency for w in workers),
            "tasks": round(sum(w.tasks for w in workers), 1),
            "failures": round(sum(w.failures for w in workers), 1),
            **{state: sum(getattr(q.now, state) for q in queues) for state in STATES},
            "in": round(sum(q.arriving for q in queues), 1),
            "out": round(sum(q.leaving for q in queues), 1),
        }

    def as_json(self) -> dict[str, Any]:
        return {
            "at": round(self.at, 3),
            "workers": [_worker_json(worker) for worker in self.workers],
            "queues": [_queue_json(queue) for queue in self.queues],
            "totals": self.totals,
            "unreadable": list(self.unreadable),
        }


class Looking:
    """Looks again and again; remembers what rates are measured against."""

    def __init__(self, client: Client) -> None:
        self._client = client
        self._workers: dict[str, WorkerSeen] = {}
        self._queues: dict[str, Stats] = {}

    def look(self) -> Frame:
        workers = tuple(self._worker(found) for found in read_all(self._client))
        self._workers = {worker.now.name: worker for worker in workers}
        served = {name for worker in workers for name in worker.now.queues}
        # Those that somebody works on first, should there be more than one can look at.
        names = sorted(served) + [n for n in self._client.queues() if n not in served]
        stats, unreadable = self._client.all_stats(names[:MOST_QUEUES])
        queues = tuple(
            _queue(name, found, self._queues.get(name)) for name, found in sorted(stats.items())
        )
        self._queues = stats
        return Frame(
            workers=workers,
            queues=queues,
            unseen_queues=max(len(names) - MOST_QUEUES, 0),
            unreadable=tuple(f"{name!r}: {error}" for name, error in unreadable.items()),
        )

    def _worker(self, now: Presence) -> WorkerSeen:
        before = self._workers.get(now.name)
        # One that was begun anew under its old name counts from zero.
        if before is None or before.now.started_at != now.started_at:
            return WorkerSeen(now)
        passed = now.at - before.now.at
        if passed <= 0:
            return before
        ended, failed = (
            max(now.count(moments) - before.now.count(moments), 0) / passed
            for moments in (ENDED, FAILED)
        )
        return WorkerSeen(now, round(ended, 1), round(failed, 1))


def _queue(name: str, now: Stats, before: Stats | None) -> QueueSeen:
    passed = (now.now - before.now) / 1000 if before else 0.0
    if before is None or passed <= 0:
        return QueueSeen(name, now)
    # One that was deleted and made again in between counts from zero.
    arriving, leaving = (
        round(max(getattr(now, count) - getattr(before, count), 0) / passed, 1)
        for count in ("sent", "acked")
    )
    return QueueSeen(name, now, arriving, leaving)


def _worker_json(worker: WorkerSeen) -> dict[str, Any]:
    rates = {"tasks": worker.tasks, "failures": worker.failures}
    return dict(msgspec.to_builtins(worker.now)) | {"rates": rates}


def _queue_json(queue: QueueSeen) -> dict[str, Any]:
    counts = asdict(queue.now)
    return {
        "queue": queue.name,
        **{state: counts[state] for state in STATES},
        "paused": queue.now.paused,
        "oldest_age": round(queue.now.oldest_age, 3),
        "rates": {"in": queue.arriving, "out": queue.leaving},
    }
