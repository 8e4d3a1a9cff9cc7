"""The boundary: errors as one line, exit statuses, usage, help, version, debugging."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

import msgspec
import pytest

import holdfast
from holdfast.cli import queues
from holdfast.cli.commands import Commands
from tests.cli.conftest import Run, Start
from tests.servers import standalone_server

GROUPS = ["token", "spark", "reservations"]
COMMANDS = [name for name in Commands() if name not in GROUPS]


def test_version_says_it(run: Run) -> None:
    assert run("--version")[:2] == (0, f"holdfast {holdfast.__version__}\n".encode())


def test_help_lists_every_command_and_the_exit_statuses(run: Run) -> None:
    for words in (["--help"], ["-h"], []):
        result = run(*words)
        assert result.status == 0
        for name in COMMANDS:
            assert f" {name} " in result.out
        for status in ("0", "1", "3", "4", "64", "69", "70", "75", "77", "130"):
            assert re.search(rf"^\s+{status}\s+\w", result.out, re.MULTILINE)


@pytest.mark.parametrize("command", COMMANDS)
def test_help_of_each_command_has_a_sentence_and_examples(run: Run, command: str) -> None:
    result = run(command, "--help")
    assert result.status == 0
    assert f"Usage: holdfast {command}" in result.out
    assert re.search(rf"^ (.*\| )?holdfast {command}\b", result.out, re.MULTILINE)


def test_there_are_all_the_commands_that_the_design_names() -> None:
    messages = ["send", "receive", "ack", "nack", "extend", "recover"]
    topics = ["publish", "observe", "subscribe", "unsubscribe", "topics", "subscriptions"]
    tasks = ["worker", "top", "crons"]
    look = ["inspect", "stats", "queues", "events"]
    house = ["configure", "redrive", "purge", "delete", "pause", "resume"]
    server = ["serve", "doctor", "up", "down", "demo"]
    assert [*messages, *topics, *tasks, *look, *house, *server] == COMMANDS
    assert list(Commands()) == [*COMMANDS, *GROUPS]


@pytest.mark.parametrize(
    ("words", "complaint"),
    [
        (["nonsense"], "no such command 'nonsense'; see `holdfast --help`"),
        (["stat"], "no such command 'stat'; did you mean 'stats'?"),
        (["send"], "missing argument 'QUEUE'; see `holdfast send --help`"),
        (["stats", "--frequently"], "no such option: --frequently; see `holdfast stats --help`"),
        (["stats", "--url", "http://x"], None),
        (["stats", "--url", "nowhere"], None),
    ],
)
def test_a_wrong_command_line_is_one_line_on_stderr_and_exit_64(
    run: Run, words: list[str], complaint: str | None
) -> None:
    result = run(*words)
    assert (result.status, result.out) == (64, "")
    assert result.err.count("\n") == 1
    assert result.err.startswith("error: ")
    if complaint:
        assert result.err == f"error: {complaint}\n"


@pytest.mark.parametrize("words", [["stats", "x", "--json"], ["--json", "stats", "x"]])
def test_errors_in_json_have_a_code_word_and_a_message(run: Run, words: list[str]) -> None:
    result = run(*words)
    assert (result.status, result.out) == (3, "")
    error = msgspec.json.decode(result.err)["error"]
    assert error["code"] == "NOQUEUE"
    assert error["message"].startswith("there is no queue 'x'; ")


def test_usage_errors_are_json_too_where_json_was_asked_for(run: Run) -> None:
    assert msgspec.json.decode(run("send", "--json").err) == {
        "error": {
            "code": "INVALID",
            "message": "missing argument 'QUEUE'; see `holdfast send --help`",
        }
    }


def test_json_as_a_body_does_not_make_errors_json(run: Run) -> None:
    result = run("send", "", "--", "--json")
    assert result.err.startswith("error: ")


def test_the_url_may_be_given_before_or_after_the_command(
    run: Run, monkeypatch: pytest.MonkeyPatch, server: str, queue: holdfast.Queue
) -> None:
    monkeypatch.setenv("HOLDFAST_URL", "redis://127.0.0.1:1")
    queue.send("a")
    assert queue.name in run("--url", server, "queues").lines
    assert queue.name in run("queues", "--url", server).lines


def test_a_password_in_the_url_is_not_repeated_in_errors(run: Run) -> None:
    result = run("doctor", "--url", "redis://me:s3cret@127.0.0.1:1")
    assert result.status == 75
    assert "s3cret" not in result.err


def test_a_server_that_denies_access_is_exit_77(run: Run, tmp_path: Path) -> None:
    with standalone_server(tmp_path) as server:
        server.ask("CONFIG", "SET", "requirepass", "s3cret")
        result = run("receive", "q", "--url", server.url)
        assert run("stats", "--url", server.url.replace("unix://", "unix://:s3cret@")).status == 0
    assert (result.status, result.out) == (77, "")
    assert result.err.startswith("error: NOAUTH ")


def test_a_bug_is_one_line_and_a_traceback_only_if_asked_for(
    run: Run, monkeypatch: pytest.MonkeyPatch
) -> None:
    def broken(*_: object, **__: object) -> None:
        raise RuntimeError("oops")

    monkeypatch.setattr(queues, "connected", broken)
    result = run("queues")
    assert result.status == 70
    assert result.err == (
        "error: RuntimeError: oops; this is a bug in Holdfast (HOLDFAST_DEBUG=1 shows where)\n"
    )
    monkeypatch.setenv("HOLDFAST_DEBUG", "1")
    assert run("queues").err.startswith("Traceback")


def test_an_error_is_one_line_and_a_traceback_only_if_asked_for(
    run: Run, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert "Traceback" not in run("stats", "x").err
    monkeypatch.setenv("HOLDFAST_DEBUG", "1")
    assert "Traceback" in run("stats", "x").err


@pytest.mark.slow
def test_a_reader_that_goes_away_ends_the_command_quietly(
    start: Start, queue: holdfast.Queue
) -> None:
    queue.send_many(["x" * 100] * 5000)
    process = start("inspect", queue.name, "ready", "-n", "5000", "--json")
    assert process.stdout is not None
    assert process.stderr is not None
    process.stdout.readline()
    process.stdout.close()
    assert process.wait(60) == 141
    assert process.stderr.read() == b""


@pytest.mark.slow
def test_there_is_no_colour_in_a_pipe(start: Start, queue: holdfast.Queue) -> None:
    queue.send("a")
    process = start("stats", env={**os.environ, "TERM": "xterm-256color"})
    out, _ = process.communicate(timeout=60)
    assert b"\x1b" not in out
    assert queue.name.encode() in out


@pytest.mark.slow
def test_a_command_is_imported_when_it_is_asked_for() -> None:
    """Building all of them takes longer than most commands do."""
    code = (
        "import sys\nfrom holdfast.cli.main import main\n"
        "main(['token', '--help'])\n"
        "print(*sys.modules, file=sys.stderr)"
    )
    ran = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    loaded = set(ran.stderr.split())
    assert "holdfast.cli.token" in loaded
    assert loaded.isdisjoint({"holdfast.cli.send", "holdfast.cli.worker", "redis"})
