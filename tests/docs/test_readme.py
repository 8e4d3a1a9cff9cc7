"""The README's tour, pasted from top to bottom."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from tests import servers

README = Path(__file__).parents[2] / "README.md"


def blocks(language: str) -> list[str]:
    tour = README.read_text("utf-8").partition("## Five minutes")[2].partition("## What it does")[0]
    return re.findall(rf"```{language}\n(.*?)```", tour, re.DOTALL)


@pytest.fixture
def environment(tmp_path: Path) -> dict[str, str]:
    beside = Path(sys.executable).parent
    return {
        **{k: v for k, v in os.environ.items() if not k.startswith("HOLDFAST")},
        "HOLDFAST_HOME": str(tmp_path / "home"),
        "PATH": f"{beside}{os.pathsep}{os.environ['PATH']}",
    }


@pytest.mark.slow
@pytest.mark.spark
def test_the_python_of_the_tour_runs_from_top_to_bottom(
    environment: dict[str, str], tmp_path: Path
) -> None:
    done = subprocess.run(
        [sys.executable, "-W", "error", "-c", "\n".join(blocks("python"))],
        cwd=tmp_path,
        env=environment,
        capture_output=True,
        text=True,
        timeout=240,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    assert "{'order': 7, 'tea': 'oolong'} {'shop': 'paris'} 1" in done.stdout
    assert "no such street" in done.stdout
    assert "order 999" in done.stdout
    assert "['step 0', 'step 1', 'step 2']" in done.stdout
    assert "acked=1000" in done.stdout
    assert "billing ['oolong', 'sencha']\naudit ['oolong']" in done.stdout
    assert "1000 in the lake, 0 left" in done.stdout


def shell(script: str, environment: dict[str, str], folder: Path | None = None) -> str:
    done = subprocess.run(
        ["bash", "-euo", "pipefail", "-c", script],
        cwd=folder,
        env=environment,
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


@pytest.mark.slow
def test_the_shell_of_the_tour_runs_line_by_line(environment: dict[str, str]) -> None:
    script, _, _ = blocks("sh")
    said = shell(script, environment)
    assert said.count('"body":') == 4


@pytest.mark.slow
def test_the_tasks_of_the_tour_are_run(environment: dict[str, str], tmp_path: Path) -> None:
    _, script, _ = blocks("sh")
    said = shell(script, environment, tmp_path)
    assert " sent hi to 42 100\n" in said
    assert "emails" in said


@pytest.mark.skipif(
    shutil.which("redis-cli") is None, reason="no redis-cli: apt install redis-tools"
)
@pytest.mark.slow
def test_the_doors_of_the_tour_open(environment: dict[str, str]) -> None:
    _, _, script = blocks("sh")
    # The ports of the page may be taken here; nothing else is changed.
    for port in ("6399", "6400"):
        script = script.replace(port, str(servers.free_port()))
    said = shell(script, environment)
    lines = said.splitlines()
    assert lines.count("first") == 3
    assert "oolong 3" in lines
    assert "Stats(ready=0, delayed=0, leased=2" in said
