"""What a handler can ask about the attempt it is part of: `holdfast.current()`.

It is a context variable, so it is right in coroutines, in threads of the worker and in what they call; a
thread that the handler starts itself must be given a copy of the context.
"""

from __future__ import annotations

from contextvars import ContextVar
from datetime import datetime
from typing import Any

from holdfast.errors import InvalidArgument


class Context:
    """One attempt at one task."""

    __slots__ = (
        "attempt",
        "attributes",
        "cancelled",
        "id",
        "key",
        "lost",
        "queue",
        "sent_at",
        "started",
        "state",
        "task",
        "timed_out",
        "worker",
    )

    def __init__(
        self,
        id: str,
        task: str,
        queue: str,
        attempt: int,
        *,
        key: str = "",
        sent_at: datetime | None = None,
        attributes: dict[str, str] | None = None,
        worker: str = "",
    ) -> None:
        self.id = id
        self.task = task
        self.queue = queue
        self.attempt = attempt
        """1 for the first."""
        self.key = key
        """Its place in a flow, if it is part of one."""
        self.sent_at = sent_at
        self.attributes = attributes if attributes is not None else {}
        self.worker = worker
        self.cancelled = False
        """Somebody called `handle.cancel()`: stop when it suits you."""
        self.lost = False
        """The lease is lost: the task may be running elsewhere by now, and what this attempt returns is
        not taken into account."""
        self.timed_out = False
        self.started = 0.0
        self.state: dict[str, Any] = {}
        """For middleware."""

    @property
    def stopping(self) -> bool:
        """Nobody wants this attempt any more: cancelled, out of time, or its lease is lost. A long handler
        in a thread should look at this now and then, and return or raise."""
        return self.cancelled or self.lost or self.timed_out


_current: ContextVar[Context | None] = ContextVar("holdfast_current", default=None)
enter = _current.set
leave = _current.reset


def current() -> Context:
    """The attempt that this code runs in. Raises InvalidArgument outside of a task."""
    found = _current.get()
    if found is None:
        raise InvalidArgument("holdfast.current() is for code that runs in a task; this does not")
    return found


def current_or_none() -> Context | None:
    return _current.get()
