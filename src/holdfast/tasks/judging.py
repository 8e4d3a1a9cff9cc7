"""What is to become of an attempt that has ended, and who is told: the same wherever it ran."""

from __future__ import annotations

import logging
from typing import Any

from holdfast.tasks.attempt import Attempt, Verdict
from holdfast.tasks.middleware import Stack
from holdfast.tasks.outcomes import Outcome, TaskTimeout

log = logging.getLogger("holdfast.worker")


def judge(attempt: Attempt, value: Any, error: BaseException | None) -> Verdict:
    """It returned `value`, or `error` was raised in it: by itself, or because its time was up, or because
    nobody wanted it any more."""
    context = attempt.context
    if error is None:
        return attempt.succeeded(value)
    if context.timed_out:
        limit = attempt.task.definition.timeout
        return attempt.failed(TaskTimeout(f"took longer than its timeout of {limit:g} s"))
    if context.cancelled:
        return attempt.cancelled()
    return attempt.failed(error)


def tell(stack: Stack, attempt: Attempt, verdict: Verdict) -> None:
    """Middleware and the log hear of it."""
    context = attempt.context
    if verdict.moment in ("retried", "buried"):
        error = verdict.told[0]
        if isinstance(error, BaseException) and not isinstance(error, Outcome):
            stack.tell("failed", context, error)
    if stack.listens(verdict.moment):
        stack.tell(verdict.moment, context, *verdict.told)
    s, extra = verdict.settlement, {"holdfast_context": context}
    if verdict.moment == "retried":
        told = (context.task, context.id, s.error, s.delay_ms / 1000)
        log.warning("%s %s failed: %s; trying again in %.1f s", *told, extra=extra)
    elif verdict.moment == "buried":
        why = (context.task, context.id, s.reason, s.error)
        log.error("%s %s is a dead letter: %s\n%s", *why, extra=extra)
