"""What a handler can ask about the attempt it is part of: `holdfast.current()`.

It is a context variable, so it is right in coroutines, in threads of the worker and in what they call; a
thread that the handler starts itself must be given a copy of the context.
"""

from __future__ import annotations

from contextvars import ContextVar
from datetime import datetime
from typing import Any, Protocol

from holdfast.errors import InvalidArgument


class Sent(Protocol):
    """The message of a task, as far as a handler may ask about it."""

    @property
    def id(self) -> str: ...
    @property
    def sent_at(self) -> datetime: ...
    @property
    def attributes(self) -> dict[str, str]: ...


class Context:
    """One attempt at one task."""

    __slots__ = (
        "_attributes",
        "_id",
        "_sent",
        "attempt",
        "cancelled",
        "key",
        "lost",
        "queue",
        "started",
        "state",
        "task",
        "timed_out",
        "worker",
    )

    def __init__(
        self,
        sent: Sent,
        task: str,
        queue: str,
        attempt: int,
        *,
        key: str = "",
        worker: str = "",
    ) -> None:
        # Read when asked for: most handlers never do.
        self._sent = sent
        self._id: str | None = None
        self._attributes: dict[str, str] | None = None
        self.task = task
        self.queue = queue
        self.attempt = attempt
        """1 for the first."""
        self.key = key
        """Its place in a flow, if it is part of one."""
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
    def id(self) -> str:
        if self._id is None:
            self._id = self._sent.id
        return self._id

    @property
    def sent_at(self) -> datetime:
        return self._sent.sent_at

    @property
    def attributes(self) -> dict[str, str]:
        """Of the message; the sender's middleware may have added to them."""
        if self._attributes is None:
            self._attributes = self._sent.attributes
        return self._attributes

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
