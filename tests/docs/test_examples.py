"""Each example runs, and prints what it promises."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

from tests.server.serving import serving
from tests.servers import standalone

EXAMPLES = Path(__file__).parents[2] / "examples"


def run(home: Path, name: str, *arguments: str) -> str:
    environment = {k: v for k, v in os.environ.items() if not k.startswith("HOLDFAST")}
    done = subprocess.run(
        [sys.executable, "-W", "error", str(EXAMPLES / name), *arguments],
        env=environment | {"HOLDFAST_HOME": str(home)},
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    return done.stdout


def test_every_example_has_a_test() -> None:
    here = Path(__file__).read_text("utf-8")
    for example in EXAMPLES.glob("*.py"):
        assert f'"{example.name}"' in here


@pytest.mark.slow
def test_worker(tmp_path: Path) -> None:
    assert "sent 100" in run(tmp_path, "worker.py", "send", "100")
    out = run(tmp_path, "worker.py", "work")
    assert "acked 90, dead letters 10" in out
    assert re.search(r'\{"number":(\d+)\}: ValueError: order \1 has no address', out)


@pytest.mark.slow
def test_typed_orders(tmp_path: Path) -> None:
    out = run(tmp_path, "typed_orders.py")
    assert "an order for oolong" in out
    assert "put aside: the codec cannot decode the body of" in out


@pytest.mark.slow
def test_grpc_prices(tmp_path: Path) -> None:
    with standalone(tmp_path) as url, serving(tmp_path / "serve", url) as server:
        out = run(tmp_path, "grpc_prices.py", server.ready["grpc"])
    assert "prices: 250 cents\nprices: 275 cents\nprices: 260 cents\nacked 3, left 0" in out


@pytest.mark.slow
def test_ordered_steps(tmp_path: Path) -> None:
    assert "5 customers, 100 steps, in order: True" in run(tmp_path, "ordered_steps.py")


@pytest.mark.slow
def test_tasks_welcome(tmp_path: Path) -> None:
    out = run(tmp_path, "tasks_welcome.py")
    assert "before: queued delayed" in out
    assert "'send_welcome': {'buried': 1, 'retried': 6, 'succeeded': 21}" in out
    assert "after: hello 42 42 hi 7" in out
    assert "ValueError: user 13 has no address" in out


@pytest.mark.slow
def test_tasks_flow(tmp_path: Path) -> None:
    assert "three lines: 5 words, most often 'for'" in run(tmp_path, "tasks_flow.py")


@pytest.mark.slow
def test_tasks_cron(tmp_path: Path) -> None:
    out = run(tmp_path, "tasks_cron.py")
    assert "on Monday: 96 sweeps, 1 report\nthe next report: 2026-03-31 07:00:00+00:00" in out
