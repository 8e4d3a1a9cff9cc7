"""What is in the body of a task's message: JSON, so that anybody can read it, and other languages write it.

    {"task": "send_welcome", "args": {"user_id": 42}}

Arguments go by their names; those left at their defaults are not there, so that the worker's defaults
count. The rest appears only where it is needed: `key`, `flow` and `next` in a flow (see flows.py),
`history` after a failure. The history travels with the message itself: wherever it is, delayed, dead or in
somebody's hands, it tells what has happened to it, and nothing has to be kept and cleaned up beside it.
"""

from __future__ import annotations

import msgspec

from holdfast.errors import Corrupt

# So that a body does not grow without end: the first and the latest are the ones that tell something.
KEEP_ATTEMPTS = 20

_encode = msgspec.json.Encoder().encode


class Past(msgspec.Struct, omit_defaults=True, frozen=True):
    """One attempt that failed."""

    at: int
    """When it ended, ms."""
    error: str
    trace: str = ""
    """Of the last attempt only."""
    worker: str = ""
    ms: int = 0
    """How long it took."""


class Flow(msgspec.Struct, omit_defaults=True, frozen=True):
    """The flow that a step is part of: where its end is told, and for how long that is kept."""

    id: str
    home: str
    ttl_ms: int


class Step(msgspec.Struct, tag="step", tag_field="is", omit_defaults=True, frozen=True):
    """A task to be sent. `into`: the parameter that takes what came before it, if one does; with a star
    where it takes any number."""

    task: str
    queue: str
    key: str
    args: msgspec.Raw = msgspec.Raw(b"{}")
    into: str = ""
    priority: int = 0
    group: str = ""
    delay_ms: int = 0

    def called_with(self, value: bytes) -> msgspec.Raw:
        """Its arguments, that value among them. Needs no knowledge of the function: who sends a step may
        not be the one who can run it."""
        if not self.into:
            return self.args
        known = msgspec.json.decode(self.args, type=dict[str, msgspec.Raw])
        if self.into.startswith("*"):
            known[self.into[1:]] = msgspec.Raw(b"[" + value + b"]")
        else:
            known[self.into] = msgspec.Raw(value)
        return msgspec.Raw(_encode(known))


class All(msgspec.Struct, tag="all", tag_field="is", frozen=True):
    """Parts that run side by side; each is a list of items itself."""

    gate: str
    parts: list[list[Step | All | Gate]]


class Gate(msgspec.Struct, tag="gate", tag_field="is", frozen=True):
    """One of the parts has come to its end. What follows once all have is kept at the gate."""

    gate: str
    index: int


Item = Step | All | Gate


class Body(msgspec.Struct, omit_defaults=True):
    task: str
    args: msgspec.Raw = msgspec.Raw(b"{}")
    key: str = ""
    flow: Flow | None = None
    next: list[Item] = []
    history: list[Past] = []
    attempts: int = 0
    """How many failed, where that is more than the history shows."""

    @property
    def failures(self) -> int:
        return max(self.attempts, len(self.history))

    def failed(self, past: Past) -> Body:
        """The same after one more failed attempt."""
        earlier = [msgspec.structs.replace(p, trace="") for p in self.history]
        history = [*earlier, past]
        if len(history) > KEEP_ATTEMPTS:
            history = [history[0], *history[-KEEP_ATTEMPTS + 1 :]]
        return msgspec.structs.replace(self, history=history, attempts=self.failures + 1)


_decode = msgspec.json.Decoder(Body).decode
_items = msgspec.json.Decoder(list[Item])


def encode_items(items: list[Item]) -> bytes:
    return _encode(items)


def decode_items(data: bytes) -> list[Item]:
    return _items.decode(data)


def encode(body: Body) -> bytes:
    return _encode(body)


def decode(data: bytes) -> Body:
    """Raises Corrupt if this is not the body of a task."""
    try:
        return _decode(data)
    except msgspec.MsgspecError as error:
        raise Corrupt(f"the body is not that of a task: {error}") from error


def opening(task: str) -> bytes:
    """How the body of every simple call of a task begins; the arguments and `}` follow."""
    return b'{"task":' + msgspec.json.encode(task) + b',"args":'
