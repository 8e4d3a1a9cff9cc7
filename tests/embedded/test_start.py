from __future__ import annotations

from pathlib import Path

import pytest

from holdfast import embedded
from holdfast.embedded import log, start
from holdfast.errors import Unavailable
from tests.embedded.people import User, answers, ask, wait_until_gone
from tests.servers import wait_until


def append_only_file(home: Path, content: bytes) -> Path:
    """The data of an earlier run, written by hand."""
    folder = home / "appendonlydir"
    folder.mkdir(parents=True)
    (folder / "appendonly.aof.manifest").write_text("file appendonly.aof.1.incr.aof seq 1 type i\n")
    (folder / "appendonly.aof.1.incr.aof").write_bytes(content)
    return folder


@pytest.mark.slow
def test_a_server_that_cannot_start_is_reported_with_the_end_of_its_log(home: Path) -> None:
    data = append_only_file(home, b"*3\r\n$3\r\nSET\r\nthis is not an append-only file\r\n" * 9)
    (home / "valkey.log").write_text("a line of an earlier run\n")
    for tried in (1, 2):
        with pytest.raises(Unavailable) as caught:
            embedded.join(home)
        assert "Bad file format reading the append only file" in str(caught.value)
        assert "an earlier run" not in str(caught.value)
        assert embedded.status(home).state == "failed"
        assert (home / "valkey.log").read_text().count("Valkey is starting") == tried
    wait_until_gone(home)
    for file in data.iterdir():
        file.unlink()
    with embedded.join(home) as membership:
        assert answers(membership.url)


@pytest.mark.slow
def test_joining_waits_until_the_server_has_read_its_data(home: Path) -> None:
    many = 400_000
    append_only_file(
        home, b"".join(b"*3\r\n$3\r\nSET\r\n$8\r\n%08d\r\n$1\r\nv\r\n" % n for n in range(many))
    )
    with User(home) as first:
        wait_until(lambda: embedded.status(home).state == "loading", 10, "loading")
        assert not embedded.status(home).running
        first.kill()  # the second finds a server that is loading and nobody who waits for it
        with embedded.join(home) as second:
            assert ask(second.url, "DBSIZE") == many


def test_a_program_that_the_system_cannot_run_is_named(
    home: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    program = tmp_path / "valkey-server"
    program.write_bytes(b"\x00 made for another machine")
    program.chmod(0o755)
    monkeypatch.setattr(start, "binary", lambda: program)
    with pytest.raises(Unavailable, match=f"cannot run {program}"):
        embedded.join(home)
    assert embedded.status(home).state == "failed"


def test_a_keeper_that_cannot_start_is_reported_with_its_own_words(
    home: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PYTHONHOME", str(home))
    with pytest.raises(Unavailable, match="ended while it was starting"):
        embedded.join(home)


@pytest.mark.slow
def test_a_server_that_never_answers_is_reported_after_a_while(
    home: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    program = tmp_path / "valkey-server"
    program.write_text("#!/bin/sh\nexec sleep 60\n")
    program.chmod(0o755)
    monkeypatch.setattr(start, "binary", lambda: program)
    monkeypatch.setattr(start, "SILENCE_SECONDS", 0.3)
    with pytest.raises(Unavailable, match="has not answered"):
        embedded.join(home)
    wait_until_gone(home)


def test_the_python_files_of_the_current_directory_do_not_confuse_the_keeper(
    home: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for folder in (tmp_path, home):
        folder.mkdir(exist_ok=True)
        (folder / "json.py").write_text("raise SystemExit('the wrong json')")
    monkeypatch.chdir(tmp_path)
    with embedded.join(home) as membership:
        assert answers(membership.url)


def test_a_large_log_is_set_aside_at_the_next_start(
    home: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(log, "_LARGEST_BYTES", 1_000)
    home.mkdir()
    (home / "valkey.log").write_text("old\n" * 300)
    with embedded.join(home):
        assert (home / "valkey.log.1").read_text().startswith("old")
        assert "old" not in (home / "valkey.log").read_text()
