"""How an attempt can end besides returning and raising an error of its own.

A handler raises Retry, Snooze or Discard: exceptions, so that they can be said from anywhere inside it; they
are not errors, and none of them is logged as one. TaskTimeout and WorkerProcessDied happen to an attempt;
they are failures like others, and `Retries(on=…)` can name them.
"""

from __future__ import annotations

from holdfast.settings import Seconds, milliseconds


class Outcome(Exception):
    """The root of what a handler may raise on purpose."""


class Retry(Outcome):
    """This attempt failed; try again, `in_` so many seconds, or when the task's own backoff says.

    Counts as an attempt: after the last one the task is a dead letter.
    """

    def __init__(self, why: str = "", *, in_: Seconds | None = None) -> None:
        super().__init__(why or "asked for another try")
        self.delay_ms = None if in_ is None else milliseconds(in_, "in_")


class Snooze(Outcome):
    """Not now: come back in so many seconds. Does not count as an attempt."""

    def __init__(self, in_: Seconds, why: str = "") -> None:
        super().__init__(why or "snoozed")
        self.delay_ms = milliseconds(in_, "in_")


class Discard(Outcome):
    """Never mind: this task is done, without a result and without a dead letter."""

    def __init__(self, why: str = "") -> None:
        super().__init__(why or "discarded")


class TaskTimeout(Exception):
    """An attempt took longer than its task may."""


class WorkerProcessDied(Exception):
    """The process in which a CPU-bound task ran ended before the task did: killed, out of memory, or by its
    own doing."""
