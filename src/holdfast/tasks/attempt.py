"""One attempt at a task: what a delivery asks for, and what is to become of it afterwards.

Pure: no I/O. A worker, Spark and the inline mode of tests run handlers in different ways and settle in
different ways; what they do about a message is decided here, and only here.
"""

from __future__ import annotations

import time
import traceback
from typing import Any, NamedTuple, Protocol

import msgspec

from holdfast.engine.tasks import Settlement
from holdfast.errors import Corrupt, InvalidArgument
from holdfast.tasks import body as bodies
from holdfast.tasks import results
from holdfast.tasks.app import App
from holdfast.tasks.body import Body, Flow, Item, Past
from holdfast.tasks.context import Context, Sent
from holdfast.tasks.outcomes import Discard, Outcome, Retry, Snooze
from holdfast.tasks.results import Kept
from holdfast.tasks.task import Task

_FRAMES = 30


class Held(Sent, Protocol):
    """A delivery of either client."""

    @property
    def wire(self) -> bytes: ...
    @property
    def body(self) -> bytes: ...
    @property
    def receives(self) -> int: ...
    def with_body(self, body: bytes) -> bytes: ...


class Verdict(NamedTuple):
    """What is to be done about a delivery. `moment`: the middleware's word for it; `told`: what else that
    moment is told. `follow`: what comes next in the flow, with the value; `ends`: the flow failed."""

    moment: str
    settlement: Settlement
    told: tuple[Any, ...] = ()
    follow: tuple[Flow, list[Item], bytes] | None = None
    ends: tuple[Flow, Kept] | None = None

    @property
    def plain(self) -> bool:
        """Nothing but an ack."""
        s = self.settlement
        return s.action == "ack" and not s.result_tail


DONE = Verdict("succeeded", Settlement(b""))
"""Of whoever needs to say no more: all such attempts have this one."""


class Attempt:
    """A delivery that can be worked on."""

    __slots__ = ("args", "body", "context", "delivery", "kwargs", "started", "task")

    def __init__(
        self,
        delivery: Any,
        body: Body,
        task: Task[Any, Any],
        args: Any,
        kwargs: Any,
        context: Context,
    ) -> None:
        self.delivery = delivery
        self.body = body
        self.task = task
        self.args = args
        self.kwargs = kwargs
        self.context = context
        self.started = 0.0

    # ---- how it ended ---------------------------------------------------------------------

    @property
    def leaves_nothing(self) -> bool:
        """Nobody is going to ask what it returned."""
        return self.body.flow is None and not self.task.definition.result_ttl_ms

    def succeeded(self, value: Any) -> Verdict:
        ttl_ms, flow = self.task.definition.result_ttl_ms, self.body.flow
        wire = self.delivery.wire
        if flow is None and not ttl_ms:
            return Verdict("succeeded", Settlement(wire), (value,))
        try:
            data = self.task.arguments.result.encode(value)
        except InvalidArgument as error:
            # The work is done; doing it again would not make its result any better.
            return self._buried(f"returned what it must not: {error}", error)
        if flow is not None:
            return Verdict("succeeded", Settlement(wire), (value,), (flow, self.body.next, data))
        kept = Kept("succeeded", msgspec.Raw(data), attempts=self.context.attempt, at=_now_ms())
        return Verdict("succeeded", self._keeping(Settlement(wire), kept), (value,))

    def failed(self, error: BaseException) -> Verdict:
        """It raised: an error, or one of the outcomes."""
        wire = self.delivery.wire
        if isinstance(error, Snooze):
            settlement = Settlement(wire, "snooze", error.delay_ms, reason=str(error))
            return Verdict("snoozed", settlement, (error.delay_ms / 1000,))
        if isinstance(error, Discard):
            kept = Kept("discarded", error=str(error), attempts=self.context.attempt, at=_now_ms())
            return Verdict(
                "discarded",
                self._keeping(Settlement(wire), kept),
                (str(error),),
                ends=self._end(kept),
            )
        failures = self.body.failures + 1
        policy = self.task.definition.retries.for_(type(error))
        delay_ms = policy.delay_ms(failures)
        if delay_ms is not None and isinstance(error, Retry) and error.delay_ms is not None:
            delay_ms = error.delay_ms
        if delay_ms is None:
            tries = "1 attempt" if failures == 1 else f"{failures} attempts"
            return self._buried(f"failed after {tries}: {_text(error)}", error)
        body = self.body.failed(self._past(error))
        settlement = Settlement(
            wire,
            "retry",
            delay_ms,
            error=_text(error),
            envelope=self.delivery.with_body(bodies.encode(body)),
        )
        return Verdict("retried", settlement, (error, delay_ms / 1000))

    def cancelled(self) -> Verdict:
        kept = Kept("cancelled", attempts=self.context.attempt, at=_now_ms())
        settlement = self._keeping(Settlement(self.delivery.wire), kept)
        return Verdict("cancelled", settlement, ends=self._end(kept))

    def released(self) -> Verdict:
        """It was not started, or is given up through no fault of its own."""
        return Verdict("released", Settlement(self.delivery.wire, "release"))

    def deferred(self, delay_ms: int, why: str) -> Verdict:
        """A limit turned it away."""
        return Verdict("deferred", Settlement(self.delivery.wire, "snooze", delay_ms, reason=why))

    def refused(self, reason: str, error: BaseException) -> Verdict:
        """It cannot be run, and could not be later."""
        return self._buried(reason, error)

    # ---- how that is said -----------------------------------------------------------------

    def _buried(self, reason: str, error: BaseException) -> Verdict:
        past = self._past(error)
        body = self.body.failed(past)
        kept = Kept("failed", error=reason, trace=past.trace, attempts=body.failures, at=_now_ms())
        settlement = Settlement(
            self.delivery.wire,
            "bury",
            reason=reason,
            error=past.trace or _text(error),
            envelope=self.delivery.with_body(bodies.encode(body)),
        )
        return Verdict("buried", self._keeping(settlement, kept), (error,), ends=self._end(kept))

    def _end(self, kept: Kept) -> tuple[Flow, Kept] | None:
        return None if self.body.flow is None else (self.body.flow, kept)

    def _keeping(self, settlement: Settlement, kept: Kept) -> Settlement:
        ttl_ms = self.task.definition.result_ttl_ms
        if not ttl_ms or self.body.flow is not None:
            return settlement
        return settlement._replace(
            result_tail=self.delivery.id, result=results.encode(kept), result_ttl_ms=ttl_ms
        )

    def _past(self, error: BaseException) -> Past:
        spent = time.monotonic() - self.started if self.started else 0.0
        return Past(
            at=_now_ms(),
            error=_text(error),
            trace=_trace(error),
            worker=self.context.worker,
            ms=round(spent * 1000),
        )


def open_delivery(app: App, delivery: Held, queue: str, worker: str) -> Attempt | Verdict:
    """What is to be done for a delivery; a verdict at once where nothing can be."""
    try:
        body = bodies.decode(delivery.body)
    except Corrupt as error:
        return _unworkable(delivery, str(error))
    task = app.tasks.get(body.task)
    if task is None:
        known = ", ".join(sorted(app.tasks)[:20]) or "none"
        return _unworkable(
            delivery,
            f"unknown task {body.task!r}: this worker's app has {known}",
            body,
        )
    try:
        args, kwargs = task.arguments.unbind(body.args)
    except Corrupt as error:
        return _unworkable(delivery, f"bad arguments for {body.task!r}: {error}", body, task)
    # An attempt that ended has reset the count: what it shows are deliveries nobody settled.
    number = body.failures + max(delivery.receives, 1)
    context = Context(delivery, task.name, queue, number, key=body.key, worker=worker)
    return Attempt(delivery, body, task, args, kwargs, context)


def _unworkable(
    delivery: Held, reason: str, body: Body | None = None, task: Task[Any, Any] | None = None
) -> Verdict:
    settlement = Settlement(delivery.wire, "bury", reason=reason)
    kept = Kept("failed", error=reason, attempts=delivery.receives, at=_now_ms())
    ttl_ms = 0 if task is None else task.definition.result_ttl_ms
    if body is not None and body.flow is not None:
        return Verdict("buried", settlement, (reason,), ends=(body.flow, kept))
    if ttl_ms:
        settlement = settlement._replace(
            result_tail=delivery.id, result=results.encode(kept), result_ttl_ms=ttl_ms
        )
    return Verdict("buried", settlement, (reason,))


def _text(error: BaseException) -> str:
    try:
        said = str(error)
    except Exception:
        said = "(its text cannot be had)"
    name = type(error).__name__
    return f"{name}: {said}" if said else name


def _trace(error: BaseException) -> str:
    """The traceback as text, without the frames of this package around the handler's."""
    if isinstance(error, Outcome):
        return ""
    try:
        found = error.__traceback__
        while found is not None and "/holdfast/" in found.tb_frame.f_code.co_filename.replace(
            "\\", "/"
        ):
            found = found.tb_next
        shown = found if found is not None else error.__traceback__
        return "".join(traceback.format_exception(type(error), error, shown, limit=-_FRAMES))
    except Exception:
        return _text(error)


def _now_ms() -> int:
    return time.time_ns() // 1_000_000
