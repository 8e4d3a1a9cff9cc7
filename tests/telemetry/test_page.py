"""docs/telemetry.md says what there is, all of it and no more."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

import pytest
from prometheus_client import CollectorRegistry

import holdfast
from holdfast.tasks.context import Context
from holdfast.tasks.middleware import MOMENTS
from holdfast.telemetry import logs
from holdfast.telemetry.metrics import Metrics
from tests.conftest import Servers
from tests.working import Letter

PAGE = (Path(__file__).parents[2] / "docs/telemetry.md").read_text("utf-8")


def _rows(after: str) -> list[list[str]]:
    """Cells of the table whose first header is `after`."""
    table = PAGE.partition(f"| {after} |")[2].partition("\n\n")[0]
    return [line.strip("|").split("|") for line in table.splitlines()[2:]]


def _names(cell: str) -> set[str]:
    return set(re.findall(r"`(\w+)", cell))


def test_every_metric_is_in_the_table_with_its_labels(app: holdfast.App) -> None:
    @app.task
    def counted() -> None: ...

    registry = CollectorRegistry()
    metrics = Metrics(app, registry)
    context = Context(Letter(), "counted", app.default_queue, 1)
    context.started = 1.0
    metrics.started(context)
    metrics.succeeded(context, None)
    app.add(metrics)
    counted.send()
    shown: dict[str, set[str]] = {}
    for family in registry.collect():
        name = f"{family.name}_total" if family.type == "counter" else family.name
        labels = {label for sample in family.samples for label in sample.labels}
        shown[name] = labels - {"le"}
    # Of a worker that runs; there is none here.
    shown["holdfast_tasks_running"] = {"task"}
    told = {_names(row[0]).pop(): _names(row[1]) for row in _rows("metric")}
    assert told == shown


@pytest.mark.parametrize(
    "outcome", ["succeeded", "retried", "buried", "snoozed", "discarded", "cancelled", "lost"]
)
def test_every_outcome_is_named_and_counted(outcome: str) -> None:
    assert f"`{outcome}`" in PAGE.partition("Outcomes are")[2].partition(".")[0]
    assert getattr(Metrics, outcome) is not getattr(holdfast.Middleware, outcome)


def test_every_moment_is_in_the_table() -> None:
    assert set().union(*(_names(row[0]) for row in _rows("moment"))) == set(MOMENTS)


def test_every_log_field_is_in_the_table() -> None:
    told = set().union(*(_names(row[0]) for row in _rows("field")))
    assert told == {*logs.FIELDS, "time", "level", "event", "from", "trace"}


@pytest.mark.slow
def test_the_program_on_the_page_runs(all_servers: Servers) -> None:
    [program] = re.findall(r"```python\n(.*?)```", PAGE, re.DOTALL)
    url = all_servers.url("standalone")
    more = (
        "import asyncio\n"
        "from holdfast.worker.worker import Plan, Worker\n"
        "from holdfast.worker.shares import Share\n"
        f"app.connect_to({url!r})\n"
        "app.desk().queue('emails').send(b'nonsense')\n"
        "send_welcome.send(42)\n"
        "asyncio.run(Worker(app, Plan([Share('emails')], idle=0.2)).run())\n"
    )
    source = str(Path(holdfast.__file__).parents[1])
    done = subprocess.run(
        [sys.executable, "-c", program + more],
        env={"PYTHONPATH": source},
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    assert re.search(r"^[0-9a-f]{32}$", done.stdout, re.MULTILINE)
    assert "dead letter:" in done.stdout
