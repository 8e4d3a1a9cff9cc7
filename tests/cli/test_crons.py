"""holdfast crons."""

from __future__ import annotations

import sys
from datetime import datetime
from itertools import pairwise
from pathlib import Path

import pytest

from tests.cli.conftest import Run

MODULE = """
import holdfast

app = holdfast.App()
empty = holdfast.App()

@app.cron("30 2 * * *", tz="Europe/Paris", missed="run")
def report() -> None: ...

@app.cron("@hourly", name="every hour", queue="chores")
def sweep() -> None: ...
"""


@pytest.fixture(autouse=True)
def module(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "scheduled.py").write_text(MODULE)
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "path", [*sys.path])
    monkeypatch.delitem(sys.modules, "scheduled", raising=False)


def test_each_schedule_is_shown_with_its_next_ticks(run: Run) -> None:
    result = run("crons", "scheduled:app")
    assert (result.status, result.err) == (0, "")
    assert "30 2 * * *" in result.out
    assert "Europe/Paris" in result.out
    assert result.out.count(" 02:30:00+0") + result.out.count(" 03:00:00+02") == 3
    assert result.out.count(":00:00+0000") == 3


def test_for_scripts_there_is_one_object_per_schedule(run: Run) -> None:
    hourly, daily = run("crons", "scheduled:app", "-n", "5", "--json").objects
    assert (hourly["cron"], hourly["task"], hourly["queue"]) == ("every hour", "sweep", "chores")
    assert (daily["expression"], daily["tz"], daily["missed"]) == (
        "30 2 * * *",
        "Europe/Paris",
        "run",
    )
    ticks = [datetime.fromisoformat(tick) for tick in hourly["next"]]
    assert [(b - a).total_seconds() for a, b in pairwise(ticks)] == [3600] * 4


def test_an_app_without_schedules_says_how_to_get_one(run: Run) -> None:
    result = run("crons", "scheduled:empty")
    assert (result.status, result.out) == (0, "")
    assert "write @app.cron over a task" in result.err


def test_an_app_that_is_not_there_is_an_error_of_the_call(run: Run) -> None:
    assert run("crons", "scheduled:other").status == 64
