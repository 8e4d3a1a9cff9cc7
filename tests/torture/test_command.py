"""The command: what it runs, says and ends with; and the page that it writes."""

from __future__ import annotations

import json
from datetime import date
from pathlib import Path

import pytest

from tools.torture import command, proof, resume, scenarios
from tools.torture.checker import KINDS
from tools.torture.run import Outcome, judged
from tools.torture.runner import Runner
from tools.torture.scenarios import ALL, CONTROLS

KILL = scenarios.named("cluster.kill")
CONTROL = scenarios.named("control.no-replicas")


def outcome(name: str, seed: int = 1, **found: int) -> Outcome:
    good = judged(scenarios.named(name), found)
    return Outcome(name, seed, good, 1.0, 1200, 1000, 1000, found=found)


def test_scenarios_have_names_of_their_own_and_every_kind_of_server() -> None:
    names = [scenario.name for scenario in (*ALL, *CONTROLS)]
    assert len(set(names)) == len(names)
    assert {name.partition(".")[0] for name in names} == {
        "cluster",
        "sentinel",
        "single",
        "control",
    }
    assert all(scenario.control in KINDS for scenario in CONTROLS)
    assert not any(scenario.control for scenario in ALL)


def test_excuses_name_kinds_that_there_are_and_never_loss() -> None:
    for scenario in ALL:
        assert scenario.rules.excused <= set(KINDS)
        assert not scenario.rules.excused & {"lost", "stuck", "unexpected", "hung", "foreign"}


def test_a_run_is_good_if_nothing_was_found_and_a_control_if_its_fault_was() -> None:
    assert judged(KILL, {})
    assert not judged(KILL, {"lost": 1})
    assert judged(CONTROL, {"lost": 1})
    assert not judged(CONTROL, {})
    assert not judged(CONTROL, {"disorder": 1})


def test_words_choose_scenarios() -> None:
    assert [s.name for s in command.chosen(["sentinel.k", "cluster.kill"])] == [
        "cluster.kill",
        "sentinel.kill",
    ]
    assert len(command.chosen([])) == len(ALL) + len(CONTROLS)


@pytest.mark.parametrize(
    "arguments",
    [
        ["--only", "nothing"],
        ["--seeds", "0"],
        ["--only", "kill", "--write"],
        ["--bare", "--write"],
        ["--bare", "--resume", "book"],
    ],
)
def test_a_call_that_makes_no_sense_ends_with_2(
    arguments: list[str], capsys: pytest.CaptureFixture[str]
) -> None:
    with pytest.raises(SystemExit) as end:
        command.main(arguments)
    assert end.value.code == 2
    assert "error:" in capsys.readouterr().err


def test_the_list_has_every_promise(capsys: pytest.CaptureFixture[str]) -> None:
    assert command.main(["--list"]) == 0
    said = capsys.readouterr().out
    assert all(scenario.name in said for scenario in (*ALL, *CONTROLS))


def test_the_help_teaches(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit):
        command.main(["--help"])
    said = capsys.readouterr().out
    assert "--only cluster.kill --seed 7" in said
    assert "exit status" in said


@pytest.mark.slow
def test_a_control_run_by_the_command(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    words = ["--only", "control.ack-first", "--seed", "3", "--resume", str(tmp_path / "book")]
    assert command.main([*words, "--json"]) == 0
    said = capsys.readouterr()
    [found] = json.loads(said.out)
    assert (found["scenario"], found["seed"], found["good"]) == ("control.ack-first", 3, True)
    assert found["found"]["lost"] > 0
    assert "1/1 good" in said.err
    assert "1 of 1 runs good" in said.err
    assert command.main([*words, "--json"]) == 0
    again = capsys.readouterr()
    assert json.loads(again.out) == [found]
    assert "1 of 1 runs are in the book already" in again.err


def test_the_book_keeps_what_this_code_came_to(tmp_path: Path) -> None:
    path = tmp_path / "book"
    first, second = Outcome("single.kill", 1, True), Outcome("single.kill", 2, False)
    for outcome in (first, second):
        resume.Book(path).add(outcome)
    assert resume.Book(path).done == {("single.kill", 1): first, ("single.kill", 2): second}
    whole = path.read_text()
    path.write_text(whole[:-20])  # a crash in the middle of a line
    assert list(resume.Book(path).done) == [("single.kill", 1)]
    path.write_text(whole.replace(resume.code(), "another code"))
    assert resume.Book(path).done == {}
    assert resume.Book(None).done == {}


@pytest.mark.slow
def test_a_run_that_does_not_end_is_ended_and_not_good(tmp_path: Path) -> None:
    found = Runner(limit=0.3, keep=tmp_path).run(scenarios.named("single.consumers"), 1)
    assert not found.good
    assert "no end within 0.3 s" in found.broken
    assert (tmp_path / "single.consumers-1" / "run.log").exists()
    assert found.command == "python -m tools.torture --only single.consumers --seed 1"


def test_the_page_tells_promise_fault_seeds_and_result() -> None:
    outcomes = [outcome("cluster.kill", 1), outcome("cluster.kill", 2, lost=3)]
    outcomes += [outcome("control.no-replicas", lost=5)]
    page = proof.page(
        outcomes, [KILL, CONTROL, scenarios.named("single.kill")], date(2026, 1, 2), "9.8.7"
    )
    assert "**Holdfast 9.8.7, 2026-01-02: 2 of 3 runs good, 3 000 messages stored.**" in page
    rows = [
        line for line in page.splitlines() if line.startswith(("| replicas", "| none", "| fast"))
    ]
    assert [row.split(" | ")[3:] for row in rows] == [
        ["2", "2 000", "", "**lost 3** |"],
        ["1", "1 000", "", "caught |"],
        ["0", "", "", "not run |"],
    ]


def test_a_control_that_was_not_caught_is_told() -> None:
    assert proof.result(
        CONTROL, [outcome("control.no-replicas", lost=1), outcome("control.no-replicas")]
    ) == ("**caught in 1 of 2**")


def test_what_was_forgotten_or_not_judged_is_told_too() -> None:
    fast = scenarios.named("single.power-fast")
    assert proof.result(fast, [Outcome(fast.name, 1, True, forgotten=4)]) == (
        "held; 4 lost within 3 s before a cut, as may be "
        "(not judged: doubled, returned, holders, disorder, silence)"
    )
    assert proof.result(KILL, [Outcome(KILL.name, 1, True)]) == "held"
    assert proof.result(KILL, [Outcome(KILL.name, 1, False, broken="no end")]) == (
        "**no verdict in 1 runs**"
    )
