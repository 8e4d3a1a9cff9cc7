"""What can be said of a task where it is defined, and of one call where it is sent."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from typing import Literal

from holdfast import names
from holdfast.errors import InvalidArgument
from holdfast.settings import Seconds, milliseconds, whole
from holdfast.tasks.limits import Limit
from holdfast.tasks.retries import Retries, policy

Run = Literal["auto", "loop", "thread", "process"]
Unique = Literal["queued", "running"]
RESULT_TTL = 600


@dataclass(frozen=True)
class Definition:
    """How a task is run. Checked when it is made."""

    queue: str = "default"
    priority: int = 0
    retries: Retries = field(default_factory=Retries)
    timeout: float | None = None
    result_ttl_ms: int = RESULT_TTL * 1000
    run: Run = "auto"
    group: Callable[..., str] | None = None
    unique: Unique | None = None
    unique_for_ms: int = 0
    unique_key: Callable[..., str] | None = None
    limits: tuple[Limit, ...] = ()


def define(
    *,
    queue: str,
    retries: int | Retries,
    result_ttl: Seconds | None,
    priority: int = 0,
    timeout: Seconds | None = None,
    run: Run = "auto",
    group: Callable[..., str] | None = None,
    unique: Unique | None = None,
    unique_for: Seconds | None = None,
    unique_key: Callable[..., str] | None = None,
    limits: Sequence[Limit] = (),
) -> Definition:
    """Raises InvalidArgument, and says which option is wrong."""
    if run not in ("auto", "loop", "thread", "process"):
        raise InvalidArgument(f"run must be auto, loop, thread or process, not {run!r}")
    if unique not in (None, "queued", "running"):
        raise InvalidArgument(f"unique must be 'queued' or 'running', not {unique!r}")
    if unique is not None and unique_for is not None:
        raise InvalidArgument("give unique or unique_for, not both")
    if unique_key is not None and unique is None and unique_for is None:
        raise InvalidArgument("unique_key is of use only with unique or unique_for")
    for what, given in (("group", group), ("unique_key", unique_key)):
        if given is not None and not callable(given):
            raise InvalidArgument(f"{what} must be a function of the task's arguments")
    for limit in limits:
        if not isinstance(limit, Limit):
            raise InvalidArgument(f"limits: {limit!r} is neither Rate nor Concurrency")
    return Definition(
        queue=names.check(queue, "a queue's name"),
        priority=whole(priority, "priority", 0, 9),
        retries=policy(retries),
        timeout=None if timeout is None else milliseconds(timeout, "timeout", least=1) / 1000,
        result_ttl_ms=0 if result_ttl is None else milliseconds(result_ttl, "result_ttl", least=1),
        run=run,
        group=group,
        unique=unique,
        unique_for_ms=0 if unique_for is None else milliseconds(unique_for, "unique_for", least=1),
        unique_key=unique_key,
        limits=tuple(limits),
    )


@dataclass(frozen=True)
class Sending:
    """What one call says beyond its arguments; None: as the task says."""

    delay: Seconds | None = None
    due: datetime | None = None
    priority: int | None = None
    group: str | None = None
    ttl: Seconds | None = None
    queue: str | None = None


PLAIN = Sending()
