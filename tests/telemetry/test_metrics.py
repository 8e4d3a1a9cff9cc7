"""Metrics: what happened to tasks is counted, what there is is looked up, and both are served."""

from __future__ import annotations

import asyncio
import sys
import threading
import urllib.request
from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from prometheus_client import CollectorRegistry
from prometheus_client.parser import text_string_to_metric_families

import holdfast
from holdfast.telemetry import depths
from holdfast.telemetry import metrics as telemetry
from holdfast.telemetry.metrics import UNKNOWN, Metrics
from tests.servers import free_port, standalone_server, wait_until
from tests.working import home, new_app, work, working

Value = float | None


class Seen:
    """What a registry would show."""

    def __init__(self, registry: CollectorRegistry) -> None:
        self._registry = registry

    def __call__(self, name: str, **labels: str) -> Value:
        return self._registry.get_sample_value(name, labels)


@pytest.fixture
def registry() -> CollectorRegistry:
    return CollectorRegistry()


@pytest.fixture
def seen(app: holdfast.App, registry: CollectorRegistry) -> Seen:
    app.add(Metrics(registry=registry))
    return Seen(registry)


def test_each_end_of_an_attempt_is_counted_by_task_and_queue(app: holdfast.App, seen: Seen) -> None:
    @app.task(retries=0)
    def ends(how: str) -> None:
        if how == "snooze":
            raise holdfast.Snooze(3600)
        if how == "discard":
            raise holdfast.Discard("not wanted")
        if how == "fail":
            raise ValueError(how)

    @app.task(retries=holdfast.Retries(1, first=3600))
    async def is_tried_again() -> None:
        raise ValueError("once")

    ends.send_many([("well",), ("well",), ("snooze",), ("discard",), ("fail",)])
    is_tried_again.send()
    work(app)

    queue = app.default_queue
    counted = {
        outcome: seen("holdfast_tasks_total", task="ends", queue=queue, outcome=outcome)
        for outcome in ("succeeded", "snoozed", "discarded", "buried", "retried")
    }
    assert counted == {
        "succeeded": 2,
        "snoozed": 1,
        "discarded": 1,
        "buried": 1,
        "retried": None,
    }
    retried = {"task": "is_tried_again", "queue": queue, "outcome": "retried"}
    assert seen("holdfast_tasks_total", **retried) == 1
    assert seen("holdfast_sent_total", task="ends", queue=queue) == 5


def test_a_message_that_names_no_known_task_is_counted_as_unknown(
    app: holdfast.App, seen: Seen
) -> None:
    home(app).send(b'{"task": "nobody knows it", "args": {}}')
    work(app, idle=0.2)
    labels = {"task": UNKNOWN, "queue": app.default_queue, "outcome": "buried"}
    assert seen("holdfast_tasks_total", **labels) == 1


@pytest.mark.slow
def test_how_long_attempts_ran_and_waited_is_measured(app: holdfast.App, seen: Seen) -> None:
    @app.task(retries=holdfast.Retries(1, first=0.01))
    async def takes_a_moment() -> None:
        await asyncio.sleep(0.02)
        if holdfast.current().attempt == 1:
            raise ValueError("again")

    takes_a_moment.send_in(0.3)
    work(app, idle=0.6)

    labels = {"task": "takes_a_moment", "queue": app.default_queue}
    assert seen("holdfast_task_seconds_count", **labels) == 2
    ran = seen("holdfast_task_seconds_sum", **labels)
    assert ran is not None
    assert 0.04 <= ran < 10
    # Only the first attempt says how long a task waited; before the second it was told to.
    assert seen("holdfast_task_wait_seconds_count", **labels) == 1
    waited = seen("holdfast_task_wait_seconds_sum", **labels)
    assert waited is not None
    assert 0.2 <= waited < 60


async def test_what_runs_and_what_is_held_is_seen_while_it_is_so(
    app: holdfast.App, seen: Seen
) -> None:
    began, go_on = threading.Semaphore(0), threading.Event()

    @app.task
    def blocks() -> None:
        began.release()
        go_on.wait(20)

    @app.task
    def rests() -> None: ...

    for _ in range(3):
        blocks.send()
    found: dict[str, Value] = {}

    async def look(worker: Any) -> None:
        try:
            for _ in range(2):
                assert await asyncio.to_thread(began.acquire, timeout=20)
            found.update(
                running=seen("holdfast_tasks_running", task="blocks"),
                resting=seen("holdfast_tasks_running", task="rests"),
                held=seen("holdfast_worker_held"),
                concurrency=seen("holdfast_worker_concurrency"),
            )
        finally:
            go_on.set()

    await working(app, look, concurrency=2)
    assert found == {"running": 2, "resting": 0, "held": 2, "concurrency": 2}
    assert seen("holdfast_worker_held") == 0
    assert seen("holdfast_tasks_running", task="blocks") is None


def test_a_page_can_be_made_while_a_task_ends_as_none_did_before(
    registry: CollectorRegistry,
) -> None:
    class Growing(dict[str, int]):
        """Whoever walks through it has a task end in another way meanwhile."""

        def items(self) -> Any:
            for found in super().items():
                yield found
                ending = threading.Thread(target=metrics.cancelled, args=(context,))
                ending.start()
                ending.join(0.2)

    metrics = Metrics(registry=registry)
    context: Any = SimpleNamespace(task="t", queue="q", started=0.0)
    metrics.succeeded(context, None)
    metrics.retried(context, ValueError(), 1)
    tally = metrics._tallies["t", "q"]
    tally.outcomes = Growing(tally.outcomes)
    seen = Seen(registry)
    assert seen("holdfast_tasks_total", task="t", queue="q", outcome="succeeded") == 1


def test_depths_of_queues_are_looked_up_by_whoever_scrapes(app: holdfast.App) -> None:
    @app.task
    def waits() -> None: ...

    registry = CollectorRegistry()
    Metrics(app, registry)
    waits.send()
    waits.send_in(3600)
    queue = app.default_queue
    states = {
        state: registry.get_sample_value(
            "holdfast_queue_messages", {"queue": queue, "state": state}
        )
        for state in ("ready", "delayed", "leased", "reserved", "dead")
    }
    assert states == {"ready": 1, "delayed": 1, "leased": 0, "reserved": 0, "dead": 0}
    oldest = registry.get_sample_value("holdfast_queue_oldest_seconds", {"queue": queue})
    assert oldest is not None
    assert 0 <= oldest < 60


def test_two_scrapes_in_a_moment_ask_the_server_once(
    app: holdfast.App, monkeypatch: pytest.MonkeyPatch
) -> None:
    @app.task
    def waits() -> None: ...

    registry = CollectorRegistry()
    Metrics(app, registry)

    def ready() -> Value:
        labels = {"queue": app.default_queue, "state": "ready"}
        return registry.get_sample_value("holdfast_queue_messages", labels)

    monkeypatch.setattr(depths, "_FRESH", 3600.0)
    waits.send()
    assert ready() == 1
    waits.send()
    assert ready() == 1
    monkeypatch.setattr(depths, "_FRESH", 0.0)
    assert ready() == 2


@pytest.mark.slow
def test_a_scrape_does_not_wait_for_a_server_that_is_away(tmp_path: Path) -> None:
    # Whoever waits for the look waits for an hour.
    with (
        standalone_server(tmp_path, "durable") as server,
        new_app(server.url, retry_for=3600.0) as app,
    ):

        @app.task
        def waits() -> None: ...

        waits.send()
        registry = CollectorRegistry()
        Metrics(app, registry)
        server.kill()
        shown = {metric.name for metric in registry.collect()}
        assert "holdfast_tasks" in shown
        labels = {"queue": app.default_queue, "state": "ready"}
        assert registry.get_sample_value("holdfast_queue_messages", labels) is None
        server.start()
        wait_until(lambda: registry.get_sample_value("holdfast_queue_messages", labels) == 1)


@pytest.fixture
def served(app: holdfast.App) -> Iterator[tuple[Metrics, str]]:
    port = free_port()
    found = telemetry.start(app, port)
    yield found, f"http://127.0.0.1:{port}/metrics"
    found.close()


def _page(url: str) -> dict[str, Any]:
    with urllib.request.urlopen(url, timeout=20) as answer:
        text = answer.read().decode()
    return {family.name: family for family in text_string_to_metric_families(text)}


@pytest.mark.slow
def test_start_serves_a_page_that_prometheus_can_read(
    app: holdfast.App, served: tuple[Metrics, str]
) -> None:
    @app.task
    def counted() -> None: ...

    counted.send()
    work(app)
    page = _page(served[1])
    [total] = [s for s in page["holdfast_tasks"].samples if s.name == "holdfast_tasks_total"]
    assert total.labels == {
        "task": "counted",
        "queue": app.default_queue,
        "outcome": "succeeded",
    }
    assert total.value == 1
    assert {"holdfast_task_seconds", "holdfast_queue_messages"} <= set(page)
    assert "process_resident_memory_bytes" in page or sys.platform != "linux"


@pytest.mark.slow
def test_a_port_that_is_taken_is_said_so_and_leaves_nothing_behind(
    app: holdfast.App, served: tuple[Metrics, str]
) -> None:
    metrics, url = served
    port = int(url.rsplit(":", 1)[1].partition("/")[0])
    metrics.registry.unregister(metrics)
    with pytest.raises(holdfast.InvalidArgument, match=f"cannot serve metrics on 127.0.0.1:{port}"):
        telemetry.start(app, port)
    # A second one can be registered: the failed one is gone.
    metrics.registry.register(metrics)


def test_a_second_one_in_the_same_registry_is_refused(registry: CollectorRegistry) -> None:
    Metrics(registry=registry)
    with pytest.raises(holdfast.InvalidArgument, match="has metrics of Holdfast already"):
        Metrics(registry=registry)


def test_port_0_counts_and_serves_nothing(app: holdfast.App) -> None:
    before = threading.active_count()
    found = telemetry.start(app, 0)
    try:
        assert threading.active_count() == before
        assert app.stack.listens("succeeded")
    finally:
        found.close()


def test_without_the_library_it_says_what_to_install(
    app: holdfast.App, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, "prometheus_client", None)
    with pytest.raises(holdfast.Unsupported, match=r"pip install 'holdfast\[metrics\]'"):
        telemetry.start(app, 9)
