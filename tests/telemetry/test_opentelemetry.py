"""Spans, as OpenTelemetry records them."""

from __future__ import annotations

import asyncio
import sys
from typing import Any

import pytest
from opentelemetry import trace
from opentelemetry.sdk.trace import ReadableSpan, TracerProvider
from opentelemetry.sdk.trace.export import SimpleSpanProcessor
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter
from opentelemetry.trace import SpanKind, StatusCode

import holdfast
from holdfast.tasks.context import Context
from holdfast.telemetry import Trace, current_trace
from holdfast.telemetry.tracing import OpenTelemetry
from tests.working import Letter, home, work


class Spans:
    def __init__(self) -> None:
        self._kept = InMemorySpanExporter()
        self.provider = TracerProvider()
        self.provider.add_span_processor(SimpleSpanProcessor(self._kept))

    @property
    def all(self) -> list[ReadableSpan]:
        return list(self._kept.get_finished_spans())

    def __getitem__(self, name: str) -> ReadableSpan:
        [found] = [span for span in self.all if span.name == name]
        return found


@pytest.fixture
def spans(app: holdfast.App) -> Spans:
    found = Spans()
    app.add(OpenTelemetry(found.provider))
    return found


def _context(span: ReadableSpan) -> Any:
    found = span.get_span_context()
    assert found is not None
    return found


def _parent(span: ReadableSpan) -> int:
    assert span.parent is not None
    return span.parent.span_id


@pytest.mark.parametrize("kind", ["loop", "thread"])
def test_sending_and_running_are_spans_of_one_trace(
    app: holdfast.App, spans: Spans, kind: str
) -> None:
    async def on_loop() -> None:
        await asyncio.sleep(0)
        with spans.provider.get_tracer("mine").start_as_current_span("mine"):
            pass

    def in_thread() -> None:
        with spans.provider.get_tracer("mine").start_as_current_span("mine"):
            pass

    task = app.task(name="traced")(on_loop if kind == "loop" else in_thread)
    with spans.provider.get_tracer("mine").start_as_current_span("request"):
        handle = task.send()
    worker = work(app)

    request, sent, ran = spans["request"], spans["send traced"], spans["run traced"]
    assert _parent(sent) == _context(request).span_id
    assert _parent(ran) == _context(sent).span_id
    assert _parent(spans["mine"]) == _context(ran).span_id
    assert len({_context(span).trace_id for span in spans.all}) == 1
    assert (sent.kind, ran.kind) == (SpanKind.PRODUCER, SpanKind.CONSUMER)
    assert sent.attributes == {
        "messaging.system": "holdfast",
        "messaging.operation.type": "create",
        "messaging.operation.name": "send",
        "messaging.destination.name": app.default_queue,
        "holdfast.task.name": "traced",
    }
    assert ran.attributes == {
        "messaging.system": "holdfast",
        "messaging.operation.type": "process",
        "messaging.operation.name": "run",
        "messaging.destination.name": app.default_queue,
        "messaging.message.id": handle.id,
        "messaging.client.id": worker.name,
        "holdfast.task.name": "traced",
        "holdfast.task.attempt": 1,
    }
    assert ran.status.status_code is StatusCode.UNSET


def test_a_task_sent_within_a_task_is_below_it(app: holdfast.App, spans: Spans) -> None:
    @app.task
    async def inner() -> None: ...

    @app.task
    async def outer() -> None:
        await inner.send_async()

    outer.send()
    work(app, idle=0.3)
    assert _parent(spans["send inner"]) == _context(spans["run outer"]).span_id
    assert _parent(spans["run inner"]) == _context(spans["send inner"]).span_id


def test_what_a_handler_raises_is_recorded(app: holdfast.App, spans: Spans) -> None:
    @app.task(retries=0)
    def fails() -> None:
        raise ValueError("no such user")

    fails.send()
    work(app)
    ran = spans["run fails"]
    assert ran.status.status_code is StatusCode.ERROR
    assert ran.status.description == "ValueError: no such user"
    [event] = ran.events
    assert event.name == "exception"
    assert event.attributes is not None
    assert event.attributes["exception.message"] == "no such user"
    assert ran.attributes is not None
    assert ran.attributes["error.type"] == "ValueError"


@pytest.mark.parametrize(
    ("raised", "word"), [(holdfast.Snooze(3600), "snooze"), (holdfast.Discard("no"), "discard")]
)
def test_outcomes_are_no_errors(
    app: holdfast.App, spans: Spans, raised: Exception, word: str
) -> None:
    @app.task
    def decides() -> None:
        raise raised

    decides.send()
    work(app)
    ran = spans["run decides"]
    assert ran.status.status_code is StatusCode.UNSET
    assert not ran.events
    assert ran.attributes is not None
    assert ran.attributes["holdfast.task.outcome"] == word


def test_a_timeout_is_an_error_of_its_span(app: holdfast.App, spans: Spans) -> None:
    @app.task(retries=0, timeout=0.05)
    async def too_slow() -> None:
        await asyncio.sleep(60)

    too_slow.send()
    work(app, idle=0.3)
    assert spans["run too_slow"].status.status_code is StatusCode.ERROR


@pytest.mark.slow
def test_attempts_of_one_task_are_siblings(app: holdfast.App, spans: Spans) -> None:
    @app.task(retries=holdfast.Retries(1, first=0.01))
    def fails_once() -> None:
        if holdfast.current().attempt == 1:
            raise ValueError("not yet")

    fails_once.send()
    work(app, idle=0.5)
    ran = [span for span in spans.all if span.name == "run fails_once"]
    assert [(span.attributes or {})["holdfast.task.attempt"] for span in ran] == [1, 2]
    assert {_parent(span) for span in ran} == {_context(spans["send fails_once"]).span_id}


def test_one_task_after_another_are_not_mixed_up(app: holdfast.App, spans: Spans) -> None:
    @app.task
    async def alone(n: int) -> None:
        await asyncio.sleep(0)
        spans.provider.get_tracer("mine").start_span(f"within {n}").end()

    alone.send_many([(n,) for n in range(20)])
    work(app, concurrency=3)
    ran = {_context(span).span_id: span for span in spans.all if span.name == "run alone"}
    assert len({_context(span).trace_id for span in ran.values()}) == 20
    assert {_parent(spans[f"within {n}"]) for n in range(20)} == set(ran)
    assert not trace.get_current_span().get_span_context().is_valid


@pytest.mark.parametrize("bad", ["nonsense", "00-" + "0" * 32 + "-" + "0" * 16 + "-01", "\x00"])
def test_a_bad_traceparent_begins_a_new_trace(app: holdfast.App, spans: Spans, bad: str) -> None:
    @app.task
    def runs() -> None: ...

    attributes = {"traceparent": bad, "tracestate": bad, "baggage": bad}
    home(app).send(b'{"task": "runs", "args": {}}', attributes=attributes)
    worker = work(app, idle=0.2)
    assert worker.counts.total("succeeded") == 1
    assert spans["run runs"].parent is None


def test_the_span_is_current_within_the_handler_and_not_after_it() -> None:
    otel = OpenTelemetry(Spans().provider)
    with otel.wrap(Context(Letter(), "t", "q", 1)):
        assert trace.get_current_span().get_span_context().is_valid
    assert not trace.get_current_span().get_span_context().is_valid


def test_the_current_trace_is_that_of_the_span(app: holdfast.App, spans: Spans) -> None:
    traces: list[Trace | None] = []

    @app.task
    def looks() -> None:
        traces.append(current_trace())

    looks.send()
    work(app)
    [found] = traces
    ids = _context(spans["run looks"])
    assert found is not None
    assert (found.trace_id, found.span_id) == (f"{ids.trace_id:032x}", f"{ids.span_id:016x}")


def test_a_tracer_that_fails_does_not_fail_a_task(
    app: holdfast.App, caplog: pytest.LogCaptureFixture
) -> None:
    class Broken(TracerProvider):
        def get_tracer(self, *args: Any, **kwargs: Any) -> Any:
            return self

        def start_span(self, *args: Any, **kwargs: Any) -> Any:
            raise RuntimeError("no span today")

    app.add(OpenTelemetry(Broken()))

    @app.task
    def runs() -> None: ...

    runs.send()
    worker = work(app)
    assert worker.counts.total("succeeded") == 1
    assert "no span today" in caplog.text


def test_without_the_library_it_says_what_to_install(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "opentelemetry", None)
    with pytest.raises(holdfast.Unsupported, match=r"pip install 'holdfast\[otel\]'"):
        OpenTelemetry()
