"""What a kit tells: what was sent, what was run, what is dead. Small values to compare with."""

from __future__ import annotations

from dataclasses import dataclass, field
from datetime import datetime
from typing import Any

import msgspec

from holdfast.errors import Corrupt
from holdfast.message import Message
from holdfast.tasks import body as bodies
from holdfast.tasks.body import Past
from holdfast.worker.counts import Counts


@dataclass(frozen=True)
class Sent:
    """A task that was sent. Its id does not count when two are compared."""

    task: str
    args: dict[str, Any] = field(default_factory=dict)
    """By name, as JSON has them; those left at their defaults are not there."""
    queue: str = "default"
    due: datetime | None = None
    """None: at once."""
    priority: int = 0
    group: str | None = None
    id: str = field(default="", compare=False)


@dataclass(frozen=True)
class Dead:
    """A dead letter. `trace`: the traceback of its last attempt; `history`: all of them."""

    task: str
    args: dict[str, Any]
    queue: str
    reason: str
    trace: str = ""
    history: tuple[Past, ...] = field(default=(), repr=False)
    id: str = field(default="", compare=False)


@dataclass(frozen=True)
class Ran:
    """How the attempts of one run ended. `deferred`: turned away by a limit, for a while."""

    succeeded: int = 0
    retried: int = 0
    buried: int = 0
    snoozed: int = 0
    discarded: int = 0
    cancelled: int = 0
    deferred: int = 0

    @property
    def total(self) -> int:
        return sum(getattr(self, name) for name in self.__dataclass_fields__)

    def __add__(self, other: Ran) -> Ran:
        names = self.__dataclass_fields__
        return Ran(**{name: getattr(self, name) + getattr(other, name) for name in names})


def ran(counts: Counts) -> Ran:
    return Ran(**{name: counts.total(name) for name in Ran.__dataclass_fields__})


def sent(message: Message, queue: str, due: datetime | None) -> Sent:
    body = bodies.decode(message.body)
    return Sent(
        body.task,
        _arguments(body),
        queue,
        due,
        priority=message.priority,
        group=message.group,
        id=message.id,
    )


def dead(message: Message, queue: str) -> Dead:
    """Also of what never was a task's message, which is why it died."""
    assert message.death is not None
    reason, trace = message.death.reason, message.death.error
    try:
        body = bodies.decode(message.body)
    except Corrupt:
        return Dead("", {}, queue, reason, trace, id=message.id)
    history = tuple(body.history)
    trace = next((past.trace for past in reversed(history) if past.trace), trace)
    return Dead(body.task, _arguments(body), queue, reason, trace, history, id=message.id)


def _arguments(body: bodies.Body) -> dict[str, Any]:
    found: dict[str, Any] = msgspec.json.decode(body.args)
    return found
