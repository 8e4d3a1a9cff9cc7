"""What goes over the line between a worker and its processes for CPU-bound tasks, as plain data.

The process opens and judges the delivery itself, since it has the exception at hand and retries go by its
class; what comes back is the verdict. Two things cannot cross as they are: an exception, which arrives as one
of the same name (`Raised`), and the value a task returned, which travels as JSON if anybody listens for it.
"""

from __future__ import annotations

from typing import Any

import msgspec

from holdfast.engine.tasks import Settlement
from holdfast.errors import Corrupt, HoldfastError
from holdfast.message import Message
from holdfast.tasks import arguments, body, results
from holdfast.tasks.attempt import Verdict
from holdfast.tasks.body import Flow
from holdfast.tasks.outcomes import Outcome
from holdfast.tasks.task import Task


class Hello(msgspec.Struct):
    """The first a process hears. `connection`: where the worker's app connects to. `log_level`: empty: the
    worker has not set up any logging, and neither shall the process."""

    target: str
    path: list[str]
    connection: dict[str, Any]
    log_level: str = ""
    log_json: bool = False


class Ready(msgspec.Struct):
    """Its answer; `problem`: why it cannot work."""

    problem: str = ""


class Request(msgspec.Struct, array_like=True):
    """One attempt. `value`: what it returns is of interest."""

    wire: bytes
    record: bytes
    shard: int
    queue: str
    worker: str
    value: bool


class Error(msgspec.Struct, array_like=True, tag="error"):
    kind: str
    text: str
    outcome: bool


class Answer(msgspec.Struct, array_like=True):
    moment: str
    settlement: Settlement
    told: list[Error | float | str | None]
    value: bytes
    follow: tuple[Flow, bytes, bytes] | None
    ends: tuple[Flow, bytes] | None


class Carried(Message):
    """A delivery, as far as an attempt needs one."""

    def __init__(self, request: Request) -> None:
        super().__init__(request.record, request.shard, "leased", counted=1)
        self.wire = request.wire


class Raised(Exception):
    """Stands for an exception of the same class name that was raised in another process."""


_kinds: dict[tuple[str, bool], type[Raised]] = {}


def _exception(error: Error) -> Raised:
    key = (error.kind, error.outcome)
    if key not in _kinds:
        bases = (Raised, Outcome) if error.outcome else (Raised,)
        _kinds[key] = type(error.kind, bases, {"__module__": __name__})
    return _kinds[key](error.text)


def _tell(item: Any) -> Error | float | str | None:
    if isinstance(item, BaseException):
        try:
            text = str(item)
        except Exception:
            text = "(its text cannot be had)"
        return Error(type(item).__name__, text, isinstance(item, Outcome))
    return item if isinstance(item, int | float | str) else None


def _json(value: Any) -> bytes:
    try:
        return arguments.encode(value)
    except HoldfastError:
        return b""


def answer(verdict: Verdict, *, value: bool) -> Answer:
    succeeded = verdict.moment == "succeeded"
    follow = verdict.follow and (
        verdict.follow[0],
        body.encode_items(verdict.follow[1]),
        verdict.follow[2],
    )
    return Answer(
        verdict.moment,
        verdict.settlement,
        [] if succeeded else [_tell(item) for item in verdict.told],
        _json(verdict.told[0]) if succeeded and value else b"",
        follow,
        verdict.ends and (verdict.ends[0], results.encode(verdict.ends[1])),
    )


def _value(data: bytes, task: Task[Any, Any]) -> Any:
    try:
        return task.arguments.result.decode(data) if data else None
    except Corrupt:  # it was not what the function promises, and nobody keeps it
        return msgspec.json.decode(data)


def verdict(answer: Answer, task: Task[Any, Any]) -> Verdict:
    told: tuple[Any, ...]
    if answer.moment == "succeeded":
        told = (_value(answer.value, task),)
    else:
        told = tuple(_exception(t) if isinstance(t, Error) else t for t in answer.told)
    return Verdict(
        answer.moment,
        answer.settlement,
        told,
        answer.follow and (answer.follow[0], body.decode_items(answer.follow[1]), answer.follow[2]),
        answer.ends and (answer.ends[0], results.decode(answer.ends[1])),
    )
