"""The README's tour, pasted from top to bottom."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

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


def test_the_python_of_the_tour_runs_from_top_to_bottom(environment: dict[str, str]) -> None:
    done = subprocess.run(
        [sys.executable, "-W", "error", "-c", "\n".join(blocks("python"))],
        env=environment,
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    assert "{'order': 7, 'tea': 'oolong'} {'shop': 'paris'} 1" in done.stdout
    assert "no such street" in done.stdout
    assert "order 999" in done.stdout
    assert "['step 0', 'step 1', 'step 2']" in done.stdout
    assert "acked=1000" in done.stdout


def test_the_shell_of_the_tour_runs_line_by_line(environment: dict[str, str]) -> None:
    [script] = blocks("sh")
    done = subprocess.run(
        ["bash", "-euo", "pipefail", "-c", script],
        env=environment,
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    assert done.stdout.count('"body":') == 4
