"""Where one is in a trace, as it travels with a message: the W3C trace context.

The attributes `traceparent` and `tracestate` of a message name the span of whoever sent it. An attribute
is other people's text: what is no trace context is as good as none, and never fails a task.
"""

from __future__ import annotations

import os
import re
from dataclasses import dataclass

from holdfast.tasks.context import Context, current_or_none

PARENT, STATE = "traceparent", "tracestate"
_SLOT = "trace"
_SAMPLED = 1
_MAX_STATE = 512
# Later versions may have more to say behind the flags; what is in front of them stays.
_FORM = re.compile(r"([0-9a-f]{2})-([0-9a-f]{32})-([0-9a-f]{16})-([0-9a-f]{2})(-.*)?", re.ASCII)


@dataclass(frozen=True, slots=True)
class Trace:
    """Where one is in a trace: ids in hex, as they travel. `parent_id`: the span that this one is below;
    empty where the trace begins."""

    trace_id: str
    span_id: str
    parent_id: str = ""
    flags: int = _SAMPLED
    state: str = ""

    @property
    def traceparent(self) -> str:
        return f"00-{self.trace_id}-{self.span_id}-{self.flags:02x}"

    @property
    def sampled(self) -> bool:
        return bool(self.flags & _SAMPLED)

    def child(self) -> Trace:
        return Trace(self.trace_id, os.urandom(8).hex(), self.span_id, self.flags, self.state)


def begin(*, sampled: bool = True) -> Trace:
    """A new trace."""
    ids = os.urandom(24).hex()
    return Trace(ids[:32], ids[32:], flags=_SAMPLED if sampled else 0)


def parse(traceparent: str | None, tracestate: str | None = None) -> Trace | None:
    """None: it is no trace context."""
    found = _FORM.fullmatch(traceparent) if traceparent else None
    if found is None:
        return None
    version, trace_id, span_id, flags, more = found.groups()
    if (
        version == "ff"
        or (version == "00" and more)
        or not int(trace_id, 16)
        or not int(span_id, 16)
    ):
        return None
    state = tracestate if tracestate and len(tracestate) <= _MAX_STATE else ""
    return Trace(trace_id, span_id, flags=int(flags, 16) & _SAMPLED, state=state)


def known(context: Context) -> Trace | None:
    """The trace that an attempt is part of, if it is part of one."""
    found: Trace | None = context.state.get(_SLOT)
    if found is None:
        sender = parse(context.attributes.get(PARENT), context.attributes.get(STATE))
        if sender is not None:
            found = context.state[_SLOT] = sender.child()
    return found


def place(context: Context, trace: Trace) -> None:
    context.state[_SLOT] = trace


def current_trace() -> Trace | None:
    """The trace of the task that this code runs in; one begins here if the sender had none. None: this
    code does not run in a task."""
    context = current_or_none()
    if context is None:
        return None
    found = known(context)
    if found is None:
        found = begin()
        place(context, found)
    return found
