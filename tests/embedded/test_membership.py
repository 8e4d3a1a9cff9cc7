from __future__ import annotations

import os
import stat
import subprocess
import sys
from pathlib import Path

import pytest

from holdfast import embedded
from holdfast.errors import InvalidArgument
from tests.embedded.people import (
    User,
    answers,
    ask,
    processes_of,
    script,
    server_pid,
    stays_true,
    wait_until_gone,
)


@pytest.mark.slow
def test_second_process_joins_the_first(home: Path) -> None:
    with User(home) as first, User(home) as second:
        url = first.joined()
        assert second.joined() == url
        first.leave()
        server = server_pid(home)
        assert stays_true(lambda: answers(url), 0.3)
        assert server_pid(home) == server
        second.leave()
    wait_until_gone(home)


@pytest.mark.slow
def test_joining_twice_in_one_process_keeps_the_server_until_both_are_closed(home: Path) -> None:
    first, second = embedded.join(home), embedded.join(home)
    assert first.url == second.url
    first.close()
    assert stays_true(lambda: answers(second.url), 0.3)
    second.close()
    wait_until_gone(home)


def test_closing_twice_closes_only_once(home: Path) -> None:
    membership = embedded.join(home)
    membership.close()
    with Path(os.devnull).open() as reused:  # takes the number of the descriptor just closed
        membership.close()
        os.fstat(reused.fileno())
    assert repr(membership).endswith("(closed)>")


@pytest.mark.slow
def test_a_dropped_membership_lasts_as_long_as_the_process(home: Path) -> None:
    source = """
import gc, sys
from pathlib import Path
from holdfast import embedded
print(embedded.join(Path(sys.argv[1])).url, flush=True)
gc.collect()
sys.stdin.read()
"""
    with script(source, home) as user:
        assert user.stdout is not None
        url = user.stdout.readline().strip()
        assert stays_true(lambda: answers(url), 0.3)
        user.communicate()
    wait_until_gone(home)


@pytest.mark.slow
def test_a_forked_child_that_closes_does_not_take_the_server_from_its_parent(home: Path) -> None:
    source = """
import os, sys
from pathlib import Path
from holdfast import embedded
membership = embedded.join(Path(sys.argv[1]))
if (child := os.fork()) == 0:
    membership.close()
    os._exit(0)
os.waitpid(child, 0)
print(membership.url, flush=True)
sys.stdin.read()
"""
    with script(source, home) as user:
        assert user.stdout is not None
        url = user.stdout.readline().strip()
        assert stays_true(lambda: answers(url), 0.3)
        user.communicate()


def test_programs_that_a_user_starts_do_not_hold_the_server(home: Path) -> None:
    with embedded.join(home):
        other = subprocess.Popen(
            [sys.executable, "-c", "input()"], stdin=subprocess.PIPE, close_fds=False
        )
    try:
        wait_until_gone(home)
        assert other.poll() is None
    finally:
        other.communicate(b"\n")


@pytest.mark.parametrize(
    "name",
    ["with space", "100%20?#", "a;b&c=d+e@f:g", "quote'\"\\", "ümläut", "two\nlines"],
)
@pytest.mark.slow
def test_the_url_leads_to_the_socket_whatever_the_folder_is_called(
    short: Path, homes: list[Path], name: str
) -> None:
    home = short / name
    homes.append(home)
    with embedded.join(home) as membership:
        assert membership.home == home
        assert membership.socket == home / "valkey.sock"
        assert ask(membership.url, "CONFIG GET", "dir") == {"dir": str(home)}


def test_a_folder_whose_name_is_not_text_works_too(tmp_path: Path, homes: list[Path]) -> None:
    home = tmp_path / os.fsdecode(b"\xff\xfe")
    homes.append(home)
    with embedded.join(home) as membership:
        assert ask(membership.url, "PING")
        assert home.joinpath("appendonlydir").is_dir()


def test_the_server_keeps_messages_and_lets_nobody_else_in(home: Path) -> None:
    with embedded.join(home) as membership:
        settings = ask(membership.url, "CONFIG GET", "*")
        expected = {
            "port": "0",
            "save": "",
            "appendonly": "yes",
            "maxmemory-policy": "noeviction",
            "dir": str(home),
            "logfile": str(home / "valkey.log"),
            "unixsocketperm": "700",
        }
        assert {name: settings[name] for name in expected} == expected
        assert stat.S_IMODE(home.stat().st_mode) == 0o700
        assert stat.S_IMODE(membership.socket.stat().st_mode) == 0o700


def test_reviving_a_closed_membership_is_refused(home: Path) -> None:
    membership = embedded.join(home)
    membership.close()
    with pytest.raises(InvalidArgument, match="join again"):
        membership.revive()


def test_the_first_user_has_no_child_to_reap(home: Path) -> None:
    with embedded.join(home):
        started = processes_of(home)
        assert len(started) == 2
        for pid in started:
            stat = Path(f"/proc/{pid}/stat").read_text()
            parent = int(stat.rpartition(")")[2].split()[1])
            assert parent != os.getpid()
