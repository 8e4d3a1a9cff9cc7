"""An app that traces with OpenTelemetry, in a module: processes for CPU-bound tasks find it by its name."""

from __future__ import annotations

import logging

from opentelemetry import trace
from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.sdk.trace.export import SimpleSpanProcessor
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter

import holdfast
from holdfast.telemetry import current_trace
from holdfast.telemetry.tracing import OpenTelemetry

log = logging.getLogger("shop.crunching")
spans = InMemorySpanExporter()
provider = TracerProvider()
provider.add_span_processor(SimpleSpanProcessor(spans))
app = holdfast.App(queue="crunching", check="off", middleware=[OpenTelemetry(provider)])


@app.task(run="process")
def crunch() -> list[str]:
    """The ids of the current span, as OpenTelemetry and as Holdfast see it."""
    log.warning("crunching")
    ids = trace.get_current_span().get_span_context()
    ours = current_trace()
    assert ours is not None
    return [f"{ids.trace_id:032x}", f"{ids.span_id:016x}", ours.trace_id, ours.span_id]


@app.task(run="process")
def sends() -> str:
    return str(crunch.send().id)
