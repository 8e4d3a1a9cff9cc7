"""The list of faults fits the source, and the tool tells a fault that was found from one that was not."""

from __future__ import annotations

import subprocess
from collections import Counter
from pathlib import Path

import pytest

from tools import mutants
from tools.mutants import Mutant, Runner

LIST = mutants.read()


@pytest.mark.parametrize("mutant", LIST, ids=lambda m: m.name)
def test_a_fault_fits_the_source(mutant: Mutant) -> None:
    assert (mutants.ROOT / mutant.file).read_text("utf-8").count(mutant.old) == 1
    assert "\n" not in mutant.old + mutant.new
    assert mutant.old != mutant.new
    assert "_sync" not in mutant.file, "this file is generated: name its twin in _async"
    assert mutant.tests
    for path in mutant.tests:
        assert (mutants.ROOT / path).exists()


def test_there_are_faults_of_every_part_and_each_has_a_name() -> None:
    assert len(LIST) >= 30
    assert [name for name, n in Counter(m.name for m in LIST).items() if n > 1] == []
    assert {m.part for m in LIST} == set(mutants.PARTS)


@pytest.fixture
def project(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """One module, one test, and none of the plugins that this one has."""
    monkeypatch.setenv("PYTEST_DISABLE_PLUGIN_AUTOLOAD", "1")
    monkeypatch.delenv("PYTEST_ADDOPTS", raising=False)
    root = tmp_path / "project"
    (root / "src").mkdir(parents=True)
    subprocess.run(["git", "init", "-q"], cwd=root, check=True)
    (root / "src/till.py").write_text("def total(a, b):\n    return a + b\n\nROUND = 2\n")
    (root / "test_till.py").write_text(
        "import till\n\ndef test_total():\n    assert till.total(2, 3) == 5\n"
    )
    return root


@pytest.mark.parametrize(
    ("old", "new", "verdict", "by"),
    [
        ("a + b", "a - b", "caught", "test_till.py::test_total"),
        ("ROUND = 2", "ROUND = 3", "SURVIVED", "all tests passed"),
        ("ROUND = 2", "raise RuntimeError", "BROKEN", "cannot run test_till.py"),
    ],
)
@pytest.mark.slow
def test_a_fault_is_caught_by_a_test_that_fails_and_by_nothing_else(
    project: Path, old: str, new: str, verdict: str, by: str
) -> None:
    fault = Mutant("a fault", "engine", "src/till.py", old, new, ("test_till.py",))
    outcome = Runner(project).run(fault)
    assert (outcome.verdict, outcome.by) == (verdict, by)
    assert new not in (project / "src/till.py").read_text(), "the project itself stays as it is"


@pytest.mark.parametrize(
    ("status", "said", "verdict"),
    [
        (None, "", "caught"),
        (1, "", "BROKEN"),
        (1, "ERROR t.py - ImportError", "BROKEN"),
        (1, "FAILED t.py::test_a[x - y] - assert 0", "caught"),
        (1, "ERROR t.py::test_a - OSError", "caught"),
        (1, "ERROR  a.log\n= short test summary info =\nFAILED t.py::test_a", "caught"),
        (2, "Interrupted", "BROKEN"),
        (3, "INTERNALERROR", "BROKEN"),
        (4, "ERROR: unrecognized arguments: --quick", "BROKEN"),
        (5, "no tests ran", "SURVIVED"),
        (-9, "", "BROKEN"),
    ],
)
def test_what_pytest_ends_with(status: int | None, said: str, verdict: str) -> None:
    assert mutants.judge(status, said)[0] == verdict


def test_tests_that_do_not_end_are_ended_and_count_as_caught(project: Path) -> None:
    fault = Mutant(
        "a fault", "engine", "src/till.py", "ROUND = 2", "while True: pass", ("test_till.py",)
    )
    outcome = Runner(project, timeout=0.3).run(fault)
    assert (outcome.verdict, outcome.by) == ("caught", "timeout")
