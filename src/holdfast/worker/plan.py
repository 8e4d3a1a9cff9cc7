"""How a worker works: what its command line or its maker says."""

from __future__ import annotations

import os
import socket
from collections.abc import Sequence
from dataclasses import dataclass, field

from holdfast.settings import AS_SET, Lease
from holdfast.worker.shares import Share


@dataclass(frozen=True)
class Plan:
    """`concurrency`: tasks at a time, on the loop and in threads together. `processes`: of CPU-bound tasks
    at a time; 0: as many as there are cores. `lease`: by default as the queues are set. `deadline`: how long
    what runs may go on when the worker is to stop, seconds. `idle`: end when there was nothing to do for so
    long."""

    shares: Sequence[Share]
    concurrency: int = 16
    strict: bool = False
    processes: int = 0
    lease: Lease = AS_SET
    deadline: float = 30.0
    idle: float | None = None
    scheduler: bool = True
    """Whether it sends the app's cron ticks."""
    presence: bool = True
    """Whether `holdfast top` shall see it."""
    apart: bool = True
    """Whether tasks that ask for a process get one; in tests they run in threads."""
    target: str = ""
    """How a process for CPU-bound tasks finds the app: module:name."""
    name: str = field(default_factory=lambda: f"{socket.gethostname()}:{os.getpid()}")
