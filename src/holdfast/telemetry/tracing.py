"""Traces: which task was sent by which, across queues and processes.

A message carries the trace context of whoever sent it. Two middlewares keep that up, one or the other:

- `Propagation` needs nothing and records nothing: it carries ids, so that logs of all tasks that began
  with one
  request can be found, and so that others, who do record, find their parent.
- `OpenTelemetry` (extra `otel`) makes spans, with whatever tracer and propagator the process has set up.

Tracing never fails a task: what goes wrong in it is logged, and the handler runs without a span.
"""

from __future__ import annotations

import logging
from contextlib import AbstractContextManager
from types import TracebackType
from typing import TYPE_CHECKING, Any

import holdfast
from holdfast.errors import Unsupported
from holdfast.tasks.context import Context
from holdfast.tasks.middleware import Middleware, Sending
from holdfast.tasks.outcomes import Discard, Snooze
from holdfast.telemetry.trace_context import PARENT, STATE, Trace, begin, current_trace, place

if TYPE_CHECKING:
    from opentelemetry.trace import Span, TracerProvider

log = logging.getLogger("holdfast.telemetry")


class Propagation(Middleware):
    """Gives each task that is sent a trace context: that of the task it is sent by, or a new one.

    `sampled`: whether those who record traces should record the ones that begin here.
    """

    def __init__(self, *, sampled: bool = True) -> None:
        self._sampled = sampled

    def sending(self, sending: Sending) -> None:
        if PARENT in sending.attributes:
            return
        trace = current_trace() or begin(sampled=self._sampled)
        sending.attributes[PARENT] = trace.traceparent
        if trace.state:
            sending.attributes[STATE] = trace.state


class OpenTelemetry(Middleware):
    """A span for each task that is sent (its creation) and for each attempt to run it, with
    OpenTelemetry.

    `tracer_provider`: the one the process has set up, if not given. Where tasks run in processes of
    their own, their spans are made there: set up the provider where the app is made."""

    def __init__(self, tracer_provider: TracerProvider | None = None) -> None:
        try:
            from opentelemetry import context, propagate, trace
        except ImportError:
            raise Unsupported(
                "traces need OpenTelemetry: pip install 'holdfast[otel]'; without it, "
                "holdfast.telemetry.Propagation carries trace ids"
            ) from None
        self.context, self.propagate, self.trace = context, propagate, trace
        self.tracer = trace.get_tracer("holdfast", holdfast.__version__, tracer_provider)

    def sending(self, sending: Sending) -> None:
        span = self.tracer.start_span(
            f"send {sending.task}",
            kind=self.trace.SpanKind.PRODUCER,
            attributes=_attributes("create", "send", sending.task, sending.queue),
        )
        self.propagate.inject(sending.attributes, context=self.trace.set_span_in_context(span))
        span.end()

    def wrap(self, context: Context) -> AbstractContextManager[Any]:
        return _Attempt(self, context)


class _Attempt:
    """The span around a handler, current while it runs."""

    def __init__(self, otel: OpenTelemetry, context: Context) -> None:
        self._otel = otel
        self._context = context
        self._span: Span | None = None
        self._token: Any = None

    def __enter__(self) -> None:
        try:
            self._start()
        except Exception:
            log.exception("no span for %s %s", self._context.task, self._context.id)

    def _start(self) -> None:
        otel, attempt = self._otel, self._context
        # From nothing: what this thread or task did before is not its parent.
        parent = otel.propagate.extract(attempt.attributes, context=otel.context.Context())
        span = otel.tracer.start_span(
            f"run {attempt.task}",
            context=parent,
            kind=otel.trace.SpanKind.CONSUMER,
            attributes=_attributes("process", "run", attempt.task, attempt.queue)
            | {
                "messaging.message.id": attempt.id,
                "messaging.client.id": attempt.worker,
                "holdfast.task.attempt": attempt.attempt,
            },
        )
        self._token = otel.context.attach(otel.trace.set_span_in_context(span, parent))
        self._span = span
        ids = span.get_span_context()
        if ids.is_valid:
            trace_id, span_id = f"{ids.trace_id:032x}", f"{ids.span_id:016x}"
            state = ids.trace_state.to_header()
            place(attempt, Trace(trace_id, span_id, flags=int(ids.trace_flags), state=state))

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        span = self._span
        if span is None:
            return
        try:
            if error is not None:
                self._say_why(span, error)
        except Exception:
            log.exception("the span of %s %s", self._context.task, self._context.id)
        finally:
            self._otel.context.detach(self._token)
            span.end()

    def _say_why(self, span: Span, error: BaseException) -> None:
        trace = self._otel.trace
        if isinstance(error, Snooze | Discard):
            span.set_attribute("holdfast.task.outcome", type(error).__name__.lower())
        elif self._context.cancelled:
            span.set_attribute("holdfast.task.outcome", "cancelled")
        else:
            span.set_attribute("error.type", type(error).__qualname__)
            said = f"{type(error).__name__}: {error}"
            span.set_status(trace.Status(trace.StatusCode.ERROR, said))
            span.record_exception(error)


def _attributes(kind: str, operation: str, task: str, queue: str) -> dict[str, str | int]:
    """As OpenTelemetry names them for messaging."""
    return {
        "messaging.system": "holdfast",
        "messaging.operation.type": kind,
        "messaging.operation.name": operation,
        "messaging.destination.name": queue,
        "holdfast.task.name": task,
    }
