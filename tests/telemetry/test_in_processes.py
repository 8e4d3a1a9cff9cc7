"""What is seen of tasks that run in processes of their own."""

from __future__ import annotations

import json
import logging
from collections.abc import Iterator
from typing import Any

import pytest
from prometheus_client import CollectorRegistry

from holdfast.telemetry import logs
from holdfast.telemetry.metrics import Metrics
from tests.conftest import Servers
from tests.telemetry import crunching
from tests.working import work


@pytest.fixture(autouse=True)
def server(all_servers: Servers) -> Iterator[None]:
    crunching.app.connect_to(all_servers.url("standalone"))
    crunching.spans.clear()
    yield
    crunching.app.close()


def _run() -> Any:
    return work(crunching.app, processes=1, idle=0.3)


def _sent() -> str:
    """The trace id of the one span that sending made in this process."""
    [span] = [span for span in crunching.spans.get_finished_spans() if span.name == "send crunch"]
    ids = span.get_span_context()
    assert ids is not None
    return f"{ids.trace_id:032x}"


@pytest.mark.slow
def test_a_span_in_a_process_is_part_of_the_senders_trace() -> None:
    handle = crunching.crunch.send()
    _run()
    otel_trace, otel_span, our_trace, our_span = handle.result(timeout=10)
    assert otel_trace == our_trace == _sent()
    assert otel_span == our_span != "0" * 16


@pytest.mark.slow
def test_what_a_process_sends_stays_in_the_trace() -> None:
    handle = crunching.sends.send()
    _run()
    inner = crunching.app.handle(crunching.crunch, handle.result(timeout=10))
    [span] = [span for span in crunching.spans.get_finished_spans() if span.name == "send sends"]
    ids = span.get_span_context()
    assert ids is not None
    assert inner.result(timeout=10)[0] == f"{ids.trace_id:032x}"


@pytest.mark.slow
def test_what_a_process_logs_has_the_tasks_fields(capfd: pytest.CaptureFixture[str]) -> None:
    root = logging.getLogger()
    before = root.handlers[:], root.level
    logs.setup("info", json=True)
    try:
        handle = crunching.crunch.send()
        worker = _run()
    finally:
        root.handlers[:] = before[0]
        root.setLevel(before[1])
    said = [json.loads(line) for line in capfd.readouterr().err.splitlines()]
    [line] = [line for line in said if line["event"] == "crunching"]
    assert line["task"] == "crunch"
    assert (line["task_id"], line["attempt"], line["worker"]) == (handle.id, 1, worker.name)
    assert line["trace_id"] == _sent()


@pytest.mark.slow
def test_its_time_is_measured_by_the_worker() -> None:
    registry = CollectorRegistry()
    metrics = Metrics(registry=registry)
    for moment in ("started", "succeeded", "worker_started", "worker_stopped"):
        crunching.app.stack.on(moment, getattr(metrics, moment))
    try:
        crunching.crunch.send()
        _run()
    finally:
        for moment in ("started", "succeeded", "worker_started", "worker_stopped"):
            crunching.app.stack.off(moment, getattr(metrics, moment))
    labels = {"task": "crunch", "queue": "crunching"}
    assert registry.get_sample_value("holdfast_task_seconds_count", labels) == 1
    counted = registry.get_sample_value("holdfast_tasks_total", labels | {"outcome": "succeeded"})
    assert counted == 1
