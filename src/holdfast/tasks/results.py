"""What is kept of a finished task, for as long as its `result_ttl`, and how it is read again.

A result is a list of one element: any number of readers can block on it without polling and without taking it
away (see client node.wait_in_list). It is written in the same step that settles the delivery, so a task
whose result is there is done, and the result of an attempt whose lease was lost is never taken for one.
"""

from __future__ import annotations

from typing import Any, Literal

import msgspec

from holdfast.errors import TaskCancelled, TaskFailed

Ending = Literal["succeeded", "failed", "cancelled", "discarded"]
Status = Literal[
    "queued",
    "delayed",
    "running",
    "retrying",
    "succeeded",
    "failed",
    "cancelled",
    "discarded",
    "unknown",
]


class Kept(msgspec.Struct, omit_defaults=True, frozen=True):
    status: Ending
    value: msgspec.Raw = msgspec.Raw(b"null")
    error: str = ""
    trace: str = ""
    attempts: int = 1
    at: int = 0
    """When it ended, ms, by the worker's clock."""


_encode = msgspec.json.Encoder().encode
_decode = msgspec.json.Decoder(Kept).decode


def encode(kept: Kept) -> bytes:
    return _encode(kept)


def decode(data: bytes) -> Kept:
    return _decode(data)


def value_of(kept: Kept, task: str, task_id: str) -> msgspec.Raw:
    """The value, as JSON. Raises TaskFailed or TaskCancelled where there is none."""
    if kept.status == "failed":
        raise TaskFailed(f"{task} {task_id}: {kept.error}", kept.trace)
    if kept.status in ("cancelled", "discarded"):
        why = f": {kept.error}" if kept.error else ""
        raise TaskCancelled(f"{task} {task_id} was {kept.status}{why}")
    return kept.value


def from_state(state: str | None, receives: int, history: Any) -> Status:
    """What the state of a task's message says about the task."""
    if state == "dead":
        return "failed"
    if state in ("leased", "reserved"):
        return "running"
    if state == "delayed":
        return "retrying" if history else "delayed"
    if state == "ready":
        return "retrying" if history or receives else "queued"
    return "unknown"
